"""Documents in parts: equal lengths, borders between tokens, and the vectors of these texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.embedding.shards import shard_name
from fairspan.embedding.worker import UnitWorker
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import Characters, ModelTokens
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]
# Tokens that the models read, two special ones among them.
FITS = 128
DOCUMENTS = [words(900, seed=1), "One short text.", words(300, seed=2), words(126, seed=3)]


@pytest.mark.parametrize("rule", [PartRule(vectors=3), PartRule(tokens=40), PartRule(vectors=50)])
def test_parts_are_equally_long_and_lose_nothing(make_tiny: Make, rule: PartRule) -> None:
    counter = ModelTokens(make_tiny("bert", "mean", max_position_embeddings=FITS))
    for text, spans in zip(DOCUMENTS, part_spans(DOCUMENTS, counter, rule, FITS), strict=True):
        parts = [text[slice(*span)] for span in spans]
        lengths = counter.count(parts)
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
        assert max(lengths) - min(lengths) <= 1
        assert sum(lengths) == counter.count([text])[0]
        needed = -(-sum(lengths) // (rule.tokens or FITS - 2))
        assert len(parts) == (needed if rule.tokens else min(rule.vectors or 0, needed))


def test_characters_of_several_tokens_and_texts_without_any(make_tiny: Make) -> None:
    """A byte-level tokenizer makes three tokens of each of these characters."""
    counter = ModelTokens(make_tiny("roberta", "mean"))
    text = "漢字" * 100
    (spans,) = part_spans([text], counter, PartRule(tokens=16), FITS)
    assert "".join(text[slice(*span)] for span in spans) == text
    assert part_spans(["", "   "], Characters(), PartRule(vectors=2), 4) == [[(0, 0)], [(0, 3)]]
    assert part_spans(["abcd efgh"], Characters(), PartRule(vectors=2), 4) == [[(0, 4), (5, 9)]]
    # Fewer characters than parts that are asked for.
    (few,) = part_spans([text[:2]], counter, PartRule(vectors=6), 3)
    assert [text[slice(*span)] for span in few] in ([text[:2]], [text[:1], text[1:2]])


@pytest.mark.parametrize(
    ("preset", "pooling"),
    [("tiles-128+short_texts=leave", "mean"), ("tiles-64", "cls"), ("plain", "mean")],
)
def test_vectors_are_those_of_the_parts(make_tiny: Make, preset: str, pooling: str) -> None:
    model = make_tiny("bert", pooling, max_position_embeddings=FITS)
    fair = model if preset == "plain" else fairspan.calibrate(model, preset)
    result = fairspan.encode_parts(fair, DOCUMENTS, vectors=4, batch_size=3)
    assert result.document.tolist() == [0, 0, 0, 0, 1, 2, 2, 2, 3]
    texts = [
        DOCUMENTS[number][start:end]
        for number, (start, end) in zip(result.document, result.span.tolist(), strict=True)
    ]
    assert texts[4] == DOCUMENTS[1]
    # Batches of other sizes differ by the order of sums.
    np.testing.assert_allclose(result.vectors, fair.encode_document(texts), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "set either vectors"),
        ({"vectors": 2, "tokens": 64}, "set either vectors"),
        ({"vectors": 0}, "vectors must be a whole number of at least 1, got 0"),
        ({"tokens": 15}, "the tokens of a vector must be a whole number of at least 16, got 15"),
    ],
)
def test_unusable_rules(make_tiny: Make, options: dict[str, Any], said: str) -> None:
    with pytest.raises(fairspan.DesignError, match=said):
        fairspan.encode_parts(make_tiny("bert", "mean"), DOCUMENTS, **options)


def test_segments_are_not_cut_into_parts(make_tiny: Make) -> None:
    page = fairspan.SegmentedText(["First article.", "Second article."])
    for texts in ([page], "a text"):
        with pytest.raises(fairspan.DesignError, match="plain texts, which have no segments"):
            fairspan.encode_parts(make_tiny("bert", "mean"), texts, vectors=2)


@pytest.mark.parametrize("options", [{"vectors": 3}, {"tokens_per_vector": 100}])
def test_embed_writes_a_row_for_every_part(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    tiny = make_tiny("bert", "mean", max_position_embeddings=FITS)
    model = fairspan.calibrate(tiny, "tiles-128+short_texts=leave")
    how: dict[str, Any] = {"rows_per_shard": 2, "progress": False, **options}
    records = [{"id": f"d{number}", "text": text} for number, text in enumerate(DOCUMENTS)]
    result = fairspan.embed(model, records, tmp_path / "out", **how)
    rows = result.scan().collect()
    assert rows.columns == ["id", "part", "start", "end", "vector", "tokens", "truncated"]
    rule = {name.removesuffix("_per_vector"): number for name, number in options.items()}
    parts = fairspan.encode_parts(model, DOCUMENTS, **rule)
    assert rows["id"].to_list() == [f"d{number}" for number in parts.document]
    assert rows.select("start", "end").to_numpy().tolist() == parts.span.tolist()
    np.testing.assert_allclose(rows["vector"].to_numpy(), parts.vectors, atol=1e-5)
    first = rows.filter(rows["id"] == "d0")
    assert first["part"].to_list() == list(range(len(first)))
    assert result.summary["rows"] == len(rows)
    # A lost shard is embedded again, with the same bits.
    (tmp_path / "out" / shard_name(1)).unlink()
    again = fairspan.embed(model, records, tmp_path / "out", **how)
    assert again.scan().collect().equals(rows)

    computed = UnitWorker._vectors

    def second_is_bad(self: UnitWorker, texts: Any, amount: int) -> np.ndarray:
        vectors = computed(self, texts, amount)
        vectors[1] = np.nan
        return vectors

    monkeypatch.setattr(UnitWorker, "_vectors", second_is_bad)
    result = fairspan.embed(model, records, tmp_path / "bad", **{**how, "rows_per_shard": 9})
    ids = result.scan().collect()["id"].unique(maintain_order=True).to_list()
    assert ids == ["d1", "d2", "d3"], "a document is rejected with its part"
    assert result.summary["rejected"] == 1
