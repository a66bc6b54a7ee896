"""`EmbedSpec`: what decides the vectors and how they are stored, besides the model and the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.temperature import Side
from fairspan.embedding.shards import VECTORS
from fairspan.embedding.source import Fields
from fairspan.errors import DesignError, require_whole

ROWS_PER_SHARD = 8192
ENGINES = ("local", "ray")


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The options of `embed` that a folder of vectors belongs to.

    Attributes:
        calibration: put on the model before it embeds; None for the model as it is.
        prompt: put before every text; None for the model's own.
        id_field: None for `id` where it is there, and otherwise the file and the row.
        language_field: the field of a text's language, for a model whose correction of languages asks for it.
        vectors: "float32" or "float16", as they are stored.
    """

    calibration: Calibration | None = None
    max_seq_length: int | None = None
    side: Side = "document"
    prompt: str | None = None
    text_field: str = "text"
    id_field: str | None = None
    language_field: str | None = None
    vectors: str = "float32"
    rows_per_shard: int = ROWS_PER_SHARD

    def __post_init__(self) -> None:
        if self.side not in get_args(Side):
            raise DesignError(f"[[side]] is {' or '.join(get_args(Side))}, got {self.side!r}.")
        if self.vectors not in VECTORS:
            raise DesignError(f"[[vectors]] is {' or '.join(VECTORS)}, got {self.vectors!r}.")
        require_whole("rows_per_shard", self.rows_per_shard)
        if self.max_seq_length is not None:
            require_whole("max_seq_length", self.max_seq_length)

    @property
    def fields(self) -> Fields:
        return Fields(self.text_field, self.id_field, self.language_field)

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        if self.language_field is None:  # as before there was one
            del plain["language_field"]
        return {**plain, "calibration": None if self.calibration is None else self.calibration.to_dict()}
