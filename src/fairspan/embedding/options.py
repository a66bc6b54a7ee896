"""`EmbedOptions`: everything that can be asked of `embed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.spelling import as_calibration
from fairspan.corpus.source import SourceLike
from fairspan.errors import DesignError, require_whole
from fairspan.model.source import DEFAULT_MODEL, Loading, find_model
from fairspan.runs.progress import Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from fairspan.encoding.parts import PartRule

ENGINES = ("local", "ray")
# Marks an option that does not decide what the folder holds, so another call may change it.
_PASSING = {"passing": True}


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """What is embedded, by what, and where it goes.

    Attributes:
        model: a SentenceTransformer: its name on the hub or its folder; None for all-MiniLM-L6-v2.
            In Python also the model itself.
        input: a JSONL, Parquet, text, HTML or PDF file, a folder of such files, or a dataset as
            name, name:split or name:configuration:split. In Python also records.
        out: folder to write. An interrupted run in it is continued.
        calibration: a preset's name, a `Calibration`, or the file of one; plain leaves the model as
            it is. By default fair, and a calibrated model keeps its own.
        max_seq_length: longest text to read, in tokens. Longer ones are truncated and marked.
        side: what is embedded: document or query.
        prompt: text put before every text. By default the model's own for the side.
        text_field: field or column of the text.
        id_field: field or column of the id. By default id, otherwise file and row.
        only_longer_than_window: embed only texts longer than the model's window or than 512 tokens;
            needs short_texts=leave, as in fair+short_texts=leave, which leaves the other texts to
            the plain model.
        vectors: largest number of vectors per document, one for each part of equal length. A
            document that the plain model reads whole, and that has at most 512 tokens, has one. By
            default every document has one.
        tokens_per_vector: largest number of tokens in a part, instead of a number of vectors.
        storage: number format of stored vectors: float32 or float16.
        rows_per_shard: number of rows per shard; fewer for very long texts.
        batch_tokens: number of tokens in a batch, padding included.
        device: where the model runs: cpu, cuda or mps. For several GPUs, use `engine` ray.
        dtype: number format of the weights: float32, bfloat16, float16, or auto for that of the
            saved weights. By default float32 on a CPU and auto elsewhere.
        trust_remote_code: run code that comes with the model.
        strict: stop at the first row that cannot be embedded instead of listing it in
            rejected.jsonl.
        engine: where it runs: local, in this process, or ray, in several processes of this machine
            or of a Ray cluster.
        address: a running Ray cluster: auto or host:port. By default Ray starts on this machine.
        actors: number of Ray actors. By default one per GPU, or one per four CPUs.
        progress: True for a bar, False for none, or an object that shows it.
    """

    model: SentenceTransformer | str | None = field(metadata=_PASSING)
    input: SourceLike = field(metadata=_PASSING)
    out: str | Path = field(metadata=_PASSING)
    _: KW_ONLY
    calibration: Calibration | str | Path | Mapping[str, Any] | None = None
    max_seq_length: int | None = None
    side: Side = "document"
    prompt: str | None = None
    text_field: str = "text"
    id_field: str | None = None
    only_longer_than_window: bool = False
    vectors: int | None = None
    tokens_per_vector: int | None = None
    storage: str = "float32"
    rows_per_shard: int = 8192
    batch_tokens: int | None = field(default=None, metadata=_PASSING)
    device: str | None = field(default=None, metadata=_PASSING)
    dtype: str | None = field(default=None, metadata=_PASSING)
    trust_remote_code: bool = field(default=False, metadata=_PASSING)
    strict: bool = field(default=False, metadata=_PASSING)
    engine: str = field(default="local", metadata=_PASSING)
    address: str | None = field(default=None, metadata=_PASSING)
    actors: int | None = field(default=None, metadata=_PASSING)
    progress: bool | Progress = field(default=True, metadata=_PASSING)

    def __post_init__(self) -> None:
        """Check the options against each other, and read the calibration."""
        # polars takes longer than a command line should before it answers.
        from fairspan.embedding.shards import VECTORS

        choices = {"side": get_args(Side), "storage": VECTORS, "engine": ENGINES}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise DesignError(f"{name} is {' or '.join(allowed)}, got {getattr(self, name)!r}.")
        for name in ("rows_per_shard", "max_seq_length", "batch_tokens", "actors"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        _ = self.part_rule
        for name in ("address", "actors"):
            if self.engine != "ray" and getattr(self, name) is not None:
                raise DesignError(f"{name} is for engine=ray.")
        if self.calibration is not None:
            self.refuse_changing(calibration := as_calibration(self.calibration))
            object.__setattr__(self, "calibration", calibration)
        if self.engine == "ray" and self.device not in (None, "cpu", "cuda"):
            raise DesignError("device is cpu or cuda with engine=ray: set how many with actors.")
        if not isinstance(self.device, str | None) or "," in (self.device or ""):
            raise DesignError(
                f"device is a single one with engine=local, got {self.device!r}: for several GPUs "
                "set engine=ray, and how many with actors."
            )
        _ = self.loading
        if self.name is not None:
            find_model(self.name)
        elif self.engine == "ray":
            raise DesignError("engine=ray needs a model given by its name or folder.")

    @property
    def name(self) -> str | None:
        """Of the model; None for one that is loaded already."""
        return self.model or DEFAULT_MODEL if isinstance(self.model, str | None) else None

    @property
    def part_rule(self) -> PartRule | None:
        """How documents are cut into parts; None if each has one vector."""
        if self.vectors is None and self.tokens_per_vector is None:
            return None
        from fairspan.encoding.parts import PartRule

        return PartRule(self.vectors, self.tokens_per_vector)

    @property
    def loading(self) -> Loading:
        return Loading(None, self.device, self.dtype, self.trust_remote_code)

    def refuse_changing(self, *calibrations: Calibration) -> None:
        """Raise if only longer texts are asked for, and the model changes others too, or none."""
        on_side = [calibration.on(self.side) for calibration in calibrations]
        is_long = [
            calibration.reads and calibration.reads_what_fits_plainly for calibration in on_side
        ]
        if self.only_longer_than_window and not (is_long and all(is_long)):
            raise DesignError(
                "only_longer_than_window needs short_texts=leave, as in fair+short_texts=leave: "
                "other calibrations also change the vectors of texts that fit into the window and "
                "have at most 512 tokens, and the plain model changes none."
            )

    def of_folder(self) -> dict[str, Any]:
        """The options that a folder belongs to, as its manifest keeps them."""
        names = [option.name for option in fields(self) if option.metadata != _PASSING]
        kept = {name: getattr(self, name) for name in names}
        if isinstance(self.calibration, Calibration):
            kept["calibration"] = self.calibration.to_dict()
        return kept

    def for_workers(self, device: str) -> EmbedOptions:
        """The same for another process, possibly on another machine, which is given its rows."""
        model = self.name
        if model is not None and Path(model).exists():
            model = str(Path(model).absolute())
        out = Path(self.out).absolute()
        return replace(self, model=model, input="", out=out, device=device, progress=False)
