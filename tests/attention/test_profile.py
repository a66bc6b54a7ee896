"""Where the pooled row looks: against eager attention and whole matrices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Router, StaticEmbedding
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fairspan
from fairspan.attention import rows as average_row_module
from fairspan.encoding.attention_profile import (
    NO_CHARACTER,
    AttentionRow,
    attention_rows,
    by_basket,
)
from fairspan.errors import UnsupportedModel
from tests.attention.spectrum_by_matrices import matrices
from tests.builders.tiny import (
    HIDDEN,
    LAYERS,
    ONE_EACH,
    REPRESENTATIVES,
    Kind,
    tiny_model,
    tiny_tokenizer,
    words,
)

Make = Callable[..., SentenceTransformer]

# One batch, padded: several baskets and windows, fewer tokens than one basket, and special tokens
# alone.
TEXTS = [words(45, seed=1), words(30, seed=2), words(5, seed=3), words(1, seed=4), ""]
SETTINGS: list[dict[str, Any]] = [
    {"basket_size": 7, "strength": 0.5, "bos": "original", "eos": "equal"}
    | {"layers": [1, 3], "temperature": 0.8},
    {"basket_size": 4, "layers": "all", "temperature": 0.5, "scale_position_bias": True},
    {"calibration": "tiles-16", "temperature": 0.5},
]
BASKETS_IN_TILES = {"tile_size": 7, "strength": 0.5, "basket_size": 5, "layers": "all"}
# Weights are at most 1, and float32's are 6e-8 apart there. Four layers in another order came
# within 3.3e-7.
TOLERANCE = 2e-6


def pooled(weights: list[Tensor], pooling: str) -> list[np.ndarray]:
    """By hand, from matrices: weights [layers, H, L, L] to [layers, L] of each text."""
    rows = {
        "cls": lambda own: own[:, 0],
        "lasttoken": lambda own: own[:, -1],
        "mean": lambda own: own.mean(dim=1),
    }
    return [rows[pooling](own.mean(dim=1)).double().numpy() for own in weights]


def eager(model: SentenceTransformer, texts: list[str], **options: Any) -> list[Tensor]:
    """The weights of transformers' own eager attention, [layers, H, L, L] of each text."""
    transformer = copy.deepcopy(model[0].model)
    if transformer.config.model_type != "mpnet":  # which has no other attention
        transformer.set_attn_implementation("eager")
    found = []
    for text in texts:
        features = model.preprocess([text], **options)
        inputs = {name: features[name] for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            found.append(torch.cat(transformer(**inputs, output_attentions=True).attentions))
    return found


def by_matrices(fair: SentenceTransformer, texts: list[Any], pooling: str) -> list[np.ndarray]:
    weights = [[layer.weights for layer in layers] for layers in matrices(fair, texts)]
    return pooled([torch.from_numpy(np.stack(layers)) for layers in weights], pooling)


def assert_close(rows: list[AttentionRow], expected: list[np.ndarray]) -> None:
    for row, wanted in zip(rows, expected, strict=True):
        assert row.masses.shape == wanted.shape
        assert np.abs(row.masses - wanted).max() <= TOLERANCE
        assert np.abs(row.masses.sum(axis=1) - 1).max() <= TOLERANCE


# The weights


@pytest.mark.parametrize("kind", ONE_EACH, ids="-".join)
def test_plain_models_agree_with_eager_attention(make_kind: Make, kind: Kind) -> None:
    model = make_kind(kind)
    rows = list(attention_rows(model, TEXTS))
    assert all(len(row.masses) == LAYERS for row in rows)
    assert_close(rows, pooled(eager(model, TEXTS), kind[1]))


@pytest.mark.parametrize(
    "kind",
    [*REPRESENTATIVES, pytest.param(("t5", "mean", "right"), marks=pytest.mark.slow)],
    ids="-".join,
)
def test_calibrated_models_agree_with_whole_matrices(make_kind: Make, kind: Kind) -> None:
    """In tiled layers and in those after them; with baskets on top of the pooled row."""
    model = make_kind(kind)
    segments = fairspan.SegmentedText([words(count, seed=count) for count in (3, 20, 9)])
    every = SETTINGS if kind[1] == "mean" else [*SETTINGS, BASKETS_IN_TILES]
    for fields in every:
        texts = [*TEXTS, segments] if "calibration" in fields else TEXTS
        fair = fairspan.calibrate(model, **fields)
        assert_close(list(attention_rows(fair, texts)), by_matrices(fair, texts, kind[1]))


def test_tiles_beyond_the_positions(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls", max_position_embeddings=60)
    fair = fairspan.calibrate(model, "tiles-16", sides="document", max_seq_length=100)
    texts = [words(98), words(5)]
    assert_close(list(attention_rows(fair, texts)), by_matrices(fair, texts, "cls"))
    refused(fair, "text 0 has 102 tokens, .* and the model reads 100", [words(100)])
    of_queries = fairspan.calibrate(model, "tiles-16", sides="query", max_seq_length=100)
    refused(of_queries, "text 0 has 100 tokens, .* and the model reads 60", texts)
    rows = [next(attention_rows(own, [words(40)])) for own in (of_queries, model)]
    assert np.array_equal(rows[0].masses, rows[1].masses)


def test_calibrated_baskets_hold_equal_shares(make_tiny: Make) -> None:
    """CLS pooling, 28 words in baskets of 7: 1/6 for <s>, each run of 7, and </s>."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), basket_size=7)
    (row,) = attention_rows(fair, [words(28)])
    profile = by_basket(row, 7)
    shares = np.column_stack([profile.rest["first"], profile.parts, profile.rest["last"]])
    assert np.allclose(shares[LAYERS // 2 :], 1 / 6, atol=1e-6)
    assert np.abs(shares[: LAYERS // 2] - 1 / 6).max() > 0.05


@pytest.mark.parametrize(
    ("pooling", "settings"), [("cls", None), ("mean", {"basket_size": 7, "strength": 0.5})]
)
def test_blocks_do_not_show(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, pooling: str, settings: dict[str, Any] | None
) -> None:
    model = make_tiny("gte", pooling)
    model = model if settings is None else fairspan.calibrate(model, **settings)
    together = [row.masses for row in attention_rows(model, TEXTS)]
    monkeypatch.setattr(average_row_module, "_WEIGHTS_AT_A_TIME", 1)
    assert_close(list(attention_rows(model, TEXTS)), together)


class LargestTensor(TorchDispatchMode):
    """The most elements that any tensor of a block has in memory; views count once."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                elements = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.elements = max(self.elements, elements)
        return made


@pytest.mark.parametrize("calibrated", [False, True])
def test_no_tensor_grows_with_the_square_of_the_length(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, calibrated: bool
) -> None:
    """A text of 2048 tokens, of which all rows are pooled: none has more than a quarter of L×L
    elements, all heads together."""
    # Under it every inner step can be seen.
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)
    length = 2048
    model = make_tiny("bert", "mean", max_position_embeddings=length)
    model.max_seq_length = length
    if calibrated:
        model = fairspan.calibrate(model, basket_size=128, strength=0.5)
    with LargestTensor() as largest:
        (row,) = attention_rows(model, [words(length - 2)])
    assert row.masses.shape == (LAYERS, length)
    assert largest.elements <= length**2 // 4


def test_real_weights(minilm: SentenceTransformer) -> None:
    texts = [
        "Fairness is a claim of equivalence, so it needs an equivalence test.",
        "The Danube rises in the Black Forest and flows through ten countries. " * 8,
    ]
    rows = list(attention_rows(minilm, texts))
    assert_close(rows, pooled(eager(minilm, texts), "mean"))
    begin, end = rows[0].offsets[rows[0].content][3]
    assert texts[0][begin:end] == "claim"
    fair = fairspan.calibrate(minilm, basket_size=32)
    assert_close(list(attention_rows(fair, texts)), by_matrices(fair, texts, "mean"))


# The model and its texts


def test_prompts_are_flagged_and_not_counted_in_offsets(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean", padding_side="left")
    prompt = "w1 w2: w3 "
    rows = list(attention_rows(model, TEXTS[:3], prompt=prompt))
    assert_close(rows, pooled(eager(model, TEXTS[:3], prompt=prompt), "mean"))
    for text, row in zip(TEXTS, rows, strict=False):
        assert row.special.tolist() == [True, *[False] * (len(row.special) - 2), True]
        assert np.flatnonzero(row.prompt).tolist() == [1, 2, 3]
        assert (row.offsets[~row.content] == NO_CHARACTER).all()
        assert [text[begin:end] for begin, end in row.offsets[row.content]] == text.split()


@pytest.mark.parametrize(("pooling", "padding_side"), [("cls", "right"), ("mean", "left")])
def test_rows_that_are_not_pooled_do_not_count(
    make_tiny: Make, pooling: str, padding_side: str
) -> None:
    """With include_prompt=False, sentence-transformers leaves out <s> and the prompt's tokens."""
    transformer = make_tiny("bert", pooling, padding_side=padding_side)[0]
    modules = [transformer, Pooling(HIDDEN, pooling, include_prompt=False)]
    model = SentenceTransformer(modules=modules, device="cpu")
    prompt = "w1 w2 "
    counted = [own[:, :, 3:] for own in eager(model, TEXTS[:3], prompt=prompt)]
    assert_close(list(attention_rows(model, TEXTS[:3], prompt=prompt)), pooled(counted, pooling))


def test_routes(make_tiny: Make) -> None:
    """Documents take theirs, whatever queries go through."""
    model = make_tiny("bert", "cls")
    static = [StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=HIDDEN)]

    def routed(query: list[nn.Module], document: list[nn.Module]) -> SentenceTransformer:
        router = Router.for_query_document(query, document)
        return SentenceTransformer(modules=[router], device="cpu")

    expected = [row.masses for row in attention_rows(model, TEXTS)]
    for query in ([*make_tiny("roberta", "mean").children()], static):
        both = routed(query, [*model.children()])
        assert_close(list(attention_rows(both, TEXTS)), expected)
    refused(routed([*model.children()], static), "no transformer")


# Refusals, before any text goes through


def refused(
    model: SentenceTransformer, because: str, texts: list[str] = TEXTS, **options: Any
) -> None:
    with pytest.raises(UnsupportedModel, match=because) as caught:
        attention_rows(model, texts, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_texts_that_do_not_fit_are_named(make_tiny: Make, tmp_path: Path) -> None:
    many = [words(510)] * 40 + [words(600)]
    refused(make_tiny("bert", "cls"), "text 40 has 602 tokens.* reads 512", many)
    refused(make_tiny("bert", "cls"), "text 0 has 513 tokens", [words(510)], prompt="w1 ")
    model = tiny_model(tmp_path, "roberta", "mean", max_position_embeddings=102)
    model.max_seq_length = 512
    refused(model, "text 1 has 102 tokens.* reads 100", [words(98), words(100)])
    assert len(list(attention_rows(model, [words(98)]))) == 1


def test_texts_without_tokens(make_tiny: Make) -> None:
    model = copy.deepcopy(make_tiny("qwen3", "lasttoken"))
    model.tokenizer.backend_tokenizer.post_processor = None
    refused(model, "text 1 has no tokens", ["w1 w2", ""])


# The measures


def row_of(masses: Any, *, special: Any = (), prompt: Any = (), width: int = 2) -> AttentionRow:
    """A row whose content tokens stand for `width` characters each, one space apart."""
    masses = np.atleast_2d(np.asarray(masses, dtype=np.float64))
    tokens = masses.shape[1]
    numbers = [np.array(which, dtype=int) % tokens for which in (special, prompt)]
    flags = [np.isin(np.arange(tokens), which) for which in numbers]
    offsets = np.full((tokens, 2), NO_CHARACTER)
    content = ~(flags[0] | flags[1])
    offsets[content, 0] = np.arange(content.sum()) * (width + 1)
    offsets[content, 1] = offsets[content, 0] + width
    return AttentionRow(masses / masses.sum(axis=1, keepdims=True), offsets, *flags)


@pytest.mark.parametrize(
    ("row", "parts", "rest"),
    [
        (
            row_of([[5, 1, 2, 3, 4, 5, 10], [0, 1, 1, 1, 1, 1, 5]], special=(0, -1)),
            [[3 / 30, 7 / 30, 5 / 30], [0.2, 0.2, 0.1]],
            [[5 / 30, 0], [10 / 30, 0.5], [0, 0]],
        ),
        (row_of([1, 2, 3]), [[0.5, 0.5]], [[0], [0], [0]]),
        (
            row_of([1, 2, 3, 4, 10], special=(0, 2, -1), prompt=(1,)),
            [[4 / 20]],
            [[1 / 20], [10 / 20], [5 / 20]],
        ),
        (row_of([1, 3], special=(0, 1)), [[]], [[0.25], [0.75], [0]]),
        (row_of([1], special=(0,)), [[]], [[1], [0], [0]]),
    ],
    ids=["special tokens", "no special tokens", "a prompt", "no content", "one token"],
)
def test_baskets_of_content_with_special_tokens_on_their_own(
    row: AttentionRow, parts: list[list[float]], rest: list[list[float]]
) -> None:
    profile = by_basket(row, 2)
    assert profile.parts.tolist() == [pytest.approx(own) for own in parts]
    assert list(profile.rest) == ["first", "last", "other"]
    assert [own.tolist() for own in profile.rest.values()] == [pytest.approx(own) for own in rest]
