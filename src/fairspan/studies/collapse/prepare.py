"""`PreparedCollapse`: a study of length with every text cut and nothing embedded yet."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.cuts import Cuts, LengthText, cut_documents, natural_lengths
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text
from fairspan.encoding.spectra import spectra
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.runs.bases import Treated, fit_pairs
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.header import CorpusInfo, Header
from fairspan.runs.identity import hash_of
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note
from fairspan.studies.collapse.classification import read_labelled, training_part
from fairspan.studies.collapse.entries import CollapseEntries, Length
from fairspan.studies.collapse.measures import Pair, repeated_pairs
from fairspan.studies.collapse.options import CollapseOptions

_SHORTEST = 25
_LEAST = 3
"""Documents of one length without which nothing can be said of it."""
_LABELLED = 600
"""Labelled texts at most."""
_TRIAL_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts to classify, cut to the same lengths, the label of each, and which of them to train on."""

    corpus: Corpus
    cuts: Cuts
    labels: NDArray[np.str_]
    train: NDArray[np.bool_]


@dataclass(frozen=True)
class PreparedCollapse:
    """A study of length that is ready to run.

    Attributes:
        fit: texts that are never measured, for treatments that are fitted.
    """

    subject: Subject
    options: CollapseOptions
    corpus: Corpus
    cuts: Cuts
    pairs: list[Pair]
    labelled: Labelled | None
    fit: FitPart

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
        corpus = self.corpus
        lengths = []
        for length in self.cuts.lengths:
            tokens = [text.tokens for text in self.cuts.at(length)]
            lengths.append(Length(length, len(tokens), float(np.mean(tokens))))
        paired = self.cuts.paired and not self.options.natural
        return replace(
            header,
            corpus=CorpusInfo(corpus.name, corpus.fingerprint, list(corpus.languages)),
            study=CollapseEntries(lengths, paired),
        )

    @property
    def scope(self) -> str:
        """What is embedded under every treatment, in a few words."""
        count, longest = (
            len(self.options.all_treatments),
            max(text.tokens for text in self.cuts.texts),
        )
        treatments = f" × {count} treatments" if count > 1 else ""
        return f"{len(self.texts):,} texts of up to {longest:,} tokens{treatments}"

    @cached_property
    def texts(self) -> list[Text]:
        """Everything that is embedded: cut texts, repeated words, labelled texts."""
        labelled = self.labelled.cuts.texts if self.labelled else ()
        probes = [text for pair in self.pairs for text in pair]
        texts = [*(one.text for one in self.cuts.texts), *probes, *(one.text for one in labelled)]
        lengths = self.subject.counter.count_whole(texts)
        return [Text(text, length) for text, length in zip(texts, lengths, strict=True)]

    @cached_property
    def analysed(self) -> list[LengthText]:
        """The texts whose spectra are computed: of the same documents at every length, if these are paired."""
        return [
            text
            for length in self.cuts.lengths
            for text in self.cuts.at(length)[: self.options.spectra]
        ]

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """One line per treatment. Spectra take about as long under each, so they are timed once."""
        found, inside = [], None
        for one in self.options.all_treatments:
            encoder = under(one).documents
            if inside is None and one.baseline is None:
                inside = self._spectra_seconds(encoder.model)
            seconds = 0.0 if one.baseline else inside or 0.0
            pairs = (*fit_pairs(one, self.fit, under), (encoder, self.texts))
            found.append(Work(one.name, pairs, seconds=seconds))
        return found

    def _spectra_seconds(self, model: SentenceTransformer) -> float:
        """The time of all spectra of one treatment, from one text of each length, the short ones first.

        Lengths that the trial has no time for are taken to need time in proportion to the square of their tokens.
        """
        prompt, layers = self.subject.prompts["document"], self.options.layers
        total = spent = took = 0.0
        tokens = 1
        for _, same in groupby(self.analysed, key=lambda text: text.length):
            texts = list(same)
            if spent < _TRIAL_SECONDS:
                started = time.perf_counter()
                try:
                    list(spectra(model, [texts[0].text], prompt=prompt, layers=layers))
                except UnsupportedModel:
                    return 0.0
                took, tokens = time.perf_counter() - started, texts[0].tokens
                spent += took
            total += sum(took * (text.tokens / tokens) ** 2 for text in texts)
        return total


def prepare_collapse(
    subject: Subject, options: CollapseOptions, progress: Progress
) -> PreparedCollapse:
    """Read and cut, without embedding anything."""
    model = subject.transformer("a study of length")
    subject = subject.with_prompts(options.prompt).reading(options.all_treatments, whole=True)
    refuse_unsuited(subject, options.all_treatments)
    counter = subject.counter
    progress.stage("reading the corpus")
    corpus, language = options.read_corpus()
    progress.stage("cutting documents")
    cut = partial(
        cut_documents,
        language=language,
        counter=counter,
        seed=options.seed,
        tolerance=options.tolerance,
        start=options.start,
    )
    if options.natural:
        cuts = natural_lengths(
            corpus, language, counter, documents=options.documents, seed=options.seed
        )
    else:
        lengths = (
            _reachable(corpus, language, counter) if options.lengths is None else options.lengths
        )
        cuts = cut(corpus, lengths=lengths, documents=options.documents)
    cuts = _large_enough(cuts)
    labelled = None
    tested = {text.text for text in cuts.texts}
    if options.labelled is not None:
        read = read_labelled(options.labelled)
        whole = Corpus.from_segments(
            "labelled", [Segment(one.id, language, one.text) for one in read]
        )
        parts = cut(whole, lengths=cuts.lengths, documents=_LABELLED)
        label_of, names = (
            {one.id: one.label for one in read},
            [text.document for text in parts.texts],
        )
        labels = [label_of[name] for name in names]
        train = training_part(names, labels, seed=options.seed)
        labelled = Labelled(whole, parts, np.array(labels), train)
        tested |= {whole.text(text.document, language) for text in parts.texts}
    source = options.fit_corpus or options.corpus
    fit = choose_fit_part(
        options.all_treatments, model, counter, source, [language], tested, seed=options.seed
    )
    return PreparedCollapse(subject, options, corpus, cuts, repeated_pairs(counter), labelled, fit)


def _reachable(corpus: Corpus, language: str, counter: TokenCounter) -> list[int]:
    """25, 50, 100, … as far as the model reads and half of the documents reach."""
    counts = np.array(
        counter.count([corpus.text(name, language) for name in corpus.ids([language])])
    )
    room = np.inf if counter.window is None else counter.window - counter.count_whole([""])[0]
    lengths = []
    length = _SHORTEST
    while length <= room and (counts >= 1.1 * length - 1e-9).mean() >= 0.5:
        lengths.append(length)
        length *= 2
    if len(lengths) < 2:
        short = f"half of the {len(counts)} documents have fewer than {round(2.2 * _SHORTEST)} {counter.unit}"
        if room < 2 * _SHORTEST:
            short = f"the model reads {counter.window} {counter.unit}"
        raise DesignError(
            f"{short}, too few to compare lengths: name lengths, or use longer documents."
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
