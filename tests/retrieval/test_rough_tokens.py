"""`RoughTokens` against the bytes of texts."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fairspan.retrieval.rough_tokens import RoughTokens


@given(st.text("ab \né鲸🐋", max_size=30))
@example("abcdefghi")
@example("鲸鱼在海里")
@example("é🐋 ab\n鲸")
def test_count_starts_and_cut_agree(text: str) -> None:
    """A token is four bytes; it starts in the character that holds its first byte, and a text that
    is cut there has all characters that fit into the tokens before."""
    tokens = RoughTokens()
    holders = [place for place, letter in enumerate(text) for _ in letter.encode()]
    (starts,) = tokens.starts([text])
    assert list(starts) == holders[::4]
    assert tokens.count([text]) == tokens.count_whole([text]) == [len(starts)]
    for number, start in enumerate(starts):
        assert tokens.cut([text], number) == [text[:start].rstrip()]
    assert tokens.cut([text], len(starts)) == [text.rstrip()]
