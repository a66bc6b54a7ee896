"""`Plan`: what one forward pass needs to know, travelling with the call from the model to its attention layers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from fairspan.attention.baskets import Baskets
from fairspan.attention.shares import SpecialShares

# Models hand keyword arguments that they do not know down to the attention function; the plan is one of them.
PLAN_ARGUMENT = "fairspan_plan"


@dataclass(frozen=True, slots=True, eq=False)
class BasketRule:
    """How the attention of one batch is split into baskets.

    Attributes:
        rows: the query rows that are calibrated.
        baskets, special: where the baskets lie and what the special tokens' own baskets receive.
        strength: [N], or None for 1 throughout.
        pooled: [N], the pooled row of each text; read for rows "pooling".
        only_pooled_in: the last layer, if nothing reads its other rows.
    """

    rows: Literal["pooling", "all"]
    baskets: Baskets
    special: SpecialShares
    strength: Tensor | None
    pooled: Tensor
    only_pooled_in: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LayerInputs:
    """What the attention of one layer is computed from.

    Attributes:
        query: [N, H, L, D], and the scale of its products with the keys, the temperature in either of them.
        key, value: [N, K, L, D] with K heads, a divisor of H.
        mask: bool or additive, position_bias: additive; both broadcast to [N, H, L, L].
        causal: whether a row sees no key after its own.
        rule: how the layer is split into baskets; None where it is not.
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


@dataclass(slots=True, eq=False)
class Plan:
    """The calibration of one batch, and the record of the layers that carried it out.

    Attributes:
        layers: the layers that are split into baskets, 0-based; empty if only the temperature acts.
        make_rule: what makes the rule for them. It runs in the first of these layers, while a GPU is still busy with
            the ones before, and not in front of all.
        inverse_temperature: one number, or [N].
        scale_position_bias: whether the temperature also divides the position bias.
        passed: how many layers have asked so far.
        calibrated: those of them that were split into baskets.
        path: what computed them: "triton" kernels or plain "torch".
        captured_rows: [N, L] bool, the query rows whose attention is kept, if any; at least one of each text. In
            calibrated layers they must be rows that the rule calibrates.
        captured: what was kept, [N, L] for each layer so far (`average_row`).
        watch: what is shown the inputs of each layer before it is computed, if anything.
    """

    layers: frozenset[int] = frozenset()
    make_rule: Callable[[], BasketRule] | None = None
    inverse_temperature: float | Tensor = 1.0
    scale_position_bias: bool = False
    passed: int = 0
    calibrated: list[int] = field(default_factory=list)
    path: str | None = None
    captured_rows: Tensor | None = None
    captured: list[Tensor] = field(default_factory=list)
    watch: Callable[[LayerInputs], None] | None = None
    _rule: BasketRule | None = None

    @property
    def rule(self) -> BasketRule:
        """The rule of this batch."""
        if self._rule is None:
            assert self.make_rule is not None
            self._rule = self.make_rule()
        return self._rule

    def enter_layer(self) -> int:
        """The number of the layer that is asking.

        Layers are identified by the order of their calls: some architectures do not number their layers, and some
        run one module as several layers.
        """
        layer = self.passed
        self.passed += 1
        return layer
