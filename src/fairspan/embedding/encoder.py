"""The model of a run, calibrated and ready, and what identifies its vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.embedding.computing import Advance, embed_units
from fairspan.embedding.shards import Record
from fairspan.embedding.spec import EmbedSpec
from fairspan.embedding.unit import Unit
from fairspan.encoding.direct import DirectEncoder
from fairspan.errors import DesignError
from fairspan.model.build import calibrate_if_asked
from fairspan.model.source import Loading
from fairspan.runs.subject import open_subject


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that embeds.

    Attributes:
        identity: two models that share it give the same vectors up to rounding.
        budget: tokens in a batch, padding included.
    """

    name: str
    encoder: DirectEncoder
    identity: dict[str, Any]
    budget: int
    spec: EmbedSpec

    def embed(self, units: Iterable[Unit], folder: Path, *, strict: bool, advance: Advance) -> Iterator[Record]:
        """Write a shard for every unit, in this process."""
        return embed_units(
            self.encoder,
            units,
            folder,
            budget=self.budget,
            dtype=self.spec.vectors,
            strict=strict,
            advance=advance,
        )

    def close(self) -> None: ...


def open_encoder(
    model: SentenceTransformer | str | None, spec: EmbedSpec, loading: Loading, batch_tokens: int | None = None
) -> Opened:
    """Load a model, if it is not loaded yet, and calibrate it as asked."""
    plain = open_subject(model, loading=loading)
    made = calibrate_if_asked(plain.transformer("embed"), spec.calibration, spec.max_seq_length)
    subject = open_subject(made, name=plain.name)
    encoder = DirectEncoder(made, spec.side, prompt=spec.prompt)
    if spec.language_field is not None and not encoder.needs_language:
        raise DesignError(
            f"no correction of {plain.name} asks for languages, so [[language_field]] would do nothing: omit it."
        )
    identity = {
        "dtype": subject.description["dtype"],
        "prompt": encoder.prompt,
        "window": encoder.window,
        "dimension": encoder.dimension,
        "calibrations": subject.calibrations,
        "fingerprint": subject.fingerprint,
    }
    return Opened(plain.name, encoder, identity, subject.budget(batch_tokens), spec)
