"""Level vectors: by hand, as a module of a model, in studies, and in exported graphs."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as serialised
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Router

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.fill import Tally
from fairspan.encoding.model_encoder import ModelEncoder, refuse_other_spaces
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model import Level, level
from fairspan.model.fingerprint import fingerprint
from fairspan.model.level import level_of
from fairspan.runs import levelling
from fairspan.runs.embedder import Embedder
from fairspan.runs.levelling import find_common
from fairspan.runs.progress import Silent
from fairspan.runs.subject import open_subject
from tests.builders.tiny import HIDDEN, words
from tests.model.test_identity import encoder_of

Make = Callable[..., SentenceTransformer]

EPS = float(np.finfo(np.float32).eps)
# Of vectors of length 1 with d numbers: v·μ, v − (v·μ)μ, a length, a quotient and a sum are about
# ten roundings of numbers of at most 1, and r/|r| enlarges those of r by |v|/|r|, at most 10 here.
ROUNDING = 100 * EPS
TEXTS = [words(12 + number % 17, 100 + number) for number in range(40)]
EVEN = "plain+pooling=even+sides=document"
DOCUMENTS = [words(5, 1), words(60, 2), words(300, 3), words(1, 4)]
QUERIES = [words(6, 50 + number) for number in range(5)]


def by_hand(v: np.ndarray, mu: np.ndarray, b: float) -> np.ndarray:
    """|v|·(b·μ + √(1 − b²)·unit(v − (v·μ)μ)), vector by vector, in float64."""
    rows = []
    for row in v.astype(np.float64):
        rest = row - (row @ mu) * mu
        rest /= np.sqrt((rest**2).sum())
        rows.append(np.sqrt((row**2).sum()) * (b * mu + np.sqrt(1 - b * b) * rest))
    return np.array(rows)


def vectors_of(count: int, width: int = 24, *, common: float = 1.0, seed: int = 0) -> np.ndarray:
    """[count, width] in float32: vectors of different lengths that have a direction in common."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(count, width)) / np.sqrt(width)
    v[:, 0] += common
    return np.asarray(v * rng.uniform(0.5, 2, size=(count, 1)), dtype=np.float32)


def shares(v: np.ndarray, mu: np.ndarray) -> np.ndarray:
    v = v.astype(np.float64)
    return np.asarray(v @ mu.astype(np.float64) / np.linalg.norm(v, axis=1))


# Arrays


def test_the_direction_is_that_of_the_mean_of_unit_vectors() -> None:
    v = vectors_of(50)
    common = fairspan.fit_level(v)
    units = v.astype(np.float64) / np.linalg.norm(v.astype(np.float64), axis=1, keepdims=True)
    mu = units.mean(axis=0) / np.linalg.norm(units.mean(axis=0))
    assert np.abs(common.direction - mu).max() <= EPS
    assert common.share == pytest.approx(float((units @ mu).mean()), rel=EPS)
    assert common.direction.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        common.direction[0] = 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_are_those_of_the_formula(dtype: Any) -> None:
    common = fairspan.fit_level(vectors_of(50))
    v = vectors_of(30, seed=1).astype(dtype)
    made = common.level(v)
    assert made.dtype == dtype
    expected = by_hand(v, common.direction.astype(np.float64), common.share)
    # One rounding to the dtype; μ in float32 is of length 1 up to some roundings.
    scale = np.linalg.norm(v.astype(np.float64), axis=1, keepdims=True)
    tolerance = 2 * float(np.finfo(dtype).eps) + 8 * EPS
    assert (np.abs(made - expected) <= tolerance * scale).all()


@given(
    b=st.floats(0.05, 0.95),
    other=st.floats(0.05, 0.95),
    seed=st.integers(0, 1000),
    common=st.floats(0, 3),
)
def test_what_is_the_same_for_all_level_vectors(
    b: float, other: float, seed: int, common: float
) -> None:
    """Equal shares and unchanged lengths; neither b nor a level query changes a ranking; level
    vectors stay as they are. In float64, where scores that are closer than 1e-6 count as equal:
    that is ten times what μ in float32 can move them."""
    documents = vectors_of(20, common=common, seed=seed).astype(np.float64)
    queries = vectors_of(4, common=common, seed=seed + 1).astype(np.float64)
    mu = fairspan.fit_level(vectors_of(40, seed=seed + 2)).direction
    first = fairspan.CommonDirection(mu, b)
    second = fairspan.CommonDirection(mu, other)
    made = first.level(documents)
    lengths = np.linalg.norm(documents, axis=1)
    assert np.abs(shares(made, mu) - b).max() < 10 * EPS
    assert np.linalg.norm(made, axis=1) == pytest.approx(lengths, rel=10 * EPS)
    assert np.abs(first.level(made) - made).max() <= ROUNDING * lengths.max()

    def cosines(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        q = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        d = documents / np.linalg.norm(documents, axis=1, keepdims=True)
        return np.asarray(q @ d.T)

    scores = cosines(queries, made)
    for others in (cosines(queries, second.level(documents)), cosines(first.level(queries), made)):
        for row, changed in zip(scores, others, strict=True):
            # Equal up to a positive factor and a constant: a line through all points.
            slope, constant = np.polyfit(row, changed, 1)
            assert slope > 0
            assert np.abs(slope * row + constant - changed).max() < 1e-6


def test_vectors_without_a_rest_stay() -> None:
    common = fairspan.CommonDirection(np.eye(8)[0], 0.7)
    v = np.zeros((5, 8), dtype=np.float32)
    v[1, 0] = -3
    v[2] = np.nan
    v[3, 1] = 2
    v[4, :2] = [1, 1e-7]
    made = common.level(v)
    assert np.array_equal(made[[0, 1, 2, 4]], v[[0, 1, 2, 4]], equal_nan=True)
    assert made[3] == pytest.approx([1.4, 2 * 0.51**0.5, *[0] * 6], rel=4 * EPS)
    assert common.level(v[:0]).shape == (0, 8)
    module = Level(common).level(torch.from_numpy(v)).numpy()
    assert np.array_equal(module[[0, 1, 2, 4]], v[[0, 1, 2, 4]], equal_nan=True)


def changed(v: np.ndarray, row: int, value: float) -> np.ndarray:
    v = v.copy()
    v[row] = value
    return v


@pytest.mark.parametrize(
    ("vectors", "line"),
    [
        (vectors_of(19), "at least 20 vectors, got 19"),
        (vectors_of(50)[0], r"takes vectors \[n, d\], got an array of shape \(24,\)"),
        (["a"] * 30, r"takes vectors \[n, d\]"),
        (changed(vectors_of(50), 6, np.nan), "vector 7 of 50 is not finite"),
        (changed(vectors_of(50), 2, 0), "vector 3 of 50 is all zero"),
        (np.outer(np.arange(1, 31), np.ones(8)), "all 30 vectors have the same direction"),
        (np.concatenate([np.eye(16), -np.eye(16)]), "no direction in common"),
    ],
)
def test_what_no_direction_can_be_found_from(vectors: Any, line: str) -> None:
    with pytest.raises(DesignError, match=line) as raised:
        fairspan.fit_level(vectors)
    assert "\n" not in str(raised.value)


def test_what_is_no_common_direction(tmp_path: Path) -> None:
    common = fairspan.CommonDirection(np.eye(8)[0], 0.7)
    for wrong, line in [
        (lambda: common.level(np.ones((3, 9))), r"\[n, 8\], got an array of shape \(3, 9\)"),
        (lambda: fairspan.CommonDirection(np.ones(8), 0.5), "one vector of length 1"),
        (lambda: fairspan.CommonDirection(np.eye(8)[0], 1.0), "share must be at least 0 and below"),
        (lambda: common.save(tmp_path / "none" / "l.safetensors"), "cannot be written: "),
        (lambda: fairspan.CommonDirection.load(tmp_path / "no.safetensors"), "there is no file"),
    ]:
        with pytest.raises(DesignError, match=line) as raised:
            wrong()
        assert "\n" not in str(raised.value)
    share = np.array(0.5, dtype=np.float32)
    empty, alone, two = ({}, {"share": share}, {"share": share, "direction": np.eye(8)})
    for content in (b"{", *map(serialised, (empty, alone, two))):
        file = tmp_path / "wrong.safetensors"
        file.write_bytes(content)
        with pytest.raises(DesignError, match=r"is not a file that CommonDirection\.save"):
            fairspan.CommonDirection.load(file)


# The module


@pytest.fixture
def plain(make_tiny: Make) -> SentenceTransformer:
    return copy.deepcopy(make_tiny("bert", "mean", normalize=True))


def assert_level(model: SentenceTransformer, unleveled: SentenceTransformer) -> None:
    """Documents by hand from those of the same model without `Level`; queries the same."""
    common = level_of(model)
    assert common is not None
    mu = common.direction.astype(np.float64)
    expected = by_hand(unleveled.encode_document(DOCUMENTS), mu, common.share)
    scale = np.linalg.norm(expected, axis=1, keepdims=True)
    for encode in (model.encode_document, model.encode):
        made = encode(DOCUMENTS)
        assert (np.abs(made - expected) <= ROUNDING * scale).all()
        assert np.abs(shares(made, common.direction) - common.share).max() <= ROUNDING
    assert (model.encode_query(QUERIES) == unleveled.encode_query(QUERIES)).all()


@pytest.mark.parametrize(
    ("architecture", "pooling", "preset", "normalize"),
    [
        ("bert", "mean", "plain", True),
        ("bert", "mean", "fair+short_texts=leave", False),
        ("bert", "mean", EVEN, True),
        ("bert", "cls", "paper", False),
        ("qwen3", "lasttoken", "tiles-64", False),
    ],
)
def test_documents_are_level_and_queries_are_not(
    make_tiny: Make, architecture: str, pooling: str, preset: str, normalize: bool
) -> None:
    model = make_tiny(architecture, pooling, normalize=normalize)
    fair = fairspan.calibrate(model, preset, level=TEXTS)
    assert isinstance(fair[-1], Level)
    assert fair[0].calibration.level
    assert_level(fair, fairspan.calibrate(model, preset, level=False))
    assert level_of(model) is None


def test_it_is_found_with_the_plain_model_and_its_document_prompt(
    plain: SentenceTransformer,
) -> None:
    """Whatever the model was calibrated with before, up to the rounding of another attention."""
    plain.prompts = {"query": "w1 ", "document": "w2 w3 "}
    expected = fairspan.fit_level(plain.encode([f"w2 w3 {text}" for text in TEXTS]))
    without = fairspan.fit_level(plain.encode(TEXTS))
    for model in (plain, fairspan.calibrate(plain, "tiles-64", temperature=0.3)):
        common = level_of(fairspan.calibrate(model, "tiles-64", level=TEXTS))
        assert common is not None
        # Four layers in float32.
        assert np.abs(common.direction - expected.direction).max() < 1e-5
        assert np.abs(common.direction - without.direction).max() > 1e-3, "the premise"


def test_calibrated_again_it_keeps_its_direction(
    plain: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level, "general_texts", lambda: TEXTS[5:35])
    fair = fairspan.calibrate(plain, "tiles-64", level=TEXTS)
    common = level_of(fair)
    again = fairspan.calibrate(fair, "fair")
    assert common is not None
    assert [type(module).__name__ for module in again].count("Level") == 1
    assert level_of(again).direction.tobytes() == common.direction.tobytes()
    other = level_of(fairspan.calibrate(fair, "fair", level=TEXTS[:25]))
    assert not np.allclose(other.direction, common.direction, atol=1e-3)
    from_sample = level_of(fairspan.calibrate(plain, "fair"))
    assert not np.allclose(from_sample.direction, common.direction, atol=1e-3)
    without = fairspan.calibrate(fair, "fair", level=False)
    anew = level_of(fairspan.calibrate(without, "fair", level=True))
    assert anew.direction.tobytes() == from_sample.direction.tobytes(), "found again"
    for removed in (
        fairspan.calibrate(fair, "tiles-64"),
        fairspan.calibrate(fair, fair[0].calibration, level=False),
    ):
        assert level_of(removed) is None
        expected = fairspan.calibrate(plain, "tiles-64").encode(DOCUMENTS)
        assert (removed.encode(DOCUMENTS) == expected).all()
    assert level_of(fair) is not None
    given = fairspan.calibrate(plain, "plain", level=other)
    assert level_of(given).direction.tobytes() == other.direction.tobytes()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (TEXTS[:19], "at least 20 general short texts, got 19"),
        ([*TEXTS, " \n"], r"text 41 of level must not be blank, got ' \\n'"),
        ([*TEXTS, None], "text 41 of level must not be blank, got None"),
        ("true", "level must be True, False, a list of general texts or a CommonDirection"),
        (3, "level must be True, False, a list"),
        (fairspan.CommonDirection(np.eye(8)[0], 0.5), "have 32 dimensions, and level was given a"),
    ],
)
def test_what_nothing_can_be_level_with(plain: SentenceTransformer, value: Any, line: str) -> None:
    with pytest.raises(DesignError, match=line) as raised:
        fairspan.calibrate(plain, "plain", level=value)
    assert "\n" not in str(raised.value)


def test_around_other_modules(make_tiny: Make, plain: SentenceTransformer) -> None:
    """Behind `Dense`, and behind towers for queries and documents: a Router leaves the task in the
    features."""
    torch.manual_seed(0)
    dense = [*list(plain.children())[:2], Dense(HIDDEN, 12)]
    query, document = ([*make_tiny(name, "mean").children()] for name in ("roberta", "bert"))
    towers = Router.for_query_document(query, document, default_route="document")
    for modules, width in ((dense, 12), ([towers], HIDDEN)):
        model = SentenceTransformer(modules=[*modules, Normalize()], device="cpu")
        fair = fairspan.calibrate(model, "tiles-64", level=TEXTS)
        assert len(level_of(fair).direction) == width
        assert_level(fair, fairspan.calibrate(model, "tiles-64"))


@pytest.mark.filterwarnings("ignore:the model is in .*, which is slow on a CPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_buffers_stay_in_float32(plain: SentenceTransformer, dtype: torch.dtype) -> None:
    """Cast before it is calibrated or afterwards; vectors keep the dtype of the model."""
    fair = fairspan.calibrate(plain, "plain", level=TEXTS)
    bits = fair[-1].direction.clone()
    cast = copy.deepcopy(fair).to(dtype)
    assert cast[-1].direction.dtype == cast[-1].share.dtype == torch.float32
    assert torch.equal(cast[-1].direction, bits)
    assert level_of(cast).share == level_of(fair).share
    of_cast = fairspan.calibrate(copy.deepcopy(plain).to(dtype), "plain", level=TEXTS)
    assert of_cast[-1].direction.dtype == torch.float32
    # One rounding of each of d numbers of a vector of length 1, and those of its length.
    tolerance = 4 * torch.finfo(dtype).eps + ROUNDING
    for model in (cast, of_cast):
        vectors = model.encode(DOCUMENTS, convert_to_tensor=True)
        assert vectors.dtype == dtype
        common = level_of(model)
        made = shares(vectors.double().numpy(), common.direction)
        assert np.abs(made - common.share).max() < tolerance
    assert cast.half().float()[-1].direction.equal(bits)


def test_saved_loaded_copied_and_pickled(plain: SentenceTransformer, tmp_path: Path) -> None:
    plain.prompts = {"query": "w1 ", "document": "w2 "}
    fair = fairspan.calibrate(plain, "tiles-64", level=TEXTS)
    vectors = fair.encode_document(DOCUMENTS)
    fair.save_pretrained(str(tmp_path / "fair"))
    entry = json.loads((tmp_path / "fair" / "modules.json").read_text("utf-8"))[-1]
    assert entry["type"] == "fairspan.model.Level"
    names = sorted(file.name for file in (tmp_path / "fair" / entry["path"]).iterdir())
    assert names == ["config.json", "model.safetensors"]
    loaded = fairspan.load(tmp_path / "fair")
    trusted = SentenceTransformer(str(tmp_path / "fair"), trust_remote_code=True, device="cpu")
    for other in (loaded, trusted, copy.deepcopy(fair), pickle.loads(pickle.dumps(fair))):
        assert (other.encode_document(DOCUMENTS) == vectors).all()
        assert (other.encode_query(QUERIES) == fair.encode_query(QUERIES)).all()
        assert other[0].calibration.level
    assert fingerprint(loaded) == fingerprint(fair)
    own = fairspan.CommonDirection.load(tmp_path / "fair" / entry["path"] / "model.safetensors")
    assert own.direction.tobytes() == level_of(fair).direction.tobytes()
    (tmp_path / "fair" / entry["path"] / "model.safetensors").unlink()
    with pytest.raises(UnsupportedModel, match=r"has no .*Level/model\.safetensors"):
        fairspan.load(tmp_path / "fair")


def test_gradients_pass() -> None:
    module = Level(fairspan.CommonDirection(np.eye(6)[0], 0.7))
    v = torch.from_numpy(vectors_of(4, 6)).double().requires_grad_()
    assert torch.autograd.gradcheck(module.level, v)
    zero = torch.zeros(2, 6, requires_grad=True)
    module.level(zero).sum().backward()
    assert bool(zero.grad.isfinite().all())


def test_autocast_computes_in_float32() -> None:
    common = fairspan.fit_level(vectors_of(50))
    v = torch.from_numpy(vectors_of(30, seed=1))
    with torch.autocast("cpu", torch.bfloat16):
        made = Level(common).level(v)
    assert made.dtype == torch.float32
    assert np.abs(shares(made.numpy(), common.direction) - common.share).max() < ROUNDING


def test_truncated_vectors_are_about_level(plain: SentenceTransformer) -> None:
    """sentence-transformers truncates after `Level`, which is found on whole vectors."""
    fair = fairspan.calibrate(plain, "plain", level=TEXTS)
    whole = fair.encode(DOCUMENTS)
    assert (fair.encode(DOCUMENTS, truncate_dim=8) == whole[:, :8]).all()
    truncated = copy.deepcopy(plain)
    truncated.truncate_dim = 8
    found = fairspan.calibrate(truncated, "plain", level=TEXTS)
    assert level_of(found).direction.tobytes() == level_of(fair).direction.tobytes()
    assert (found.encode(DOCUMENTS) == whole[:, :8]).all()
    mu = level_of(fair).direction[:8] / np.linalg.norm(level_of(fair).direction[:8])
    assert np.ptp(shares(whole[:, :8], mu)) > ROUNDING, "no longer exactly equal"


def test_all_parts_and_averages_are_level(plain: SentenceTransformer) -> None:
    fair = fairspan.calibrate(plain, "tiles-64", level=TEXTS)
    common = level_of(fair)
    parts = fairspan.encode_parts(fair, [words(1500, 8), words(20, 9)], vectors=4)
    assert len(parts.vectors) > 2
    documents = [[words(30, 1), words(50, 2), words(5, 3)], [words(9, 4)]]
    vectors = [parts.vectors, fairspan.encode_segments(fair, documents)]
    vectors.append(fairspan.encode_segments(fair, documents, average=True))
    for made in vectors:
        assert np.abs(shares(made, common.direction) - common.share).max() < ROUNDING
    alone = fair.encode_document(documents[0]).astype(np.float64)
    expected = by_hand(
        alone.mean(axis=0, keepdims=True), common.direction.astype(float), common.share
    )
    expected /= np.linalg.norm(expected)
    assert np.abs(vectors[-1][0] - expected).max() < 1e-5


@pytest.mark.slow
def test_the_same_weights_give_the_same_bits(make_tiny: Make, tmp_path: Path) -> None:
    """Twice in a process, and in another. Both are fresh: on aarch64 torch computes products in
    float32 by other sums once it has computed some in bfloat16."""
    make_tiny("bert", "mean").save_pretrained(str(tmp_path / "model"))
    code = (
        "import sys, torch, fairspan; torch.set_num_threads(1); "
        "model = fairspan.load(sys.argv[1]); "
        "levels = [fairspan.calibrate(model, 'plain', level=True)[-1] for _ in range(2)]; "
        "[level.common.save(f'{sys.argv[2]}-{n}.safetensors') for n, level in enumerate(levels)]"
    )
    for name in ("first", "second"):
        typed = [str(tmp_path / "model"), str(tmp_path / name)]
        subprocess.run([sys.executable, "-c", code, *typed], check=True, capture_output=True)
    files = [file.read_bytes() for file in tmp_path.glob("*.safetensors")]
    assert len(files) == 4
    assert len(set(files)) == 1


def test_the_embedded_texts() -> None:
    texts = level.general_texts()
    assert len(set(texts)) == 48
    assert all(100 < len(text) < 1000 for text in texts)
    folder = Path(fairspan.__file__).parent / "corpus/data/sample"
    for language in level.LANGUAGES:
        lines = (folder / f"{language}.jsonl").read_text("utf-8").splitlines()
        own = {json.loads(line)["text"] for line in lines}
        assert sum(text in own for text in texts) == 8


class Closed:
    """A model that only gives vectors, as an endpoint does."""

    identity = "closed"

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.asarray(self.model.encode(texts))


def test_averaged_chunks_of_a_closed_model(
    plain: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means of the plain vectors of chunks, level with what the general texts have in common. These
    are embedded as other texts are, and the chunks' own vectors are those of averages not level."""
    general = [words(12, number) for number in range(30)]
    monkeypatch.setattr(levelling, "general_texts", lambda: general)
    subject = open_subject(Closed(plain), name="closed")
    texts = [Text(words(count, count), 0) for count in (30, 9)]

    def embed(encoder: Any, asked: Any) -> np.ndarray:
        return np.stack(encoder.vectors(asked))

    treatments = [as_treatment(name) for name in ("chunk-mean-40", "chunk-mean-40+level=true")]
    assert find_common(subject, treatments[0], embed) is None
    found = find_common(subject, treatments[1], embed)
    averaged = subject.under(treatments[0]).documents
    level = subject.under(treatments[1], common=found).documents
    common = fairspan.fit_level(plain.encode(general))
    with Store(":memory:") as store:
        embedder = Embedder(store, 500, Tally(), Silent())
        expected = common.level(embedder.embed(averaged, texts))
        computed = embedder.tally.computed
        assert np.abs(embedder.embed(level, texts) - expected).max() <= ROUNDING
        assert embedder.tally.computed == computed, "chunks are stored once"


def test_real_weights(minilm: SentenceTransformer) -> None:
    """MiniLM's documents of every length get the share that general short texts have on average."""
    fair = fairspan.calibrate(minilm, "fair")
    common = level_of(fair)
    assert 0.2 < common.share < 0.5
    texts = ["Cats sleep.", "A short note about trains. " * 3, "The sea is wide and blue. " * 200]
    unleveled = fairspan.calibrate(minilm, "fair", level=False)
    before = shares(unleveled.encode_document(texts), common.direction)
    made = shares(fair.encode_document(texts), common.direction)
    assert np.ptp(before) > 0.05, "the premise"
    assert np.abs(made - common.share).max() < ROUNDING


# Identity


def test_keys_tell_directions_apart(
    plain: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level, "general_texts", lambda: TEXTS)
    texts, others = (fairspan.calibrate(plain, "plain", level=TEXTS[:n]) for n in (40, 30))
    cut, leaves = copy.deepcopy(plain), "plain+tile_size=16+short_texts=leave"

    def key_under(model: SentenceTransformer, name: str, prompt: str = "") -> bytes:
        return encoder_of(model, name, prompt).key(Text(words(20), 22))

    cut.max_seq_length = 16
    keys = [
        key_under(plain, "plain"),
        key_under(plain, "plain+level=true"),
        key_under(cut, "plain+level=true"),
        key_under(plain, "plain+level=true", "w2 "),
        key_under(texts, "plain"),
        key_under(texts, "plain+tile_size=16+level=true"),
        key_under(others, "plain"),
        key_under(others, "plain+tile_size=16+level=true"),
        key_under(plain, f"{leaves}+level=true"),
    ]
    assert len(set(keys)) == len(keys)
    prints = {fingerprint(model) for model in (plain, texts, others)}
    assert len(prints) == 3
    assert key_under(plain, leaves) == keys[0], "a text that fits keeps its plain vector"


def test_queries_are_the_plain_ones(plain: SentenceTransformer) -> None:
    how = {"prompt": "", "fingerprint": "f", "side": "query"}
    first = ModelEncoder(plain, Calibration.preset("tiles-64"), **how)
    second = ModelEncoder(plain, Calibration.preset("tiles-64").but(level=True), **how)
    text = Text(words(200), 202)
    assert first.key(text) == second.key(text)
    assert second.common is None


def test_a_run_finds_it_once(plain: SentenceTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all treatments and kinds of text, with the prompt of the run."""
    prompts = []

    def find(model: Any, prompt: str, texts: Any = None) -> Any:
        prompts.append(prompt)
        return found(model, prompt, TEXTS)

    found = level.find_direction
    monkeypatch.setattr("fairspan.model.build.find_direction", find)
    subject = open_subject(plain, name="tiny")

    names = ["plain+level=true", "tiles-64", "chunk-mean-16+level=true"]
    text = Text(words(300, 7), 302)
    for prompt in ("", "w2 "):
        subject = subject.with_prompts(prompt)
        treated = [subject.under(as_treatment(name)) for name in names]
        for under in treated:
            with Store(":memory:") as store:
                embedder = Embedder(store, 4096, Tally(), Silent())
                (vector,) = embedder.embed(under.documents, [text])
            _ = under.segments, under.queries
            expected = under.documents.common
            assert (expected is None) == (under.treatment.name == "tiles-64")
            if expected is not None:
                made = shares(vector[None], expected.direction)
                assert np.abs(made - expected.share).max() < ROUNDING
        assert treated[2].documents.chunks is not None
    assert prompts == ["", "w2 "]


def test_contextual_vectors_of_spans_are_level(plain: SentenceTransformer) -> None:
    """So that retention compares level vectors with level ones."""
    fair = fairspan.calibrate(plain, "tiles-64", level=TEXTS)
    refuse_other_spaces(fair, "retention", of_means=True)
    encoder = ModelEncoder(fair, PRESETS["plain"], prompt="", fingerprint="f")
    text = words(20)
    text_with_spans = Text(text, 22, spans=((0, 20), (20, len(text))))
    (vectors,) = encoder.with_spans([text_with_spans])
    common = level_of(fair)
    assert np.abs(shares(vectors, common.direction) - common.share).max() < ROUNDING
