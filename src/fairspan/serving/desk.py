"""`Desk`: what the served page computes of a document, with the plain model and the served one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.corpus.document_file import parse_document
from fairspan.corpus.marked_text import MarkedText, mark
from fairspan.encoding.direct import usable
from fairspan.encoding.text import Encoder, Text
from fairspan.errors import CorpusError, FairspanError
from fairspan.model.build import calibrate, copy_sharing_weights
from fairspan.model.level import level_of
from fairspan.model.transformer import calibrated_transformers
from fairspan.model.window import Window, set_window
from fairspan.report.text import model_name
from fairspan.runs.subject import Subject, open_subject
from fairspan.runs.treated import Treated
from fairspan.studies.inspect.lens import focus
from fairspan.studies.inspect.run import look_through
from fairspan.studies.inspect.view import Inspection

MOST_TOKENS = 32_768
"""Of a document, its markup included."""
Compute = Callable[[Encoder, Sequence[Text]], Iterable[np.ndarray]]
"""Runs an encoder's model on texts: one vector per text."""


@dataclass(frozen=True, slots=True)
class Document:
    """A pasted text, or a file, whose extension decides its format."""

    name: str
    text: str
    borders: str = "auto"

    def marked(self) -> MarkedText:
        """The document's text and segments."""
        text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        if not text.strip():
            raise CorpusError(f"{self.name} is empty.")
        is_file = bool(Path(self.name).suffix)
        marked = parse_document(text, self.name, self.borders, named=is_file)
        if is_file or marked.pieces or self.borders != "auto":
            return marked
        # Nothing says that a pasted text is Markdown: its headings count where there are no rules.
        headed = mark(text, "heading")
        return headed if len(headed.pieces) > 1 else marked


@dataclass(frozen=True)
class Desk:
    """A model under one or two treatments, the first of which is "before".

    `inspect` is called in one thread at a time. It counts with the tokenizer of `subject`; those of
    `treated` are used where the models run.
    """

    subject: Subject
    treated: tuple[Treated, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The model's name, and how far each treatment reads."""
        windows = []
        for treatment in (treated.treatment for treated in self.treated):
            window = self.subject.window(treatment)
            windows.append({"treatment": treatment.name, "window": window})
        return {"model": model_name(self.subject.name), "treatments": windows}

    def inspect(
        self,
        document: Document,
        compute: Compute = lambda encoder, texts: encoder.vectors(texts),
    ) -> Inspection:
        """The cosines and shares of `fairspan.inspect`."""
        counter = self.subject.counter
        # Before anything is parsed, which takes longer.
        (length,) = counter.count_whole([document.text])
        if length > MOST_TOKENS:
            raise CorpusError(
                f"the text has {length:,} {counter.unit}, and the page takes {MOST_TOKENS:,}: use "
                "a shorter document here, or fairspan inspect on the command line."
            )
        marked = focus(document.marked(), counter)
        vectors: dict[bytes, np.ndarray] = {}

        def embed(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
            """[texts, dimension]; treatments that read a text alike share its vector."""
            keys = [encoder.key(text) for text in texts]
            pairs = zip(keys, texts, strict=True)
            missing = {key: text for key, text in pairs if key not in vectors}
            if missing:
                computed = np.stack([*compute(encoder, list(missing.values()))])
                if not usable(computed).all():
                    raise FairspanError("the model gave a vector that is all zero or not numbers.")
                vectors.update(zip(missing, computed, strict=True))
            return np.stack([vectors[key] for key in keys])

        return look_through(marked, self.subject, self.treated, embed, document.name)


def open_desk(model: SentenceTransformer, name: str | None = None) -> Desk:
    """A desk for a model that is served, with the plain model beside it where it is calibrated."""
    modules = calibrated_transformers(model)
    served = {module.treatment for module in modules if module.calibration.acts}
    treatments = [as_treatment(PLAIN)]
    common = level_of(model)
    if len(served) == 1:
        treatments += served
        model = _plain(model)
    elif served:
        # Modules that differ cannot be named by one treatment.
        treatments = [Treatment("as served", treatments[0].calibration)]
    subject = open_subject(model, name=name).reading(treatments)
    # A copy has a tokenizer of its own, so that counting and a pass do not share one.
    running = open_subject(copy_sharing_weights(model), name=name)
    if common is not None:
        running.directions[running.prompts["document"]] = common
    treated = [running.under(treatment, lasting=False) for treatment in treatments]
    return Desk(subject, tuple(treated))


def _plain(model: SentenceTransformer) -> SentenceTransformer:
    """The plain model on the same weights, with its own window: tiles may read further."""
    plain = calibrate(model, PLAIN)
    pairs = zip(calibrated_transformers(plain), calibrated_transformers(model), strict=True)
    for module, served in pairs:
        set_window(module, Window.of(served, tiled=True), tiled=True)
    return plain
