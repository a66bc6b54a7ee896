"""`CalibratedTransformer`: the module of a SentenceTransformer whose attention is calibrated."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor

from fairspan.attention.layers import count_layers, evaluating, probe_input, route_attention, unsupported
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.calibration.temperature import Side
from fairspan.errors import LoadError, SegmentError, UnsupportedModel
from fairspan.model.plans import make_plan
from fairspan.model.pooling import PoolingSite, pooling_of
from fairspan.model.segments import SegmentedText, segment_of_tokens

# Features of fairspan's own: the side a batch is on, and the segment each token belongs to.
SIDE, SEGMENTS = "fairspan_side", "fairspan_segments"
TOKENS = "token_embeddings"

# Entries of a module's configuration that are handed to transformers, under their new and old names.
_HANDED_ON = {"model_kwargs", "processor_kwargs", "config_kwargs", "model_args", "tokenizer_args", "config_args"}

# Saved with the model, whose own card does not know how a calibrated model is loaded.
_NOTE = """# A calibrated model

The attention of this model is calibrated by fairspan. Install fairspan, then load it with either of

    fairspan.load("this folder")
    SentenceTransformer("this folder", trust_remote_code=True)

Without fairspan it does not load. Its calibration:

{calibration}
"""


class CalibratedTransformer(Transformer):
    """A `Transformer` module that sends a plan of its calibration along with every call."""

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"

    calibration: Calibration
    depth: int
    path: str | None
    """What computed the baskets of the last call: "triton" kernels, plain "torch", or None."""
    _pooling: tuple[PoolingSite]

    def __init__(
        self, model_name_or_path: str, *, calibration: Calibration | str | Mapping[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(model_name_or_path, **kwargs)
        self.calibration = as_calibration(calibration)

    def on_model_ready(self, model: SentenceTransformer) -> None:
        """Route the attention and prove on one short text that every promised layer is calibrated."""
        super().on_model_ready(model)
        refuse_exported(self)
        # A tuple keeps the pooling module from being registered as a part of this one.
        self._pooling = (pooling_of(model, self),)
        self.calibration.rows_for(self.site.pooling)
        self.depth = 0
        self.path = None
        if not self.calibration.acts:
            return
        self.can_flatten_inputs = False
        route_attention(self.model)
        self.depth = count_layers(self.model)
        self.calibration.layer_numbers(self.depth)
        self._prove()

    @property
    def site(self) -> PoolingSite:
        """How this module's tokens become one vector."""
        return self._pooling[0]

    def _prove(self) -> None:
        input_ids = probe_input(self.model)
        for side in ("query", "document"):
            features = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids), SIDE: side}
            with evaluating(self), torch.inference_mode():
                tokens = self(features)[TOKENS]
            if bool(tokens.isnan().any()):
                raise unsupported(self.model, "turns a short text into NaN once calibrated")

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        processing_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        segmented = any(isinstance(text, SegmentedText) for text in inputs)
        if segmented:
            processing_kwargs = self._with_offsets(processing_kwargs)
        kwargs |= {"prompt": prompt, "processing_kwargs": processing_kwargs}
        features: dict[str, Any] = super().preprocess(inputs, **kwargs)
        if not features:
            return features
        features[SIDE] = "query" if kwargs.get("task") == "query" else "document"
        if segmented:
            offsets = features.pop("offset_mapping")
            features[SEGMENTS] = segment_of_tokens(inputs, offsets, features["attention_mask"], prompt)
        return features

    def _with_offsets(self, processing_kwargs: dict[str, Any] | None) -> dict[str, Any]:
        if "message" in self.modality_config or self.tokenizer is None or not self.tokenizer.is_fast:
            raise SegmentError(
                "segments need a tokenizer that maps tokens back to characters, without a chat template in between."
            )
        given = dict(processing_kwargs or {})
        return {**given, "text": {**given.get("text", {}), "return_offsets_mapping": True}}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        inputs = {name: value for name, value in features.items() if name not in (SIDE, SEGMENTS)}
        # A Router does not always hand the task on to `preprocess`, but leaves it among the features.
        side: Side = "query" if features.get("task") == "query" else features.get(SIDE, "document")
        if not self.calibration.acts_on(side) or "input_ids" not in inputs:
            features.update(super().forward(inputs, **kwargs))
            return features

        plan = self._plan(inputs, side, features.get(SEGMENTS), only_pooled=self._reads_only_pooled())
        features.update(super().forward(dict(inputs), **{PLAN_ARGUMENT: plan}, **kwargs))
        promised = sorted(plan.layers)
        if plan.passed != self.depth or plan.calibrated != promised:
            raise unsupported(
                self.model,
                f"was promised a calibration of layers {promised} of {self.depth}, and went through {plan.passed} "
                f"layers and calibrated {plan.calibrated}",
            )
        self.path = plan.path
        if not plan.layers or plan.rule.only_pooled_in is None:
            return features

        def all_tokens() -> Tensor:
            complete = {PLAN_ARGUMENT: self._plan(inputs, side, features.get(SEGMENTS), only_pooled=False)}
            tokens: Tensor = super(CalibratedTransformer, self).forward(dict(inputs), **complete, **kwargs)[TOKENS]
            return tokens

        text = torch.arange(plan.rule.pooled.shape[0], device=plan.rule.pooled.device)
        features[TOKENS] = features[TOKENS][text, plan.rule.pooled][:, None]
        return PooledFeatures(features, all_tokens)

    def _plan(self, inputs: dict[str, Any], side: Side, segment: Tensor | None, *, only_pooled: bool) -> Plan:
        return make_plan(self.calibration, self.site, self.depth, inputs, side, segment, only_pooled=only_pooled)

    def _reads_only_pooled(self) -> bool:
        return (
            self.site.follows_directly
            and not self.site.skips_prompt
            and self.module_output_name == TOKENS
            and not self.training
            and not getattr(self.model.config, "output_hidden_states", False)
            and not torch.compiler.is_compiling()
        )

    def get_config_dict(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config_dict()
        return {**config, "calibration": self.calibration.to_dict()}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        if not safe_serialization:
            raise LoadError("a calibrated model is saved as safetensors only: keep safe_serialization=True.")
        if type(self.model).__module__.startswith("transformers_modules."):
            raise LoadError(
                f"{type(self.model).__name__} is code from a model folder, which a calibrated model never runs when "
                "it is loaded: save a checkpoint that transformers implements itself."
            )
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        note = _NOTE.format(calibration=self.calibration.to_json())
        Path(output_path, "CALIBRATED.md").write_text(note, encoding="utf-8")

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> CalibratedTransformer:
        """Load the module. Code in the folder is never run and pickled weights are never read, trusted or not."""
        kwargs["trust_remote_code"] = False
        for part in ("model_kwargs", "processor_kwargs", "config_kwargs"):
            kwargs[part] = {**(kwargs.get(part) or {}), "trust_remote_code": False}
        kwargs["model_kwargs"]["use_safetensors"] = True
        loaded: CalibratedTransformer = super().load(model_name_or_path, **kwargs)
        return loaded

    @classmethod
    def load_config(cls, model_name_or_path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The saved configuration, without arguments for transformers: those could ask for foreign kernels."""
        config: dict[str, Any] = super().load_config(model_name_or_path, *args, **kwargs)
        if not isinstance(config.get("calibration"), Mapping):
            raise LoadError(
                f"{model_name_or_path}: {cls.config_file_name} holds no calibration, although modules.json names a "
                "calibrated module: save the model again."
            )
        return {name: value for name, value in config.items() if name not in _HANDED_ON}

    def __repr__(self) -> str:
        return f"Calibrated{super().__repr__()}"


class PooledFeatures(dict[str, Any]):
    """Features whose token embeddings hold one token per text, the pooled one, until somebody asks for all of them.

    The pooling module reads the one row that it needs. Whoever reads `token_embeddings` after it (an `encode` for
    token embeddings, a module further on) gets those of all tokens, computed then.
    """

    def __init__(self, features: dict[str, Any], all_tokens: Callable[[], Tensor]) -> None:
        super().__init__(features)
        self._all_tokens: Callable[[], Tensor] | None = all_tokens

    def _complete(self) -> None:
        if self._all_tokens is not None and "sentence_embedding" in self:
            compute, self._all_tokens = self._all_tokens, None
            self[TOKENS] = compute()

    def __getitem__(self, key: str) -> Any:
        if key == TOKENS:
            self._complete()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        # With an iterator of its own, dict(...) and {**...} go through __getitem__ instead of copying the table.
        self._complete()
        return super().__iter__()

    def pop(self, key: str, *default: Any) -> Any:
        self._complete()
        return super().pop(key, *default)

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return self.copy() | other

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self._complete()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self._complete()
        return super().values()


def refuse_exported(module: Transformer) -> None:
    """Raise if the module runs on a backend other than torch."""
    if module.backend != "torch":
        raise UnsupportedModel(
            f"the {module.backend} backend runs an exported graph without an attention function to calibrate: "
            "load the model with backend='torch'."
        )


def calibrated_transformers(model: SentenceTransformer) -> Iterator[CalibratedTransformer]:
    """Every calibrated transformer of a model, those inside a Router included."""
    return (module for module in model.modules() if isinstance(module, CalibratedTransformer))
