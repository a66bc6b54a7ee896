"""One document under the lens: its segments, their parts in its vector, and what was never seen."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.corpus.document_file import read_document
from fairspan.corpus.marked_text import join_segments, mark, paragraphs
from fairspan.corpus.sentences import sentences
from fairspan.design.parts import balance, split_parts, units
from fairspan.encoding.attention_rows import attention_rows
from fairspan.encoding.tokens import Characters, ModelTokens
from fairspan.encoding.window import cutting, longest_prefix, read_text
from fairspan.errors import CorpusError, DesignError, EncodingError, FairspanError, UnsupportedModel
from fairspan.studies.inspect.inspection import Inspection, excerpt, shares
from tests.tiny import tiny_model, words

Make = Callable[..., SentenceTransformer]
PAPER = "paper+basket_size=16"


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(np.float64), other.astype(np.float64)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def texts(*lengths: int) -> list[str]:
    return [words(length, seed) for seed, length in enumerate(lengths)]


# --- numbers


@pytest.mark.parametrize(("architecture", "pooling"), [("bert", "mean"), ("roberta", "cls"), ("qwen3", "lasttoken")])
def test_representation_is_what_encode_gives_by_hand(make_tiny: Make, architecture: str, pooling: str) -> None:
    model = make_tiny(architecture, pooling, padding_side="left" if architecture == "qwen3" else "right")
    parts = texts(30, 18, 41)
    found = fairspan.inspect(model, parts, treatments=["none", PAPER])
    for reading, by in zip(found.readings, [model, fairspan.calibrate(model, "paper", basket_size=16)], strict=True):
        whole = by.encode([" ".join(parts)])[0]
        alone = [by.encode([part])[0] for part in parts]
        expected = [cosine(whole, vector) for vector in alone]
        assert reading.representation == pytest.approx(expected, abs=1e-5)
    assert found.text == " ".join(parts)
    assert found.treatments == ["none", PAPER]


def test_representation_on_real_weights(minilm: SentenceTransformer) -> None:
    parts = ["Rivers carry sand to the sea.", "A bank lends money at interest.", "Cats sleep most of the day."]
    found = fairspan.inspect(minilm, parts)
    calibrated = {name: fairspan.calibrate(minilm, name) for name in ("paper", "tiles")}
    for reading in found.readings:
        by = calibrated.get(reading.treatment, minilm)
        vectors = by.encode([" ".join(parts), *parts])
        assert reading.representation == pytest.approx([cosine(vectors[0], one) for one in vectors[1:]], abs=1e-5)


def test_shares_are_parts_of_the_sum() -> None:
    assert shares([0.5, 0.3, 0.2]) == pytest.approx((0.5, 0.3, 0.2))
    assert shares([0.6, -0.3, 0.2]) == pytest.approx((0.75, 0.0, 0.25))
    assert shares([-0.1, -0.2]) == (None, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_shares_sum_to_one_or_are_unknown(cosines: list[float]) -> None:
    found = shares(cosines)
    if any(value > 1e-300 for value in cosines):
        assert math.isclose(sum(value or 0.0 for value in found), 1.0, rel_tol=1e-9)
        order = np.argsort(cosines, kind="stable")
        assert all(a <= b for a, b in pairwise([found[place] for place in order]))
    elif all(value <= 0 for value in cosines):
        assert set(found) == {None}


def test_sides_decide_what_the_segments_are_embedded_with(make_tiny: Make) -> None:
    """With sides=document, as in IRF's control experiment, segments alone stay plain."""
    model, parts = make_tiny("bert", "cls"), texts(20, 20)
    found = fairspan.inspect(model, parts, treatments=[f"{PAPER}+sides=document"])
    whole = fairspan.calibrate(model, "paper", basket_size=16).encode([" ".join(parts)])[0]
    expected = [cosine(whole, model.encode([part])[0]) for part in parts]
    assert found.readings[0].representation == pytest.approx(expected, abs=1e-5)


def test_segments_can_be_the_baskets(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(20, 31)
    found = fairspan.inspect(model, parts, treatments=["paper+baskets=segments"])
    calibrated = fairspan.calibrate(model, "paper")
    whole = fairspan.encode_segments(calibrated, [parts])[0]
    alone = [fairspan.encode_segments(calibrated, [[part]])[0] for part in parts]
    assert found.readings[0].representation == pytest.approx([cosine(whole, one) for one in alone], abs=1e-5)


def test_attention_is_the_pooled_row_s_mass_of_each_segment(make_tiny: Make) -> None:
    """One token a word: tokens 1 to 12 are the first segment, 13 to 20 the second, and two are special."""
    model, parts = make_tiny("bert", "cls"), texts(12, 8)
    found = fairspan.inspect(model, parts, treatments=["none", PAPER])
    for reading, by in zip(found.readings, [model, fairspan.calibrate(model, "paper", basket_size=16)], strict=True):
        (row,) = attention_rows(by, [" ".join(parts)])
        average = row.masses.mean(axis=0)
        assert reading.attention == pytest.approx([average[1:13].sum(), average[13:21].sum()], abs=1e-6)
        assert reading.attention_elsewhere == pytest.approx(average[0] + average[21], abs=1e-6)
        assert sum(reading.attention or ()) + (reading.attention_elsewhere or 0) == pytest.approx(1, abs=1e-5)


def test_retention_is_the_mean_of_the_tokens_inside(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "mean"), texts(12, 8)
    (reading,) = fairspan.inspect(model, parts, treatments=["none"]).readings
    tokens = model.encode([" ".join(parts)], output_value="token_embeddings")[0].cpu().numpy()
    inside = [tokens[1:13].mean(axis=0), tokens[13:21].mean(axis=0)]
    expected = [cosine(mean, model.encode([part])[0]) for mean, part in zip(inside, parts, strict=True)]
    assert reading.retention == pytest.approx(expected, abs=1e-5)


def test_retention_is_not_defined_without_mean_pooling(make_tiny: Make) -> None:
    (reading,) = fairspan.inspect(make_tiny("bert", "cls"), texts(9, 9), treatments=["none"]).readings
    assert reading.retention is None


def test_a_prompt_stands_before_every_text(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "cls"), texts(10, 10)
    found = fairspan.inspect(model, parts, treatments=["none"], prompt="w1 w2 ")
    vectors = model.encode([f"w1 w2 {text}" for text in (" ".join(parts), *parts)])
    assert found.readings[0].representation == pytest.approx([cosine(vectors[0], v) for v in vectors[1:]], abs=1e-5)
    assert found.length == 2 + 2 + 20
    assert [segment.tokens for segment in found.segments] == [10, 10]


def test_any_object_that_encodes_can_be_inspected_as_it_comes() -> None:
    class Letters:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array([[text.count(letter) + 1 for letter in "abc"] for text in sentences], dtype=float)

    found = fairspan.inspect(Letters(), ["aaa " * 20, "bbb " * 20], treatments=["none"])
    whole, first = np.array([61.0, 61.0, 1.0]), np.array([61.0, 1.0, 1.0])
    assert found.readings[0].representation[0] == pytest.approx(cosine(whole, first), abs=1e-5)
    assert (found.unit, found.window) == ("characters", None)
    with pytest.raises(UnsupportedModel, match="omit tiles"):
        fairspan.inspect(Letters(), ["a", "b"])
    with pytest.raises(UnsupportedModel, match=r"has no encode"):
        fairspan.inspect(object(), ["a", "b"], treatments=["none"])  # type: ignore[arg-type]


def test_an_object_that_stops_reading_is_told_of() -> None:
    class Forgetful:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array([[len(text[:50]), text[:50].count("a") + 1] for text in sentences], dtype=float)

    found = fairspan.inspect(Forgetful(), ["ab " * 30, "ac " * 30], treatments=["none"])
    assert any("does not read all of this text" in note for note in found.notes)


# --- what was never seen


@pytest.mark.parametrize(
    ("architecture", "pooling"), [("bert", "mean"), pytest.param("roberta", "cls", marks=pytest.mark.slow)]
)
def test_a_document_beyond_the_window_is_cut_and_told(make_tiny: Make, architecture: str, pooling: str) -> None:
    """Of 300 + 200 + 100 words between two special tokens, 512 - 2 are read: 210 are not, of the second and third."""
    model, parts = make_tiny(architecture, pooling), texts(300, 200, 100)
    found = fairspan.inspect(model, parts, treatments=["none", "paper", "paper+baskets=segments"])
    assert (found.length, found.window, found.unseen) == (602, 512, 90)
    assert [(s.tokens, s.seen, s.status) for s in found.segments] == [
        (300, 300, "seen"),
        (200, 200, "seen"),
        (100, 10, "cut"),
    ]
    third = found.segments[2]
    assert found.text[third.start : third.seen_end].split() == parts[2].split()[:10]
    warning, remedy = found.warnings
    assert "set the option window to 602" in remedy
    beginning = " ".join(parts[2].split()[10:13])
    assert "602 tokens and the model reads 512: 90 were never seen" in warning
    assert f"“{beginning}" in warning
    assert "segment 3 in part (90 of its 100 tokens)" in warning
    # The vector is that of the text as the model reads it, and of the same text without what it never sees.
    read = " ".join([*parts[:2], *parts[2].split()[:10]])
    expected = [cosine(model.encode([read])[0], model.encode([part])[0]) for part in parts]
    assert found.readings[0].representation == pytest.approx(expected, abs=1e-5)
    attention = found.readings[0].attention
    assert attention is not None
    (row,) = attention_rows(model, [read])
    assert attention[2] == pytest.approx(row.masses.mean(axis=0)[501:511].sum(), abs=1e-6)


def test_segments_that_lie_wholly_beyond_still_have_a_cosine(make_tiny: Make) -> None:
    model, parts = make_tiny("bert", "mean"), texts(520, 30, 30)
    found = fairspan.inspect(model, parts, treatments=["none"])
    assert [s.status for s in found.segments] == ["cut", "never seen", "never seen"]
    assert [s.own_cut for s in found.segments] == [True, False, False]
    assert "segments 2 and 3 wholly" in found.warnings[0]
    assert found.warnings[1].startswith("Even alone, segment 1 is longer than the model reads")
    whole = model.encode([" ".join(parts)])[0]
    (reading,) = found.readings
    assert reading.representation[1] == pytest.approx(cosine(whole, model.encode([parts[1]])[0]), abs=1e-5)
    assert reading.attention is not None
    assert reading.attention[1:] == (0.0, 0.0)
    assert reading.retention is not None
    assert reading.retention[0] is not None
    assert reading.retention[1:] == (None, None)


def test_a_limit_above_the_positions_does_not_let_a_text_run_out_of_them(make_tiny: Make) -> None:
    """RoBERTa's 600 positions begin after its padding index, and max_seq_length was raised to 2000."""
    given_model = make_tiny("roberta", "cls")
    model = SentenceTransformer(modules=list(given_model.children()), device="cpu")
    before = model.max_seq_length
    model.max_seq_length = 2000
    try:
        parts = texts(500, 300)
        found = fairspan.inspect(model, parts, treatments=["none"])
        assert (found.window, found.unseen) == (598, 802 - 598)
        assert model.max_seq_length == 2000
        read = " ".join([*parts[0].split(), *parts[1].split()[:96]])
        expected = [cosine(model.encode([read])[0], model.encode([part])[0]) for part in parts]
        assert found.readings[0].representation == pytest.approx(expected, abs=1e-5)
    finally:
        model.max_seq_length = before


@pytest.mark.parametrize("pooling", ["mean", pytest.param("cls", marks=pytest.mark.slow)])
def test_tiles_read_on_where_the_plain_model_stops(tmp_path: Path, pooling: str) -> None:
    """50 positions and 40 + 30 + 20 words: the plain model reads 8 words of the second segment, and of the third
    none; tiles read all 92 tokens."""
    tiny_model(tmp_path / "raw", "bert", pooling, max_position_embeddings=50).save_pretrained(str(tmp_path / "short"))
    names, parts = ["none", "paper", "tiles+tile_size=8"], texts(40, 30, 20)
    found = fairspan.inspect(str(tmp_path / "short"), parts, treatments=names, window=200)
    assert [(one.window, one.unseen) for one in found.readings] == [(50, 42), (50, 42), (200, 0)]
    seen = [[(s.seen, s.status) for s in one.segments] for one in found.readings]
    cut = [(40, "seen"), (8, "cut"), (0, "never seen")]
    assert seen == [cut, cut, [(40, "seen"), (30, "seen"), (20, "seen")]]
    assert (found.window, found.unseen) == (50, 42), "of the first treatment"
    (warning,) = found.warnings
    assert warning.startswith("none, paper: The document has 92 tokens and the model reads 50: 42 were never seen.")
    assert "segment 2 in part (22 of its 30 tokens) and segment 3 wholly" in warning
    assert ", never seen)" not in found.finding(found.readings[2])
    # By hand: the plain model on what it reads, and tiles on all of it.
    plain = SentenceTransformer(str(tmp_path / "short"), device="cpu")
    tiled = fairspan.calibrate(plain, "tiles", tile_size=8, max_seq_length=200)
    for model, reading in ((plain, found.readings[0]), (tiled, found.readings[2])):
        whole = model.encode([" ".join(parts)])[0]
        expected = [cosine(whole, model.encode([part])[0]) for part in parts]
        assert reading.representation == pytest.approx(expected, abs=1e-5)
    if pooling == "mean":
        assert [one.retention is not None and one.retention[2] is not None for one in found.readings] == [
            False,
            False,
            True,
        ]
        assert "retention is of the first 50 tokens where 50 are read, up to the end of a word" in found.notes


def test_a_tiled_model_is_inspected_at_its_own_length(tmp_path: Path) -> None:
    short = tiny_model(tmp_path, "bert", "mean", max_position_embeddings=50)
    tiled = fairspan.calibrate(short, "tiles", tile_size=8, max_seq_length=200)
    assert fairspan.inspect(tiled, texts(40, 30), treatments=["none"]).unseen == 0
    assert fairspan.inspect(short, texts(40, 30), treatments=["tiles+tile_size=8"]).unseen == 22, (
        "by default it stays"
    )


def test_a_segment_may_be_cut_alone_and_read_in_the_document(tmp_path: Path) -> None:
    """Documents in tiles, segments by the plain model."""
    short = tiny_model(tmp_path, "bert", "mean", max_position_embeddings=50)
    short.max_seq_length = 200
    found = fairspan.inspect(short, texts(60, 20), treatments=["tiles+tile_size=8+sides=document"])
    assert [(s.status, s.own_cut) for s in found.segments] == [("seen", True), ("seen", False)]
    (warning,) = found.warnings
    assert warning.startswith("Even alone, segment 1 is longer than the model reads")


def test_a_tokenizer_that_cuts_at_the_start_is_believed(make_tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model, parts = make_tiny("bert", "mean"), texts(100, 500)
    monkeypatch.setattr(model.tokenizer, "truncation_side", "left")
    found = fairspan.inspect(model, parts, treatments=["none"])
    assert [(s.seen, s.status) for s in found.segments] == [(10, "cut"), (500, "seen")]
    first = found.segments[0]
    assert found.text[first.seen_start : first.seen_end].split() == parts[0].split()[-10:]
    assert f"“{' '.join(parts[0].split()[:3])}" in found.warnings[0]
    assert found.readings[0].attention is None


@pytest.mark.parametrize("name", ["minilm", "granite"])
def test_what_is_seen_is_what_the_model_s_own_tokenizer_keeps(name: str, request: pytest.FixtureRequest) -> None:
    """Against the tokens that preprocess really gives, on texts whose window ends in any place of a word."""
    model: SentenceTransformer = request.getfixturevalue(name)
    counter = ModelTokens(model)
    for start in range(4):
        text = "x " * start + "Unbelievably heterogeneous microorganisms, 微生物 और जीवाणु, photosynthesise. " * 60
        seen = read_text(counter, text)
        kept = model.preprocess([text], processing_kwargs={"text": {"return_offsets_mapping": True}})
        offsets = kept["offset_mapping"][0].numpy()
        own = offsets[offsets[:, 1] > offsets[:, 0]]
        mine = seen.offsets[seen.read & (seen.offsets[:, 1] > seen.offsets[:, 0])]
        assert not seen.whole
        assert np.array_equal(mine, own)
        prefix = longest_prefix(counter, text, seen)
        assert prefix is not None
        assert len(prefix) >= own[-1, 1] - 40
        assert counter.count_whole([prefix])[0] <= 512


def test_a_text_that_fits_is_seen_whole(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    counter = ModelTokens(model)
    for length, whole in ((510, True), (511, False)):
        assert read_text(counter, words(length)).whole is whole
    assert cutting(model, counter.window) is model


# --- borders


def pieces(text: str, borders: str = "auto", *, markdown: bool = False) -> list[tuple[str | None, str]]:
    found = mark(text, borders, markdown=markdown)
    return [(piece.title, found.text[piece.start : piece.end]) for piece in found.pieces]


def test_markdown_is_cut_at_the_highest_heading_that_is_there_twice() -> None:
    text = "# Page\n\n## One\nfirst\n### deeper\nstill first\n\n## Two ##\nsecond\n"
    assert pieces(text, markdown=True) == [
        ("One", "# Page\n\n## One\nfirst\n### deeper\nstill first"),
        ("Two", "## Two ##\nsecond"),
    ]


def test_text_before_the_first_heading_is_a_segment_of_its_own() -> None:
    assert pieces("hello\n\n# A\na\n# B\nb", markdown=True) == [(None, "hello"), ("A", "# A\na"), ("B", "# B\nb")]
    assert pieces("# Page\nhello\n## A\na\n## B\nb", markdown=True)[0] == ("Page", "# Page\nhello")


def test_underlined_headings_count_and_code_and_settings_do_not() -> None:
    text = "---\ntitle: x\n---\n\nOne\n===\na\n\n```\n# no\n```\n\nTwo\n===\n- list\n---\nb | c\n---\n"
    assert [title for title, _ in pieces(text, markdown=True)] == [None, "One", "Two"]


def test_headings_of_different_levels_are_borders_where_none_is_there_twice() -> None:
    assert [title for title, _ in pieces("# A\na\n## B\nb", markdown=True)] == ["A", "B"]


def test_rules_between_blank_lines_are_borders_and_no_part_of_the_text() -> None:
    found = mark("one\n\n---\n\ntwo\ntwo\n\n* * *\n\nthree")
    assert found.text == "one two\ntwo three"
    assert [found.text[p.start : p.end] for p in found.pieces] == ["one", "two\ntwo", "three"]
    # A line under a title may be an underline, unless rules were asked for.
    assert pieces("Title\n-----\ntext") == []
    assert [text for _, text in pieces("one\n---\ntwo", "rule")] == ["one", "two"]
    assert pieces("one\n\n-=-\n\ntwo") == []


def test_blank_lines_and_lines() -> None:
    text = " a\nb\n\n \n c \n"
    assert [body for _, body in pieces(text, "blank")] == ["a\nb", "c"]
    assert [body for _, body in pieces(text, "line")] == ["a", "b", "c"]


def test_segments_keep_title_and_language() -> None:
    found = join_segments(["a", {"text": " b ", "title": "B", "language": "de"}])
    assert found.text == "a b"
    assert [(p.title, p.language) for p in found.pieces] == [(None, None), ("B", "de")]


@given(st.text(alphabet="ab \n\t.#-=`", max_size=80), st.sampled_from(["heading", "rule", "blank", "line"]))
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


def brute_force(lengths: list[int], count: int) -> tuple[int, float]:
    """The best division by trying all: the largest distance from the equal part, then the squared distances."""
    total, best = sum(lengths), (math.inf, math.inf)
    for borders in combinations(range(1, len(lengths)), count - 1):
        sums = [sum(lengths[a:b]) for a, b in pairwise([0, *borders, len(lengths)])]
        distances = [abs(count * one - total) for one in sums]
        best = min(best, (max(distances), float(sum(d * d for d in distances))))
    return best  # type: ignore[return-value]


@given(st.lists(st.integers(0, 30), min_size=2, max_size=9), st.data())
def test_parts_are_as_equal_as_they_can_be(lengths: list[int], data: Any) -> None:
    count = data.draw(st.integers(2, len(lengths)))
    starts = balance(lengths, count)
    assert starts[0] == 0
    assert all(a < b for a, b in pairwise([*starts, len(lengths)]))
    sums = [sum(lengths[a:b]) for a, b in pairwise([*starts, len(lengths)])]
    distances = [abs(count * one - sum(lengths)) for one in sums]
    assert (max(distances), float(sum(d * d for d in distances))) == brute_force(lengths, count)


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=7), st.integers(2, 5))
def test_parts_concatenate_to_the_text(lengths: list[int], count: int) -> None:
    """Paragraphs of sentences of three words; between parts there is nothing but white space."""
    text = "\n\n".join(" ".join(f"Apples{n} are fruit." for n in range(length)) for length in lengths)
    try:
        spans = split_parts(text, count, Characters())
    except DesignError:
        assert sum(lengths) < count
        return
    assert len(spans) == count
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    assert all(not text[a[1] : b[0]].strip() and a[1] < b[0] for a, b in pairwise(spans))
    ends = {end for _, end in paragraphs(text)} | {
        start + last for start, end in paragraphs(text) for _, last in sentences(text[start:end], "")
    }
    assert {end for _, end in spans} <= ends


def test_only_a_paragraph_longer_than_a_part_is_divided() -> None:
    text = "One. Two.\n\n" + "Long one here. " * 8 + "\n\nThree. Four."
    found, lengths = units(text, 2, Characters())
    bodies = [text[start:end] for start, end in found]
    assert bodies == ["One. Two.", *["Long one here."] * 8, "Three. Four."]
    assert lengths == [len(body) for body in bodies]


def test_short_paragraphs_are_divided_where_there_are_too_few() -> None:
    text = "One very long sentence " * 20 + "ends.\n\nShort one. Short two. Short three."
    assert [text[a:b][:9] for a, b in split_parts(text, 4, Characters())] == [
        "One very ",
        "Short one",
        "Short two",
        "Short thr",
    ]


def test_a_text_without_borders_is_split_into_parts(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    text = "\n\n".join(words(length, length) for length in (10, 11, 19, 21, 20))
    found = fairspan.inspect(model, text, treatments=["none"])
    assert [segment.tokens for segment in found.segments] == [21, 19, 21, 20]
    assert found.borders == "in parts of about equal length"
    assert found.text == text
    found = fairspan.inspect(model, text, treatments=["none"], parts=2)
    assert [segment.tokens for segment in found.segments] == [40, 41]


def test_a_short_text_has_fewer_parts_than_four(make_tiny: Make) -> None:
    found = fairspan.inspect(make_tiny("bert", "mean"), "w1 w2.\n\nw3 w4.\n\nw5", treatments=["none"])
    assert found.n == 3


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
    (tmp_path / "d.json").write_text(json.dumps({"text": "one a two b", "borders": [6]}))
    assert [(p.start, p.end) for p in read_document(tmp_path / "d.json").pieces] == [(0, 5), (6, 11)]
    (tmp_path / "e.txt").write_bytes(b"\xef\xbb\xbfone\r\n\r\n---\r\n\r\ntwo")
    assert read_document(tmp_path / "e.txt").text == "one two"
    (tmp_path / "f.MD").write_text("# A\none\n# B\ntwo")
    assert [p.title for p in read_document(tmp_path / "f.MD").pieces] == ["A", "B"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"", "a.txt is empty"),
        ("a.txt", b" \n\t\n", "a.txt is empty"),
        ("a.txt", b"one\ntw\xff", "a.txt, line 2: the byte 0xff is not UTF-8"),
        ("a.txt", b"PK\x03\0", "a.txt is no UTF-8 text"),
        ("a.txt", b"---\n\n---\n", "nothing but rules"),
        ("a.json", b'{"segments": [\n{"text": "a"} {}]}', "a.json, line 2: not JSON"),
        ("a.json", b"3", "a.json: a document is an object or a list"),
        ("a.json", b'{"segments": []}', "a.json: there are no segments"),
        ("a.json", b'{"segments": "ab"}', "a.json: segments are a list"),
        ("a.json", b'{"body": "x"}', "no field 'segments', nor 'text'. Fields there: body"),
        ("a.json", b'[{"title": "x"}]', "a.json, segment 1: there is no field 'text'. Fields there: title"),
        ("a.json", b'["a", {"text": "  "}]', "a.json, segment 2: 'text' is empty"),
        ("a.json", b'["a", 7]', "a.json, segment 2: a text or an object with 'text' is expected, got the number 7"),
        ("a.json", b'["a", {"text": "b", "title": 7}]', "a.json, segment 2: 'title' must be text"),
        ("a.json", b'["a", "\\ud800"]', "a.json, segment 2: 'text' has a lone surrogate"),
        ("a.json", b'{"text": "abc", "borders": [2, 1]}', "a.json: 'borders' are growing numbers"),
        ("a.json", b'{"text": "abc", "borders": [true]}', "a.json: 'borders' are growing numbers"),
        ("a.jsonl", b'{"text": "a"}\nno', "a.jsonl, line 2: not JSON"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError) as error:
        read_document(tmp_path / name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no file"):
        read_document(tmp_path / "no.txt")
    with pytest.raises(CorpusError, match="is a folder"):
        read_document(tmp_path)


# --- refusals


@pytest.mark.parametrize(
    ("document", "options", "said"),
    [
        (["w1 w2"], {}, "one segment as given"),
        ("w1 w2", {}, "one sentence"),
        ("w1 w2", {"borders": "line"}, "one segment by lines"),
        (["w1", "w2"], {"parts": 2}, "the segments are given"),
        (["w1", "w2"], {"borders": "line"}, "the segments are given"),
        ("w1.\nw2.", {"parts": 2, "borders": "line"}, "omit one of them"),
        ("w1. w2.", {"parts": 1}, "at least 2"),
        ("w1. w2.", {"parts": 9}, "9 parts were asked for"),
        ("w1\nw2", {"borders": "page"}, "borders must be one of"),
        (["w1", "w2"], {"treatments": ["whitening"]}, "fitted on a corpus"),
        (["w1", "w2"], {"treatments": ["none", "none"]}, "named twice"),
        (["w1", "w2"], {"treatments": "none"}, "must be a list"),
        (["w1", "w2"], {"treatments": []}, "name at least one treatment"),
        (["w1", "w2"], {"treatments": ["peper"]}, "there is no treatment"),
        (["w1", " "], {}, "segment 2: 'text' is empty"),
    ],
)
def test_what_cannot_be_inspected_is_refused(make_tiny: Make, document: Any, options: dict, said: str) -> None:
    with pytest.raises(FairspanError, match=said) as error:
        fairspan.inspect(make_tiny("bert", "mean"), document, **options)
    assert "\n" not in str(error.value)


def test_a_vector_that_is_no_number_is_refused(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    weight = next(model.parameters())
    kept = weight.data.clone()
    try:
        weight.data.fill_(torch.nan)
        with pytest.raises(EncodingError, match="NaN"):
            fairspan.inspect(model, texts(5, 5), treatments=["none"])
    finally:
        weight.data.copy_(kept)


# --- the result


def test_the_result_names_everything(make_tiny: Make) -> None:
    segments = [{"text": text, "title": f"T{n}", "language": "en"} for n, text in enumerate(texts(20, 30))]
    found = fairspan.inspect(make_tiny("bert", "mean"), segments, name="page", model_name="tiny")
    assert isinstance(found, Inspection)
    assert (found.model, found.document, found.n, found.fair) == ("tiny", "page", 2, 0.5)
    assert [one.title for one in found.segments] == ["T0", "T1"]
    assert found.treatments == ["none", "tiles"]
    assert found.text[found.segments[1].start : found.segments[1].end] == segments[1]["text"]


def test_excerpts_are_one_short_line() -> None:
    assert excerpt("a\n  b\tc") == "a b c"
    assert excerpt("word " * 40).endswith("word…")
    assert len(excerpt("字" * 200)) == 60
    assert excerpt("red \x1b[31m alarm \a") == "red [31m alarm "
