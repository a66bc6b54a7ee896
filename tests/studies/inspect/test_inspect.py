"""One document under the lens: its segments, their parts in its vector, and what was never seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.corpus.document_file import read_document
from fairspan.corpus.marked_text import mark
from fairspan.encoding.tokens import ModelTokens, read_text
from fairspan.errors import CorpusError
from fairspan.model.build import copy_sharing_weights
from fairspan.studies.inspect.reading import InspectedSegment, Reading
from tests.builders.letters import Letters
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model, words
from tests.studies.audit.test_audit import cosine

Make = Callable[..., SentenceTransformer]
PAPER = "paper+basket_size=16"


def texts(*lengths: int) -> list[str]:
    return [words(length, seed) for seed, length in enumerate(lengths)]


def cosines(vectors: Any) -> Any:
    """Of the first vector with the others."""
    return pytest.approx([cosine(vectors[0], vector) for vector in vectors[1:]], abs=1e-5)


def by_hand(model: SentenceTransformer, whole: str, parts: Sequence[str]) -> Any:
    """Cosines of a whole text and its parts, each embedded alone."""
    return cosines([model.encode([text])[0] for text in (whole, *parts)])


def inspect(model: Any, document: Any, *treatments: str, **options: Any) -> Any:
    asked = list(treatments or ["plain"])
    return fairspan.inspect(model, document, treatments=asked, progress=False, **options)


# Numbers


def test_representation_is_what_encode_gives_by_hand(make_tiny: Make) -> None:
    """Of a model that is padded on the left; test_audit has other kinds."""
    model = make_tiny("qwen3", "lasttoken", padding_side="left")
    parts = texts(30, 18, 41)
    inspected = inspect(model, parts, "plain", PAPER)
    models = [model, fairspan.calibrate(model, basket_size=16)]
    for reading, by in zip(inspected.readings, models, strict=True):
        assert reading.representation == by_hand(by, " ".join(parts), parts)
    assert [segment.text for segment in inspected.segments] == parts
    assert [reading.treatment for reading in inspected.readings] == ["plain", PAPER]


def test_retention_is_the_mean_of_a_segment_s_tokens_by_hand(make_tiny: Make) -> None:
    """One token for each word, between two special ones; not for CLS pooling or cut documents."""
    model, parts = make_tiny("bert", "mean"), texts(30, 18, 41)
    inspected = inspect(model, parts, "plain", PAPER)
    models = [model, fairspan.calibrate(model, basket_size=16)]
    for reading, by in zip(inspected.readings, models, strict=True):
        tokens = by.encode([" ".join(parts)], output_value="token_embeddings")[0].numpy()
        means = [part.mean(0) for part in np.split(tokens[1:-1], [30, 30 + 18])]
        pairs = zip(means, by.encode(parts), strict=True)
        assert reading.retention == pytest.approx([cosine(*pair) for pair in pairs], abs=1e-5)
        assert min(reading.retention) < 0.99
    for other, pages in ((make_tiny("bert", "cls"), parts), (model, texts(300, 200, 100))):
        inspected = inspect(other, pages)
        assert (inspected.readings[0].retention, inspected.notes) == ((), ())


def test_why_there_is_no_retention_is_a_note(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("fairspan.encoding.model_encoder.batch_to_device", fails)
    inspected = inspect(make_tiny("bert", "mean"), texts(9, 9), "plain", PAPER)
    for reading, note in zip(inspected.readings, inspected.notes, strict=True):
        assert note == f"{reading.treatment}: no retention, because out of memory"
        assert (reading.retention, len(reading.representation)) == ((), 2)


def shares(representation: Sequence[float], counted: Sequence[int]) -> tuple[float | None, ...]:
    """Those of segments of one token, which are read if they are counted."""
    segments = tuple(
        InspectedSegment(place, None, None, "", 1, int(place in counted), 0, 0)
        for place in range(len(representation))
    )
    return Reading("plain", tuple(representation), segments, None, 0).share


@pytest.mark.parametrize(
    ("representation", "counted", "expected"),
    [
        ([0.5, 0.3, 0.2], [0, 1, 2], [0.5, 0.3, 0.2]),
        ([0.6, -0.3, 0.2], [0, 1, 2], [0.75, 0.0, 0.25]),
        # What is never seen has none.
        ([0.6, 0.9, 0.2], [0, 2], [0.75, 0.0, 0.25]),
        ([-0.1, -0.2], [0, 1], [None, None]),
    ],
)
def test_shares_are_parts_of_the_sum(
    representation: list[float], counted: list[int], expected: list[float | None]
) -> None:
    assert shares(representation, counted) == pytest.approx(expected)


def test_segments_can_be_the_tiles(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(20, 31)
    inspected = inspect(model, parts, "tiles-64+tiles=segments")
    calibrated = fairspan.calibrate(model, "tiles-64")
    documents = [parts, *([part] for part in parts)]
    vectors = [fairspan.encode_segments(calibrated, [document])[0] for document in documents]
    assert inspected.readings[0].representation == cosines(vectors)


def test_a_prompt_stands_before_every_text(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(10, 10)
    inspected = inspect(model, parts, prompt="w1 w2 ")
    vectors = model.encode([f"w1 w2 {text}" for text in (" ".join(parts), *parts)])
    assert inspected.readings[0].representation == cosines(vectors)
    assert inspected.length == 2 + 2 + 20
    assert [segment.tokens for segment in inspected.segments] == [10, 10]


def test_any_object_that_encodes_can_be_inspected_as_it_comes() -> None:
    parts = ["w1 w1 " * 20, "w2 w2 " * 20]
    inspected = inspect(Letters(), parts)
    vectors = [Letters.one(text) for text in (" ".join(parts), *parts)]
    assert inspected.readings[0].representation == cosines(vectors)
    assert (inspected.unit, inspected.readings[0].window) == ("characters", None)
    assert inspected.notes == ()
    assert len(fairspan.inspect(Letters(), parts).readings) == 1, "plain alone"
    forgetful = inspect(Letters(limit=50), parts)
    assert any("does not read all of this text" in note for note in forgetful.notes)


# What was never seen


@pytest.mark.parametrize(
    ("kind", "limit", "cut", "lengths", "seen"),
    [
        # Two special tokens aside, 512 - 2 are read.
        (("bert", "mean"), 512, "right", [300, 200, 100], [300, 200, 10]),
        (("bert", "mean"), 512, "left", [100, 500], [10, 500]),
        # RoBERTa's 600 positions begin after its padding index.
        (("roberta", "cls"), 2000, "right", [500, 300], [500, 96]),
    ],
    ids=["cut", "cut at the start", "above the positions"],
)
def test_a_document_beyond_the_window_is_cut_and_told(
    make_tiny: Make,
    monkeypatch: pytest.MonkeyPatch,
    kind: tuple[str, str],
    limit: int,
    cut: str,
    lengths: list[int],
    seen: list[int],
) -> None:
    model, parts = copy_sharing_weights(make_tiny(*kind)), texts(*lengths)
    model.max_seq_length = limit
    monkeypatch.setattr(model.tokenizer, "truncation_side", cut)
    inspected = inspect(model, parts, "plain", "paper")
    assert model.max_seq_length == limit
    (first, *_), segments = inspected.readings, inspected.segments
    length, window = sum(lengths) + 2, sum(seen) + 2
    assert (inspected.length, first.window, first.unseen) == (length, window, length - window)
    assert [(part.tokens, part.seen) for part in segments] == [*zip(lengths, seen, strict=True)]
    for part, text in zip(segments, parts, strict=True):
        several = text.split()
        read = several[-part.seen :] if cut == "left" else several[: part.seen]
        assert part.text[part.first : part.last].split() == read
    assert {card.badge for card in inspected.view.cards} == {f"{window} of {length} tokens read"}
    # The vector is that of the text without what the model never sees.
    read_parts = [part.text[part.first : part.last] for part in segments]
    assert first.representation == by_hand(model, " ".join(read_parts), parts)


def test_tiles_read_on_where_the_plain_model_stops(tmp_path: Path) -> None:
    """50 positions and 40 + 30 + 20 words: the plain model reads 8 words of the second segment and
    none of the third; tiles read all 92 tokens.
    """
    folder, parts = str(tmp_path / "short"), texts(40, 30, 20)
    short = tiny_model(tmp_path / "raw", "bert", "mean", max_position_embeddings=50)
    short.save_pretrained(folder)
    inspected = inspect(folder, parts, "plain", "tiles-8", max_seq_length=200)
    plain, tiles = inspected.readings
    assert (plain.window, plain.unseen, tiles.window, tiles.unseen) == (50, 42, 200, 0)
    seen = [[part.seen for part in reading.segments] for reading in (plain, tiles)]
    assert seen == [[40, 8, 0], [40, 30, 20]]
    badges = [card.badge for card in inspected.view.cards]
    assert badges == ["50 of 92 tokens read", "read whole"]
    # Half-read segments count by the part that is read, and unread ones not at all.
    first, second, _ = plain.representation
    weights = np.array([first, second * 8 / 30, 0.0])
    assert plain.share == pytest.approx(weights / weights.sum(), abs=1e-12)
    tiled = fairspan.calibrate(short, "tiles-8", max_seq_length=200)
    assert tiles.representation == by_hand(tiled, " ".join(parts), parts)


def test_a_long_document_by_default_is_read_whole_in_tiles_and_cut_by_the_plain_model(
    make_tiny: Make,
) -> None:
    """The plain model reads 512 of 602 tokens, and fair all of them without max_seq_length."""
    inspected = fairspan.inspect(make_tiny("bert", "mean"), texts(400, 100, 100), progress=False)
    told = [(reading.treatment, reading.window, reading.unseen) for reading in inspected.readings]
    assert told == [("plain", 512, 90), ("fair", None, 0)]


@pytest.mark.parametrize("name", ["minilm", "granite"])
def test_what_is_seen_is_what_the_model_s_own_tokenizer_keeps(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Against the tokens that preprocess gives; the window ends in different places of a word."""
    model: SentenceTransformer = request.getfixturevalue(name)
    counter = ModelTokens(model)
    sentence = "Unbelievably heterogeneous microorganisms, 微生物 और जीवाणु, photosynthesise. "
    settings = {"text": {"return_offsets_mapping": True}}
    for start in range(4):
        text = "x " * start + sentence * 60
        seen = read_text(counter, text)
        kept = model.preprocess([text], processing_kwargs=settings)
        offsets = kept["offset_mapping"][0].numpy()
        expected = offsets[offsets[:, 1] > offsets[:, 0]]
        read = seen.offsets[seen.read & (seen.offsets[:, 1] > seen.offsets[:, 0])]
        assert not seen.whole
        assert np.array_equal(read, expected)


# Borders


def pieces(
    text: str, borders: str = "auto", *, markdown: bool = False
) -> list[tuple[str | None, str]]:
    marked = mark(text, borders, markdown=markdown)
    return [(piece.title, marked.text[piece.start : piece.end]) for piece in marked.pieces]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# Page\n\n## One\nfirst\n### deeper\nstill first\n\n## Two ##\nsecond\n",
            [
                ("One", "# Page\n\n## One\nfirst\n### deeper\nstill first"),
                ("Two", "## Two ##\nsecond"),
            ],
        ),
        ("hello\n\n# A\na\n# B\nb", [(None, "hello"), ("A", "# A\na"), ("B", "# B\nb")]),
        (
            "# Page\nhello\n## A\na\n## B\nb",
            [("Page", "# Page\nhello"), ("A", "## A\na"), ("B", "## B\nb")],
        ),
        (
            "---\ntitle: x\n---\n\nOne\n===\na\n\n```\n# no\n```\n\nTwo\n===\n- l\n---\nb\n---\n",
            [
                (None, "---\ntitle: x\n---"),
                ("One", "One\n===\na\n\n```\n# no\n```"),
                ("Two", "Two\n===\n- l\n---\nb\n---"),
            ],
        ),
    ],
)
def test_markdown_is_cut_at_the_highest_heading_that_is_there_twice(
    text: str, expected: list[tuple[str | None, str]]
) -> None:
    """Text before the first heading is a segment of its own; code and settings have no headings."""
    assert pieces(text, markdown=True) == expected


def test_rules_between_blank_lines_are_borders_and_no_part_of_the_text() -> None:
    text = "one\n\n---\n\ntwo\ntwo\n\n* * *\n\nthree"
    assert mark(text).text == "one two\ntwo three"
    assert [part for _, part in pieces(text)] == ["one", "two\ntwo", "three"]
    # A line under a title may be an underline, unless rules were asked for.
    assert pieces("Title\n-----\ntext") == pieces("one\n\n-=-\n\ntwo") == []
    assert [part for _, part in pieces("one\n---\ntwo", "rule")] == ["one", "two"]


@given(
    st.text(alphabet="ab \n\t.#-=`", max_size=80),
    st.sampled_from(["heading", "rule", "blank", "line"]),
)
def test_segments_are_in_order_and_lose_no_letter(text: str, borders: str) -> None:
    if not text.strip():
        return
    try:
        marked = mark(text, borders)
    except CorpusError:
        assert borders == "rule"
        return
    kept = [marked.text[p.start : p.end] for p in marked.pieces]
    assert all(body and body == body.strip() for body in kept)
    assert all(a.end <= b.start for a, b in pairwise(marked.pieces))
    if borders != "rule":
        assert marked.text == text
        assert "".join("".join(kept).split()) == "".join(text.split())


def test_a_text_without_borders_is_split_into_parts(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    text = "\n\n".join(words(length, length) for length in (10, 11, 19, 21, 20))
    inspected = inspect(model, text)
    assert [segment.tokens for segment in inspected.segments] == [21, 19, 21, 20]
    assert inspected.borders == "in parts of about equal length"
    assert " ".join(segment.text for segment in inspected.segments).split() == text.split()
    inspected = inspect(model, text, parts=2)
    assert [segment.tokens for segment in inspected.segments] == [40, 41]


# Reading files

SEGMENTS = [{"text": "one a", "title": "A", "language": "en"}, {"text": "two b", "title": "B"}]


@pytest.mark.parametrize(
    ("name", "content", "text", "titles"),
    [
        ("a.json", json.dumps({"segments": SEGMENTS}), "one a two b", [("A", "en"), ("B", None)]),
        ("b.json", json.dumps(SEGMENTS), "one a two b", [("A", "en"), ("B", None)]),
        (
            "c.jsonl",
            "\n".join(map(json.dumps, SEGMENTS)),
            "one a two b",
            [("A", "en"), ("B", None)],
        ),
        ("e.txt", "\ufeffone\r\n\r\n---\r\n\r\ntwo", "one two", [(None, None)] * 2),
        ("f.MD", "# A\none\n# B\ntwo", "# A\none\n# B\ntwo", [("A", None), ("B", None)]),
    ],
)
def test_every_kind_of_file_gives_the_same_document(
    tmp_path: Path, name: str, content: str, text: str, titles: list[tuple[str | None, str | None]]
) -> None:
    (tmp_path / name).write_bytes(content.encode())
    document = read_document(tmp_path / name)
    assert document.text == text
    assert [(piece.title, piece.language) for piece in document.pieces] == titles


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b" \n\t\n", "a.txt: the text is empty"),
        ("a.txt", b"one\ntw\xff", "a.txt: not UTF-8. Save the file as UTF-8."),
        ("a.txt", b"---\n\n---\n", "only separator lines"),
        ("a.json", b'{"segments": [\n{"text": "a"} {}]}', "a.json, line 2: not JSON"),
        ("a.json", b"3", "a.json: a document is an object or a list"),
        ("a.json", b'{"segments": []}', "a.json: there are no segments"),
        ("a.json", b'{"segments": "ab"}', "a.json: segments are a list"),
        ("a.json", b'{"body": "x"}', "no field 'segments' or 'text'. Fields there: body"),
        ("a.json", b'[{"title": "x"}]', "segment 1: there is no field 'text'. Fields there: title"),
        ("a.json", b'["a", {"text": "  "}]', "a.json, segment 2: 'text' is empty"),
        ("a.json", b'["a", 7]', "segment 2: a text or an object with 'text' is expected, got 7"),
        ("a.json", b'["a", {"text": "b", "title": 7}]', "a.json, segment 2: 'title' must be text"),
        ("a.json", b'["a", "\\ud800"]', "a.json, segment 2: 'text' has a lone surrogate"),
        ("a.jsonl", b'{"text": "a"}\nno', "a.jsonl, line 2: not JSON"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert said in said_by(read_document, tmp_path / name, kind=CorpusError)


@pytest.mark.parametrize(
    ("document", "options", "said"),
    [
        (["w1 w2"], {}, "one segment as given, and shares need two"),
        ("w1", {}, "the text is too short for 2 parts"),
        ("w1 w2", {"borders": "line"}, "one segment by lines"),
        (["w1", "w2"], {"parts": 2}, "the segments are given"),
        ("w1.\nw2.", {"parts": 2, "borders": "line"}, "omit one of them"),
        ("w1. w2.", {"parts": 1}, "at least 2"),
        ("w1. w2.", {"parts": 9}, "too short for 9 parts"),
        ("w1\nw2", {"borders": "page"}, "borders must be one of"),
        (["w1", "w2"], {"treatments": ["chunk-mean"]}, "has no single pass"),
        (["w1", " "], {}, "segment 2: 'text' is empty"),
    ],
)
def test_what_cannot_be_inspected_is_refused(
    make_tiny: Make, document: Any, options: dict, said: str
) -> None:
    model = make_tiny("bert", "mean")
    assert re.search(said, said_by(fairspan.inspect, model, document, **options))
