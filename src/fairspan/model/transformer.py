"""`CalibratedTransformer`: the module of a SentenceTransformer whose attention is calibrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn

from fairspan.attention.baskets import is_traced
from fairspan.attention.layers import attention_modules, layers_around, route_attention
from fairspan.attention.pieces import SharedRows, read_in_pieces
from fairspan.attention.plan import Plan
from fairspan.attention.tiles import Tiles
from fairspan.calibration.calibration import (
    PRESETS,
    WIDEST_WINDOW,
    WINDOW,
    Calibration,
    Side,
    as_calibration,
)
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.checkpoint import SafeTransformer
from fairspan.model.even import set_even, takes_mean
from fairspan.model.padding import UNPADDED, is_ragged, pad
from fairspan.model.plans import make_plan, pooled_evenly
from fairspan.model.pooling import (
    EVENLY,
    PROMPT,
    TOKENS,
    PooledFeatures,
    PoolingSite,
    announce,
    pooling_of,
    prompt_length,
)
from fairspan.model.probing import SEGMENTS, SIDE, find_tiling, prove, side_of
from fairspan.model.progress import count_tokens_in_bar, current_bar
from fairspan.model.segments import SegmentedText, segment_of_tokens
from fairspan.model.splitting import few_at_a_time, piece_size, put_back, take
from fairspan.model.tiling import Tiling, count_prompt, forward_under
from fairspan.model.window import ANY_LENGTH, cut_at, set_window

_FEATURES = (SIDE, SEGMENTS, EVENLY)
# The names of a model's prompt for each side, as encode_document and encode_query look for them.
_PROMPTS = {"document": ("document", "passage", "corpus"), "query": ("query",)}


class CalibratedTransformer(SafeTransformer):
    """A `Transformer` module that sends a plan of its calibration along with every call.

    Attributes:
        depth: the number of attention layers; 0 if the calibration does nothing.
        path: what computed the baskets or tiles of the last call: "triton", "torch" or None.
        untiled_length: what the plain model reads; see `fairspan.model.window`.
    """

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"

    calibration: Calibration
    path: str | None
    tiling: Tiling | None
    _layers: tuple[nn.Module, ...]

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
        is_old = isinstance(calibration, Mapping) and calibration.get("format") == 3
        is_wide = untiled_length is None or untiled_length > WIDEST_WINDOW
        if is_old and is_wide and self.calibration.tile_size == WINDOW:
            raise UnsupportedModel(
                f"{model_name_or_path} was saved with tiles as large as its window, which now have "
                f"at most {WIDEST_WINDOW} tokens: calibrate and save the plain model again."
            )

    def on_model_ready(self, model: SentenceTransformer | MultiVectorEncoder) -> None:
        """Route the attention and prove on short texts that every promised layer is calibrated."""
        super().on_model_ready(model)
        refuse_exported(self)
        count_tokens_in_bar(model)
        # Tuples keep modules from being registered as parts of this one.
        self._pooling = (pooling_of(model, self),)
        self._layers = ()
        self.depth = 0
        self.path = None
        self.tiling = None
        set_window(self)
        if self.calibration.acts:
            self.calibration = _fitting(self.calibration, self.site)
            self.can_flatten_inputs = False
        if self.site.module is not None:
            announce(self.site.module)
            is_even = self.calibration.pooling == "even"
            set_even(self.site.module, self.calibration.ridge if is_even else None, self.tokenizer)
        if not (self.calibration.attends_on("query") or self.calibration.attends_on("document")):
            return
        route_attention(self.model)
        attention = attention_modules(self.model)
        self.depth = len(attention)
        self._layers = layers_around(self.model, attention)
        if self.calibration.tile_size is not None:
            self.tiling = find_tiling(self)
        prove(self)

    @property
    def treatment(self) -> Treatment:
        """Its calibration, under the name of a preset that is the same in this model."""
        for name in (*PRESETS, f"tiles-{self.calibration.tile_size}"):
            with suppress(DesignError):
                if _fitting(Calibration.preset(name), self.site) == self.calibration:
                    return Treatment(name, self.calibration)
        treatment = as_treatment(self.calibration)
        with suppress(DesignError):
            before = self.calibration.but(pooling="auto")
            if _fitting(before, self.site) == self.calibration:
                name = min(treatment.name, as_treatment(before).name, key=len)
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
        options: dict[str, Any] = {}
        segmented = any(isinstance(text, SegmentedText) for text in inputs)
        if segmented:
            if not maps_to_characters(self):
                raise DesignError(
                    "segments need a tokenizer that maps tokens back to characters, without a chat "
                    "template in between."
                )
            options["return_offsets_mapping"] = True
        side: Side = "query" if kwargs.get("task") == "query" else "document"
        call_options = dict((processing_kwargs or {}).get("text", {}))
        set_options = kwargs | self.processing_kwargs.get("text", {}) | call_options
        limit = cut_at(self, side, set_options)
        if limit is not None:
            options["max_length"] = limit
        common_options = dict((processing_kwargs or {}).get("common", {}))
        pads = not segmented and self._pads(inputs, side, set_options | common_options)
        if pads:
            options |= UNPADDED["text"]
            common_options |= UNPADDED["common"]
        if options:
            changed = {"text": call_options | options, "common": common_options}
            processing_kwargs = {**(processing_kwargs or {}), **changed}
        kwargs |= {"prompt": prompt, "processing_kwargs": processing_kwargs}
        features: dict[str, Any] = super().preprocess(inputs, **kwargs)
        if not features:
            return features
        if pads:
            features = pad(features, self.tokenizer)
        features[SIDE] = side
        bar = current_bar()
        if bar is not None and "attention_mask" in features:
            bar.begin_batch(inputs, int(features["attention_mask"].sum()))
        if self.tiling is not None and prompt:
            count_prompt(features, self.site, self.tokenizer, prompt)
        if segmented:
            offsets = features.pop("offset_mapping")
            mask = features["attention_mask"]
            features[SEGMENTS] = segment_of_tokens(inputs, offsets, mask, prompt)
        return features

    def _pads(self, inputs: Sequence[Any], side: Side, options: Mapping[str, Any]) -> bool:
        """Whether a batch is padded here: it is ragged, and nothing asks for another padding."""
        is_usual = self.transformer_task == "feature-extraction" and side == "document"
        is_text = "message" not in self.modality_config and self.processor is self.tokenizer
        is_usual = is_usual and self.tokenizer.pad_token_id is not None
        asked = options.keys() & {"padding", "pad_to_multiple_of", "return_tensors"}
        return bool(self.tiling and is_usual and is_text and not asked and is_ragged(inputs))

    def forward(self, features: dict[str, Any], **kwargs: Any) -> MutableMapping[str, Any]:
        """The features with `token_embeddings`, [N, L, d], which are computed when they are asked
        for if the pooling does not need them."""
        if PROMPT in features:
            features[PROMPT] = prompt_length(features)
        inputs = {name: value for name, value in features.items() if name not in _FEATURES}
        side = side_of(features)
        segment = features.get(SEGMENTS)
        acts = self.calibration.reads_on(side) and "input_ids" in inputs

        def plan_of(*, only_pooled: bool) -> Plan:
            how = (self.calibration, self.site, self.depth, inputs, side, segment)
            return make_plan(*how, only_pooled=only_pooled, tiling=self.tiling)

        def evenly(tiles: Tiles | None) -> Tensor | bool:
            window = None if self.tiling is None else self.tiling.window
            return acts and pooled_evenly(self.calibration, side, tiles, window)

        def all_tokens() -> dict[str, Any]:
            plan = plan_of(only_pooled=False)
            output = self._run(inputs, plan, **kwargs)
            return {TOKENS: output[TOKENS], EVENLY: evenly(plan.tiles)}

        parts = self._parts(inputs, segment) if acts else []
        if len(parts) > 1:
            if not self._reads_only_pooled():
                features[EVENLY] = evenly(plan_of(only_pooled=False).tiles)
            return self._read_parts(features, parts, all_tokens, **kwargs)
        plan = plan_of(only_pooled=self._reads_only_pooled()) if acts else Plan()
        has_temperature = (
            isinstance(plan.inverse_temperature, Tensor) or plan.inverse_temperature != 1
        )
        is_plain = plan.tiles is None and not plan.layers and not has_temperature
        run = super().forward if is_plain else partial(self._run, plan=plan)
        features.update(run(inputs, **kwargs))
        # Not before the pass is launched: a GPU would have to wait for it.
        features[EVENLY] = evenly(plan.tiles)
        if plan.only_pooled_in is None:
            return features
        return PooledFeatures(features, features[TOKENS][:, 0], all_tokens)

    def _pooled_rows(self, inputs: dict[str, Any], plan: Plan) -> Tensor:
        """[N], the row of each text that is pooled."""
        rows = plan.rule.pooled if plan.layers else None
        if rows is None:
            valid = inputs["attention_mask"].bool()
            rows = self.site.pooled_rows(valid, inputs.get(PROMPT))
        return rows

    def _read_parts(
        self,
        features: dict[str, Any],
        parts: Sequence[Tensor],
        all_tokens: Callable[[], dict[str, Any]],
        **kwargs: Any,
    ) -> MutableMapping[str, Any]:
        """The features of a batch that is read in parts: their vectors if nothing but the pooling
        reads the tokens, otherwise all tokens."""
        mask = features["attention_mask"]
        # Without columns that are padding in a whole part.
        outputs = (self(take(features, part, mask[part].any(dim=0)), **kwargs) for part in parts)
        pool = self.site.module
        if pool is None or not self._reads_only_pooled():
            tokens = [output[TOKENS] for output in outputs]
            features[TOKENS] = put_back(mask, parts, tokens)
            return features
        vectors = torch.cat([pool(output)["sentence_embedding"] for output in outputs])
        vectors = vectors[torch.cat([*parts]).argsort()]
        return PooledFeatures(features, vectors, all_tokens)

    def _run(self, inputs: dict[str, Any], plan: Plan, **kwargs: Any) -> dict[str, Any]:
        """The features after a pass, in pieces if it is over one long text in tiles.

        Of the tokens only the pooled ones, [N, 1, d], if the plan has no others.
        """
        tiles = plan.tiles
        size = None if tiles is None or is_traced() else piece_size(tiles.valid)
        if tiles is None or size is None or not self._can_stop_in_layers(plan):
            output = self._run_at_once(inputs, plan, **kwargs)
            if plan.only_pooled_in is not None:
                rows = self._pooled_rows(inputs, plan)
                text = torch.arange(len(rows), device=rows.device)
                output[TOKENS] = output[TOKENS][text, rows][:, None]
            return output

        def run_piece(tiles: Tiles, rows: Tensor, shared_rows: SharedRows) -> Tensor:
            piece = replace(plan, tiles=tiles, shared_rows=shared_rows, asked=[])
            taken = take(inputs, slice(None), rows)
            tokens: Tensor = self._run_at_once(taken, piece, **kwargs)[TOKENS]
            return tokens

        last = plan.only_pooled_in
        tokens = read_in_pieces(tiles, size, self._layers, run_piece, only_shared_in=last)
        if last is not None:
            tokens = tokens[:, tiles.shared[0] == self._pooled_rows(inputs, plan)]
        return {**inputs, TOKENS: tokens}

    def _run_at_once(self, inputs: dict[str, Any], plan: Plan, **kwargs: Any) -> dict[str, Any]:
        bar = current_bar()
        if bar is not None:
            share = inputs["input_ids"].numel() / self.depth
            plan.watch = lambda layer: bar.advance(share)
        output = forward_under(plan, self, inputs, **kwargs)
        self.path = plan.path
        return output

    def _can_stop_in_layers(self, plan: Plan) -> bool:
        """Whether nothing needs all tokens of a layer but the shared rows, nor dropout in them."""
        return (
            len(self._layers) > 0
            and self._gives_only_tokens()
            and not torch.is_grad_enabled()
            and not plan.layers
            and not is_compiled(self.model)
        )

    def _parts(self, inputs: dict[str, Any], segment: Tensor | None) -> list[Tensor]:
        """The texts of each part in which a batch in tiles is read; none if it is read at once."""
        mask = inputs.get("attention_mask")
        if self.tiling is None or mask is None or not self._gives_only_tokens():
            return []
        # Not before: a graph must not depend on the number of texts.
        if len(mask) == 1:
            return []
        whole = self.tiling.whole(self.calibration, self.site, inputs.get(PROMPT))
        is_tiled = segment is not None or mask.shape[1] > whole
        return few_at_a_time(mask) if is_tiled else []

    def _reads_only_pooled(self) -> bool:
        """Whether nothing reads this module's output but the pooling."""
        site = self.site
        return site.module is not None and site.follows_directly and self._gives_only_tokens()

    def _gives_only_tokens(self) -> bool:
        """Whether this module is used to infer tokens, and gives nothing beside them."""
        return (
            self.module_output_name == TOKENS
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

    def __repr__(self) -> str:
        config = super().__repr__().replace(f": {ANY_LENGTH},", ": 'any length',")
        return f"Calibrated{config}"


def _fitting(calibration: Calibration, site: PoolingSite) -> Calibration:
    """The calibration, for documents only in a multi-vector encoder; raise if it does not fit."""
    tiled = calibration.tile_size is not None
    if site.module is None:
        if not calibration.but(level=False).acts:
            return calibration.but(level=False)
        if calibration.strength > 0 or not calibration.tiles_on("document"):
            raise DesignError(
                "a multi-vector encoder pools no row that baskets could act on, and only its "
                "documents can be calibrated, in tiles: use 'fair' or 'tiles-64'."
            )
        # Queries are short, and expanded to their own width: the plain model reads them.
        return calibration.on("document").but(sides="document", pooling="model", level=False)
    if calibration.strength > 0 and tiled and site.pooling == "mean":
        raise DesignError(
            "this model pools over all tokens, whose attention cannot be in tiles and in baskets: "
            "use strength=0."
        )
    return calibration.but(pooling=_pooling(calibration, site.module))


def _pooling(calibration: Calibration, module: Pooling) -> str:
    """ "model" or "even"; raise if a model that does not take the mean was to be pooled evenly."""
    if calibration.pooling == "auto":
        return "even" if takes_mean(module) else "model"
    if calibration.pooling == "even" and not takes_mean(module):
        mode = module.pooling_mode
        modes = mode if isinstance(mode, str) else " and ".join(mode)
        raise DesignError(
            f"this model's {type(module).__name__} pools by {modes}, and even pooling replaces the "
            "mean of all tokens only: use pooling='model', or 'auto'."
        )
    return calibration.pooling


def maps_to_characters(module: Transformer) -> bool:
    """Whether tokens map back to characters: a fast tokenizer, and no chat template."""
    chat = "message" in module.modality_config
    return not chat and module.tokenizer is not None and module.tokenizer.is_fast


def is_compiled(model: nn.Module) -> bool:
    """Whether a part of the model is compiled."""
    return any(
        hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
        for part in model.modules()
    )


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
