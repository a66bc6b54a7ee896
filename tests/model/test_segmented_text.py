"""Documents given as lists of segments: their text, and where each begins."""

from __future__ import annotations

import copy
import pickle

import pytest

from fairspan import DesignError, SegmentedText


def test_a_cut_text_is_the_text() -> None:
    """Line breaks stay, whatever lies before the first border goes with the first segment."""
    text = " First one.\n\n Second.  Third "
    page = SegmentedText.cut(text, [1, 13, 22])
    assert page == text
    assert str(page) == text
    assert page.segments == ("First one.", "Second.", "Third")
    assert page.starts == [1, 13, 22]
    assert SegmentedText.cut(text, (1,)).segments == (text.strip(),)


@pytest.mark.parametrize("starts", [[], [0, 0], [3, 2], [-1, 3], [0, 99], [0, 16]], ids=str)
def test_borders_that_cannot_be(starts: list[int]) -> None:
    with pytest.raises(DesignError, match="segments begin at growing places inside the text"):
        SegmentedText.cut("First. \n Second.", starts)


def test_pickles() -> None:
    """What a process pool sends: the text and its borders, not the text joined anew."""
    joined = SegmentedText(["a", "b c"])
    assert (joined, joined.starts) == ("a b c", [0, 2])
    blanks = SegmentedText([" a\n", "b "])
    for page in (SegmentedText.cut("First.\n\nSecond.", [0, 8]), joined, blanks):
        told = (str(page), page.segments, page.starts)
        for again in (pickle.loads(pickle.dumps(page)), copy.deepcopy(page), copy.copy(page)):
            assert type(again) is SegmentedText
            assert (str(again), again.segments, again.starts) == told
