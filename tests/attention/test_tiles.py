"""Texts in tiles: the engine against whole matrices, and the properties that tiles promise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from torch import Tensor

import fairspan
from fairspan import SegmentedText
from fairspan.attention import tile_rows as tile_rows_module
from fairspan.attention.plan import Plan
from fairspan.attention.tiles import GLOBAL, NO_TILE, lay_tiles
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model import splitting, tiling
from tests.attention.by_matrices import matrices_instead
from tests.attention.reference import Place, sees_by_position, sees_by_tile, tile_places
from tests.attention.test_architectures import TOLERANCE, assert_agrees, error, outputs
from tests.attention.test_profile import LargestTensor
from tests.builders.tiny import ARCHITECTURES, ONE_EACH, POOLINGS, SIDES, Kind, tiny_model, words

Make = Callable[..., SentenceTransformer]

# Unequal lengths, so that every batch is padded: two tiles of 64, ends inside a tile of 7, exactly
# at a border, one token after it, less than a tile, one token, none.
TEXTS = [words(count, seed) for seed, count in enumerate((70, 45, 28, 8, 7, 3, 1, 0), 1)]
PLAIN: list[dict[str, Any]] = [
    {"calibration": "tiles-7"},
    {"calibration": "tiles-16", "temperature": 1.0},
    {"calibration": "tiles-64", "temperature": 0.8},
    {"calibration": "tiles-1", "temperature": 0.7},
    {"calibration": "tiles-7", "temperature": 0.5, "scale_position_bias": True},
    {"calibration": "tiles-64", "tile_size": "window", "temperature": 0.6},
]
# For the pooled row alone: every row of a tiled layer in baskets is refused.
WITH_BASKETS: list[dict[str, Any]] = [
    {"tile_size": 7, "strength": 1.0, "basket_size": 5, "layers": "all"},
    {"tile_size": 16, "temperature": 0.9, "strength": 0.5, "basket_size": 7}
    | {"bos": "original", "eos": "equal"},
]


@pytest.fixture(autouse=True)
def _read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short and long texts in one pass, as in training and in compiled graphs."""
    monkeypatch.setattr(splitting, "CPU_PASS", 10**6)


# The definition, by eye


def test_places_by_hand() -> None:
    """Nine tokens: <s>, seven of content in tiles of three at most, and </s>, which stands after
    the longest tile."""
    f, e = Place(None, 0), Place(None, 4)
    first, second, third = (
        [Place(tile, 1 + o) for o in range(n)] for tile, n in ((0, 3), (1, 2), (2, 2))
    )
    assert tile_places(9, 3, lead=1, trail=1) == [f, *first, *second, *third, e]
    segments = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]
    places = tile_places(10, None, lead=1, trail=1, segment=segments)
    assert [place.tile for place in places] == [None, 0, 0, 1, 1, 1, 1, 1, 2, None]
    assert [place.position for place in places] == [0, 1, 2, 1, 2, 3, 4, 5, 1, 6]
    assert tile_places(2, 3, lead=1, trail=1) == [f, Place(None, 1)]
    assert tile_places(1, 3, lead=1, trail=1) == [f]


def test_what_is_seen_by_hand() -> None:
    """<s>, two tiles of two tokens, </s>: by tile, causal, and with a window of one position."""
    places = tile_places(6, 2, lead=1, trail=1)
    everything, nothing = [1] * 6, [0] * 6
    own = [[1, 1, 1, 0, 0, 1]] * 2 + [[1, 0, 0, 1, 1, 1]] * 2
    assert sees_by_tile(places).int().tolist() == [everything, *own, everything]
    causal = sees_by_position(places, causal=True, window=None)
    assert causal.int().tolist() == [everything[: row + 1] + nothing[row + 1 :] for row in range(6)]
    # At positions 0, 1, 2, 1, 2, 3.
    near = [[1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]]
    both_ways = [near[0], near[1], near[2], near[1], near[2], [0, 0, 1, 0, 1, 1]]
    assert sees_by_position(places, causal=False, window=1).int().tolist() == both_ways
    # The fourth token, at position 1, sees the third behind it, at position 2.
    backwards = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]]
    backwards += [[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1]]
    assert sees_by_position(places, causal=True, window=1).int().tolist() == backwards


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], int, int, int, bool, list[list[int]] | None]:
    """Lengths, tile size, global tokens, the padding's side, and perhaps segments of texts."""
    lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any))
    size, lead, trail = draw(st.integers(1, 9)), draw(st.integers(0, 3)), draw(st.integers(0, 2))
    segments = None
    if draw(st.booleans()):
        steps = [draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) for n in lengths]
        segments = [[-1] * len(s) if draw(st.booleans()) else np.cumsum(s).tolist() for s in steps]
    return lengths, size, lead, trail, draw(st.booleans()), segments


@given(batches())
def test_tiles_lie_where_the_definition_has_them(drawn: Any) -> None:
    """Of every token of a batch its tile and position, and of every tile its start and length."""
    lengths, size, lead, trail, left, segments = drawn
    width, longest = max(lengths), 2 * size
    valid, segment = torch.zeros(len(lengths), width, dtype=torch.bool), None
    own = [slice(width - n, width) if left else slice(n) for n in lengths]
    for row, where in zip(valid, own, strict=True):
        row[where] = True
    if segments is not None:
        segment = torch.full(valid.shape, 7)
        for row, where, given_ in zip(segment, own, segments, strict=True):
            row[where] = torch.tensor(given_, dtype=torch.long)
            if -1 in given_:
                row[:] = -1
    tiles = lay_tiles(valid, size, lead=lead, trail=trail, segment=segment, longest=longest)
    for text, (where, count) in enumerate(zip(own, lengths, strict=True)):
        segmented = segments is not None and segments[text][:1] != [-1] and count > 0
        cut = {"longest": longest, "segment": segments[text]} if segmented else {"longest": size}
        wanted = tile_places(count, lead=lead, trail=trail, **cut)
        assert tiles.position[text, where].tolist() == [place.position for place in wanted]
        numbers = [GLOBAL if place.tile is None else place.tile for place in wanted]
        assert tiles.tile[text, where].tolist() == numbers
        assert set(tiles.tile[text][~valid[text]].tolist()) <= {NO_TILE}
        runs = [numbers.count(tile) for tile in range(max([*numbers, -1]) + 1)]
        starts = [
            where.start + numbers.index(tile) if left else numbers.index(tile)
            for tile in range(len(runs))
        ]
        there = tiles.length[text] > 0
        assert tiles.length[text][there].tolist() == runs
        assert tiles.start[text][there].tolist() == starts
        assert tiles.width >= max(runs, default=0)
        assert int(tiles.position[text].max()) < tiles.positions
    assert tiles.padded or bool(valid.all())


# Whole models against whole matrices


def whole_cross() -> Iterator[Any]:
    """Every architecture with every pooling, and on both sides, slowly: with one half of the
    settings in turn, so that every architecture and every pooling meets all of them. Each once with
    one of them, quickly."""
    for number, (architecture, pooling) in enumerate(product(ARCHITECTURES, POOLINGS)):
        every = PLAIN if pooling == "mean" else PLAIN + WITH_BASKETS
        turn, place = divmod(number, len(POOLINGS))
        kind = (architecture, pooling, SIDES[(turn // 2 + place) % 2])
        yield pytest.param(kind, every[(turn + place) % 2 :: 2], marks=pytest.mark.slow)
        if (turn + place) % 3 == 0:
            yield pytest.param(kind, [every[number % len(every)]])


@pytest.mark.parametrize(("kind", "every"), list(whole_cross()))
def test_tiles_agree_with_whole_matrices(
    make_kind: Make, kind: Kind, every: list[dict[str, Any]]
) -> None:
    for fields in every:
        assert_agrees(fairspan.calibrate(make_kind(kind), **fields), TEXTS)


# Positions after the padding's, rotary ones and none; windows, position biases, causal order.
DIFFERENT = ["bert", "roberta", "modernbert", "gte", "qwen3", "gemma3_text", "t5", "mpnet"]


def kinds(quick: Sequence[str], every: Sequence[Kind] = ONE_EACH) -> Any:
    """A kind of each architecture that reads texts in another way, and of the quick ones; the
    others are slow. `whole_cross` has every architecture."""
    slow = pytest.mark.slow
    some = [kind for kind in every if kind[0] in (*quick, *DIFFERENT)]
    marked = [pytest.param(kind, marks=() if kind[0] in quick else slow) for kind in some]
    return pytest.mark.parametrize("kind", marked, ids="-".join)


@kinds(["roberta", "mistral", "mpnet"])
def test_segments_are_tiles(make_kind: Make, kind: Kind) -> None:
    """Beside texts without segments; segments longer than the positions reach are cut into runs."""
    pages = [[9, 3, 20], [1, 1, 1, 30], [40], [5, 5]]
    documents = [
        SegmentedText([words(n, seed=n + number) for number, n in enumerate(counts)])
        for counts in pages
    ]
    assert_agrees(fairspan.calibrate(make_kind(kind), "tiles-7"), documents)
    few = make_kind(kind, max_position_embeddings=20)
    fair = fairspan.calibrate(few, "tiles-7", max_seq_length=90, temperature=0.7)
    assert_agrees(fair, [*documents, words(50), "", "w1"])


@kinds(["xlm-roberta", "gemma3_text"])
@pytest.mark.parametrize("include_prompt", [True, False])
def test_prompts_are_global(make_kind: Make, kind: Kind, include_prompt: bool) -> None:
    """As special tokens are; a token that is pooled after the prompt is global, too."""
    model = make_kind(kind)
    model[1].include_prompt = include_prompt
    fair = fairspan.calibrate(model, "tiles-7")
    assert_agrees(fair, TEXTS[1:], prompt="w1 w2 w3 ")
    pages = [SegmentedText([words(9, seed=1), words(20, seed=2)]), SegmentedText([words(3)])]
    assert_agrees(fair, pages, prompt="w1 w2 w3 ")


@kinds(["bert", "electra", "t5"])
def test_tokenizers_without_special_tokens(make_kind: Make, kind: Kind) -> None:
    """The pooled token is global all the same; with mean pooling no token is."""
    model = make_kind(kind)
    model.tokenizer.backend_tokenizer.post_processor = None
    fair = fairspan.calibrate(model, "tiles-7")
    assert_agrees(fair, TEXTS[:-1])
    alone = fair.encode(TEXTS[1])
    assert np.abs(fair.encode(["", *TEXTS[:2]])[2] - alone).max() <= TOLERANCE * np.abs(alone).max()


OTHERS = [("mistral", "lasttoken", "left"), ("t5", "mean", "right"), ("bert", "mean", "left")]


@kinds(["mistral", "t5"], [*OTHERS, ("modernbert", "cls", "right")])
def test_blocks_do_not_show(make_kind: Make, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """One row or tile at a time, tiles padded to no common width, and all tiles in one group as on
    a device whose values are not looked at."""
    model = make_kind(kind)
    fields = {"scale_position_bias": kind[0] == "t5"}
    fair = fairspan.calibrate(model, "tiles-7", **fields)
    model.tokenizer.backend_tokenizer.post_processor = None
    bare = fairspan.calibrate(model, "tiles-7", **fields)
    with monkeypatch.context() as patched:
        for name in ("_ROWS_AT_A_TIME", "_MASK_AT_A_TIME", "_STEP", "_LENGTHS"):
            patched.setattr(tile_rows_module, name, 1)
        assert_agrees(fair, TEXTS)
        assert_agrees(bare, TEXTS[1:-1])
    with monkeypatch.context() as patched:
        patched.setattr(torch.compiler, "is_compiling", lambda: True)
        assert_agrees(fair, TEXTS)
        assert_agrees(bare, TEXTS[1:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_very_large_dimension_does_not_hide_the_others(
    make_tiny: Make, dtype: torch.dtype
) -> None:
    """Trained models have some, the same in every token. Beside it the influence of one token on
    another is small, 3 % at most, and must not be taken for rounding, of which bfloat16 has much:
    the model is not causal."""
    model = copy.deepcopy(make_tiny("modernbert", "mean")).to(dtype)
    embeddings = model[0].model.embeddings
    embeddings.tok_embeddings.weight.data[:, 3] = 4
    embeddings.norm.weight.data[3] = 10
    fair = fairspan.calibrate(model, "tiles-7")
    assert not fair[0].tiling.positions.causal
    assert_agrees(fair, TEXTS, TOLERANCE if dtype == torch.float32 else 0.08)


def test_bidirectional_gemma(make_tiny: Make) -> None:
    """A decoder that was made to look both ways, with windows: its masks come from functions of its
    own."""
    model = make_tiny("gemma3_text", "mean", use_bidirectional_attention=True)
    fair = fairspan.calibrate(model, "tiles-16")
    assert not fair[0].tiling.positions.causal
    assert_agrees(fair, TEXTS)


# 1. Texts of at most one tile


@kinds(["roberta", "qwen3", "mpnet"])
def test_texts_of_one_tile_are_read_as_they_were(make_kind: Make, kind: Kind) -> None:
    """To the last bit in a batch of their kind, and up to rounding beside a text of several tiles.

    The latter against each text alone: with padding on the left, plain models count positions from
    the padding on.
    """
    model = make_kind(kind)
    small = fairspan.calibrate(model, "tiles-8", pooling="model")
    model.max_seq_length = 10
    long = fairspan.calibrate(model, "tiles-128", short_texts="leave")

    @settings(max_examples=10)
    @given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.sampled_from([small, long]))
    @example([8], long)
    @example([8, 0, 1, 7], small)
    @example([8, 0, 1, 7], long)
    def check(lengths: list[int], fair: SentenceTransformer) -> None:
        texts = [words(length, seed=length) for length in lengths]
        plain, tiled = model.encode(texts), fair.encode(texts)
        # transformers computes MPNet's attention by matrices, and everything else as the engine
        # does, by SDPA.
        if kind[0] != "mpnet":
            assert np.array_equal(plain, tiled)
        assert np.abs(plain - tiled).max() <= TOLERANCE * np.abs(plain).max()
        alone = np.stack([model.encode(text) for text in texts])
        mixed = fair.encode([*texts, words(19)])[:-1]
        assert np.abs(mixed - alone).max() <= TOLERANCE * np.abs(alone).max()

    check()
    # The tiles of longer texts have the size of the window.
    without_even = fairspan.calibrate(model, "tiles-128", short_texts="leave", pooling="model")
    assert_agrees(without_even, [words(19), words(8), words(30)])
    # A longer text is read to its end, which the plain model never sees.
    assert np.array_equal(model.encode(words(19)), model.encode(words(20)))
    sees_nothing = kind[1] == "cls" and long[0].tiling.positions.causal
    assert np.allclose(long.encode(words(19)), long.encode(words(20)), atol=1e-3) == sees_nothing


# 2. The order of tiles

ORDERLESS = [
    *(("bert", "cls", "right"), ("mpnet", "mean", "right"), ("modernbert", "mean", "left")),
    ("qwen3", "lasttoken", "left"),
]


@pytest.mark.parametrize("kind", ORDERLESS, ids="-".join)
def test_the_order_of_tiles_does_not_matter(make_kind: Make, kind: Kind) -> None:
    """Of equally long ones. Nor does the order of segments matter, of any lengths, if they are
    tiles. In a plain model it does."""
    model = make_kind(kind)
    fair = fairspan.calibrate(model, "tiles-6")

    def both_orders(model: SentenceTransformer, parts: list[str], order: list[int]) -> float:
        turned = [parts[number] for number in order]
        vectors, _ = outputs(model, [" ".join(parts), " ".join(turned)])
        return error(vectors[1], vectors[0])

    @settings(max_examples=8)
    @given(order=st.permutations(range(4)), length=st.integers(5, 6))
    def check(order: list[int], length: int) -> None:
        parts = [words(length, seed=number) for number in range(4)]
        assert both_orders(fair, parts, order) <= TOLERANCE
        unequal = [words(3 * number + 1, seed=number) for number in range(4)]
        pages = [unequal, [unequal[number] for number in order]]
        one, other = fairspan.encode_segments(fair, pages, convert_to_tensor=True)
        assert error(other, one) <= TOLERANCE

    check()
    full = [words(6, seed=number) for number in range(4)]
    assert both_orders(model, full, [2, 0, 3, 1]) > 100 * TOLERANCE


# 3. Any length


@kinds(ARCHITECTURES, [ORDERLESS[0], ORDERLESS[2], ("qwen3", "lasttoken", "right")])
@pytest.mark.parametrize("include_prompt", [True, False])
@torch.inference_mode()
def test_texts_of_similar_lengths_are_read_together(
    make_kind: Make, monkeypatch: pytest.MonkeyPatch, kind: Kind, include_prompt: bool
) -> None:
    """Where a pass takes as long as 48 tokens, and with a bounded number of tokens.
    Whoever wants the tokens gets all of them, in order."""
    texts = [words(9), words(33), words(90), "", words(3), words(40), "w1"]
    fair = fairspan.calibrate(make_kind(kind), "tiles-16", pooling="auto")
    fair[1].include_prompt = include_prompt
    options = {} if include_prompt else {"prompt": "w7 w8 "}
    more = 0 if include_prompt else 2
    together = fair(fair.preprocess(texts, **options))
    own = fair[0].model.forward
    monkeypatch.setattr(splitting, "CPU_PASS", 48)
    for most, wanted in [(2**15, [(1, 92), (2, 42), (4, 11)]), (80, [(1, 92), (1, 42), (1, 35)])]:
        passes: list[tuple[int, ...]] = []
        monkeypatch.setattr(splitting, "AT_A_TIME", most)
        spy = patch.object(
            fair[0].model,
            "forward",
            lambda passes=passes, **x: passes.append((*x["input_ids"].shape,)) or own(**x),
        )
        with spy:
            parts = fair(fair.preprocess(texts, **options))
            assert passes[:3] == [(count, width + more) for count, width in wanted]
        for name in ("sentence_embedding", "token_embeddings"):
            valid = together["attention_mask"].bool() if name[0] == "t" else slice(None)
            assert error(parts[name][valid], together[name][valid]) <= TOLERANCE


@pytest.mark.parametrize("on_gpu", [False, True])
@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 9000) | st.integers(0, 60), min_size=1, max_size=8))
def test_no_other_parts_take_less_time(on_gpu: bool, lengths: list[int]) -> None:
    """Of all ways to cut a sorted batch, if a pass takes 48 tokens more on a CPU, and on a GPU at
    least as long as 4,096 tokens. A text without tokens is never read alone."""
    lengths.sort(reverse=True)

    def time(parts: list[list[int]]) -> int:
        tokens = [part[0] * len(part) for part in parts]
        return sum(max(4096, count) if on_gpu else count + 48 for count in tokens)

    def is_allowed(part: list[int]) -> bool:
        return part[0] * len(part) <= 2**15 or not any(part[1:])

    def cut(sizes: Sequence[int]) -> list[list[int]]:
        ends = np.cumsum(sizes).tolist()
        return [lengths[start:end] for start, end in pairwise([0, *ends])]

    ways = []
    for bounds in product([False, True], repeat=len(lengths) - 1):
        starts = [0, *(place for place, bound in enumerate(bounds, 1) if bound), len(lengths)]
        parts = cut([end - start for start, end in pairwise(starts)])
        if all(part[0] > 0 for part in parts[1:]) and all(map(is_allowed, parts)):
            ways.append(time(parts))
    with patch.object(splitting, "CPU_PASS", 48):
        best = cut(splitting.cheapest_parts(np.array(lengths), on_gpu=on_gpu))
    assert all(part[0] > 0 for part in best[1:])
    assert [length for part in best for length in part] == lengths
    assert time(best) == min(ways)


def test_no_tiles_are_laid_for_a_batch_that_is_read_in_parts(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would be as wide as its longest text, while a GPU waits."""
    monkeypatch.setattr(splitting, "CPU_PASS", 0)
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-16", pooling="even")
    with patch.object(tiling, "lay_tiles", wraps=lay_tiles) as laid:
        fair.encode([words(90), words(40), words(40, 1), "w1"])
    assert [(*call.args[0].shape,) for call in laid.call_args_list] == [(1, 92), (2, 42)]


@contextmanager
def position_ids_seen(fair: SentenceTransformer) -> Iterator[list[int]]:
    """The largest of the position ids that the model is given, pass by pass."""
    seen: list[int] = []
    own = fair[0].model.forward

    def look(**given_: Any) -> Any:
        if "position_ids" in given_:
            seen.append(int(given_["position_ids"].max()))
        return own(**given_)

    with patch.object(fair[0].model, "forward", look):
        yield seen


def test_a_padding_id_beyond_the_positions(make_tiny: Make) -> None:
    """As GPT-2's: positions do not begin after it, and nobody asks for the one that would."""
    fair = fairspan.calibrate(
        make_tiny("bert", "mean", pad_token_id=90, max_position_embeddings=64), "tiles-16"
    )
    assert fair[0].tiling.positions.base == 0
    assert_agrees(fair, [words(50), words(20, 1)])


@kinds(["bert", "camembert", "mpnet", "gemma3_text"])
def test_texts_may_be_longer_than_the_positions(make_kind: Make, kind: Kind) -> None:
    """24 positions at most, base 2 where they begin after the padding's, and texts of 200 tokens:
    every number agrees with the matrices, and no position beyond tile, <s> and </s> is asked for.
    """
    model = make_kind(kind, max_position_embeddings=24)
    before = model.max_seq_length
    fair = fairspan.calibrate(model, "tiles-16", max_seq_length=202)
    assert (fair.max_seq_length, model.max_seq_length) == (202, before)
    with position_ids_seen(fair) as seen:
        assert_agrees(fair, [words(200, seed=1), words(90, seed=2), words(16, seed=3), "w1"])
    base = fair[0].tiling.positions.base
    assert set(seen) == (set() if base is None else {base + 17})
    after_padding = ("mpnet", "roberta", "xlm-roberta", "camembert")
    assert base == {"t5": None, **dict.fromkeys(after_padding, 2)}.get(kind[0], 0)
    assert np.array_equal(fair.encode(words(300, seed=1)), fair.encode(words(200, seed=1)))


# 4. Cost

FIVE = [("bert", "cls"), ("modernbert", "mean"), ("qwen3", "lasttoken"), ("t5", "mean")]
FIVE += [("mpnet", "mean")]
TWO_OF_FIVE = [*FIVE[:2], *(pytest.param(*kind, marks=pytest.mark.slow) for kind in FIVE[2:])]


@pytest.mark.parametrize(("architecture", "pooling"), TWO_OF_FIVE)
def test_no_tensor_grows_with_the_square_of_the_length(
    make_tiny: Make, architecture: str, pooling: str
) -> None:
    """2,050 tokens, alone and beside a shorter text: none has a quarter of L×L elements."""
    model = make_tiny(architecture, pooling, max_position_embeddings=2100)
    fair = fairspan.calibrate(model, "tiles-64", max_seq_length=2050, temperature=0.8)
    for texts in ([words(2048)], [words(2048), words(1000)]):
        # Not in inference mode, in which the inner steps of SDPA cannot be seen.
        with torch.no_grad(), LargestTensor() as largest:
            fair(fair.preprocess(texts))
        assert largest.elements < 2050**2 // 4
    # Its plain attention makes one, so that the test would see it.
    if architecture == "modernbert":
        with torch.no_grad(), LargestTensor() as largest:
            model[0](model.preprocess(texts, processing_kwargs={"text": {"max_length": 2050}}))
        assert largest.elements >= 2050**2


# Sides, limits, copies and training


def test_a_limit_set_by_hand(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-16", sides="document")
    fair.max_seq_length = 30
    assert np.array_equal(fair.encode(words(90)), fair.encode(words(28)))
    assert np.array_equal(fair.encode_query(words(90)), fair.encode_query(words(28)))
    fair.max_seq_length = 900
    long = fair.encode(words(890))
    assert not np.array_equal(long, fair.encode(words(880)))
    assert np.array_equal(fair.encode_query(words(890)), fair.encode_query(words(510)))


def test_a_plain_model_is_read_up_to_its_positions(tmp_path: Path) -> None:
    """Even where rotary positions have no table: a study and a server cut it there as well."""
    model = tiny_model(tmp_path, "qwen3", "lasttoken", max_position_embeddings=60)
    model.max_seq_length = 200
    fair = fairspan.calibrate(model, "paper")
    assert fair.max_seq_length == 60
    assert np.array_equal(fair.encode(words(190)), fair.encode(words(58)))


@pytest.mark.parametrize(("architecture", "pooling"), TWO_OF_FIVE)
def test_gradients_are_those_of_the_matrices(
    make_tiny: Make, architecture: str, pooling: str
) -> None:
    """Of a padded batch, against each text alone: a row that sees nothing has no gradient. In
    float64, but for norms inside some models."""
    model = copy.deepcopy(make_tiny(architecture, pooling)).double()
    fair = fairspan.calibrate(model, "tiles-7", temperature=[(20, 0.5), (None, 0.75)])
    texts = [words(40), words(9), "w1"]
    fast = gradients(fair, [texts])
    with matrices_instead():
        exact = gradients(fair, [[text] for text in texts])
    assert fast.keys() == exact.keys()
    assert len(fast) > 20
    for name, wanted in exact.items():
        off = float((fast[name] - wanted).abs().max())
        assert off <= 1e-5 * float(wanted.abs().max()) + 1e-9, name


BASKETS = {"basket_size": 7, "layers": "all"}


@pytest.mark.parametrize(
    ("pooling", "fields", "part"),
    [
        ("cls", {"calibration": "tiles-64"}, "value"),
        ("mean", {"calibration": "tiles-64"}, "key"),
        ("cls", BASKETS, "key"),
        ("cls", BASKETS | {"strength": 0.5}, "value"),
        ("mean", BASKETS, "value"),
        ("mean", BASKETS | {"strength": 0.5}, "key"),
    ],
)
def test_an_adapter_on_one_part_alone_has_its_gradient(
    make_tiny: Make, pooling: str, fields: dict[str, Any], part: str
) -> None:
    """Then queries of the first layer need none; the reference is as when they do."""
    fair = copy.deepcopy(fairspan.calibrate(make_tiny("bert", pooling), **fields))
    weight = getattr(fair[0].model.encoder.layer[0].attention.self, part).weight
    wanted = gradients(fair, [[words(90)]])
    for parameter in fair.parameters():
        parameter.requires_grad = parameter is weight
    (name, gradient), *rest = gradients(fair, [[words(90)]]).items()
    assert rest == []
    assert error(gradient, wanted[name]) <= 10 * TOLERANCE


@pytest.mark.parametrize(
    ("pooling", "length"), [("cls", 4), ("mean", [4]), ("even", [4, 4]), ("even", 4)]
)
def test_trainers_give_the_length_of_a_prompt_as_a_tensor(
    make_tiny: Make, pooling: str, length: int | list[int]
) -> None:
    model = copy.deepcopy(make_tiny("bert", pooling.replace("even", "mean")))
    model[1].include_prompt = False
    how = "even" if pooling == "even" else "model"
    fair = fairspan.calibrate(model, "tiles-7", pooling=how)
    with torch.inference_mode():
        features = fair.preprocess([words(30, 1), words(20, 2)], prompt="w1 w2 w3 ")
        assert features["prompt_length"] == 4
        wanted = fair(dict(features))["sentence_embedding"]
        vectors = fair(features | {"prompt_length": torch.tensor(length)})["sentence_embedding"]
        if how == "even":
            tokens = fair[0](dict(features)) | {"prompt_length": torch.tensor([4, 4])}
            assert torch.equal(fair[1](tokens)["sentence_embedding"], wanted)
    assert torch.equal(vectors, wanted)
    with pytest.raises(DesignError, match=r"prompts of \[3, 4\] tokens: use one prompt per batch"):
        fair(features | {"prompt_length": torch.tensor([4, 3])})


def gradients(fair: SentenceTransformer, batches: list[list[str]]) -> dict[str, Tensor]:
    """Those of all weights, summed over the batches."""
    fair.zero_grad()
    torch.manual_seed(3)
    for texts in batches:
        fair(fair.preprocess(texts))["sentence_embedding"].pow(3).sum().backward()
    return {name: p.grad.clone() for name, p in fair.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("architecture", "fields"),
    [("t5", {"calibration": "tiles-7"}), ("bert", {"basket_size": 7, "layers": 2})],
)
def test_gradient_checkpointing_computes_every_layer_as_before(
    make_tiny: Make, architecture: str, fields: dict[str, int]
) -> None:
    """Again in reverse order, dropout included. T5 makes its bias in the first of them."""
    fair = fairspan.calibrate(copy.deepcopy(make_tiny(architecture, "mean")), **fields).train()
    batches = [[words(40), words(9)]]
    wanted = gradients(fair, batches)
    for reentrant in (False, True):
        fair[0].model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        fair[0].model.enable_input_require_grads()
        found = gradients(fair, batches)
        assert found.keys() == wanted.keys()
        # The same sums, some in another order; a gradient that is zero but for rounding has no
        # scale of its own.
        scale = max(float(gradient.abs().max()) for gradient in wanted.values())
        off = max(float((found[name] - wanted[name]).abs().max()) for name in wanted)
        assert off <= 1e-5 * scale


def test_a_module_of_several_layers_is_not_computed_again() -> None:
    plan, shared = Plan(), torch.nn.Linear(1, 1)
    assert [plan.enter_layer(shared), plan.enter_layer(shared)] == [0, 1]
    plan.ended = True
    with pytest.raises(
        UnsupportedModel, match=r"one module for 2 layers.*train it without gradient checkpointing"
    ):
        plan.enter_layer(shared)


def test_gradients_of_a_text_that_is_all_prompt(make_tiny: Make) -> None:
    """It has fewer tokens than are global: the first after the prompt is </s>."""
    model = copy.deepcopy(make_tiny("bert", "cls")).double()
    model[1].include_prompt = False
    fair = fairspan.calibrate(model, "tiles-7")

    def gradient(batches: list[list[str]]) -> Tensor:
        fair.zero_grad()
        for texts in batches:
            features = fair(fair.preprocess(texts, prompt="w1 w2 "))
            features["token_embeddings"][features["attention_mask"].bool()].pow(3).sum().backward()
        return fair[0].model.get_input_embeddings().weight.grad.clone()

    assert error(gradient([["", words(20)]]), gradient([[""], [words(20)]])) <= 1e-12
