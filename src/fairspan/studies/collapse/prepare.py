"""`PreparedCollapse`: a study of length with every text cut and nothing embedded yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.cuts import Cuts, Start, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import run_name
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note
from fairspan.studies.collapse.classification import read_labelled
from fairspan.studies.collapse.reading import read_corpus
from fairspan.studies.collapse.spec import CollapseSpec
from fairspan.studies.collapse.words import RepeatedPair, repeated_pairs

_SHORTEST = 25
_LEAST = 3
"""Documents of one length without which nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts to classify, cut to the same lengths, and the label of each document."""

    corpus: Corpus
    cuts: Cuts
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PreparedCollapse:
    """A study of length that is ready to run.

    Attributes:
        fit: texts that are never measured, for treatments that are fitted.
    """

    subject: Subject
    spec: CollapseSpec
    corpus: Corpus
    cuts: Cuts
    pairs: tuple[RepeatedPair, ...]
    labelled: Labelled | None
    fit: FitPart

    @property
    def run(self) -> str:
        """The name of the run's folder."""
        return run_name(self)

    @property
    def decisive(self) -> list[Any]:
        return [self.corpus.fingerprint, None if self.labelled is None else self.labelled.corpus.fingerprint]

    @property
    def header(self) -> dict[str, Any]:
        corpus, cuts = self.corpus, self.cuts
        return {
            "verb": "collapse",
            "corpus": {"name": corpus.name, "fingerprint": corpus.fingerprint, "languages": list(corpus.languages)},
            "lengths": [
                {"length": length, "texts": len(texts), "tokens": float(np.mean([text.tokens for text in texts]))}
                for length, texts in ((length, cuts.at(length)) for length in cuts.lengths)
            ],
            "paired": cuts.paired and not self.spec.natural,
            # A schedule of temperatures counts these in addition to the tokens of the text.
            "added_tokens": self.subject.counter.count_whole([""])[0],
            "notes": [
                *corpus.notes,
                *cuts.notes,
                *limit_note(self.subject, [text.tokens for text in cuts.texts], "texts"),
                *(f"labelled: {note}" for note in (self.labelled.cuts.notes if self.labelled else ())),
            ],
        }


def prepare_collapse(subject: Subject, spec: CollapseSpec, progress: Progress | None = None) -> PreparedCollapse:
    """Read and cut, without embedding anything."""
    progress = progress or Silent()
    model = subject.transformer("a study of length")
    subject = subject.with_prompts(spec.prompt).reading(spec.treatments, whole=True)
    subject.refuse_unsuited(spec.treatments)
    counter = subject.counter
    progress.stage("reading the corpus")
    corpus, language = read_corpus(spec)
    progress.stage("cutting documents")
    if spec.natural:
        cuts = natural_lengths(corpus, language, counter, documents=spec.documents, seed=spec.seed)
    else:
        lengths = spec.lengths or _reachable(corpus, language, counter)
        cuts = _cut(spec, corpus, language, lengths, counter, spec.documents)
    cuts = _large_enough(cuts)
    pairs = repeated_pairs(counter) if spec.probe else ()
    labelled = None
    tested = {text.text for text in cuts.texts}
    if spec.labelled is not None:
        read = read_labelled(spec.labelled)
        whole = Corpus.from_segments("labelled", [Segment(one.id, language, one.text) for one in read])
        parts = _cut(spec, whole, language, cuts.lengths, counter, spec.labelled_documents)
        labelled = Labelled(whole, parts, {one.id: one.label for one in read})
        tested |= {whole.text(text.document, language) for text in parts.texts}
    source = spec.fit_corpus or spec.corpus
    fit = choose_fit_part(spec.treatments, model, counter, source, [language], tested, seed=spec.seed)
    return PreparedCollapse(subject, spec, corpus, cuts, pairs, labelled, fit)


def _cut(
    spec: CollapseSpec, corpus: Corpus, language: str, lengths: Sequence[int], counter: TokenCounter, documents: int
) -> Cuts:
    start: Start = "beginning" if spec.start == "beginning" else "random"
    shared: dict[str, Any] = {"documents": documents, "seed": spec.seed, "tolerance": spec.tolerance}
    return cut_documents(corpus, language, lengths, counter, start=start, **shared)


def _reachable(corpus: Corpus, language: str, counter: TokenCounter) -> list[int]:
    """25, 50, 100, … as far as the model reads and half of the documents reach."""
    counts = np.array(counter.count([corpus.text(name, language) for name in corpus.ids([language])]))
    room = np.inf if counter.window is None else counter.window - counter.count_whole([""])[0]
    lengths = []
    length = _SHORTEST
    while length <= room and (counts >= 1.1 * length - 1e-9).mean() >= 0.5:
        lengths.append(length)
        length *= 2
    if len(lengths) < 2:
        if room < 2 * _SHORTEST:
            raise DesignError(
                f"the model reads {counter.window} {counter.unit}, too few to compare lengths: name lengths."
            )
        raise DesignError(
            f"half of the {len(counts)} documents have fewer than {round(2.2 * _SHORTEST)} {counter.unit}, too few "
            "to compare lengths: name lengths, or use longer documents."
        )
    return lengths


def _large_enough(cuts: Cuts) -> Cuts:
    """The lengths that have enough documents for an interval; the others are noted."""
    counts = {length: len(cuts.at(length)) for length in cuts.lengths}
    few = [length for length, count in counts.items() if count < _LEAST]
    if len(few) == len(counts):
        raise DesignError(
            f"{max(counts.values(), default=0)} documents can be used, and {_LEAST} are needed: add documents, name "
            "other lengths, or raise the tolerance."
        )
    if not few:
        return cuts
    note = f"lengths with fewer than {_LEAST} documents were omitted: {', '.join(map(str, few))}"
    return Cuts(tuple(text for text in cuts.texts if text.length not in few), (*cuts.notes, note))
