"""`AuditTexts`: what an audit embeds: documents, and their segments alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.documents import Document, Documents, build_documents
from fairspan.design.lengths import measure_segments
from fairspan.design.plan import LanguagePlan, languages_of
from fairspan.encoding.model_encoder import refuse_other_spaces
from fairspan.encoding.text import Text
from fairspan.errors import DesignError
from fairspan.runs.embedder import Pair
from fairspan.runs.header import CorpusInfo, Header, WindowInfo
from fairspan.runs.levelling import level_note, level_pairs
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.treated import Treated
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.audit.options import AuditOptions


@dataclass(frozen=True)
class AuditTexts:
    """The documents of an audit, and their segments."""

    subject: Subject
    options: AuditOptions
    corpus: Corpus
    plans: tuple[LanguagePlan, ...]
    documents: Documents

    @property
    def text_hashes(self) -> list[Any]:
        return [self.corpus.fingerprint, [str(plan) for plan in self.plans]]

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        kinds = {"documents": self.texts, "segments": self.segments}
        return {kind: [text.length for text in texts] for kind, texts in kinds.items()}

    @cached_property
    def _windows(self) -> tuple[WindowInfo, ...]:
        return windows_of(self.subject, self.options.all_treatments, self._lengths)

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the corpus, the documents and how far they are read."""
        return [
            *self.corpus.notes,
            *self.documents.notes,
            *window_notes(self._windows, self.subject.counter.unit),
            *limit_note(self.subject, self._lengths["documents"]),
            *self._border_notes,
            *level_note(self.subject, self.options.all_treatments),
        ]

    @property
    def _border_notes(self) -> list[str]:
        """Notes on treatments whose tiles end where the segments of every document end."""
        documents = self.documents.documents
        return [
            f"{treatment.name}: the end of every segment is the end of a tile, since segments are "
            "equally long, so all positions are equal: use another opening or size to see the "
            "effect of tiles that end inside segments"
            for treatment in self.options.all_treatments
            if all(_tiles_end_with(document, treatment) for document in documents)
        ]

    def describe(self, header: Header) -> Header:
        """The header with what is known of the corpus and the documents."""
        return replace(
            header,
            corpus=CorpusInfo.of(self.corpus, len(self.documents.segments)),
            plans=tuple(map(str, self.plans)),
            documents=len(self.documents.documents),
            windows=self._windows,
        )

    @cached_property
    def segments(self) -> list[Text]:
        """The segments that every treatment embeds alone."""
        segments = self.documents.segments
        lengths = self.subject.counter.count_whole(list(segments.values()))
        return [
            Text(text, length, language=language)
            for ((_, language), text), length in zip(segments.items(), lengths, strict=True)
        ]

    @cached_property
    def texts(self) -> list[Text]:
        """The documents."""
        wants_spans = "retention" in self.options.measures
        texts = []
        for document in self.documents.documents:
            spans = document.spans if wants_spans else ()
            starts = tuple(start for start, _ in document.spans)
            language = document.keys[0][1]
            texts.append(Text(document.text, document.length, spans, starts, language))
        return texts

    def stages(self, under: Callable[[Treatment], Treated]) -> dict[str, list[Pair]]:
        """By treatment."""
        stages = {}
        for treatment in self.options.all_treatments:
            treated = under(treatment)
            embedded = [(treated.segments, self.segments), (treated.documents, self.texts)]
            stages[treatment.name] = [*level_pairs(self.subject, treatment), *embedded]
        return stages


def _tiles_end_with(document: Document, treatment: Treatment) -> bool:
    """Whether tiles, which divide a document evenly, end where its segments end."""
    size = treatment.for_documents.tile_size
    if not isinstance(size, int) or len(set(document.tokens)) > 1:
        return False
    tiles = -(-sum(document.tokens) // size)
    return tiles % document.n == 0


def audit_texts(subject: Subject, options: AuditOptions, progress: Progress) -> AuditTexts:
    """Read, draw and measure, without embedding anything."""
    treatments = options.all_treatments
    subject = subject.with_prompts(options.prompt)
    subject = subject.reading(treatments, whole=not subject.set_further)
    beyond = [measure for measure in options.measures if measure in ("retention", "attention")]
    if "retention" in beyond and subject.is_open:
        refuse_other_spaces(subject.model, "retention", of_means=True)
    refuse_unsuited(subject, treatments, beyond)
    progress.stage("reading the corpus")
    plans, corpus = options.planned_corpus
    progress.stage("building documents")
    counter = subject.counter
    material = measure_segments(corpus, languages_of(plans), options, counter)
    documents = build_documents(material, plans, options, counter)
    if beyond:
        _refuse_cut(subject, documents, beyond[0])
    return AuditTexts(subject, options, corpus, plans, documents)


def _refuse_cut(subject: Subject, documents: Documents, measure: str) -> None:
    """Raise if a treatment does not read all tokens, which a measure needs."""
    longest = max(document.length for document in documents.documents)
    for treatment in subject.treatments:
        window = subject.window(treatment)
        if window is not None and window < longest:
            raise DesignError(
                f"{measure} is measured on whole documents, and {treatment.name} cuts those of up "
                f"to {longest} {subject.counter.unit} at {window}: omit {measure}, omit "
                f"{treatment.name}, or use max_seq_length of at most {window}."
            )
