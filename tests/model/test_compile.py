"""torch.compile takes a calibrated transformer whole, without a graph break."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from tests.builders.tiny import words

SIMPLE: list[dict[str, Any]] = [{"basket_size": 7}, {"calibration": "tiles-7"}]
EVERYTHING: list[dict[str, Any]] = [
    {"basket_size": 7, "strength": 0.5, "bos": "original", "temperature": 0.9},
    {"calibration": "tiles-7", "temperature": 0.9},
    {"calibration": "tiles-7", "temperature": [(20, 0.9), (None, 0.7)]},
    {"calibration": "plain", "temperature": [(20, 0.9), (None, 0.7)]},
]


# sentence-transformers 6.0 asks a cached function whether peft is there, for plain models as well.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Dynamo detected a call to a `functools.lru_cache`-wrapped function:UserWarning"
)


@pytest.mark.parametrize(
    ("architecture", "pooling", "settings"),
    [
        *product(["bert"], ["mean"], EVERYTHING),
        *product(["bert"], ["cls"], [*SIMPLE, EVERYTHING[0]]),
        *product(["modernbert", "t5"], ["mean"], EVERYTHING[1:3]),
        *product(["qwen3"], ["lasttoken"], EVERYTHING[:2]),
    ],
)
@pytest.mark.slow
def test_a_calibrated_transformer_is_one_graph(
    make_tiny: Callable[..., SentenceTransformer],
    architecture: str,
    pooling: str,
    settings: dict[str, Any],
) -> None:
    """`fullgraph` raises at the first break. The eager backend runs the captured graph as it is, in
    other blocks of rows: in float64 the same numbers up to some hundred roundings. Two layers: one
    that is calibrated or tiled differently from the other."""
    layers = {"num_layers" if architecture == "t5" else "num_hidden_layers": 2}
    fair = fairspan.calibrate(
        copy.deepcopy(make_tiny(architecture, pooling, **layers)).double(), **settings
    )
    features = fair.preprocess([words(40), words(12, seed=1)])
    torch._dynamo.reset()
    with torch.inference_mode():
        wanted = fair(dict(features))["sentence_embedding"]
        graph = torch.compile(fair[0], backend="eager", fullgraph=True)
        got = fair[1](graph(dict(features)))["sentence_embedding"]
    assert torch.allclose(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("pooling", "settings", "most"),
    [
        ("mean", {"calibration": "tiles-7", "pooling": "model"}, 2),
        ("cls", {"calibration": "tiles-7", "short_texts": "leave"}, 3),
        ("cls", {"basket_size": 7}, 2),
    ],
)
@pytest.mark.slow
def test_ten_lengths_do_not_need_ten_graphs(
    make_tiny: Callable[..., SentenceTransformer], pooling: str, settings: dict[str, Any], most: int
) -> None:
    """One graph for the first length, one for any length, and one for texts that are left as they
    are. A window of 16 tokens in tiles."""
    model = copy.deepcopy(make_tiny("bert", pooling, num_hidden_layers=1)).double()
    model.max_seq_length = 16 if "calibration" in settings else 128
    fair = fairspan.calibrate(model, **settings)
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(fair[0], backend=count, fullgraph=True)
    with torch.inference_mode():
        for length in (40, 30, 61, 50, 75, 90, 12, 34, 120, 111):
            features = fair.preprocess([words(length), words(length // 3, seed=1)])
            wanted = fair(dict(features))["sentence_embedding"]
            vectors = fair[1](compiled(dict(features)))["sentence_embedding"]
            assert torch.allclose(vectors, wanted, rtol=0, atol=1e-12)
    assert len(graphs) <= most


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"calibration": "plain"}, True),
        ({"calibration": "tiles-64"}, True),
        ({"calibration": "plain", "pooling": "even"}, False),
        ({"calibration": "tiles-7", "pooling": "even", "short_texts": "leave"}, False),
    ],
)
@pytest.mark.slow
def test_even_pooling_and_level_vectors_are_in_the_graph(
    make_tiny: Callable[..., SentenceTransformer], fields: dict[str, Any], level: bool
) -> None:
    """Vectors of length 1 in float32. A graph takes more steps of even pooling."""
    model = make_tiny("bert", "mean", num_hidden_layers=2, normalize=True)
    general = [words(12 + number % 17, 100 + number) for number in range(40)]
    fair = fairspan.calibrate(model, **fields, level=general if level else False)
    features = fair.preprocess([words(90), words(12, seed=1)])
    torch._dynamo.reset()
    with torch.inference_mode():
        wanted = fair(dict(features))["sentence_embedding"]
        graph = torch.compile(fair, backend="eager", fullgraph=True)
        vectors = graph(dict(features))["sentence_embedding"]
    assert float((vectors - wanted).abs().max()) < 1e-5
