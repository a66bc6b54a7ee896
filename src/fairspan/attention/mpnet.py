"""MPNet through the attention interface.

transformers' MPNet multiplies its own L×L matrices and asks no attention function. This layer has the same
parameters under the same names and the same arithmetic, and asks one, so that MPNet takes the path of every other
architecture. Its relative position bias goes into every row.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetLayer

from fairspan.attention.interface import NAME


class InterfaceMPNetLayer(MPNetLayer):
    """An `MPNetLayer` whose attention is the registered attention function."""

    is_causal = False

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        attn = self.attention.attn
        heads = (*hidden_states.shape[:-1], attn.num_attention_heads, attn.attention_head_size)
        query, key, value = (
            project(hidden_states).view(heads).transpose(1, 2) for project in (attn.q, attn.k, attn.v)
        )
        context, _ = AttentionInterface()[NAME](
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=attn.attention_head_size**-0.5,
            dropout=attn.dropout.p if self.training else 0.0,
            position_bias=position_bias,
            **kwargs,
        )
        mixed = self.attention.dropout(attn.o(context.flatten(2)))
        attended = self.attention.LayerNorm(mixed + hidden_states)
        return (self.output(self.intermediate(attended), attended),)


def route_mpnet(model: nn.Module) -> bool:
    """Let the layers of an MPNet model ask the registered attention function. False for any other model."""
    encoders = [module for module in model.modules() if isinstance(module, MPNetEncoder)]
    for encoder in encoders:
        for layer in encoder.layer:
            layer.__class__ = InterfaceMPNetLayer
    return bool(encoders)
