"""The value weights of a model's layers, found by sending one short text through it.

Nothing is looked up by name: the value projection of a layer is the linear map whose outputs are the values that its
attention receives.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from fairspan.attention.layers import probe
from fairspan.attention.plan import LayerInputs, Plan


def find_value_weights(model: PreTrainedModel) -> list[Tensor] | str:
    """W_V of each layer, [K, D, d] with K heads, or why it could not be found in one of them."""
    linear: list[tuple[nn.Module, Tensor, Tensor]] = []
    found: list[Tensor | None] = []

    def remember(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if args and isinstance(output, Tensor) and getattr(module, "weight", None) is not None:
            linear.append((module, args[0], output))

    def look(inputs: LayerInputs) -> None:
        matches = (_rows_behind(inputs.value, *call) for call in reversed(linear))
        found.append(next((match for match in matches if match is not None), None))
        linear.clear()

    hooks = [module.register_forward_hook(remember) for module in model.modules()]
    try:
        probe(model, Plan(watch=look))
    finally:
        for hook in hooks:
            hook.remove()
    weights = [weight for weight in found if weight is not None]
    if len(weights) == len(found):
        return weights
    return (
        f"{type(model).__name__}: the values of layer {found.index(None)} are not what one linear map makes of its "
        "input, as with an adapter, a quantised weight or a normalisation of values"
    )


def _rows_behind(value: Tensor, module: nn.Module, x: Tensor, output: Tensor) -> Tensor | None:
    """The rows of a linear module's weight that made `value` [1, K, L, D], as [K, D, d]; None if it did not."""
    weight = _linear_weight(module, x, output)
    if weight is None:
        return None
    columns = {column.tobytes(): number for number, column in enumerate(_columns(output))}
    wanted = [columns.get(column.tobytes()) for column in _columns(value.transpose(1, 2).flatten(2))]
    if None in wanted:
        return None
    return weight[wanted].view(value.shape[1], value.shape[3], -1)


def _columns(x: Tensor) -> Any:
    """[1, L, d] or [L, d] as a row of L numbers for each of d features."""
    return x.reshape(-1, x.shape[-1]).T.float().contiguous().cpu().numpy()


def _linear_weight(module: nn.Module, x: Any, output: Tensor) -> Tensor | None:
    """The weight [out, in] with output = x · weightᵀ + bias, if the module computes just that."""
    weight, bias = module.weight, getattr(module, "bias", None)
    if not (isinstance(weight, Tensor) and weight.ndim == 2 and weight.is_floating_point()):
        return None
    if not (isinstance(x, Tensor) and x.dtype == weight.dtype):
        return None
    tolerance = torch.finfo(x.dtype).eps ** 0.5
    for candidate in (weight.detach(), weight.detach().T):
        if (candidate.shape[0], candidate.shape[1]) == (output.shape[-1], x.shape[-1]):
            made = functional.linear(x, candidate, bias)
            if torch.allclose(made, output, rtol=tolerance, atol=tolerance * float(made.abs().max())):
                return candidate
    return None
