"""Words of a text in any script: passages are measured in them, and keywords are made of them."""

from itertools import pairwise

import regex  # type: ignore[import-untyped]

# Scripts that put no spaces between words.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_OTHERS = r"[\p{{L}}\p{{M}}\p{{N}}]--[{}]"
_WORD = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[{_OTHERS.format(_UNSPACED)}]+", regex.VERSION1)
_HANGUL = r"\p{Hangul}"
_RUN = regex.compile(
    rf"(?P<paired>(?:[{_UNSPACED}]\p{{M}}*)+|{_HANGUL}+)|[{_OTHERS.format(_UNSPACED + _HANGUL)}]+",
    regex.VERSION1,
)
_CHARACTER = regex.compile(r".\p{M}*")


def count_words(text: str) -> int:
    """How many words a text has; in scripts without spaces, every character is one.

    >>> count_words("Whales don't sing."), count_words("鲸鱼 2"), count_words("हिन्दी में")
    (4, 3, 2)
    """
    return sum(1 for _ in _WORD.finditer(text))


def first_words(text: str, count: int) -> str:
    """A text up to the end of its word number `count`."""
    for number, word in enumerate(_WORD.finditer(text), start=1):
        if number == count:
            return text[: word.end()]
    return text


def keywords(text: str) -> list[str]:
    """What a keyword index has of a text: its words in lower case, without stemming.

    Korean words and scripts without spaces are cut into pairs of characters, as search engines do.

    >>> keywords("Die Wale, 鯨は歌う")
    ['die', 'wale', '鯨は', 'は歌', '歌う']
    """
    listed: list[str] = []
    for run in _RUN.finditer(text.lower()):
        characters = _CHARACTER.findall(run[0]) if run["paired"] else []
        if len(characters) > 1:
            listed += [first + second for first, second in pairwise(characters)]
        else:
            listed.append(run[0])
    return listed
