"""`Prepared`: an audit with every document built and nothing embedded yet."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.documents import Documents, build_documents
from fairspan.design.lengths import measure_segments
from fairspan.design.plan import LanguagePlan, choose_plans, languages_of
from fairspan.encoding.encoder import Encoder, Text, refuse_other_spaces
from fairspan.encoding.text import shares
from fairspan.errors import DesignError
from fairspan.runs.bases import Treated
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import run_name
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.audit.spec import AuditSpec
from fairspan.studies.audit.unseen import position_words, unseen_positions


@dataclass(frozen=True, slots=True)
class Prepared:
    """An audit that is ready to run: every document is built, nothing is embedded."""

    subject: Subject
    spec: AuditSpec
    corpus: Corpus
    plans: tuple[LanguagePlan, ...]
    documents: Documents
    fit: FitPart

    @property
    def run(self) -> str:
        """The name of the run's folder."""
        return run_name(self)

    @property
    def decisive(self) -> list[Any]:
        return [self.corpus.fingerprint, [str(plan) for plan in self.plans]]

    @property
    def header(self) -> dict[str, Any]:
        documents, unseen = self.documents, unseen_positions(self.subject, self.documents.documents)
        alone, joined = ([text.length for text in texts] for texts in self.texts())
        windows = windows_of(self.subject, self.spec.treatments, {"documents": joined, "segments": alone})
        positions = {one.name: position_words(unseen, one.name) for one in self.spec.treatments}
        return {
            "verb": "audit",
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
                *window_notes(windows, self.subject.counter.unit, positions),
                *limit_note(self.subject, joined),
            ],
        }

    def texts(self) -> tuple[list[Text], list[Text]]:
        """The segments and the documents that every treatment has to embed."""
        alone = list(self.documents.segments.values())
        lengths = self.subject.counter.count_whole(alone)
        languages = [language for _, language in self.documents.segments]
        segments = [Text(*one[:2], language=one[2]) for one in zip(alone, lengths, languages, strict=True)]
        tokens = dict(zip(self.documents.segments, self.subject.counter.count(alone), strict=True))
        wants_spans = "retention" in self.spec.measures
        documents = [
            Text(
                one.text,
                one.length,
                one.spans if wants_spans else (),
                tuple(start for start, _ in one.spans),
                one.keys[0][1],
                shares((key[1], tokens[key]) for key in one.keys),
            )
            for one in self.documents.documents
        ]
        return segments, documents

    def embedded(self, under: Callable[[Treatment], Treated]) -> Iterator[tuple[Encoder, Sequence[Text]]]:
        """Everything that is embedded, treatment by treatment, with what embeds it."""
        segments, documents = self.texts()
        for treatment in self.spec.treatments:
            # A correction is of the vectors of the same treatment without it.
            treated = under(treatment.uncorrected)
            if treatment.languages:
                yield treated.documents, self.fit.parallel
            yield treated.segments, segments
            yield treated.documents, documents


def prepare(subject: Subject, spec: AuditSpec, progress: Progress | None = None) -> Prepared:
    """Read, draw and measure, without embedding anything."""
    progress = progress or Silent()
    subject = subject.with_prompts(spec.prompt).reading(spec.treatments)
    on_tokens = "retention" in spec.measures
    beyond = [measure for measure in spec.measures if measure != "representation"]
    if on_tokens and subject.is_open:
        refuse_other_spaces(subject.model)
    subject.refuse_unsuited(spec.treatments, on_tokens=spec.treatments if on_tokens else (), beyond=beyond)
    progress.stage("reading the corpus")
    plans, corpus = choose_plans(spec.corpus, spec.languages, spec.mixed, partial=spec.partial)
    progress.stage("building documents")
    languages = languages_of(plans)
    material = measure_segments(corpus, languages, spec.design, subject.counter)
    documents = build_documents(material, plans, spec.design, subject.counter)
    if beyond:
        _refuse_cut(subject, documents, beyond[0])
    tested, source = documents.segments.values(), spec.fit_corpus or spec.corpus
    fit = choose_fit_part(
        spec.treatments, subject.model, subject.counter, source, languages, tested, seed=spec.design.seed
    )
    return Prepared(subject, spec, corpus, plans, documents, fit)


def _refuse_cut(subject: Subject, documents: Documents, measure: str) -> None:
    """Raise if a measure of tokens was asked for, and some treatment does not read all of them."""
    longest = max(document.length for document in documents.documents)
    for treatment in subject.treatments:
        window = subject.window(treatment)
        if window is not None and window < longest:
            raise DesignError(
                f"{measure} is measured on whole documents, and {treatment.name} cuts those of up to {longest} "
                f"{subject.counter.unit} at {window}: omit {measure}, omit {treatment.name}, or use a window of at "
                f"most {window}."
            )
