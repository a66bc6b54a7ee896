"""LC, Table 6: whitening and last2avg, two older methods, as SentenceTransformers.

Whitening is Su et al. 2021; last2avg ("Flow" in the table) is what Li et al. 2020 do without
training. Results share the weights of the model that they are made from, and sentence-transformers
loads what `save_pretrained` writes. `lc_mteb.py` scores both, on the data of the table.

Time: whitening embeds the texts that it is fitted on once; 2,379 texts of 80 words took 2 minutes
of CPU time with all-MiniLM-L6-v2. In this folder:

    from baselines import last_two, whiten
    whitened = whiten(fairspan.load("all-MiniLM-L6-v2"), texts)  # none of them tested
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from sentence_transformers.util import batch_to_device
from torch import nn

from fairspan.errors import CorpusError, DesignError, UnsupportedModel

# Of the largest variance. Vectors have the seven digits of float32: a direction with less is
# mostly rounding.
NO_VARIANCE = 1e-10
# Fewer texts for each dimension fit the noise of the sample.
TEXTS_PER_DIMENSION = 2


def whiten(
    model: SentenceTransformer, texts: Sequence[str], dimensions: int | None = None
) -> SentenceTransformer:
    """A model whose vectors of `texts`, read as documents, have the identity as covariance.

    Queries and documents get the same map, (x − μ)·W, as a last `Dense` module. Where the model
    normalises its vectors, those of the result are normalised again.

    Args:
        dimensions: how many to keep, those of largest variance. By default all.
    """
    different = list(dict.fromkeys(texts))
    width = int(model.get_embedding_dimension() or 0)
    kept = width if dimensions is None else dimensions
    if not 1 <= kept <= width:
        raise DesignError(f"dimensions must be from 1 to {width}, got {dimensions}.")
    needed = TEXTS_PER_DIMENSION * kept
    if len(different) < needed:
        raise CorpusError(
            f"whitening to {kept} dimensions needs at least {needed} different texts, got "
            f"{len(different)}: give more texts, or keep fewer dimensions."
        )
    mean, matrix = fit(model.encode_document(different), kept)
    dense = Dense(
        *matrix.shape,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(matrix.T.copy()).float(),
        init_bias=torch.from_numpy(-mean @ matrix).float(),
    )
    modules = [*_copy(model).children(), dense]
    if isinstance(modules[-2], Normalize):
        modules.append(Normalize())
    return _assemble(model, modules)


def fit(vectors: np.ndarray, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean [d] of vectors [N, d] and the matrix U·Λ^(−1/2), [d, k], by falling variance.

    k is at most `dimensions`: directions without variance are left out.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(vectors.T)))
    variances = variances[::-1][:dimensions]
    directions = directions[:, ::-1][:, :dimensions]
    varied = variances > NO_VARIANCE * variances[0]
    if not varied.any():
        raise CorpusError(f"all {len(vectors)} vectors are the same: there is nothing to whiten.")
    directions = directions[:, varied]
    # The sign of an eigenvector is arbitrary: the largest component of each is made positive.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0)
    return vectors.mean(axis=0), directions * signs / np.sqrt(variances[varied])


def last_two(model: SentenceTransformer) -> SentenceTransformer:
    """A model that averages the hidden states of its last two layers, then all tokens.

    The mean takes the place of the model's pooling; the modules after it are kept. The states are
    those of transformers: where a model normalises after its last layer, only that one is
    normalised, and the other weighs more.
    """
    modules = list(_copy(model).children())
    kinds = [type(module).__name__ for module in modules]
    if len(modules) < 2 or not isinstance(modules[0], Transformer) or kinds[1] != "Pooling":
        raise UnsupportedModel(
            "last2avg needs a Transformer module and a Pooling after it; this model has "
            f"{', '.join(kinds)}."
        )
    transformer, pooling, *rest = modules
    transformer.model.config.output_hidden_states = True
    inputs = model.preprocess(["A text to count the layers."])
    with torch.inference_mode():
        features = transformer(batch_to_device(inputs, model.device))
    states = features.get("all_layer_embeddings") or ()
    shape = features["token_embeddings"].shape
    if len(states) < 3 or any(state.shape != shape for state in states[-2:]):
        raise UnsupportedModel(
            f"{type(transformer.model).__name__} does not give the hidden states of two layers."
        )
    width = pooling.embedding_dimension
    last = len(states) - 1
    average = WeightedLayerPooling(width, num_hidden_layers=last, layer_start=last - 1)
    mean = Pooling(width, "mean", include_prompt=pooling.include_prompt)
    return _assemble(model, [transformer, average, mean, *rest])


def _copy(model: SentenceTransformer) -> SentenceTransformer:
    """A copy with modules and configurations of its own, on the same weights."""
    memo: dict[int, object] = {id(buffer): buffer.detach() for buffer in model.buffers()}
    for weight in model.parameters():
        memo[id(weight)] = nn.Parameter(weight.data, requires_grad=weight.requires_grad)
    return copy.deepcopy(model, memo)


def _assemble(model: SentenceTransformer, modules: list[nn.Module]) -> SentenceTransformer:
    """A model of these modules, with the prompts, the similarity and the device of `model`."""
    return SentenceTransformer(
        modules=modules,
        device=str(model.device),
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
    ).eval()
