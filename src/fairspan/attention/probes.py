"""The value weights of a model's layers, found by sending one short text through it.

Nothing is looked up by name: the value projection of a layer is the linear map whose outputs are
the values that its attention receives.
"""

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from fairspan.attention.layers import probe
from fairspan.attention.plan import LayerInputs, Plan


def find_value_weights(model: PreTrainedModel) -> list[Tensor] | str:
    """W_V of each layer, [K, D, d] with K heads, or why it could not be found in one of them."""
    linear: list[tuple[Tensor, Tensor]] = []
    by_layer: list[Tensor | None] = []

    def remember(module: nn.Linear, args: Any, output: Tensor) -> None:
        linear.append((module.weight.detach(), output))

    def look(inputs: LayerInputs) -> None:
        matches = (_rows_behind(inputs.value, *call) for call in reversed(linear))
        by_layer.append(next((match for match in matches if match is not None), None))
        linear.clear()

    # A subclass may do more than its weight says.
    hooks = [
        module.register_forward_hook(remember)
        for module in model.modules()
        if type(module) is nn.Linear
    ]
    try:
        probe(model, Plan(watch=look))
    finally:
        for hook in hooks:
            hook.remove()
    weights = [weight for weight in by_layer if weight is not None]
    if len(weights) == len(by_layer):
        return weights
    return (
        f"{type(model).__name__}: the values of layer {by_layer.index(None)} are not a linear map "
        "of its input, perhaps because of an adapter, a quantised weight or a normalisation of "
        "values"
    )


def _rows_behind(value: Tensor, weight: Tensor, output: Tensor) -> Tensor | None:
    """The rows [K, D, d] of a linear map's weight that made `value` [1, K, L, D], or None."""
    columns = {column.tobytes(): number for number, column in enumerate(_columns(output))}
    wanted = [
        columns.get(column.tobytes()) for column in _columns(value.transpose(1, 2).flatten(2))
    ]
    if None in wanted:
        return None
    return weight[wanted].view(value.shape[1], value.shape[3], -1)


def _columns(x: Tensor) -> Any:
    """[1, L, d] or [L, d] as a row of L numbers for each of d features."""
    return x.reshape(-1, x.shape[-1]).T.float().contiguous().cpu().numpy()
