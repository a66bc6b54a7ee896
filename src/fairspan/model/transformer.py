"""`CalibratedTransformer`: the module of a SentenceTransformer whose attention is calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer

from fairspan.attention.layers import attention_modules, layers_around, route_attention
from fairspan.attention.pieces import route_layers
from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.calibration.spelling import as_calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.checkpoint import SafeTransformer
from fairspan.model.even import set_even
from fairspan.model.fitting import fitting
from fairspan.model.pooling import PROMPT, PoolingSite, pooling_of, prompt_length
from fairspan.model.preprocessing import add_features, processing_options
from fairspan.model.probing import find_tiling, prove, side_of
from fairspan.model.reading import join, parts_of, read, spans_in_tiles
from fairspan.model.splitting import SPANS, part_of
from fairspan.model.tiling import Tiling
from fairspan.model.window import ANY_LENGTH, set_window

# The names of a model's prompt for each side, as encode_document and encode_query look for them.
_PROMPTS = {"document": ("document", "passage", "corpus"), "query": ("query",)}


class CalibratedTransformer(SafeTransformer):
    """A `Transformer` module that sends a plan of its calibration along with every call.

    Attributes:
        depth: the number of attention layers; 0 if the calibration does nothing.
        path: what computed the baskets or tiles of the last call: "triton", "torch" or None.
        tiling: what tiles need to know about the model; None without tiles.
        untiled_length: how many tokens the plain model reads; see `fairspan.model.window`.
    """

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"

    calibration: Calibration
    path: str | None
    tiling: Tiling | None

    def __init__(
        self,
        model_name_or_path: str,
        *,
        calibration: Calibration | str | Mapping[str, Any],
        untiled_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Load the module; `on_model_ready` calibrates it."""
        super().__init__(model_name_or_path, **kwargs)
        self.calibration = as_calibration(calibration)
        self.untiled_length = untiled_length

    def on_model_ready(self, model: SentenceTransformer) -> None:
        """Route the attention, and check on short texts that every layer is calibrated."""
        super().on_model_ready(model)
        refuse_exported(self)
        # A tuple keeps the module from being registered as a part of this one.
        self._pooling = (pooling_of(model, self),)
        self.depth = 0
        self.path = None
        self.tiling = None
        set_window(self)
        if self.calibration.acts:
            self.calibration = fitting(self.calibration, self.site)
            self.can_flatten_inputs = False
        is_even = self.calibration.pooling == "even"
        set_even(self.site.module, self.calibration.ridge if is_even else None, self.tokenizer)
        if not self.calibration.attends:
            return
        route_attention(self.model)
        attention = attention_modules(self.model)
        self.depth = len(attention)
        if self.calibration.tile_size is not None:
            route_layers(self.model, layers_around(self.model, attention))
            self.tiling = find_tiling(self)
        prove(self)

    @property
    def treatment(self) -> Treatment:
        """The calibration, named after a preset if that means the same in this model."""
        for name in (*PRESETS, f"tiles-{self.calibration.tile_size}"):
            with suppress(DesignError):
                if fitting(Calibration.preset(name), self.site) == self.calibration:
                    return Treatment(name, self.calibration)
        treatment = as_treatment(self.calibration)
        with suppress(DesignError):
            automatic = self.calibration.but(pooling="auto")
            if fitting(automatic, self.site) == self.calibration:
                name = min(treatment.name, as_treatment(automatic).name, key=len)
                return Treatment(name, self.calibration)
        return treatment

    @property
    def site(self) -> PoolingSite:
        """How this module's tokens become one vector."""
        return self._pooling[0]

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        processing_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The features of a batch, with its side, and the segment of each token if it has any."""
        side: Side = "query" if kwargs.get("task") == "query" else "document"
        options = processing_options(self, inputs, side, processing_kwargs, kwargs)
        kwargs |= {"prompt": prompt, "processing_kwargs": options}
        features: dict[str, Any] = super().preprocess(inputs, **kwargs)
        if features:
            add_features(self, features, inputs, side, prompt)
        return features

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features with `token_embeddings`, [N, L, d]; see `reading.join` for large batches."""
        if PROMPT in features:
            features[PROMPT] = prompt_length(features)
        side = side_of(features)
        features[SPANS] = spans_in_tiles(self, features, side)
        parts = parts_of(self, features)
        if not parts:
            features.update(read(self, features, side, **kwargs))
            return features
        outputs = (read(self, part_of(features, texts), side, **kwargs) for texts in parts)
        return join(self, features, parts, outputs)

    def get_config_dict(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config_dict()
        if self.tiling is not None:
            # A loaded model would read no further than its positions otherwise.
            config |= {"max_seq_length": self.max_seq_length, "untiled_length": self.untiled_length}
        return {**config, "calibration": self.calibration.to_dict()}

    def __repr__(self) -> str:
        config = super().__repr__().replace(f": {ANY_LENGTH},", ": 'any length',")
        return f"Calibrated{config}"


def refuse_exported(module: Transformer) -> None:
    """Raise if the module runs on a backend other than torch."""
    if module.backend != "torch":
        raise UnsupportedModel(
            f"the {module.backend} backend runs an exported graph without an attention function "
            "to calibrate: load the model with backend='torch'."
        )


def calibrated_transformers(model: SentenceTransformer) -> Iterator[CalibratedTransformer]:
    """Every calibrated transformer of a model, those inside a Router included."""
    return (module for module in model.modules() if isinstance(module, CalibratedTransformer))


def prompt_of(model: SentenceTransformer, side: Side) -> str:
    """What `encode_document` or `encode_query` puts before a text."""
    prompts: dict[str, str] = model.prompts or {}
    name = next((name for name in _PROMPTS[side] if name in prompts), model.default_prompt_name)
    return prompts.get(name or "") or ""
