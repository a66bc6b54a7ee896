"""`CollapseTexts`: what a study of length embeds: texts of several lengths."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.cuts import Cuts, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.text import Text
from fairspan.errors import DesignError
from fairspan.runs.embedder import Pair
from fairspan.runs.header import CorpusInfo, Header
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.treated import Treated
from fairspan.runs.windows import limit_note
from fairspan.studies.collapse.entries import CollapseEntries, Length
from fairspan.studies.collapse.options import CollapseOptions

_SHORTEST = 25
_LEAST = 3
"""Documents of one length without which nothing can be said of it."""


@dataclass(frozen=True)
class CollapseTexts:
    """Texts of several lengths."""

    subject: Subject
    options: CollapseOptions
    corpus: Corpus
    cuts: Cuts

    @property
    def text_hashes(self) -> list[Any]:
        return [self.corpus.fingerprint]

    @property
    def notes(self) -> list[str]:
        return [
            *self.corpus.notes,
            *self.cuts.notes,
            *limit_note(self.subject, [text.tokens for text in self.cuts.texts], "texts"),
        ]

    def describe(self, header: Header) -> Header:
        """The header with the corpus and the lengths."""
        lengths = []
        for length in self.cuts.lengths:
            tokens = [text.tokens for text in self.cuts.at(length)]
            lengths.append(Length(length, len(tokens), float(np.mean(tokens))))
        return replace(
            header,
            corpus=CorpusInfo.of(self.corpus),
            study=CollapseEntries(tuple(lengths), self.cuts.paired and not self.options.natural),
        )

    @cached_property
    def texts(self) -> list[Text]:
        """Everything that is embedded."""
        texts = [text.text for text in self.cuts.texts]
        return list(map(Text, texts, self.subject.counter.count_whole(texts)))

    def stages(self, under: Callable[[Treatment], Treated]) -> dict[str, list[Pair]]:
        """By treatment."""
        return {
            treatment.name: [(under(treatment).documents, self.texts)]
            for treatment in self.options.all_treatments
        }


def collapse_texts(subject: Subject, options: CollapseOptions, progress: Progress) -> CollapseTexts:
    """Read and cut, without embedding anything."""
    subject.transformer("a study of length")
    treatments = options.all_treatments
    subject = subject.with_prompts(options.prompt).reading(treatments, whole=True)
    refuse_unsuited(subject, treatments)
    counter = subject.counter
    progress.stage("reading the corpus")
    corpus, language = options.spoken_corpus
    progress.stage("cutting documents")
    drawn: dict[str, Any] = {"documents": options.documents, "seed": options.seed}
    if options.natural:
        cuts = natural_lengths(corpus, language, counter, **drawn)
    else:
        lengths = options.lengths
        if lengths is None:
            lengths = _reachable(corpus, language, counter)
        cuts = cut_documents(
            corpus,
            language,
            lengths,
            counter,
            tolerance=options.tolerance,
            **drawn,
        )
    return CollapseTexts(subject, options, corpus, _large_enough(cuts))


def _reachable(corpus: Corpus, language: str, counter: TokenCounter) -> list[int]:
    """25, 50, 100, … as far as the model reads and half of the documents reach."""
    texts = [corpus.text(name, language) for name in corpus.ids([language])]
    counts = np.array(counter.count(texts))
    room = np.inf if counter.window is None else counter.window - counter.count_whole([""])[0]
    lengths = []
    length = _SHORTEST
    while length <= room and (counts >= 1.1 * length - 1e-9).mean() >= 0.5:
        lengths.append(length)
        length *= 2
    if len(lengths) < 2:
        needed = round(2.2 * _SHORTEST)
        short = f"half of the {len(counts)} documents have fewer than {needed} {counter.unit}"
        if room < 2 * _SHORTEST:
            short = f"the model reads {counter.window} {counter.unit}"
        raise DesignError(
            f"{short}, too few to compare lengths: name lengths, or use longer documents."
        )
    return lengths


def _large_enough(cuts: Cuts) -> Cuts:
    """The lengths that have enough documents for an interval; the others are noted."""
    counts = Counter(text.length for text in cuts.texts)
    few = [length for length, count in counts.items() if count < _LEAST]
    if len(few) == len(counts):
        raise DesignError(
            f"{max(counts.values())} documents can be used, and {_LEAST} are needed: add "
            "documents, name other lengths, or raise the tolerance."
        )
    if not few:
        return cuts
    note = f"lengths with fewer than {_LEAST} documents were omitted: {', '.join(map(str, few))}"
    return Cuts(tuple(text for text in cuts.texts if text.length not in few), (*cuts.notes, note))
