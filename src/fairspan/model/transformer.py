"""`CalibratedTransformer`: the module of a SentenceTransformer whose attention is calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor

from fairspan.attention.layers import (
    count_layers,
    evaluating,
    probe,
    probe_input,
    route_attention,
    unsupported,
)
from fairspan.attention.plan import Plan
from fairspan.attention.positions import find_positions, position_limit, recur_in
from fairspan.attention.tiles import lay_tiles, reading
from fairspan.calibration.calibration import Calibration, Side, as_calibration
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.plans import make_plan
from fairspan.model.pooling import TOKENS, PooledFeatures, PoolingSite, pooling_of
from fairspan.model.saving import write_json
from fairspan.model.segments import SegmentedText, segment_of_tokens
from fairspan.model.source import model_file, read_json
from fairspan.model.tiling import Tiling, forward_under, special_tokens_around
from fairspan.model.window import ANY_LENGTH

# Features of fairspan's own: the side a batch is on, and the segment each token belongs to.
SIDE, SEGMENTS = "fairspan_side", "fairspan_segments"

# Tokens of a batch in tiles, padding included, that are read together.
AT_A_TIME = 2**15

# Under which names a model keeps its prompt for each side, as encode_document and encode_query look for them.
_PROMPTS = {"document": ("document", "passage", "corpus"), "query": ("query",)}

# Entries of a module's configuration that are handed to transformers, under their new and old names.
_HANDED_ON = {
    "model_kwargs",
    "processor_kwargs",
    "config_kwargs",
    "model_args",
    "tokenizer_args",
    "config_args",
}


class CalibratedTransformer(Transformer):
    """A `Transformer` module that sends a plan of its calibration along with every call."""

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"
    # At the root of a folder the checkpoint would be found, and used without calibration, by whatever does not read
    # modules.json.
    save_in_root = False

    calibration: Calibration
    depth: int
    max_seq_length: int | None
    path: str | None
    """What computed the baskets or tiles of the last call: "triton" kernels, plain "torch", or None."""
    tiling: Tiling | None
    untiled_length: int | None
    """What the plain model reads, for a side without tiles, since `max_seq_length` may have been raised for them."""

    def __init__(
        self,
        model_name_or_path: str,
        *,
        calibration: Calibration | str | Mapping[str, Any],
        untiled_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model_name_or_path, **kwargs)
        self.calibration = as_calibration(calibration)
        self.untiled_length = untiled_length

    def on_model_ready(self, model: SentenceTransformer | MultiVectorEncoder) -> None:
        """Route the attention and prove on short texts that every promised layer is calibrated."""
        super().on_model_ready(model)
        refuse_exported(self)
        # A tuple keeps the pooling module from being registered as a part of this one.
        self._pooling = (pooling_of(model, self),)
        self.depth = 0
        self.path = None
        self.tiling = None
        self._keep_untiled_length()
        if not self.calibration.acts:
            return
        if self.site.module is None:
            if self.calibration.strength > 0 or not self.calibration.tiles_on("document"):
                raise DesignError(
                    "a multi-vector encoder pools no row that baskets could act on, and only its documents can be "
                    "calibrated, in tiles: use 'long' or 'tiles'."
                )
            # Queries are short, and expanded to a width of their own: they are read as the plain model reads them.
            self.calibration = self.calibration.on("document").but(sides="document")
        self.can_flatten_inputs = False
        route_attention(self.model)
        self.depth = count_layers(self.model)
        tiled = self.calibration.tile_size is not None
        if self.calibration.strength > 0 and tiled and self.site.pooling == "mean":
            raise DesignError(
                "this model pools over all tokens, whose attention cannot be in tiles and in baskets: use strength=0."
            )
        if tiled:
            self.tiling = self._find_tiling()
        self._prove()

    def _keep_untiled_length(self) -> None:
        """Remember what the plain model reads, and read any length in tiles, or return to it without them."""
        known = getattr(self, "untiled_length", None)
        if self.calibration.tile_size is None:
            self.untiled_length = None
            if known is not None:
                self.max_seq_length = min(self.max_seq_length, known)
        elif known is None:
            limits = (self.max_seq_length, position_limit(self.model))
            known = min((limit for limit in limits if limit is not None), default=ANY_LENGTH)
            self.untiled_length, self.max_seq_length = (
                known if known < ANY_LENGTH else None,
                ANY_LENGTH,
            )

    @property
    def site(self) -> PoolingSite:
        """How this module's tokens become one vector."""
        return self._pooling[0]

    def _find_tiling(self) -> Tiling:
        """What tiles need to know, and the proof that positions recur: two equal tiles are read alike."""
        if "message" in self.modality_config or self.tokenizer is None:
            raise unsupported(
                self.model,
                "wraps texts in a chat template, whose tokens tiles cannot tell from the text",
            )
        window = min(filter(None, (self.untiled_length, self.document_length)), default=None)
        tiling = Tiling(find_positions(self.model), *special_tokens_around(self.tokenizer), window)
        lead, trail = tiling.shared(self.site, None)
        tiling.size(self.calibration, lead + trail)  # raises if there is no room for it
        vocabulary = self.model.get_input_embeddings().num_embeddings
        ids = (
            torch.tensor([[*[2] * lead, 3, 5, 3, 5, *[7] * trail]], device=self.model.device)
            % vocabulary
        )
        tiles = lay_tiles(torch.ones_like(ids, dtype=torch.bool), 2, lead=lead, trail=trail)
        plan = Plan(tiles=tiles, causal=tiling.positions.causal)
        with reading(tiles):
            states = probe(self.model, plan, ids, **tiling.position_ids(tiles))[0]
        if not recur_in(states, lead, 2):
            raise unsupported(self.model, "has positions that cannot restart in every tile")
        return tiling

    def _prove(self) -> None:
        texts = [{"input_ids": probe_input(self.model)}]
        if self.tiling is not None:
            lead, trail = self.tiling.shared(self.site, None)
            two_tiles = torch.tensor(
                [[0] * (lead + 1) + [1] * (trail + 1)], device=self.model.device
            )
            texts.append({"input_ids": two_tiles + 2, SEGMENTS: two_tiles})
        for side, text in product(("query", "document"), texts):
            features = {**text, "attention_mask": torch.ones_like(text["input_ids"]), SIDE: side}
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
            if (
                "message" in self.modality_config
                or self.tokenizer is None
                or not self.tokenizer.is_fast
            ):
                raise DesignError(
                    "segments need a tokenizer that maps tokens back to characters, without a chat template in "
                    "between."
                )
            processing_kwargs = _with_text(processing_kwargs, return_offsets_mapping=True)
        side: Side = "query" if kwargs.get("task") == "query" else "document"
        given = self.processing_kwargs.get("text", {}) | (processing_kwargs or {}).get("text", {})
        limit = self._own_limit(side, kwargs | given)
        if limit is not None:
            processing_kwargs = _with_text(processing_kwargs, max_length=limit)
        kwargs |= {"prompt": prompt, "processing_kwargs": processing_kwargs}
        features: dict[str, Any] = super().preprocess(inputs, **kwargs)
        if not features:
            return features
        features[SIDE] = side
        if segmented:
            offsets = features.pop("offset_mapping")
            features[SEGMENTS] = segment_of_tokens(
                inputs, offsets, features["attention_mask"], prompt
            )
        return features

    def _own_limit(self, side: Side, options: Mapping[str, Any]) -> int | None:
        """The most tokens of a text, where sentence_transformers would take another number for it."""
        task, asked, untiled = (
            str(options.get("task")),
            options.get("max_length"),
            self.untiled_length,
        )
        if self.calibration.tiles_on(side):
            raised = asked is None and task == "document" and self.document_length is not None
            return self.max_seq_length if raised else None
        asked = asked or {"query": self.query_length, "document": self.document_length}.get(task)
        fixed = task == "query" and (self.query_expansion or {}).get("strategy") == "fixed"
        if (
            untiled is None
            or fixed
            or untiled >= min(asked or ANY_LENGTH, self.max_seq_length or ANY_LENGTH)
        ):
            return None
        return untiled

    def forward(self, features: dict[str, Any], **kwargs: Any) -> MutableMapping[str, Any]:
        inputs = {name: value for name, value in features.items() if name not in (SIDE, SEGMENTS)}
        # A Router does not always hand the task on to `preprocess`, but leaves it among the features.
        side: Side = "query" if features.get("task") == "query" else features.get(SIDE, "document")
        if not self.calibration.acts_on(side) or "input_ids" not in inputs:
            features.update(super().forward(inputs, **kwargs))
            return features

        segment = features.get(SEGMENTS)
        only_pooled = self._reads_only_pooled()
        plan = self._plan(inputs, side, segment, only_pooled=only_pooled)
        if (
            plan.tiles is None and not plan.layers and plan.inverse_temperature == 1.0
        ):  # as the plain model
            features.update(super().forward(inputs, **kwargs))
            return features

        def all_tokens() -> Tensor:
            complete = self._plan(inputs, side, segment, only_pooled=False)
            tokens: Tensor = self._run(inputs, complete, **kwargs)[TOKENS]
            return tokens

        pool = self.site.module
        every = pool is None and not self.training and not torch.compiler.is_compiling()
        masked = (only_pooled or every) and "attention_mask" in inputs
        if (
            plan.tiles is not None
            and masked
            and len(parts := few_at_a_time(inputs["attention_mask"])) > 1
        ):
            found = [self(_taken(features, part), **kwargs) for part in parts]
            if pool is None:
                features[TOKENS] = _put_back(
                    inputs["attention_mask"], parts, [one[TOKENS] for one in found]
                )
                return features
            features[TOKENS] = torch.cat([pool(one)["sentence_embedding"] for one in found])[
                :, None
            ]
            return PooledFeatures(features, all_tokens)
        features.update(self._run(inputs, plan, **kwargs))
        if plan.only_pooled_in is None:
            return features
        pooled = plan.rule.pooled if plan.layers else None
        if pooled is None:
            pooled = self.site.pooled_rows(
                inputs["attention_mask"].bool(), inputs.get("prompt_length")
            )
        text = torch.arange(pooled.shape[0], device=pooled.device)
        features[TOKENS] = features[TOKENS][text, pooled][:, None]
        return PooledFeatures(features, all_tokens)

    def _run(self, inputs: dict[str, Any], plan: Plan, **kwargs: Any) -> dict[str, Any]:
        output = forward_under(plan, self, inputs, self.depth, self.tiling, **kwargs)
        self.path = plan.path
        return output

    def _plan(
        self, inputs: dict[str, Any], side: Side, segment: Tensor | None, *, only_pooled: bool
    ) -> Plan:
        how = (self.calibration, self.site, self.depth)
        return make_plan(*how, inputs, side, segment, only_pooled=only_pooled, tiling=self.tiling)

    def _reads_only_pooled(self) -> bool:
        return (
            self.site.module is not None
            and self.site.follows_directly
            and not self.site.skips_prompt
            and isinstance(self.site.module.pooling_mode, str)
            and self.module_output_name == TOKENS
            and not self.training
            and not getattr(self.model.config, "output_hidden_states", False)
            and not torch.compiler.is_compiling()
        )

    def get_config_dict(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config_dict()
        if self.tiling is not None:
            # A loaded model would read no further than its positions otherwise.
            config |= {"max_seq_length": self.max_seq_length, "untiled_length": self.untiled_length}
        return {**config, "calibration": self.calibration.to_dict()}

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        if not safe_serialization:
            raise UnsupportedModel(
                "a calibrated model is saved as safetensors only: keep safe_serialization=True."
            )
        if type(self.model).__module__.startswith("transformers_modules."):
            raise UnsupportedModel(
                f"{type(self.model).__name__} is code from a model folder, which a calibrated model never runs when "
                "it is loaded: save a checkpoint that transformers implements itself."
            )
        folder = Path(output_path).resolve().parent
        if (folder / "config_sentence_transformers.json").is_file() and (
            folder / "config.json"
        ).is_file():
            raise UnsupportedModel(
                f"{folder} holds a checkpoint at its root, which would still be loaded without calibration: "
                "save the calibrated model to another folder."
            )
        for adapter in getattr(self.model, "peft_config", {}).values():
            # The root of a saved calibrated model holds no checkpoint that an adapter could be loaded onto.
            parts = Path(adapter.base_model_name_or_path or "").glob(
                f"*_{type(self).__name__}/config.json"
            )
            adapter.base_model_name_or_path = next(
                (str(p.parent) for p in parts), adapter.base_model_name_or_path
            )
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        # Programs that look here and compute attention themselves go by this name, and would use the plain model.
        if (file := Path(output_path, "config.json")).is_file():
            write_json(file, read_json(file) | {"architectures": [type(self).__name__]})

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> CalibratedTransformer:
        """Load the module. Code in the folder is never run and pickled weights are never read, trusted or not."""
        kwargs["trust_remote_code"] = False
        for part in ("model_kwargs", "processor_kwargs", "config_kwargs"):
            kwargs[part] = {**(kwargs.get(part) or {}), "trust_remote_code": False}
        kwargs["model_kwargs"]["use_safetensors"] = True
        part = kwargs.get("subfolder") or "."
        if adapter := model_file(model_name_or_path, f"{part}/adapter_config.json", **kwargs):
            if (
                read_json(adapter).get("megatron_config")
                or Path(model_name_or_path, part, "adapter_model.bin").exists()
            ):
                raise UnsupportedModel(
                    f"{adapter} asks for foreign code or pickles: save a plain safetensors adapter."
                )
            if Path(
                model_name_or_path
            ).is_dir():  # where transformers finds an adapter at the root alone
                model_name_or_path, kwargs["subfolder"] = str(adapter.parent), ""
        loaded: CalibratedTransformer = super().load(model_name_or_path, **kwargs)
        return loaded

    @classmethod
    def load_config(cls, model_name_or_path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The saved configuration, without arguments for transformers: those could ask for foreign kernels."""
        config: dict[str, Any] = super().load_config(model_name_or_path, *args, **kwargs)
        if not isinstance(config.get("calibration"), Mapping):
            raise UnsupportedModel(
                f"{model_name_or_path}: {cls.config_file_name} holds no calibration, although modules.json names a "
                "calibrated module: save the model again."
            )
        return {name: value for name, value in config.items() if name not in _HANDED_ON}

    def __repr__(self) -> str:
        return f"Calibrated{super().__repr__()}"


def few_at_a_time(mask: Tensor) -> list[slice]:
    """Neighbouring texts of a batch, given [N, L], that are read together, so that memory is bounded."""
    if len(mask) * mask.shape[1] <= AT_A_TIME:
        return [slice(None)]
    lengths, parts, start = mask.sum(dim=1).tolist(), [], 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or max(lengths[start : stop + 1]) * (stop + 1 - start) > AT_A_TIME:
            parts.append(slice(start, stop))
            start = stop
    return parts


def _taken(features: Mapping[str, Any], part: slice) -> dict[str, Any]:
    """Some texts of a batch, without columns that are padding in all of them."""
    mask = features["attention_mask"]
    columns = mask[part].any(dim=0)
    each = (
        name
        for name, value in features.items()
        if isinstance(value, Tensor) and value.shape == mask.shape
    )
    return {**features, **{name: features[name][part][:, columns] for name in each}}


def _put_back(mask: Tensor, parts: list[slice], tokens: list[Tensor]) -> Tensor:
    """[N, L, D], the tokens of a whole batch, given those of its parts that `_taken` took."""
    whole = tokens[0].new_zeros(*mask.shape, tokens[0].shape[-1])
    for part, own in zip(parts, tokens, strict=True):
        whole[part][:, mask[part].any(dim=0)] = own
    return whole


def _with_text(processing_kwargs: dict[str, Any] | None, **options: Any) -> dict[str, Any]:
    """The same with further options of the tokenizer."""
    given = dict(processing_kwargs or {})
    return {**given, "text": {**given.get("text", {}), **options}}


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


def prompt_of(model: SentenceTransformer, side: Side) -> str:
    """What `encode_document` or `encode_query` puts before a text."""
    prompts: dict[str, str] = model.prompts or {}
    name = next((name for name in _PROMPTS[side] if name in prompts), model.default_prompt_name)
    return prompts.get(name or "") or ""
