"""`Plan`: what the attention layers need to know of one forward pass; an argument of its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fairspan.attention.baskets import Baskets
from fairspan.attention.bias import hidden, modulo
from fairspan.attention.shares import SpecialShares
from fairspan.attention.tiles import Tiles, TileView
from fairspan.errors import UnsupportedModel

# Models pass unknown keyword arguments on to the attention function; the plan is one of them.
PLAN_ARGUMENT = "fairspan_plan"


@dataclass(frozen=True, slots=True, eq=False)
class BasketRule:
    """How the attention of one batch is split into baskets.

    Attributes:
        baskets, special: where the baskets lie and what the special tokens' own baskets receive.
        strength: [N], or None for 1 throughout.
        pooled: [N], the row of each text that is calibrated; None for all rows.
    """

    baskets: Baskets
    special: SpecialShares
    strength: Tensor | None
    pooled: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class LayerInputs:
    """What the attention of one layer is computed from.

    Attributes:
        query: [N, H, L, D].
        scale: of its products with the keys; the temperature is in one of the two.
        key, value: [N, K, L, D] with K heads, a divisor of H.
        mask: bool or additive, position_bias: additive; both broadcast to [N, H, L, L].
        causal: whether a row sees no key after its own.
        rule: how the layer is split into baskets; None where it is not.
        view: what the rows see in a pass in tiles, which has no other mask or position bias.
        dropout: the probability that a weight is dropped; 0 outside of training.
    """

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    mask: Tensor | None
    position_bias: Tensor | None
    causal: bool
    rule: BasketRule | None
    view: TileView | None = None
    dropout: float = 0.0

    @property
    def need_gradients(self) -> bool:
        """Whether any of them does; an adapter may be on the values alone."""
        return any(part.requires_grad for part in (self.query, self.key, self.value))

    def seen_by(self, row: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What rows `row` [R·N] see, where row i is of text i modulo N.

        Returns:
            The bias [R·N, H, L] to add to their scores, or None, and the keys that they see
            [R·N, L] bool, or None for all.
        """
        text = modulo(torch.arange(row.shape[0], device=row.device), self.query.shape[0])
        if self.view is not None:
            return self.view.of_rows(text, row)
        bias: Tensor | None = None
        visible: Tensor | None = None
        if self.mask is not None:
            mask = self.mask[modulo(text, self.mask.shape[0]), 0, modulo(row, self.mask.shape[2])]
            visible = ~hidden(mask)
            if mask.dtype != torch.bool:
                bias = torch.where(visible, mask, 0)[:, None]
        if self.position_bias is not None:
            by_position = self.position_bias[modulo(text, self.position_bias.shape[0]), :, row]
            bias = by_position if bias is None else bias + by_position
        if self.causal:
            visible = torch.arange(self.key.shape[2], device=row.device) <= row[:, None]
        return bias, visible


@dataclass(slots=True, eq=False)
class Plan:
    """The calibration of one batch, and the record of the layers that carried it out.

    Attributes:
        layers: the layers that are split into baskets, 0-based; empty if only the temperature acts.
        make_rule: makes the rule for them. It runs in the first of these layers, while a GPU is
            still busy with the layers before it.
        inverse_temperature: a number, or [N] where texts differ in it.
        scale_position_bias: whether the temperature also divides the position bias.
        causal: whether the model is, which passes in tiles need to know.
        pieces: of one long text, on which its layers run one after another; empty for others.
        states: [1, L, d], the output of the last layer that ran on pieces.
        add_piece: [1, S, H, D], called in every layer of a piece of a text for the rows that see
            the other pieces, None where the piece is not the last; None for whole texts.
        asked: the attention modules of the layers that have asked so far.
        ended: whether the pass is over. Layers that ask after it are computed once more, for their
            gradients.
        calibrated: those of them that were split into baskets.
        path: what computed them: "triton" kernels or plain "torch".
        watch: called with the inputs of each layer before it is computed, if set.
    """

    layers: frozenset[int] = frozenset()
    make_rule: Callable[[], BasketRule] | None = None
    inverse_temperature: float | Tensor = 1.0
    scale_position_bias: bool = False
    tiles: Tiles | None = None
    causal: bool = False
    pieces: tuple[Piece, ...] = ()
    states: Tensor | None = None
    add_piece: Callable[[LayerInputs, TileView], Tensor | None] | None = None
    asked: list[nn.Module] = field(default_factory=list)
    ended: bool = False
    calibrated: list[int] = field(default_factory=list)
    path: str | None = None
    watch: Callable[[LayerInputs], None] | None = None
    _rule: BasketRule | None = None

    @property
    def acts(self) -> bool:
        """Whether a pass under it differs from one of the plain model."""
        has_temperature = isinstance(self.inverse_temperature, Tensor) or (
            self.inverse_temperature != 1
        )
        return self.tiles is not None or len(self.layers) > 0 or has_temperature

    @property
    def rule(self) -> BasketRule:
        """The rule of this batch."""
        if self._rule is None:
            assert self.make_rule is not None
            self._rule = self.make_rule()
        return self._rule

    def enter_layer(self, module: nn.Module) -> int:
        """The number of the layer that is asking.

        Layers are identified by the order of their calls: some architectures do not number them,
        and some run one module as several layers. Gradient checkpointing calls them once more, in
        another order.
        """
        if not self.ended:
            self.asked.append(module)
            return len(self.asked) - 1
        layers = [layer for layer, asker in enumerate(self.asked) if asker is module]
        if len(layers) != 1:
            raise UnsupportedModel(
                f"{type(module).__name__} is one module for {len(layers)} layers, which gradient "
                "checkpointing cannot tell apart in a calibrated model: train it without gradient "
                "checkpointing."
            )
        return layers[0]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some tiles of a text with its global tokens around them.

    Attributes:
        plan: what a layer needs to know of these tokens.
        rows: [L'], their places in the text.
    """

    plan: Plan
    rows: Tensor

    @property
    def content(self) -> slice:
        """Which of the rows are no global tokens."""
        tiles = self.plan.tiles
        assert tiles is not None
        return slice(tiles.lead, len(self.rows) - tiles.trail)
