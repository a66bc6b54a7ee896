"""Models with relative position biases: MPNet and T5.

In tiles their biases are made for the positions that recur, not for every pair of tokens.
transformers' MPNet does not use the attention interface: the classes here have the same parameters
and arithmetic, and use it.
"""

from contextlib import nullcontext
from typing import Any

from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.mpnet import modeling_mpnet
from transformers.models.t5 import modeling_t5

from fairspan.attention.interface import NAME
from fairspan.attention.plan import PLAN_ARGUMENT
from fairspan.attention.tiles import reading, tiles_being_read


class MPNetLayer(modeling_mpnet.MPNetLayer):
    """A layer that asks the registered attention function."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """The layer's output [N, L, d], in a tuple, for `hidden_states` [N, L, d]."""
        attn = self.attention.attn
        heads = (*hidden_states.shape[:-1], attn.num_attention_heads, attn.attention_head_size)
        context, _ = AttentionInterface()[NAME](
            attn,
            attn.q(hidden_states).view(heads).transpose(1, 2),
            attn.k(hidden_states).view(heads).transpose(1, 2),
            attn.v(hidden_states).view(heads).transpose(1, 2),
            attention_mask,
            scaling=attn.attention_head_size**-0.5,
            position_bias=position_bias,
            is_causal=False,
            dropout=attn.dropout.p if self.training else 0.0,
            **kwargs,
        )
        mixed = self.attention.dropout(attn.o(context.flatten(2)))
        attended = self.attention.LayerNorm(mixed + hidden_states)
        return (self.output(self.intermediate(attended), attended),)


class MPNetEncoder(modeling_mpnet.MPNetEncoder):
    """An encoder whose position bias is made for the positions of tiles."""

    def compute_position_bias(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tiles = tiles_being_read()
        x = x if tiles is None else x[:1, :1].expand(1, tiles.positions, -1)
        bias: Tensor = super().compute_position_bias(x, *args, **kwargs)
        return bias


class MPNetModel(modeling_mpnet.MPNetModel):
    """A model that hands unknown keyword arguments down to its layers."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling | tuple[Any, ...]:
        """As `modeling_mpnet.MPNetModel.forward`; `kwargs` go to the layers."""
        embedded = self.embeddings(
            input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds
        )
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=embedded, attention_mask=attention_mask
        )
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        kwargs |= {"output_hidden_states": output_hidden_states, "return_dict": True}
        encoded = self.encoder(embedded, attention_mask=mask, **kwargs)
        tokens = encoded.last_hidden_state
        output = BaseModelOutputWithPooling(
            last_hidden_state=tokens,
            pooler_output=None if self.pooler is None else self.pooler(tokens),
            hidden_states=encoded.hidden_states,
        )
        return output.to_tuple() if return_dict is False else output


def route_mpnet(model: PreTrainedModel) -> bool:
    """Let an MPNet model ask the registered attention function; False for any other model."""
    if type(model) not in (modeling_mpnet.MPNetModel, MPNetModel):
        return False
    model.__class__ = MPNetModel
    model.encoder.__class__ = MPNetEncoder
    for layer in model.encoder.layer:
        layer.__class__ = MPNetLayer
    model.config._attn_implementation = NAME
    return True


class T5Attention(modeling_t5.T5Attention):
    """Attention whose bias is made for the tiles' positions, also when it is computed again."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        plan = kwargs.get(PLAN_ARGUMENT)
        with nullcontext() if plan is None or plan.tiles is None else reading(plan.tiles):
            return super().forward(*args, **kwargs)

    def compute_bias(self, query_length: int, key_length: int, *args: Any, **kwargs: Any) -> Tensor:
        tiles = tiles_being_read()
        if tiles is not None:
            query_length = tiles.positions
            key_length = tiles.positions
        bias: Tensor = super().compute_bias(query_length, key_length, *args, **kwargs)
        return bias


def route_t5(model: PreTrainedModel) -> None:
    """Let the layers of a T5 model make their bias for tiles; other models are not changed."""
    for module in model.modules():
        if type(module) is modeling_t5.T5Attention:
            module.__class__ = T5Attention
