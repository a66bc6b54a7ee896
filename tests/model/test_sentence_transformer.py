"""A calibrated model does what every SentenceTransformer does, and leaves the plain one alone."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
)
from torch import nn

import fairspan
from fairspan.errors import DesignError
from fairspan.model import CalibratedTransformer, preprocessing, reading
from tests.builders.tiny import HIDDEN, tiny_tokenizer, words

Make = Callable[..., SentenceTransformer]

# From one token to several baskets of 16, out of order.
TEXTS = [words(count, seed) for seed, count in enumerate((40, 3, 80, 16, 1))]
PROMPTS = {"query": "w1 w2 w3 ", "document": "w4 ", "clustering": "w5 w6 "}

# Two orders of summing the same float32 numbers: the plain tiny models differ by up to 1.5e-6
# between batch sizes, with components of up to 2.5, while one calibration differs from another by
# more than 1e-2.
ROUNDING = 1e-5
DIFFERENT = 1e-2


@pytest.fixture
def plain(representative: SentenceTransformer) -> SentenceTransformer:
    return representative


def on_cpu(*modules: nn.Module, **options: Any) -> SentenceTransformer:
    return SentenceTransformer(modules=list(modules), device="cpu", **options)


def calibrate(model: SentenceTransformer, *args: Any, **fields: Any) -> SentenceTransformer:
    """Calibrated with baskets that the test's texts fill several of."""
    return fairspan.calibrate(model, *args, **{"basket_size": 16, **fields})


def with_prompts(model: SentenceTransformer, default: str | None = None) -> SentenceTransformer:
    """A model with prompts of its own on the same modules."""
    return on_cpu(*model.children(), prompts=dict(PROMPTS), default_prompt_name=default)


def two_towers(make_tiny: Make) -> SentenceTransformer:
    """Queries through a mean-pooled RoBERTa, documents through a CLS-pooled BERT."""
    router = Router.for_query_document(
        query_modules=list(make_tiny("roberta", "mean").children()),
        document_modules=list(make_tiny("bert", "cls").children()),
    )
    return on_cpu(router, Normalize())


def distance(one: Any, other: Any) -> float:
    """The largest difference between any two components."""
    first, second = (torch.as_tensor(np.asarray(x)).double() for x in (one, other))
    assert first.shape == second.shape
    return float((first - second).abs().max())


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other)


def left_alone(plain: SentenceTransformer, vectors: np.ndarray, untouched: np.ndarray) -> bool:
    """Bit for bit, if the plain model uses SDPA too; MPNet multiplies in another order."""
    if plain[0].model.config._attn_implementation == "sdpa":
        return same(vectors, untouched)
    return distance(vectors, untouched) < ROUNDING


# What encode returns


def test_long_texts_come_in_every_form_that_encode_offers(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "cls", normalize=True), "tiles-16")
    vectors = fair.encode(TEXTS)
    assert same(fair.encode(TEXTS, truncate_dim=8), vectors[:, :8])
    assert same(fair.encode(TEXTS, convert_to_tensor=True).numpy(), vectors)
    assert same(fair.encode(TEXTS, precision="ubinary"), np.packbits(vectors > 0, axis=1))
    features = fair.encode(TEXTS, output_value=None)
    assert same(np.stack([text["sentence_embedding"] for text in features]), vectors)
    tokens = fair.encode(TEXTS, output_value="token_embeddings")
    assert [len(one) for one in tokens] == [len(text.split()) + 2 for text in TEXTS]


@pytest.mark.parametrize("sides", ["both", "document"])
def test_a_limit_for_queries_or_of_a_call_is_kept(make_tiny: Make, sides: str) -> None:
    plain = copy.deepcopy(make_tiny("bert", "mean"))
    plain[0].query_length = 10
    fair = fairspan.calibrate(plain, "tiles-128+short_texts=leave", sides=sides)
    for options in ({}, {"processing_kwargs": {"text": {"max_length": 6}}}):
        assert same(fair.encode_query(TEXTS, **options), plain.encode_query(TEXTS, **options))


class Squared(nn.Module):
    """Reads all tokens before they are pooled."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {**features, "token_embeddings": features["token_embeddings"] ** 2}


@pytest.mark.parametrize(
    "pooling", ["cls", "lasttoken", "mean", "without prompt", "several", "squared"]
)
def test_of_a_very_large_batch_only_vectors_are_kept(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    """Unless several modules read the tokens. Who asks for token embeddings gets an error."""
    modules = [*copy.deepcopy(make_tiny("bert", "mean"))]
    modes = {"several": ("cls", "mean"), "without prompt": "mean", "squared": "mean"}
    mode = modes.get(pooling, pooling)
    dimension = modules[1].embedding_dimension
    modules[1] = Pooling(dimension, mode, include_prompt=pooling != "without prompt")
    if pooling == "squared":
        modules.insert(1, Squared())
    fair = fairspan.calibrate(SentenceTransformer(modules=modules, device="cpu"), "tiles-16")
    expected = fair.encode(TEXTS, prompt="w1 w2 ")
    monkeypatch.setattr(reading, "MOST_TOKENS", 100)
    assert distance(fair.encode(TEXTS, prompt="w1 w2 "), expected) < ROUNDING
    if pooling not in ("several", "squared"):
        with pytest.raises(DesignError, match="token embeddings: use a smaller batch_size"):
            fair.encode(TEXTS, output_value="token_embeddings")
        (tokens,) = fair.encode(TEXTS[:1], output_value="token_embeddings")
        assert len(tokens) == 42


# Prompts and sides


def test_prompts_are_put_in_front_of_the_texts(make_tiny: Make) -> None:
    """By side, by name, by value and by default, a prompt is text in front of the text."""
    fair = calibrate(with_prompts(make_tiny("bert", "mean")))
    by_hand = {
        name: fair.encode([prompt + text for text in TEXTS]) for name, prompt in PROMPTS.items()
    }
    assert distance(by_hand["query"], by_hand["document"]) > DIFFERENT
    assert same(fair.encode_query(TEXTS), by_hand["query"])
    assert same(fair.encode_document(TEXTS), by_hand["document"])
    assert same(fair.encode(TEXTS, prompt_name="clustering"), by_hand["clustering"])
    assert same(fair.encode(TEXTS, prompt=PROMPTS["clustering"]), by_hand["clustering"])

    default = calibrate(with_prompts(make_tiny("bert", "mean"), default="clustering"))
    assert same(default.encode(TEXTS), by_hand["clustering"])
    assert same(default.encode_query(TEXTS), by_hand["query"])
    with pytest.raises(ValueError, match="'nothing' not found"):
        fair.encode(TEXTS, prompt_name="nothing")


def without_prompt_in_pooling(model: SentenceTransformer) -> SentenceTransformer:
    """Prompts, and pooling that leaves their tokens out, on the same transformer."""
    transformer, pooling = model.children()
    pooled = Pooling(pooling.embedding_dimension, pooling.pooling_mode, include_prompt=False)
    return on_cpu(transformer, pooled, prompts=dict(PROMPTS))


@pytest.mark.parametrize("pooling", ["cls", "mean", "lasttoken"])
def test_pooling_without_the_prompt_pools_the_calibrated_tokens_after_it(
    make_tiny: Make, pooling: str
) -> None:
    """With `include_prompt=False` as pooled by hand behind the prompt."""
    plain = without_prompt_in_pooling(make_tiny("bert", pooling))
    fair = calibrate(plain)
    assert distance(fair.encode_query(TEXTS), plain.encode_query(TEXTS)) > DIFFERENT
    tokens = fair.encode_query(TEXTS, output_value="token_embeddings", batch_size=1)
    skipped = 1 + len(PROMPTS["query"].split())  # <s> counts as the prompt's
    pool = {"cls": lambda x: x[0], "mean": lambda x: x.mean(dim=0), "lasttoken": lambda x: x[-1]}
    by_hand = torch.stack([pool[pooling](part[skipped:]) for part in tokens])
    assert distance(fair.encode_query(TEXTS, batch_size=1), by_hand) < ROUNDING


@pytest.mark.parametrize(("early", "late"), [("cls", "mean"), ("mean", "cls")])
def test_the_pooling_mode_may_be_changed_after_calibrating(
    make_tiny: Make, early: str, late: str
) -> None:
    """The calibration follows the pooling as it is now, or says that it cannot."""
    fair = calibrate(make_tiny("bert", early))
    fair[1].pooling_mode = late
    try:
        vectors = fair.encode(TEXTS)
    except fairspan.FairspanError:
        return
    assert distance(vectors, calibrate(make_tiny("bert", late)).encode(TEXTS)) < ROUNDING


def test_only_the_named_side_is_calibrated_and_plain_encode_is_a_document(
    plain: SentenceTransformer,
) -> None:
    """On the other side the vectors are the plain model's."""
    untouched, calibrated = plain.encode(TEXTS), calibrate(plain).encode(TEXTS)
    assert distance(untouched, calibrated) > DIFFERENT
    of_document, of_query = (calibrate(plain, sides=side) for side in ("document", "query"))
    for encode in (of_document.encode, of_document.encode_document, of_query.encode_query):
        assert same(encode(TEXTS), calibrated)
    for encode in (of_query.encode, of_query.encode_document, of_document.encode_query):
        assert left_alone(plain, encode(TEXTS), untouched)


# Modules around the transformer


@pytest.mark.parametrize(
    ("sides", "name"), [("both", "tiles-16"), ("document", "paper"), ("query", "tiles-16")]
)
def test_both_routes_of_a_router_are_calibrated_each_with_its_own_pooling(
    make_tiny: Make, sides: str, name: str
) -> None:
    """Each tower gives the vectors that it gives when it is calibrated by itself."""
    plain = two_towers(make_tiny)
    fair = calibrate(plain, name, sides=sides)
    query, document = make_tiny("roberta", "mean"), make_tiny("bert", "cls")
    towers = {
        "query": (query if sides == "document" else calibrate(query, name)).encode(TEXTS),
        "document": (document if sides == "query" else calibrate(document, name)).encode(TEXTS),
    }
    expected = {
        side: tower / np.linalg.norm(tower, axis=1, keepdims=True) for side, tower in towers.items()
    }
    assert distance(fair.encode_query(TEXTS), expected["query"]) < ROUNDING
    for vectors in (fair.encode_document(TEXTS), fair.encode(TEXTS)):
        assert distance(vectors, expected["document"]) < ROUNDING
    for side in expected:
        vectors, untouched = (getattr(one, f"encode_{side}")(TEXTS) for one in (fair, plain))
        assert (distance(vectors, untouched) > DIFFERENT) == (sides in ("both", side))


@pytest.mark.parametrize(
    ("side", "options", "task"),
    [
        ("right", {}, "document"),
        ("left", {}, "query"),
        ("left", {"prompt": "w7 w8 "}, "document"),
        ("right", {"max_length": 900}, "document"),
    ],
)
def test_batches_are_padded_as_the_tokenizer_pads_them(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, side: str, options: dict[str, Any], task: str
) -> None:
    """Which it does itself if the call asks for it."""
    texts = [words(5), words(4000), "", words(90)]
    fair = fairspan.calibrate(make_tiny("bert", "mean", padding_side=side), "tiles-64")
    pad = Mock(wraps=preprocessing._pad)
    monkeypatch.setattr(preprocessing, "_pad", pad)
    here = fair.preprocess(texts, task=task, **options)
    assert pad.called
    pad.reset_mock()
    asked = {"text": {"padding": "longest"}}
    by_tokenizer = fair.preprocess(texts, task=task, processing_kwargs=asked, **options)
    # A prompt is tokenized alone, too.
    assert not pad.called or "prompt" in options
    assert here.keys() == by_tokenizer.keys()
    for name, value in by_tokenizer.items():
        assert torch.equal(here[name], value) if torch.is_tensor(value) else here[name] == value


def test_a_router_may_pool_behind_its_routes_and_have_routes_without_attention(
    make_tiny: Make,
) -> None:
    """A shared pooling is found, and a static query route is left alone."""
    torch.manual_seed(0)
    transformer, pooling = make_tiny("bert", "cls").children()
    shared = on_cpu(Router.for_query_document([transformer], [transformer]), pooling)
    expected = calibrate(make_tiny()).encode(TEXTS)
    assert distance(calibrate(shared).encode_document(TEXTS), expected) < ROUNDING
    static = StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=HIDDEN)
    mixed = on_cpu(Router.for_query_document([static], [transformer, pooling]))
    fair = calibrate(mixed)
    assert same(fair.encode_query(TEXTS), mixed.encode_query(TEXTS))
    assert distance(fair.encode_document(TEXTS), expected) < ROUNDING


# Copies, casts and compilers


@pytest.mark.parametrize(
    ("pooling", "cast"), [("cls", "half"), ("mean", "bfloat16"), ("mean", "double")]
)
def test_casting_the_copy_leaves_the_original_alone_and_the_vectors_close(
    make_tiny: Make, pooling: str, cast: str
) -> None:
    """16 roundings to the coarser type, in four layers: more than twice what was seen."""
    plain = make_tiny("bert", pooling)
    before = copy.deepcopy(plain)
    fair = calibrate(plain)
    calibrated = fair.encode(TEXTS)
    vectors = getattr(fair, cast)().encode(TEXTS, convert_to_tensor=True)
    assert vectors.dtype == getattr(torch, {"double": "float64"}.get(cast, cast))
    rounding = max(torch.finfo(vectors.dtype).eps, torch.finfo(torch.float32).eps) / 2
    error = distance(vectors.double(), calibrated)
    assert error <= 16 * rounding * np.abs(calibrated).max()
    assert error < distance(plain.encode(TEXTS), calibrated) / 4, "the calibration was not lost"
    for (name, weight), kept in zip(plain.named_parameters(), before.parameters(), strict=True):
        assert weight.dtype == torch.float32, name
        assert torch.equal(weight, kept), name


def test_a_duplicate_gives_the_same_vectors_from_memory_of_its_own(
    plain: SentenceTransformer, tmp_path: Path
) -> None:
    """It has the calibration, and shares nothing."""
    # Loaded anew: transformers leaves hooks that cannot be pickled in a model that was asked for
    # its hidden states.
    plain.save_pretrained(str(tmp_path))
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    fair = calibrate(plain, "retrieval", sides="document")
    expected = fair.encode_query(TEXTS), fair.encode_document(TEXTS)
    for other in (copy.deepcopy(fair), pickle.loads(pickle.dumps(fair))):
        assert same(other.encode_query(TEXTS), expected[0])
        assert same(other.encode_document(TEXTS), expected[1])
        for parameter in other.parameters():
            parameter.data.zero_()
        assert same(fair.encode_document(TEXTS), expected[1])


@pytest.mark.slow
def test_a_pool_of_processes_gives_the_vectors_of_one(make_tiny: Make) -> None:
    """Spawned workers rebuild the calibrated model from its pickle, prompts and sides included."""
    plain = with_prompts(make_tiny("bert", "cls"))
    untouched = plain.encode_query(TEXTS)
    fair = calibrate(plain, sides="document", tile_size=16, temperature=0.8)
    expected = fair.encode_query(TEXTS), fair.encode_document(TEXTS)
    pool = fair.start_multi_process_pool(["cpu", "cpu"])
    options: Any = {"pool": pool, "chunk_size": 2}
    try:
        assert distance(fair.encode_query(TEXTS, **options), expected[0]) < ROUNDING
        assert distance(fair.encode_document(TEXTS, **options), expected[1]) < ROUNDING
        tokens = fair.encode_document(TEXTS, **options, output_value="token_embeddings")
    finally:
        fair.stop_multi_process_pool(pool)
    # <s>, </s> and the prompt have one token each.
    assert [len(part) for part in tokens] == [len(text.split()) + 3 for text in TEXTS]
    assert distance(torch.stack([part[0] for part in tokens]), expected[1]) < ROUNDING
    assert same(plain.encode_query(TEXTS), untouched)


# Several models side by side


def test_threads_with_different_calibrations_and_the_original_do_not_disturb_each_other(
    make_tiny: Make,
) -> None:
    """Three models over the same weights, in three threads at once, many times over."""
    plain = make_tiny("bert", "cls")
    models = [plain, calibrate(plain), calibrate(plain, strength=0.5, temperature=0.7)]
    expected = [model.encode(TEXTS, batch_size=3) for model in models]
    assert min(distance(expected[i], expected[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > DIFFERENT

    def work(number: int) -> float:
        vectors = [models[number].encode(TEXTS, batch_size=3) for _ in range(12)]
        return max(distance(again, expected[number]) for again in vectors)

    with ThreadPoolExecutor(3) as threads:
        assert max(threads.map(work, range(3))) < ROUNDING


# The model that was calibrated


def test_the_copy_shares_the_memory_of_every_weight(plain: SentenceTransformer) -> None:
    """Yet its parameters are objects of its own."""
    fair = calibrate(plain)
    mine, theirs = dict(fair.named_parameters()), dict(plain.named_parameters())
    assert len(mine) > 10
    assert [name for name in mine if mine[name] is theirs[name]] == []
    mine |= dict(fair.named_buffers())
    theirs |= dict(plain.named_buffers())
    pointers = [{name: tensor.data_ptr() for name, tensor in own.items()} for own in (mine, theirs)]
    assert pointers[0] == pointers[1]


def test_the_original_is_as_it_was(plain: SentenceTransformer) -> None:
    """In all its settings, and its vectors bit for bit."""
    plain = copy.deepcopy(plain)
    vectors = plain.encode(TEXTS)
    plain.train()

    def state() -> tuple[Any, ...]:
        kinds = [(name, type(module), module.training) for name, module in plain.named_modules()]
        config = plain[0].model.config
        settings = (config._attn_implementation, config.to_json_string())
        return kinds, *settings, plain.max_seq_length, dict(plain.prompts)

    before = state()
    fair = calibrate(plain)
    fair.max_seq_length = 24
    fair.prompts["query"] = "w9 "
    fair.truncate_dim = 4
    assert state() == before
    assert all(module.training for module in fair.modules())
    fair.encode(TEXTS)
    assert same(plain.encode(TEXTS), vectors)


# Presets


def test_a_calibration_that_does_nothing_gives_the_plain_vectors_bit_for_bit(
    plain: SentenceTransformer,
) -> None:
    """Strength 0 and temperature 1 leave every number as it was."""
    fair = fairspan.calibrate(plain, temperature=1, strength=0)
    assert isinstance(fair[0], CalibratedTransformer)
    for encode in ("encode", "encode_query", "encode_document"):
        assert same(getattr(fair, encode)(TEXTS), getattr(plain, encode)(TEXTS))
