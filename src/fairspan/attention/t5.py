"""T5's relative position bias in passes in tiles: for the positions that recur, and not for every pair of tokens."""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.t5 import modeling_t5

from fairspan.attention.tiles import tiles_being_read


class T5Attention(modeling_t5.T5Attention):
    """Attention that asks for a bias of the tiles' positions while tiles are read."""

    def compute_bias(self, query_length: int, key_length: int, *args: Any, **kwargs: Any) -> Tensor:
        tiles = tiles_being_read()
        if tiles is not None:
            query_length = key_length = tiles.positions
        bias: Tensor = super().compute_bias(query_length, key_length, *args, **kwargs)
        return bias


def route_t5(model: PreTrainedModel) -> None:
    """Let the layers of a T5 model do so; any other model stays as it is."""
    for module in model.modules():
        if type(module) is modeling_t5.T5Attention:
            module.__class__ = T5Attention
