"""`Desk`: what the served page computes, with the plain model and the one that is served, and no HTTP in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.corpus.document_file import parse_document
from fairspan.corpus.marked_text import MarkedText, mark
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.errors import CorpusError
from fairspan.model.build import calibrate
from fairspan.model.transformer import calibrated_transformers
from fairspan.report.text import model_name
from fairspan.runs.bases import Treated, embed_through
from fairspan.runs.subject import Subject, open_subject
from fairspan.studies.inspect.inspection import Inspection
from fairspan.studies.inspect.lens import focus
from fairspan.studies.inspect.run import look_through

MOST_TOKENS = 32_768
"""Of a document."""


@dataclass(frozen=True, slots=True)
class Document:
    """A pasted text, or a file, whose extension decides its format."""

    name: str
    text: str
    borders: str = "auto"

    def marked(self) -> MarkedText:
        text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        if not text.strip():
            raise CorpusError(f"{self.name} is empty.")
        named = bool(Path(self.name).suffix)
        found = parse_document(text, self.name, self.borders, named=named)
        # Nothing says that a pasted text is Markdown: its headings count where there are no rules.
        headed = found if named or found.pieces or self.borders != "auto" else mark(text, "heading")
        return headed if len(headed.pieces) > 1 else found


@dataclass(frozen=True)
class Desk:
    """A model under one or two treatments, the first of which is "before". One thread at a time uses it."""

    subject: Subject
    treated: tuple[Treated, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The model's name, and how far each treatment reads."""
        read = [
            {"treatment": one.treatment.name, "window": self.subject.window(one.treatment)}
            for one in self.treated
        ]
        return {"model": model_name(self.subject.name), "treatments": read}

    def inspect(
        self, document: Document, progress: Callable[[int], None] = lambda tokens: None
    ) -> Inspection:
        """The cosines and shares of `fairspan.inspect`; `progress` is called between batches."""
        marked = document.marked()
        # Before its sentences are found, which takes longer.
        (length,) = self.subject.counter.count_whole([marked.text])
        if length > MOST_TOKENS:
            raise CorpusError(
                f"the text has {length:,} {self.subject.counter.unit}, and the page takes {MOST_TOKENS:,}: use a "
                "shorter document here, or fairspan inspect on the command line."
            )
        progress(0)
        lens = focus(marked, self.subject.counter)
        with Store(":memory:") as store:
            embed = embed_through(
                store, budget=self.subject.budget(None), tally=Tally(), progress=progress
            )
            return look_through(lens, self.subject, self.treated, embed, name=document.name)


def open_desk(model: SentenceTransformer, name: str | None = None) -> Desk:
    """A desk for a model that is served: with the plain model beside it where it is calibrated.

    Args:
        name: what the page calls the model; by default the name that it was loaded by.
    """
    served = calibrated_transformers(model)
    calibrations = {module.calibration for module in served if module.calibration.acts}
    treatments = [as_treatment(PLAIN)]
    if len(calibrations) == 1:
        treatments.append(as_treatment(calibrations.pop()))
        model = _plain(model)
    elif calibrations:
        # Modules that differ cannot be told in one treatment.
        treatments = [Treatment("as served", treatments[0].calibration)]
    subject = open_subject(model, name=name).reading(treatments)
    treated = tuple(subject.under(one, embed=_nothing_fitted, lasting=False) for one in treatments)
    return Desk(subject, treated)


def _plain(model: SentenceTransformer) -> SentenceTransformer:
    """The plain model on the same weights, which with tiles would read as far as the calibrated one does."""
    plain = calibrate(model, PLAIN)
    for module, served in zip(
        calibrated_transformers(plain), calibrated_transformers(model), strict=True
    ):
        module.untiled_length, module.max_seq_length = served.untiled_length, served.max_seq_length
    return plain


def _nothing_fitted(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    raise AssertionError("a calibration is fitted on nothing")
