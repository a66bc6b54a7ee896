"""last2avg (Li et al. 2020): a text is the mean over its tokens of the average of the last two layers."""

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)

from fairspan.attention.layers import evaluating, probe_input
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.model.transformer import calibrated_transformers

_LAYERS = "all_layer_embeddings"


def last_two(model: SentenceTransformer) -> SentenceTransformer:
    """A SentenceTransformer whose tokens are the average of the last two layers, pooled by their mean.

    It is on the same weights as `model`, which stays as it is, and consists of sentence-transformers' own modules.
    The mean replaces whatever pooling the model had, as in the literature; what follows the pooling is kept. The
    layers are those that transformers gives as hidden states: where a model normalises after its last layer (T5,
    ModernBERT, Qwen3 and others), the last one is normalised and the one before it is not, and weighs more for that.

    Raises:
        UnsupportedModel: if the model is not one transformer followed by a pooling, or gives no hidden states.
    """
    copied = copy_sharing_weights(model)
    (name, transformer), *rest = copied.named_children()
    pooling = rest[0][1] if rest else None
    if not isinstance(transformer, Transformer) or not isinstance(pooling, Pooling) or transformer.backend != "torch":
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(
            f"last2avg reads the layers of a Transformer module that a Pooling follows, on the torch backend; this "
            f"model has {kinds}."
        )
    width = pooling.embedding_dimension
    needs_width = any(not isinstance(module, Normalize) for _, module in rest[1:])
    if needs_width and pooling.pooling_output_dimension != width:
        raise UnsupportedModel(
            f"last2avg has {width} dimensions, and what follows the pooling in this model expects "
            f"{pooling.pooling_output_dimension}."
        )
    transformer.model.config.output_hidden_states = True
    count = _count_layers(transformer)
    average = WeightedLayerPooling(width, num_hidden_layers=count - 1, layer_start=count - 2)
    average.to(model.device, model.dtype)
    mean = Pooling(width, "mean", include_prompt=pooling.include_prompt)
    for old, _ in list(copied.named_children()):
        delattr(copied, old)
    for new, part in [(name, transformer), ("last_two", average), (rest[0][0], mean), *rest[1:]]:
        copied.add_module(new, part)
    for module in calibrated_transformers(copied):
        module.on_model_ready(copied)
    return copied


def _count_layers(transformer: Transformer) -> int:
    """How many hidden states a pass gives, that of the embeddings included."""
    input_ids = probe_input(transformer.model)
    features = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
    with evaluating(transformer), torch.inference_mode():
        found = transformer(features)
    states = found.get(_LAYERS) or ()
    if len(states) < 3 or any(state.shape != found["token_embeddings"].shape for state in states[-2:]):
        raise UnsupportedModel(
            f"{type(transformer.model).__name__} does not give the hidden states of two layers "
            f"({len(states)} were given for output_hidden_states=True), so there is no last2avg of it."
        )
    return len(states)
