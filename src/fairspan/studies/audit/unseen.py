"""Which positions a treatment does not read, where it cuts documents at its window."""

from collections.abc import Iterable, Sequence
from typing import Any

from fairspan.design.documents import Document
from fairspan.encoding.tokens import ModelTokens
from fairspan.encoding.window import read_text
from fairspan.runs.subject import Subject

Record = dict[str, Any]


def unseen_positions(subject: Subject, documents: Sequence[Document]) -> list[Record]:
    """For each treatment that cuts documents and each position: in how many it is read in part only, or never.

    Positions that are read whole in every document have no record.
    """
    by_window: dict[int | None, list[Record]] = {}
    found = []
    for treatment in subject.treatments:
        window = subject.window(treatment)
        if window not in by_window:
            by_window[window] = [] if window is None else _unread(subject, documents, window)
        found += [{"treatment": treatment.name, **one} for one in by_window[window]]
    return found


def position_words(records: Iterable[Record], treatment: str) -> str:
    """Such as "not read whole: positions 3 and 4 of n=4"; empty if the treatment reads all."""
    by_size: dict[int, list[str]] = {}
    for one in records:
        if one["treatment"] == treatment:
            by_size.setdefault(one["n"], []).append(str(one["position"]))
    named = [
        f"position {own[0]} of n={n}" if len(own) == 1 else f"positions {', '.join(own[:-1])} and {own[-1]} of n={n}"
        for n, own in by_size.items()
    ]
    return f"not read whole: {'; '.join(named)}" if named else ""


def _unread(subject: Subject, documents: Sequence[Document], window: int) -> list[Record]:
    counter = ModelTokens(subject.transformer("a window"), subject.prompts["document"], window=window)
    counts: dict[tuple[int, int], list[int]] = {}
    for document in documents:
        own = [(0, 0)] * document.n
        if document.length > window:
            own = read_text(counter, document.text).count(list(document.spans))
        for place, (tokens, read) in enumerate(own, start=1):
            all_of_them = counts.setdefault((document.n, place), [0, 0, 0])
            for number, yes in enumerate((True, 0 < read < tokens, read == 0 < tokens)):
                all_of_them[number] += yes
    return [
        {"n": n, "position": position, "documents": every, "in_part": in_part, "never": never}
        for (n, position), (every, in_part, never) in counts.items()
        if in_part or never
    ]
