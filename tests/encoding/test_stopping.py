"""Passes that nobody waits for end early, and those of other threads do not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.encoding.direct import DirectEncoder
from fairspan.encoding.stopping import Stopped, stopping_when
from tests.builders.tiny import words

MakeTiny = Callable[..., SentenceTransformer]


def test_a_pass_ends_when_it_is_over(make_tiny: MakeTiny) -> None:
    encoder = DirectEncoder(fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7"))
    texts = encoder.read([words(100)])
    alone = encoder.vectors(texts)
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked == 5

    with pytest.raises(Stopped), stopping_when(encoder.model, is_over):
        encoder.vectors(texts)
    assert asked == 5
    assert np.array_equal(encoder.vectors(texts), alone)
    assert asked == 5, "no hook is left"


def test_other_threads_go_on(make_tiny: MakeTiny) -> None:
    encoder = DirectEncoder(fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7"))
    texts = encoder.read([words(100)])
    alone = encoder.vectors(texts)
    with ThreadPoolExecutor(1) as other, stopping_when(encoder.model, lambda: True):
        assert np.array_equal(other.submit(encoder.vectors, texts).result(), alone)
        with pytest.raises(Stopped):
            encoder.vectors(texts)
