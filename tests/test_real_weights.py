"""What calibration does to real models: the published repair, measured with a fixed seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan

N_SEGMENTS, N_SETS, TOKENS = 4, 40, 118


@pytest.fixture(autouse=True)
def both_cores() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def articles(shared: Path) -> list[str]:
    file = shared / "corpora" / "ethereum_org" / "en.jsonl"
    if not file.is_file():
        pytest.skip("needs ../shared/corpora/ethereum_org/en.jsonl")
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]


def openings(articles: list[str], model: SentenceTransformer) -> list[str]:
    """The first tokens of every article that is long enough."""
    encoded = model.tokenizer(
        articles, add_special_tokens=False, return_offsets_mapping=True, truncation=True, max_length=TOKENS
    )
    spans = encoded["offset_mapping"]
    return [text[: span[-1][1]] for text, span in zip(articles, spans, strict=True) if len(span) == TOKENS]


def position_means(model: SentenceTransformer, segments: list[str], sets: np.ndarray) -> np.ndarray:
    """Mean cosine of a document and its segment at each position, over cyclic Latin orders of every set."""
    used = sorted(set(sets.ravel().tolist()))
    alone = dict(zip(used, model.encode([segments[i] for i in used], normalize_embeddings=True), strict=True))
    orders = [list(np.roll(members, -shift)) for members in sets for shift in range(N_SEGMENTS)]
    pages = model.encode([" ".join(segments[i] for i in order) for order in orders], normalize_embeddings=True)
    means = [page @ np.stack([alone[i] for i in order]).T for page, order in zip(pages, orders, strict=True)]
    return np.mean(means, axis=0)


@pytest.mark.slow
def test_granite_spread_falls_as_published(granite: SentenceTransformer, articles: list[str]) -> None:
    """CLS pooling, 40 sets of four segments of 118 tokens, each segment once at every position.

    The spread of the four position means was 0.157 before and 0.043 after for another draw of such sets, 0.142 and
    0.042 for this one. A position mean over 40 sets has a standard error of about 0.01, hence the bounds.
    """
    segments = openings(articles, granite)
    sets = np.random.default_rng(0).permutation(len(segments))[: N_SETS * N_SEGMENTS].reshape(N_SETS, N_SEGMENTS)
    before = position_means(granite, segments, sets)
    after = position_means(fairspan.calibrate(granite, basket_size=64), segments, sets)
    print(f"granite, positions 1 to 4: before {before.round(3)}, after {after.round(3)}")
    assert before.argmax() == 0
    assert 0.12 < np.ptp(before) < 0.19
    assert 0.025 < np.ptp(after) < 0.065
