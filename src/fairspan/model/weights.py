"""A second model on the same weights."""

import copy
from typing import TypeVar

from torch import nn

from fairspan.errors import FairspanError

Model = TypeVar("Model", bound=nn.Module)


def copy_sharing_weights(model: Model) -> Model:
    """A copy of `model` with modules, configuration and tokenizer of its own, over the same storage.

    Parameters become new objects that view the same memory: moving or casting the copy gives the copy new memory and
    leaves the original where it was.
    """
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        # Subclasses of Parameter (quantised weights) carry state of their own and are shared as they are.
        memo[id(parameter)] = (
            nn.Parameter(parameter.data, requires_grad=parameter.requires_grad)
            if type(parameter) is nn.Parameter
            else parameter
        )
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach()
    return copy.deepcopy(model, memo)


def refuse_nan(model: nn.Module) -> None:
    """Raise if any weight is not a number, naming it."""
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and bool(parameter.isnan().any()):
            raise FairspanError(
                f"the model's weight {name!r} contains NaN, so its embeddings would be NaN too: load the checkpoint "
                "again, or in another dtype if it was converted."
            )
