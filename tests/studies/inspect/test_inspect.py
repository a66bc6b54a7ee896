"""One document under the lens: its segments, their parts in its vector, and what was never seen."""

from __future__ import annotations

import json
import math
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
from fairspan.encoding.model_encoder import ModelEncoder
from fairspan.encoding.tokens import ModelTokens, read_text
from fairspan.errors import CorpusError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.studies.inspect.reading import InspectedSegment, Reading
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model, words
from tests.studies.audit.test_audit import cosine

Make = Callable[..., SentenceTransformer]
PAPER = "paper+basket_size=16"


def texts(*lengths: int) -> list[str]:
    return [words(length, seed) for seed, length in enumerate(lengths)]


def by_hand(model: SentenceTransformer, whole: str, parts: Sequence[str]) -> Any:
    """Cosines of a whole text and its parts, each embedded alone."""
    vector = model.encode([whole])[0]
    return pytest.approx([cosine(vector, model.encode([part])[0]) for part in parts], abs=1e-5)


def shares(cosines: Sequence[float], counted: Sequence[int]) -> tuple[float | None, ...]:
    """Those of segments of one token, which are read if they are counted."""
    seen = [int(place in counted) for place in range(len(cosines))]
    segments = [
        InspectedSegment(place, None, None, "", 1, read, 0, 0) for place, read in enumerate(seen)
    ]
    return Reading("plain", tuple(cosines), tuple(segments), None, 0).share


# --- numbers


@pytest.mark.parametrize(
    ("architecture", "pooling"), [("bert", "mean"), ("roberta", "cls"), ("qwen3", "lasttoken")]
)
def test_representation_is_what_encode_gives_by_hand(
    make_tiny: Make, architecture: str, pooling: str
) -> None:
    model = make_tiny(
        architecture, pooling, padding_side="left" if architecture == "qwen3" else "right"
    )
    parts = texts(30, 18, 41)
    found = fairspan.inspect(model, parts, treatments=["plain", PAPER])
    for reading, by in zip(
        found.readings, [model, fairspan.calibrate(model, "paper", basket_size=16)], strict=True
    ):
        assert reading.representation == by_hand(by, " ".join(parts), parts)
    assert [one.text for one in found.segments] == parts
    assert [one.treatment for one in found.readings] == ["plain", PAPER]


def test_retention_is_the_mean_of_a_segment_s_tokens_by_hand(make_tiny: Make) -> None:
    """One token for each word, between two special ones; not for CLS pooling or cut documents."""
    model, parts = make_tiny("bert", "mean"), texts(30, 18, 41)
    found = fairspan.inspect(model, parts, treatments=["plain", PAPER])
    calibrated = fairspan.calibrate(model, "paper", basket_size=16)
    borders = np.cumsum([1, *map(len, map(str.split, parts))])
    for reading, by in zip(found.readings, [model, calibrated], strict=True):
        tokens = by.encode([" ".join(parts)], output_value="token_embeddings")[0].numpy()
        means = [tokens[start:end].mean(0) for start, end in pairwise(borders)]
        pairs = zip(means, by.encode(parts), strict=True)
        assert reading.retention == pytest.approx([cosine(*pair) for pair in pairs], abs=1e-5)
        assert min(reading.retention) < 0.99
    for other, pages in ((make_tiny("bert", "cls"), parts), (model, texts(300, 200, 100))):
        assert fairspan.inspect(other, pages, treatments=["plain"]).readings[0].retention == ()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("_span_vectors", "no token is in 'w1'"),
        ("_tokens_of", "the model read 3 tokens of the document, and its tokenizer made 4"),
        ("batch_to_device", "out of memory"),
    ],
)
def test_why_there_is_no_retention_is_a_note(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, broken: str, reason: str
) -> None:
    """Only a model that takes no means has none without a note: that is its definition."""

    def fails(*_: Any) -> Any:
        raise RuntimeError(reason) if "memory" in reason else FairspanError(reason)

    monkeypatch.setattr(f"fairspan.encoding.model_encoder.{broken}", fails)
    found = fairspan.inspect(make_tiny("bert", "mean"), texts(9, 9), treatments=["plain", PAPER])
    for reading, note in zip(found.readings, found.notes, strict=True):
        assert reading.retention == ()
        assert note.startswith(f"{reading.treatment}: no retention, because ")
        assert reason in note
        assert len(reading.representation) == 2
    other = fairspan.inspect(make_tiny("bert", "cls"), texts(9, 9), treatments=["plain"])
    assert (other.readings[0].retention, other.notes) == ((), ())


def test_other_errors_are_raised(make_tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is an error that nobody expects where retention is measured."""

    def fails(*_: Any) -> Any:
        raise IndexError("unforeseen")

    model = make_tiny("bert", "mean")
    monkeypatch.setattr(ModelEncoder, "with_spans", fails)
    with pytest.raises(IndexError, match="unforeseen"):
        fairspan.inspect(model, texts(9, 9), treatments=["plain"])
    monkeypatch.setattr(ModelEncoder, "vectors", fails)
    with pytest.raises(FairspanError, match="unforeseen"):
        fairspan.inspect(model, texts(9, 9), treatments=["plain"])


def test_a_cosine_of_a_part_of_a_segment_is_marked(tmp_path: Path) -> None:
    """Of the first segment of 328 words the model reads 74, inside the document and alone."""
    tiny_model(tmp_path / "raw", "bert", "mean", max_position_embeddings=76).save_pretrained(
        str(tmp_path / "short")
    )
    found = fairspan.inspect(str(tmp_path / "short"), texts(328, 30), treatments=["plain"])
    assert found.readings[0].representation[0] == pytest.approx(1, abs=1e-6), "the premise"
    [table] = found.view.tables()
    assert table.rows[0][2:] == ("74 of 328", "100.0\xa0%", "1.000")
    assert table.rows[1][2] == "0 of 30"
    assert found.view.chart().frame["note"].to_list() == ["74 of 328", "unseen"]
    page = found.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "74 of 328 tokens · cosine 1.000" in page
    assert "254 tokens never seen" in page


def test_shares_are_parts_of_the_sum() -> None:
    assert shares([0.5, 0.3, 0.2], range(3)) == pytest.approx((0.5, 0.3, 0.2))
    assert shares([0.6, -0.3, 0.2], range(3)) == pytest.approx((0.75, 0.0, 0.25))
    assert shares([0.6, 0.9, 0.2], [0, 2]) == pytest.approx((0.75, 0.0, 0.25)), (
        "what is never seen has none"
    )
    assert shares([0.5, 0.2], [0]) == (1.0, 0.0)
    assert shares([-0.1, -0.2], range(2)) == (None, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_shares_sum_to_one_or_are_unknown(cosines: list[float]) -> None:
    found = shares(cosines, range(len(cosines)))
    if any(value > 1e-300 for value in cosines):
        assert math.isclose(sum(value or 0.0 for value in found), 1.0, rel_tol=1e-9)
        order = np.argsort(cosines, kind="stable")
        assert all(a <= b for a, b in pairwise([found[place] for place in order]))
    elif all(value <= 0 for value in cosines):
        assert set(found) == {None}


def test_segments_can_be_the_tiles(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(20, 31)
    found = fairspan.inspect(model, parts, treatments=["tiles-64+tiles=segments"])
    calibrated = fairspan.calibrate(model, "tiles-64")
    whole = fairspan.encode_segments(calibrated, [parts])[0]
    alone = [fairspan.encode_segments(calibrated, [[part]])[0] for part in parts]
    assert found.readings[0].representation == pytest.approx(
        [cosine(whole, one) for one in alone], abs=1e-5
    )


def test_a_prompt_stands_before_every_text(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(10, 10)
    found = fairspan.inspect(model, parts, treatments=["plain"], prompt="w1 w2 ")
    vectors = model.encode([f"w1 w2 {text}" for text in (" ".join(parts), *parts)])
    assert found.readings[0].representation == pytest.approx(
        [cosine(vectors[0], v) for v in vectors[1:]], abs=1e-5
    )
    assert found.length == 2 + 2 + 20
    assert [segment.tokens for segment in found.segments] == [10, 10]


def test_any_object_that_encodes_can_be_inspected_as_it_comes() -> None:
    class Letters:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array(
                [[text.count(letter) + 1 for letter in "abc"] for text in sentences], dtype=float
            )

    found = fairspan.inspect(Letters(), ["aaa " * 20, "bbb " * 20], treatments=["plain"])
    whole, first = np.array([61.0, 61.0, 1.0]), np.array([61.0, 1.0, 1.0])
    assert found.readings[0].representation[0] == pytest.approx(cosine(whole, first), abs=1e-5)
    assert (found.unit, found.readings[0].window) == ("characters", None)
    assert len(fairspan.inspect(Letters(), ["a", "b"]).readings) == 1, "plain alone"
    with pytest.raises(UnsupportedModel, match="omit tiles"):
        fairspan.inspect(Letters(), ["a", "b"], treatments=["plain", "tiles-64"])
    with pytest.raises(UnsupportedModel, match=r"has no encode"):
        fairspan.inspect(object(), ["a", "b"], treatments=["plain"])  # type: ignore[arg-type]


# --- what was never seen


def test_an_object_that_stops_reading_is_told_of() -> None:
    class Forgetful:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array(
                [[len(text[:50]), text[:50].count("a") + 1] for text in sentences], dtype=float
            )

    result = fairspan.inspect(Forgetful(), ["ab " * 30, "ac " * 30], treatments=["plain"])
    assert any("does not read all of this text" in note for note in result.notes)


@pytest.mark.parametrize(
    ("architecture", "pooling"),
    [("bert", "mean"), pytest.param("roberta", "cls", marks=pytest.mark.slow)],
)
def test_a_document_beyond_the_window_is_cut_and_told(
    make_tiny: Make, architecture: str, pooling: str
) -> None:
    """Of 300 + 200 + 100 words between two special tokens, 512 - 2 are read."""
    model, parts = make_tiny(architecture, pooling), texts(300, 200, 100)
    found = fairspan.inspect(model, parts, treatments=["plain", "paper"])
    first = found.readings[0]
    assert (found.length, first.window, first.unseen) == (602, 512, 90)
    told = [(s.tokens, s.seen, s.status) for s in found.segments]
    assert told == [(300, 300, "seen"), (200, 200, "seen"), (100, 10, "cut")]
    third = found.segments[2]
    assert third.text[third.first : third.last].split() == parts[2].split()[:10]
    assert third.read == "10 of 100"
    assert {card.badge for card in found.view.cards} == {"512 of 602 tokens read"}
    # The vector is that of the text without what the model never sees.
    read = " ".join([*parts[:2], *parts[2].split()[:10]])
    assert found.readings[0].representation == by_hand(model, read, parts)


def test_segments_that_lie_wholly_beyond_still_have_a_cosine(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "mean"), texts(520, 30, 30)
    found = fairspan.inspect(model, parts, treatments=["plain"])
    assert [s.status for s in found.segments] == ["cut", "never seen", "never seen"]
    assert [s.read for s in found.segments] == ["510 of 520", "0 of 30", "0 of 30"]
    assert found.readings[0].share == (1.0, 0.0, 0.0)
    assert found.readings[0].representation == by_hand(model, " ".join(parts), parts)


def test_a_limit_above_the_positions_does_not_let_a_text_run_out_of_them(make_tiny: Make) -> None:
    """RoBERTa's 600 positions begin after its padding index; max_seq_length is set to 2000."""
    model, parts = copy_sharing_weights(make_tiny("roberta", "cls")), texts(500, 300)
    model.max_seq_length = 2000
    found = fairspan.inspect(model, parts, treatments=["plain"])
    assert (found.readings[0].window, found.readings[0].unseen) == (598, 802 - 598)
    assert model.max_seq_length == 2000
    read = " ".join([*parts[0].split(), *parts[1].split()[:96]])
    assert found.readings[0].representation == by_hand(model, read, parts)


@pytest.mark.parametrize("pooling", ["mean", pytest.param("cls", marks=pytest.mark.slow)])
def test_tiles_read_on_where_the_plain_model_stops(tmp_path: Path, pooling: str) -> None:
    """50 positions and 40 + 30 + 20 words: the plain model reads 8 words of the second segment and
    none of the third; tiles read all 92 tokens.
    """
    tiny_model(tmp_path / "raw", "bert", pooling, max_position_embeddings=50).save_pretrained(
        str(tmp_path / "short")
    )
    names, parts = ["plain", "paper", "tiles-8"], texts(40, 30, 20)
    found = fairspan.inspect(str(tmp_path / "short"), parts, treatments=names, max_seq_length=200)
    assert [(one.window, one.unseen) for one in found.readings] == [(50, 42), (50, 42), (200, 0)]
    seen = [[(s.seen, s.status) for s in one.segments] for one in found.readings]
    cut = [(40, "seen"), (8, "cut"), (0, "never seen")]
    assert seen == [cut, cut, [(40, "seen"), (30, "seen"), (20, "seen")]]
    cut = "50 of 92 tokens read"
    assert [card.badge for card in found.view.cards] == [cut, cut, "read whole"]
    # Half-read segments count by the part that is read, and unread ones not at all.
    first, second, _ = found.readings[0].representation
    weighed = [first, second * 8 / 30, 0.0]
    assert found.readings[0].share == pytest.approx(
        [one / sum(weighed) for one in weighed], abs=1e-12
    )
    # By hand: the plain model on what it reads, and tiles on all of it.
    plain = SentenceTransformer(str(tmp_path / "short"), device="cpu")
    tiled = fairspan.calibrate(plain, "tiles-8", max_seq_length=200)
    for model, reading in ((plain, found.readings[0]), (tiled, found.readings[2])):
        assert reading.representation == by_hand(model, " ".join(parts), parts)


def test_a_long_document_by_default_is_read_whole_in_tiles_and_cut_by_the_plain_model(
    make_tiny: Make,
) -> None:
    """The plain model reads 512 of 602 tokens, and fair all of them without max_seq_length."""
    model, parts = make_tiny("bert", "mean"), texts(400, 100, 100)
    found = fairspan.inspect(model, parts, progress=False)
    told = [(one.treatment, one.window, one.unseen) for one in found.readings]
    assert told == [("plain", 512, 90), ("fair", None, 0)]
    assert [card.badge for card in found.view.cards] == ["512 of 602 tokens read", "read whole"]
    short = fairspan.inspect(model, parts[1:], progress=False)
    assert [one.treatment for one in short.readings] == ["plain", "fair"]
    assert model.max_seq_length == 512, "the caller's model stays as it is"


def test_a_tokenizer_that_cuts_at_the_start_is_believed(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, parts = make_tiny("bert", "mean"), texts(100, 500)
    monkeypatch.setattr(model.tokenizer, "truncation_side", "left")
    found = fairspan.inspect(model, parts, treatments=["plain"])
    assert [(s.seen, s.status) for s in found.segments] == [(10, "cut"), (500, "seen")]
    first = found.segments[0]
    assert first.text[first.first : first.last].split() == parts[0].split()[-10:]


@pytest.mark.parametrize("name", ["minilm", "granite"])
def test_what_is_seen_is_what_the_model_s_own_tokenizer_keeps(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Against the tokens that preprocess gives; the window ends in different places of a word."""
    model: SentenceTransformer = request.getfixturevalue(name)
    counter = ModelTokens(model)
    for start in range(4):
        text = (
            "x " * start
            + "Unbelievably heterogeneous microorganisms, 微生物 और जीवाणु, photosynthesise. " * 60
        )
        seen = read_text(counter, text)
        kept = model.preprocess(
            [text], processing_kwargs={"text": {"return_offsets_mapping": True}}
        )
        offsets = kept["offset_mapping"][0].numpy()
        own = offsets[offsets[:, 1] > offsets[:, 0]]
        mine = seen.offsets[seen.read & (seen.offsets[:, 1] > seen.offsets[:, 0])]
        assert not seen.whole
        assert np.array_equal(mine, own)


# --- borders


def pieces(
    text: str, borders: str = "auto", *, markdown: bool = False
) -> list[tuple[str | None, str]]:
    found = mark(text, borders, markdown=markdown)
    return [(piece.title, found.text[piece.start : piece.end]) for piece in found.pieces]


def test_markdown_is_cut_at_the_highest_heading_that_is_there_twice() -> None:
    """Text before the first heading is a segment of its own; code and settings have no headings."""
    text = "# Page\n\n## One\nfirst\n### deeper\nstill first\n\n## Two ##\nsecond\n"
    assert pieces(text, markdown=True) == [
        ("One", "# Page\n\n## One\nfirst\n### deeper\nstill first"),
        ("Two", "## Two ##\nsecond"),
    ]
    assert pieces("hello\n\n# A\na\n# B\nb", markdown=True) == [
        (None, "hello"),
        ("A", "# A\na"),
        ("B", "# B\nb"),
    ]
    assert pieces("# Page\nhello\n## A\na\n## B\nb", markdown=True)[0] == ("Page", "# Page\nhello")
    text = (
        "---\ntitle: x\n---\n\nOne\n===\na\n\n```\n# no\n```\n\nTwo\n===\n- list\n---\nb | c\n---\n"
    )
    assert [title for title, _ in pieces(text, markdown=True)] == [None, "One", "Two"]


def test_rules_between_blank_lines_are_borders_and_no_part_of_the_text() -> None:
    found = mark("one\n\n---\n\ntwo\ntwo\n\n* * *\n\nthree")
    assert found.text == "one two\ntwo three"
    assert [found.text[p.start : p.end] for p in found.pieces] == ["one", "two\ntwo", "three"]
    # A line under a title may be an underline, unless rules were asked for.
    assert pieces("Title\n-----\ntext") == []
    assert [text for _, text in pieces("one\n---\ntwo", "rule")] == ["one", "two"]
    assert pieces("one\n\n-=-\n\ntwo") == []


@given(
    st.text(alphabet="ab \n\t.#-=`", max_size=80),
    st.sampled_from(["heading", "rule", "blank", "line"]),
)
def test_segments_are_in_order_and_lose_no_letter(text: str, borders: str) -> None:
    if not text.strip():
        return
    try:
        found = mark(text, borders)
    except CorpusError:
        assert borders == "rule"
        return
    kept = [found.text[p.start : p.end] for p in found.pieces]
    assert all(body and body == body.strip() for body in kept)
    assert all(a.end <= b.start for a, b in pairwise(found.pieces))
    if borders != "rule":
        assert found.text == text
        assert "".join("".join(kept).split()) == "".join(text.split())


# --- parts


def test_a_text_without_borders_is_split_into_parts(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    text = "\n\n".join(words(length, length) for length in (10, 11, 19, 21, 20))
    found = fairspan.inspect(model, text, treatments=["plain"])
    assert [segment.tokens for segment in found.segments] == [21, 19, 21, 20]
    assert found.borders == "in parts of about equal length"
    assert " ".join(segment.text for segment in found.segments).split() == text.split()
    found = fairspan.inspect(model, text, treatments=["plain"], parts=2)
    assert [segment.tokens for segment in found.segments] == [40, 41]


# --- reading files


def test_every_kind_of_file_gives_the_same_document(tmp_path: Path) -> None:
    segments = [{"text": "one a", "title": "A", "language": "en"}, {"text": "two b", "title": "B"}]
    files = {
        "a.json": json.dumps({"segments": segments}),
        "b.json": json.dumps(segments),
        "c.jsonl": "\n".join(json.dumps(one) for one in segments) + "\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        found = read_document(tmp_path / name)
        assert found.text == "one a two b"
        assert [(p.title, p.language) for p in found.pieces] == [("A", "en"), ("B", None)]
    (tmp_path / "e.txt").write_bytes(b"\xef\xbb\xbfone\r\n\r\n---\r\n\r\ntwo")
    assert read_document(tmp_path / "e.txt").text == "one two"
    (tmp_path / "f.MD").write_text("# A\none\n# B\ntwo")
    assert [p.title for p in read_document(tmp_path / "f.MD").pieces] == ["A", "B"]


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
        (
            "a.json",
            b'[{"title": "x"}]',
            "a.json, segment 1: there is no field 'text'. Fields there: title",
        ),
        ("a.json", b'["a", {"text": "  "}]', "a.json, segment 2: 'text' is empty"),
        (
            "a.json",
            b'["a", 7]',
            "a.json, segment 2: a text or an object with 'text' is expected, got 7",
        ),
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


# --- refusals


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
    assert re.search(
        said, said_by(fairspan.inspect, make_tiny("bert", "mean"), document, **options)
    )
