"""`PreparedCollapse`: a study of length with every text cut and nothing embedded yet."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.cuts import Cuts, LengthText, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text
from fairspan.encoding.spectra import spectra
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.runs.header import CorpusInfo, Header
from fairspan.runs.identity import hash_of
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject, Treated
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note
from fairspan.studies.collapse.classification import training_part
from fairspan.studies.collapse.entries import CollapseEntries, Length
from fairspan.studies.collapse.measures import Pair, repeated_pairs
from fairspan.studies.collapse.options import CollapseOptions

_SHORTEST = 25
_LEAST = 3
"""Documents of one length without which nothing can be said of it."""
_TRIAL_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts to classify, by length; labels [texts]; which of them to train on."""

    corpus: Corpus
    cuts: Cuts
    labels: NDArray[np.str_]
    train: NDArray[np.bool_]


@dataclass(frozen=True)
class PreparedCollapse:
    """A study of length that is ready to run."""

    subject: Subject
    options: CollapseOptions
    corpus: Corpus
    cuts: Cuts
    pairs: list[Pair]
    labelled: Labelled | None

    @property
    def text_hashes(self) -> list[Any]:
        hashes = [self.corpus.fingerprint]
        if self.labelled is not None:
            labels = hash_of(self.labelled.labels.tolist())
            hashes += [self.labelled.corpus.fingerprint, labels]
        return hashes

    @property
    def notes(self) -> list[str]:
        labelled = self.labelled.cuts.notes if self.labelled else ()
        return [
            *self.corpus.notes,
            *self.cuts.notes,
            *limit_note(self.subject, [text.tokens for text in self.cuts.texts], "texts"),
            *(f"labelled: {note}" for note in labelled),
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
            study=CollapseEntries(lengths, self.cuts.paired and not self.options.natural),
        )

    @property
    def scope(self) -> str:
        count = len(self.options.all_treatments)
        longest = max(text.tokens for text in self.cuts.texts)
        treatments = f" × {count} treatments" if count > 1 else ""
        return f"{len(self.texts):,} texts of up to {longest:,} tokens{treatments}"

    @cached_property
    def texts(self) -> list[Text]:
        """Everything that is embedded: cut texts, repeated words, labelled texts."""
        texts = [text.text for text in self.cuts.texts]
        texts += [text for pair in self.pairs for text in pair]
        if self.labelled is not None:
            texts += [text.text for text in self.labelled.cuts.texts]
        return list(map(Text, texts, self.subject.counter.count_whole(texts)))

    @cached_property
    def analysed(self) -> list[LengthText]:
        """The texts whose spectra are computed: the first ones of every length."""
        count = self.options.spectra
        return [text for length in self.cuts.lengths for text in self.cuts.at(length)[:count]]

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """One line per treatment. Spectra take about as long under each, so they are timed once."""
        lines = []
        tokens = sum(text.tokens for text in self.analysed)
        seconds: Callable[[], float] | None = None
        for treatment in self.options.all_treatments:
            encoder = under(treatment).documents
            line = Work(treatment.name, ((encoder, self.texts),))
            if tokens and not treatment.chunks:
                seconds = seconds or cache(partial(self._spectra_seconds, encoder.model))
                line = replace(line, analysed=tokens, seconds=seconds)
            lines.append(line)
        return lines

    def _spectra_seconds(self, model: SentenceTransformer) -> float:
        """The time of all spectra of one treatment, which grows with the square of tokens.

        From a trial of one text of each length, short ones first, that ends after a few seconds.
        """
        prompt = self.subject.prompts["document"]
        tried = 0
        started = time.perf_counter()
        for length in self.cuts.lengths:
            text = self.cuts.at(length)[0]
            try:
                list(spectra(model, [text.text], prompt=prompt, layers=self.options.layers))
            except UnsupportedModel:
                return 0.0
            seconds = time.perf_counter() - started
            tried += text.tokens**2
            if seconds > _TRIAL_SECONDS:
                break
        return seconds / tried * sum(text.tokens**2 for text in self.analysed)


def prepare_collapse(
    subject: Subject, options: CollapseOptions, progress: Progress
) -> PreparedCollapse:
    """Read and cut, without embedding anything."""
    subject.transformer("a study of length")
    treatments = options.all_treatments
    subject = subject.with_prompts(options.prompt).reading(treatments, whole=True)
    refuse_unsuited(subject, treatments)
    counter = subject.counter
    progress.stage("reading the corpus")
    corpus, language = options.spoken_corpus
    progress.stage("cutting documents")
    cut: Callable[..., Cuts] = natural_lengths
    if not options.natural:
        lengths = options.lengths
        if lengths is None:
            lengths = _reachable(corpus, language, counter)
        cut = partial(
            cut_documents, lengths=lengths, tolerance=options.tolerance, start=options.start
        )
    cut = partial(cut, language=language, counter=counter, seed=options.seed)
    cuts = _large_enough(cut(corpus, documents=options.documents))
    labelled = None
    if options.labelled_texts is not None:
        cut_labelled = partial(cut, documents=options.labelled_documents)
        labelled = _cut_labelled(*options.labelled_texts, cut_labelled, options.seed)
    return PreparedCollapse(subject, options, corpus, cuts, repeated_pairs(counter), labelled)


def _cut_labelled(
    corpus: Corpus, label_of: Mapping[str, str], cut: Callable[..., Cuts], seed: int
) -> Labelled:
    """The labelled texts by length, split into parts to train on and to test."""
    cuts = cut(corpus)
    if not cuts.paired:
        cuts = _large_enough(cuts)
    documents = [text.document for text in cuts.texts]
    labels = [label_of[document] for document in documents]
    train = training_part(documents, labels, seed=seed)
    return Labelled(corpus, cuts, np.array(labels), train)


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
