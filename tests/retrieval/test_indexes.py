"""What an index embeds of a document, and the vectors that it is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from fairspan.encoding.text import Text
from fairspan.encoding.tokens import Characters, ModelTokens
from fairspan.retrieval.indexes import (
    ONE_PER_CHUNK,
    WHOLE,
    assemble,
    plan_index,
)
from fairspan.retrieval.task import Passage
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]


def test_what_each_index_embeds(make_tiny: Make) -> None:
    """A model that reads 20 tokens, two of them special: of 33 words two parts are enough, however
    many are asked for; whole documents keep their borders and their language."""
    counter = ModelTokens(make_tiny(max_position_embeddings=20))
    texts = {"short": words(12, 1), "long": words(33, 2)}
    documents = [Passage("short", texts["short"], "en", ((0, 10), (11, 30)))]
    documents.append(Passage("long", texts["long"], "en"))
    lengths = {"short": 14, "long": 35}
    whole = plan_index(WHOLE, documents, lengths, counter)
    assert whole.texts == {
        "short": (Text(texts["short"], 14, borders=(0, 11), language="en"),),
        "long": (Text(texts["long"], 35, language="en"),),
    }
    for index in ("parts-2", "parts-4", ONE_PER_CHUNK):
        plan = plan_index(index, documents, lengths, counter)
        assert plan.texts["short"] == (Text(texts["short"], 14),)
        parts = plan.texts["long"]
        assert " ".join(part.text for part in parts) == texts["long"]
        assert sorted(part.length for part in parts) == [18, 19]
        assert plan.flat == [*plan.texts["short"], *parts]


def test_characters_are_cut_by_rough_tokens() -> None:
    """A text of 100 characters has 25 tokens, which fit into one part."""
    plan = plan_index("parts-2", [Passage("d", "a" * 100)], {"d": 100}, Characters())
    assert [text.text for text in plan.flat] == ["a" * 100]


@pytest.mark.parametrize("normalise", [True, False])
def test_vectors_and_their_owners(normalise: bool) -> None:
    three, four = np.array([3.0, 4.0], np.float32), np.array([0.0, 2.0], np.float32)
    index = assemble(np.stack([three, three, four]), [1, 2], normalise=normalise)
    expected = [[0.6, 0.8], [0.6, 0.8], [0, 1]] if normalise else [[3, 4], [3, 4], [0, 2]]
    np.testing.assert_allclose(index.vectors, expected, atol=1e-7)
    assert index.vectors.dtype == np.float32
    assert index.owners is not None
    assert index.owners.tolist() == [0, 1, 1]
    assert assemble(np.stack([three, four]), [1, 1], normalise=normalise).owners is None
