"""Where a model keeps its token signals and value weights, found by sending one short text through it.

Nothing is looked up by name. Hidden states are recognised as the tensors that modules take and return, and the value
projection of a layer as the linear map whose outputs are the values that its attention receives.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from fairspan.attention.layers import probe, unsupported
from fairspan.attention.plan import LayerInputs, Plan

Hook = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None]


@dataclass(frozen=True, slots=True)
class Signal:
    """One hidden state: what comes out of a module, or goes into it, at one of its calls.

    Attributes:
        call: 0 for the module's first call in a pass. Some architectures run one module as several layers.
        place: which argument or output of the call.
    """

    module: nn.Module
    call: int
    place: str


def find_signals(model: PreTrainedModel, depth: int) -> list[Signal]:
    """X_0 … X_depth: the embedding output and the output of each layer, as `output_hidden_states` has them.

    Architectures that normalise before each layer have the last of them after their final normalisation.

    Raises:
        UnsupportedModel: if the model does not show one hidden state more than it has layers.
    """
    seen: list[tuple[Signal, Tensor, Tensor]] = []
    with _calls_of(model.modules(), lambda signal, tensor: seen.append((signal, tensor, tensor.clone()))):
        shown = getattr(probe(model, Plan(), output_hidden_states=True), "hidden_states", None) or ()
    # All tensors of the pass are still held, so that no two share an address. One that was written to after it had
    # passed a module is not what that module gave.
    known = {_identity(tensor): signal for signal, tensor, then in reversed(seen) if torch.equal(tensor, then)}
    found = [known[_identity(tensor)] for tensor in shown if _identity(tensor) in known]
    if not len(shown) == len(found) == depth + 1:
        raise unsupported(
            model,
            f"shows {len(shown)} hidden states, of which {len(found)} pass between its modules, and has {depth} "
            "layers: the token signals between them cannot be determined",
        )
    return found


@contextmanager
def watching(signals: list[Signal], receive: Callable[[int, Tensor], None]) -> Iterator[None]:
    """Passes inside this block hand each signal, with its number, to `receive`."""
    numbers = {signal: number for number, signal in enumerate(signals)}

    def hand_over(signal: Signal, tensor: Tensor) -> None:
        if signal in numbers:
            receive(numbers[signal], tensor)

    with _calls_of({signal.module for signal in signals}, hand_over):
        yield


def find_value_weights(model: PreTrainedModel) -> list[Tensor] | str:
    """W_V of each layer, [K, D, d] with K heads, or why it could not be found in one of them."""
    linear: list[tuple[nn.Module, Tensor, Tensor]] = []
    found: list[Tensor | None] = []

    def remember(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if args and isinstance(output, Tensor) and getattr(module, "weight", None) is not None:
            linear.append((module, args[0], output))

    def look(inputs: LayerInputs) -> None:
        matches = (_rows_behind(inputs.value, *call) for call in reversed(linear))
        found.append(next((match for match in matches if match is not None), None))
        linear.clear()

    with _hooks(model.modules(), remember):
        probe(model, Plan(watch=look))
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


@contextmanager
def _calls_of(modules: Iterable[nn.Module], receive: Callable[[Signal, Tensor], None]) -> Iterator[None]:
    calls: dict[nn.Module, int] = {}

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        call = calls.get(module, 0)
        calls[module] = call + 1
        outputs = output if isinstance(output, (tuple, list)) else [output]
        places = {f"argument {name}": tensor for name, tensor in (*enumerate(args), *kwargs.items())}
        places |= {f"output {number}": tensor for number, tensor in enumerate(outputs)}
        for place, tensor in places.items():
            if isinstance(tensor, Tensor):
                receive(Signal(module, call, place), tensor)

    with _hooks(modules, hook):
        yield


@contextmanager
def _hooks(modules: Iterable[nn.Module], hook: Hook) -> Iterator[None]:
    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
