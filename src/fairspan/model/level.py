"""`Level`: the last module of a model with level vectors, and how its direction is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from torch import Tensor

from fairspan.calibration.level import LEAST, NO_REST, CommonDirection, fit_level
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.probing import side_of

LANGUAGES = ("en", "de", "it", "ko", "zh", "hi")
"""Languages of the embedded sample, which its texts are taken from in turn."""
SHORT = 128
"""The most tokens of a text that are read to find a common direction."""
# Fixed, so that the same weights always give the same bits.
_BATCH = 16
_SMALLEST = 1e-30
_WEIGHTS = "model.safetensors"


class Level(Module):  # type: ignore[misc]
    """Gives documents' vectors the same share of a model's common direction; queries pass.

    Vectors keep their length and dtype. It computes in float32, or in float64 for such vectors, and
    its buffers stay in float32 when a model is cast. sentence-transformers applies `truncate_dim`
    afterwards: shares of the truncated direction are then only about equal.

    The direction belongs to the weights it was found with. After training, or with another adapter,
    find it again: `fairspan.calibrate(model, level=False)`, then `level=True`.
    """

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"

    direction: Tensor
    share: Tensor

    def __init__(self, common: CommonDirection) -> None:
        super().__init__()
        self.register_buffer("direction", torch.tensor(common.direction))
        self.register_buffer("share", torch.tensor(common.share))

    @property
    def common(self) -> CommonDirection:
        return CommonDirection(self.direction.cpu().numpy(), float(self.share))

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features with a level `sentence_embedding`, [N, d], if they are of documents."""
        if side_of(features) == "document":
            features["sentence_embedding"] = self.level(features["sentence_embedding"])
        return features

    def level(self, vectors: Tensor) -> Tensor:
        """[N, d]: what `CommonDirection.level` gives."""
        dtype = torch.promote_types(vectors.dtype, torch.float32)
        v = vectors.to(dtype)
        mu = self.direction.to(dtype)
        b = self.share.to(dtype)
        # No matrix product: autocast and TF32 would reduce its precision.
        rest = v - (v * mu).sum(dim=-1, keepdim=True) * mu
        rest_length = torch.linalg.vector_norm(rest, dim=-1, keepdim=True)
        length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        unit = rest / rest_length.clamp(min=_SMALLEST)
        leveled = length * (b * mu + (1 - b * b).sqrt() * unit)
        return torch.where(rest_length > NO_REST * length, leveled, v).to(vectors.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the buffers, but keep their dtype: half precision would change every share."""
        buffers = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in buffers.items():
            moved = self._buffers[name]
            if buffer is not None and moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        self.save_config(output_path)
        self.common.save(Path(output_path, _WEIGHTS))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        """Read what `save` wrote, from safetensors only."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        options = {name: kwargs[name] for name in names if name in kwargs}
        file = cls.load_file_path(model_name_or_path, _WEIGHTS, subfolder=subfolder, **options)
        if file is None:
            raise UnsupportedModel(
                f"{model_name_or_path} has no {subfolder}/{_WEIGHTS}, which modules.json names: "
                "save the model again."
            )
        return cls(CommonDirection.load(file))


def level_of(model: SentenceTransformer) -> CommonDirection | None:
    """The common direction of a model with level vectors; None for other models."""
    *_, last = model.children()
    return last.common if isinstance(last, Level) else None


def remove_level(model: SentenceTransformer) -> None:
    """Take the last module out of a model if it is a `Level`."""
    *_, (name, last) = model.named_children()
    if isinstance(last, Level):
        delattr(model, name)


def add_level(model: SentenceTransformer, common: CommonDirection) -> None:
    """Make the vectors of a model level, as its last step."""
    with model.truncate_embeddings(None):
        dimension = model.get_embedding_dimension()
    if dimension not in (None, len(common.direction)):
        raise DesignError(
            f"the model's vectors have {dimension} dimensions, and level was given a common "
            f"direction of {len(common.direction)}."
        )
    model.add_module(str(len(model)), Level(common).to(model.device))


def find_direction(
    plain: SentenceTransformer, prompt: str, texts: Sequence[str] | None = None
) -> CommonDirection:
    """The direction that a plain model's vectors of general texts have in common.

    By default these are the paragraphs of the embedded sample. The same weights, dtype and versions
    give the same bits on one machine.
    """
    if texts is None:
        texts = general_texts()
    with plain.truncate_embeddings(None):
        vectors = plain.encode_document(
            list(texts),
            prompt=prompt,
            batch_size=_BATCH,
            show_progress_bar=False,
            convert_to_tensor=True,
        )
    return fit_level(vectors.double().cpu().numpy())


def require_texts(texts: Any) -> list[str]:
    """A list of general texts that a direction can be found from."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise DesignError(
            f"level must be True, False, a list of general texts or a CommonDirection, got "
            f"{texts!r:.80}."
        )
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str) or not text.strip():
            raise DesignError(f"text {number} of level must not be blank, got {text!r:.80}.")
    if len(texts) < LEAST:
        raise DesignError(
            f"level takes at least {LEAST} general short texts, got {len(texts)}: about 50 are "
            "enough, and True stands for those that come with fairspan."
        )
    return list(texts)


def general_texts() -> list[str]:
    """The paragraphs of the embedded sample, each in one language; equally many per language."""
    folder = files("fairspan").joinpath("corpus", "data", "sample")
    lines = [folder.joinpath(f"{name}.jsonl").read_text("utf-8").splitlines() for name in LANGUAGES]
    count = min(map(len, lines))
    return [json.loads(lines[number % len(lines)][number])["text"] for number in range(count)]
