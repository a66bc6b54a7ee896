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


def test_a_pass_ends_when_it_is_over_and_those_of_other_threads_go_on(make_tiny: MakeTiny) -> None:
    encoder = DirectEncoder(fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7"))
    texts = encoder.read([words(100)])
    alone = encoder.vectors(texts)
    answers = iter([False, False, False, False, True])
    over = lambda: next(answers)  # noqa: E731
    with ThreadPoolExecutor(1) as other, stopping_when(encoder.model, over):
        assert np.array_equal(other.submit(encoder.vectors, texts).result(), alone)
        with pytest.raises(Stopped):
            encoder.vectors(texts)
    assert not [*answers], "asked five times"
    assert np.array_equal(encoder.vectors(texts), alone), "no hook is left"
