"""Which texts have something in common with those that are tested."""

from collections.abc import Collection, Iterable, Sequence

# Two texts that share so many characters from the beginning of one of them are parts of one text.
_HEAD = 40


def overlaps(texts: Sequence[str], tested: Iterable[str]) -> list[bool]:
    """For each text whether it begins somewhere in a tested text, or a tested text begins somewhere in it.

    White space does not count. A text of fewer than 40 characters, such as a title or a short opening, may stand
    anywhere by chance: it counts only where the other text begins with it.
    """
    own = [" ".join(text.split()) for text in texts]
    others = {" ".join(text.split()) for text in tested}
    begun = _standing({text[:_HEAD] for text in own}, others)
    heads = {text[:_HEAD] for text in others}
    return [text[:_HEAD] in begun or bool(_standing(heads, [text])) for text in own]


def _standing(heads: Collection[str], texts: Iterable[str]) -> set[str]:
    """Those of the heads that stand in any of the texts, short ones at its beginning."""
    short = {len(head) for head in heads if len(head) < _HEAD}
    found: set[str] = set()
    for text in texts:
        parts = {text[start : start + _HEAD] for start in range(len(text) - _HEAD + 1)}
        parts |= {text[:length] for length in short}
        found |= {part for part in parts if part in heads}
    return found
