"""`PreparedAudit`: an audit with every document built and nothing embedded yet."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.documents import Document, Documents, build_documents, fitting_opening
from fairspan.design.lengths import measure_segments
from fairspan.design.plan import LanguagePlan, languages_of
from fairspan.encoding.encoder import Text, refuse_other_spaces
from fairspan.encoding.tokens import ModelTokens, read_text
from fairspan.errors import DesignError
from fairspan.runs.bases import Pair, Treated, fit_pairs
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.header import CorpusInfo, Header, WindowInfo
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.audit.entries import AuditEntries, Unseen
from fairspan.studies.audit.options import AuditOptions

Place = tuple[int, int]
"""The number of segments of a document, and a position."""


@dataclass(frozen=True)
class PreparedAudit:
    """An audit that is ready to run.

    Attributes:
        fit: texts that are never measured, for treatments that are fitted.
    """

    subject: Subject
    options: AuditOptions
    corpus: Corpus
    plans: tuple[LanguagePlan, ...]
    documents: Documents
    fit: FitPart

    @property
    def text_hashes(self) -> list[Any]:
        return [self.corpus.fingerprint, [str(plan) for plan in self.plans]]

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        kinds = (("documents", self.texts), ("segments", self.segments))
        return {kind: [text.length for text in texts] for kind, texts in kinds}

    @cached_property
    def _windows(self) -> list[WindowInfo]:
        return windows_of(self.subject, self.options.all_treatments, self._lengths)

    @cached_property
    def _unseen(self) -> list[Unseen]:
        return _unseen_positions(self.subject, self.documents.documents)

    @property
    def notes(self) -> list[str]:
        names = [treatment.name for treatment in self.options.all_treatments]
        positions = {name: _position_words(self._unseen, name) for name in names}
        return [
            *self.corpus.notes,
            *self.documents.notes,
            *window_notes(self._windows, self.subject.counter.unit, positions),
            *limit_note(self.subject, self._lengths["documents"]),
        ]

    def describe(self, header: Header) -> Header:
        """The header with the corpus, the documents and how far they are read."""
        documents = self.documents
        shared = {str(n): count for n, count in documents.shared.items()}
        return replace(
            header,
            corpus=CorpusInfo(
                self.corpus.name,
                self.corpus.fingerprint,
                list(languages_of(self.plans)),
                len(documents.segments),
            ),
            plans=[str(plan) for plan in self.plans],
            documents=len(documents.documents),
            windows=self._windows,
            study=AuditEntries(documents.length, shared, self._unseen),
        )

    @property
    def scope(self) -> str:
        """What is embedded under every treatment, in a few words."""
        sizes, plans = ", ".join(map(str, self.options.sizes)), ", ".join(map(str, self.plans))
        documents = f"{len(self.texts):,} documents of {sizes} segments ({plans})"
        return f"({documents} + {len(self.segments):,} segments alone) × {len(self.options.all_treatments)}"

    @cached_property
    def segments(self) -> list[Text]:
        """The segments that every treatment embeds alone."""
        alone = list(self.documents.segments.values())
        lengths = self.subject.counter.count_whole(alone)
        languages = [language for _, language in self.documents.segments]
        return [
            Text(*one[:2], language=one[2]) for one in zip(alone, lengths, languages, strict=True)
        ]

    @cached_property
    def texts(self) -> list[Text]:
        """The documents."""
        wants_spans = "retention" in self.options.measures
        return [
            Text(
                one.text,
                one.length,
                one.spans if wants_spans else (),
                tuple(start for start, _ in one.spans),
                one.keys[0][1],
            )
            for one in self.documents.documents
        ]

    def pairs(
        self, treatment: Treatment, under: Callable[[Treatment], Treated]
    ) -> tuple[Pair, ...]:
        """Everything that is embedded under a treatment, with what embeds it."""
        treated = under(treatment)
        own = (treated.segments, self.segments), (treated.documents, self.texts)
        return (*fit_pairs(treatment, self.fit, under), *own)

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """One line per treatment."""
        return [Work(one.name, self.pairs(one, under)) for one in self.options.all_treatments]


def prepare_audit(subject: Subject, options: AuditOptions, progress: Progress) -> PreparedAudit:
    """Read, draw and measure, without embedding anything."""
    treatments = options.all_treatments
    subject = subject.with_prompts(options.prompt)
    subject = subject.reading(treatments, whole=not subject.set_further)
    on_tokens = "retention" in options.measures
    beyond = [measure for measure in options.measures if measure != "representation"]
    if on_tokens and subject.is_open:
        refuse_other_spaces(subject.model)
    refuse_unsuited(subject, treatments, on_tokens=treatments if on_tokens else (), beyond=beyond)
    progress.stage("reading the corpus")
    plans, corpus = options.read_corpus()
    progress.stage("building documents")
    languages, counter = languages_of(plans), subject.counter
    material = measure_segments(corpus, languages, options, counter)
    opening = (
        fitting_opening(material, plans, options, counter) if options.opening is None else None
    )
    if opening is not None:
        material = measure_segments(corpus, languages, replace(options, opening=opening), counter)
        why = f"documents of {max(options.sizes)} whole segments do not fit into the model's {counter.window} tokens"
        material = replace(
            material, notes=(*material.notes, f"{why}: set opening or a larger max_seq_length")
        )
    documents = build_documents(material, plans, options, counter)
    if beyond:
        _refuse_cut(subject, documents, beyond[0])
    tested, read = documents.segments.values(), options.fit_corpus or options.corpus
    fit = choose_fit_part(
        treatments, subject.model, counter, read, languages, tested, seed=options.seed
    )
    return PreparedAudit(subject, options, corpus, plans, documents, fit)


def _refuse_cut(subject: Subject, documents: Documents, measure: str) -> None:
    """Raise if a measure of tokens was asked for, and some treatment does not read all of them."""
    longest = max(document.length for document in documents.documents)
    for treatment in subject.treatments:
        window = subject.window(treatment)
        if window is not None and window < longest:
            raise DesignError(
                f"{measure} is measured on whole documents, and {treatment.name} cuts those of up to {longest} "
                f"{subject.counter.unit} at {window}: omit {measure}, omit {treatment.name}, or use max_seq_length "
                f"of at most {window}."
            )


def _unseen_positions(subject: Subject, documents: Sequence[Document]) -> list[Unseen]:
    """For each treatment that cuts documents, the positions that are not read whole in all of them."""
    windows = {treatment.name: subject.window(treatment) for treatment in subject.treatments}
    unread = {
        window: _unread(subject, documents, window)
        for window in {*windows.values()}
        if window is not None
    }
    return [
        Unseen(name, *counts)
        for name, window in windows.items()
        for counts in unread.get(window or 0, ())
    ]


def _unread(
    subject: Subject, documents: Sequence[Document], window: int
) -> list[tuple[int, int, int, int, int]]:
    """The fields of `Unseen` after the treatment, for one that reads so many tokens."""
    counter = ModelTokens(
        subject.transformer("a window"), subject.prompts["document"], window=window
    )
    sizes, in_part, never = (
        Counter(document.n for document in documents),
        Counter[Place](),
        Counter[Place](),
    )
    for document in documents:
        if document.length > window:
            spans = read_text(counter, document.text).count(list(document.spans))
            in_part.update(
                (document.n, place)
                for place, (all_, read) in enumerate(spans, 1)
                if 0 < read < all_
            )
            never.update(
                (document.n, place)
                for place, (all_, read) in enumerate(spans, 1)
                if read == 0 < all_
            )
    return [
        (n, place, count, in_part[n, place], never[n, place])
        for n, count in sizes.items()
        for place in range(1, n + 1)
        if in_part[n, place] or never[n, place]
    ]


def _position_words(unseen: Iterable[Unseen], treatment: str) -> str:
    """Such as "not read whole: positions 3 and 4 of n=4"; empty if the treatment reads all."""
    by_size: dict[int, list[str]] = {}
    for position in unseen:
        if position.treatment == treatment:
            by_size.setdefault(position.n, []).append(str(position.position))
    named = [
        f"position {own[0]} of n={n}"
        if len(own) == 1
        else f"positions {', '.join(own[:-1])} and {own[-1]} of n={n}"
        for n, own in by_size.items()
    ]
    return f"not read whole: {'; '.join(named)}" if named else ""
