"""`Desk`: what the served page computes, with the plain model and the one that is served, and no HTTP in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.corpus.document_file import parse_document
from fairspan.corpus.marked_text import MarkedText, mark
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.errors import CorpusError, FairspanError
from fairspan.model.build import calibrate
from fairspan.model.transformer import calibrated_transformers
from fairspan.report.text import model_name
from fairspan.runs.bases import Treated, embed_through
from fairspan.runs.subject import Subject, open_subject
from fairspan.serving.search import Match, Search, ranks
from fairspan.stats.cosines import representation
from fairspan.studies.inspect.inspection import Inspection
from fairspan.studies.inspect.lens import Lens, focus
from fairspan.studies.inspect.run import look_through, vectors_of

MOST_TOKENS = 32_768
MOST_DOCUMENTS = 20
# A few megabytes: the vectors of the documents that somebody is looking at, so that a query embeds nothing else.
_KEPT = 4096


class TooLarge(FairspanError):  # noqa: N818 - as the other names that read as a sentence when caught
    """More text than the page takes at once, while others wait for the model."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text that was pasted, or a file, whose name's ending says how it is read."""

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
    """A model under one or two treatments, the first of which is "before". One thread at a time works at it.

    Attributes:
        most_tokens: of all documents of one call.
    """

    subject: Subject
    treated: tuple[Treated, ...]
    most_tokens: int = MOST_TOKENS
    _vectors: OrderedDict[bytes, np.ndarray] = field(default_factory=OrderedDict)

    @property
    def facts(self) -> dict[str, Any]:
        """The model's name, and how far each treatment reads."""
        read = [
            {"treatment": one.treatment.name, "window": self.subject.window(one.treatment)} for one in self.treated
        ]
        return {"model": model_name(self.subject.name), "treatments": read}

    def inspect(self, document: Document) -> Inspection:
        """The cosines and shares of `fairspan.inspect`, without its attention and retention."""
        lens = self._lens(document, least=2)
        self._refuse_too_large([lens])
        return look_through(lens, self.subject, self.treated, self._embed, name=document.name, inside=False)

    def find(self, query: str, documents: Sequence[Document]) -> Search:
        """How each document ranks for a query, and which of its segments is closest to it."""
        if not query.strip():
            raise CorpusError("the query is empty.")
        if not documents:
            raise CorpusError("there is no document to search.")
        if len(documents) > MOST_DOCUMENTS:
            raise TooLarge(f"there are {len(documents)} documents, and the page takes {MOST_DOCUMENTS}: remove some.")
        lenses = [self._lens(document, least=1) for document in documents]
        self._refuse_too_large(lenses)
        return Search(
            query,
            tuple(document.name for document in documents),
            tuple(tuple(one.label for one in lens.segments()) for lens in lenses),
            {one.treatment.name: self._matches(query, lenses, one) for one in self.treated},
        )

    def _matches(self, query: str, lenses: Sequence[Lens], treated: Treated) -> tuple[Match, ...]:
        (length,) = self.subject.counters["query"].count_whole([query])
        (asked,) = self._embed(treated.queries, [Text(query, length)])
        vectors = [vectors_of(lens, treated, self._embed) for lens in lenses]
        cosines = representation(asked, np.stack([whole for whole, _ in vectors])).tolist()
        seen = [lens.up_to(treated.documents.window).segments() for lens in lenses]
        return tuple(
            Match(cosine, rank, tuple(representation(asked, alone).tolist()), tuple(one.status for one in read))
            for cosine, rank, (_, alone), read in zip(cosines, ranks(cosines), vectors, seen, strict=True)
        )

    def _lens(self, document: Document, *, least: int) -> Lens:
        return focus(document.marked(), self.subject.counter, least=least)

    def _refuse_too_large(self, lenses: Sequence[Lens]) -> None:
        tokens = sum(lens.length for lens in lenses)
        if tokens > self.most_tokens:
            raise TooLarge(
                f"this is {tokens:,} {self.subject.counter.unit}, and the page takes {self.most_tokens:,} at once: "
                "use shorter or fewer documents here, or fairspan inspect on the command line."
            )

    def _embed(self, encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        """[texts, d]; what was embedded lately is not embedded again."""
        keys = [encoder.key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            with Store(":memory:") as store:
                embed = embed_through(
                    store, budget=self.subject.budget(None), tally=Tally(), progress=lambda tokens: None
                )
                self._vectors.update(zip(new, embed(encoder, list(new.values())), strict=True))
        for key in keys:
            self._vectors.move_to_end(key)
        found = np.stack([self._vectors[key] for key in keys])
        while len(self._vectors) > _KEPT:
            self._vectors.popitem(last=False)
        return found


def open_desk(model: SentenceTransformer, name: str | None = None, *, most_tokens: int = MOST_TOKENS) -> Desk:
    """A desk for a model that is served: with the plain model beside it where it is calibrated.

    Args:
        name: what the page calls the model; by default the name that it was loaded by.
    """
    served = calibrated_transformers(model)
    calibrations = {module.calibration for module in served if module.calibration.acts}
    treatments = [as_treatment("none")]
    if len(calibrations) == 1:
        treatments.append(as_treatment(calibrations.pop()))
        model = _plain(model)
    elif calibrations:
        # Modules that differ cannot be told in one treatment.
        treatments = [Treatment("as served", treatments[0].calibration)]
    subject = open_subject(model, name=name).reading(treatments)
    treated = tuple(subject.under(one, embed=_nothing_fitted, lasting=False) for one in treatments)
    return Desk(subject, treated, most_tokens)


def _plain(model: SentenceTransformer) -> SentenceTransformer:
    """The plain model on the same weights, which with tiles would read as far as the calibrated one does."""
    plain = calibrate(model, "none")
    for module, served in zip(calibrated_transformers(plain), calibrated_transformers(model), strict=True):
        module.untiled_length, module.max_seq_length = served.untiled_length, served.max_seq_length
    return plain


def _nothing_fitted(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    raise AssertionError("a calibration is fitted on nothing")
