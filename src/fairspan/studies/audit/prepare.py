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
from fairspan.runs.forecast import Work
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.audit.measures import Record
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
    def decisive(self) -> list[Any]:
        return [self.corpus.fingerprint, [str(plan) for plan in self.plans]]

    @property
    def header(self) -> dict[str, Any]:
        subject, documents, treatments = self.subject, self.documents, self.options.measured
        unseen = _unseen_positions(subject, documents.documents)
        alone, joined = ([text.length for text in texts] for texts in (self.segments, self.texts))
        windows = windows_of(subject, treatments, {"documents": joined, "segments": alone})
        positions = {one.name: _position_words(unseen, one.name) for one in treatments}
        return {
            "corpus": {
                "name": self.corpus.name,
                "fingerprint": self.corpus.fingerprint,
                "segments": len(documents.segments),
                "languages": list(languages_of(self.plans)),
            },
            "plans": [str(plan) for plan in self.plans],
            "documents": len(documents.documents),
            "tokens": documents.length,
            "shared_segments": {str(n): shared for n, shared in documents.shared.items()},
            "windows": windows,
            "unseen": unseen,
            "notes": [
                *self.corpus.notes,
                *documents.notes,
                *window_notes(windows, subject.counter.unit, positions),
                *limit_note(subject, joined),
            ],
        }

    @property
    def scope(self) -> str:
        """What is embedded under every treatment, in a few words."""
        sizes, plans = ", ".join(map(str, self.options.sizes)), ", ".join(map(str, self.plans))
        documents = f"{len(self.texts):,} documents of {sizes} segments ({plans})"
        return (
            f"({documents} + {len(self.segments):,} segments alone) × {len(self.options.measured)}"
        )

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
        return [Work(one.name, self.pairs(one, under)) for one in self.options.measured]


def prepare_audit(subject: Subject, options: AuditOptions, progress: Progress) -> PreparedAudit:
    """Read, draw and measure, without embedding anything."""
    treatments = options.measured
    subject = subject.with_prompts(options.prompt)
    subject = subject.reading(treatments, whole=not subject.set_further)
    on_tokens = "retention" in options.measures
    beyond = [measure for measure in options.measures if measure != "representation"]
    if on_tokens and subject.is_open:
        refuse_other_spaces(subject.model)
    subject.refuse_unsuited(treatments, on_tokens=treatments if on_tokens else (), beyond=beyond)
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


def _unseen_positions(subject: Subject, documents: Sequence[Document]) -> list[Record]:
    """For each treatment that cuts documents and each position: in how many it is read in part only, or never.

    Positions that are read whole in every document have no record.
    """
    windows = {treatment.name: subject.window(treatment) for treatment in subject.treatments}
    unread = {
        window: _unread(subject, documents, window)
        for window in {*windows.values()}
        if window is not None
    }
    return [
        {"treatment": name, **one}
        for name, window in windows.items()
        for one in unread.get(window or 0, ())
    ]


def _unread(subject: Subject, documents: Sequence[Document], window: int) -> list[Record]:
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
        {
            "n": n,
            "position": place,
            "documents": count,
            "in_part": in_part[n, place],
            "never": never[n, place],
        }
        for n, count in sizes.items()
        for place in range(1, n + 1)
        if in_part[n, place] or never[n, place]
    ]


def _position_words(records: Iterable[Record], treatment: str) -> str:
    """Such as "not read whole: positions 3 and 4 of n=4"; empty if the treatment reads all."""
    by_size: dict[int, list[str]] = {}
    for one in records:
        if one["treatment"] == treatment:
            by_size.setdefault(one["n"], []).append(str(one["position"]))
    named = [
        f"position {own[0]} of n={n}"
        if len(own) == 1
        else f"positions {', '.join(own[:-1])} and {own[-1]} of n={n}"
        for n, own in by_size.items()
    ]
    return f"not read whole: {'; '.join(named)}" if named else ""
