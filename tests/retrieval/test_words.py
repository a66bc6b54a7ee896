"""Words of any script, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.retrieval.words import count_words, first_words, keywords


@pytest.mark.parametrize(
    ("text", "count", "first_two"),
    [
        ("Whales don't sing.", 4, "Whales don"),
        ("  One\n(two) three", 3, "  One\n(two"),
        ("鲸鱼在海里。它们唱歌", 9, "鲸鱼"),
        ("鯨は10頭いる", 6, "鯨は"),
        ("ปลาวาฬ", 6, "ปล"),
        ("น้ำ ที่", 3, "น้ำ"),
        ("हिन्दी में लिखा हुआ", 4, "हिन्दी में"),
        ("고래는 노래를 한다", 3, "고래는 노래를"),
        ("… — !", 0, "… — !"),
    ],
    ids=["English", "breaks", "Chinese", "mixed", "Thai", "marks", "Hindi", "Korean", "none"],
)
def test_words_are_counted_and_cut_between(text: str, count: int, first_two: str) -> None:
    """A character of a script without spaces is a word; marks belong to the letter before them."""
    assert count_words(text) == count
    assert first_words(text, 2) == first_two
    assert first_words(text, 99) == text


@given(st.text(alphabet="ab1 .é鲸は鱼กั한हि़"), st.integers(1, 9))
def test_the_first_words_are_a_beginning_with_so_many_words(text: str, count: int) -> None:
    kept = first_words(text, count)
    assert text.startswith(kept)
    assert count_words(kept) == min(count, count_words(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Whales DON'T sing, whales!", "whales don t sing whales"),
        ("鲸鱼在海里。它 2026", "鲸鱼 鱼在 在海 海里 它 2026"),
        ("고래는 노래 한 B", "고래 래는 노래 한 b"),
        ("हिन्दी में", "हिन्दी में"),
        ("", ""),
    ],
    ids=["English", "Chinese", "Korean", "Hindi", "empty"],
)
def test_keywords_are_words_or_pairs_of_characters(text: str, expected: str) -> None:
    assert keywords(text) == expected.split()
