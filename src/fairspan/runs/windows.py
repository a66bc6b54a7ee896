"""How far each treatment reads: its window, and how many texts are longer and were cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fairspan.calibration.treatment import Treatment
from fairspan.runs.header import WindowInfo

if TYPE_CHECKING:  # reports read these words and need no model
    from fairspan.runs.subject import Subject


def windows_of(
    subject: Subject, treatments: Sequence[Treatment], lengths: Mapping[str, Sequence[int]]
) -> tuple[WindowInfo, ...]:
    """One entry for each treatment and kind of text, given the lengths of texts by kind."""
    windows = []
    for treatment in treatments:
        for texts, tokens in lengths.items():
            window = subject.window(treatment, "documents" if texts == "evidence" else texts)
            cut = sum(window is not None and length > window for length in tokens)
            windows.append(WindowInfo(treatment.name, texts, window, len(tokens), cut))
    return tuple(windows)


def window_notes(windows: Sequence[WindowInfo], unit: str) -> list[str]:
    """What was cut in words; nothing where all read all of the same."""
    if len({info.window for info in windows}) < 2 and not any(info.cut for info in windows):
        return []
    by_words: dict[str, list[str]] = {}
    for name in dict.fromkeys(info.treatment for info in windows):
        infos = [info for info in windows if info.treatment == name]
        infos.sort(key=lambda info: info.texts != "evidence")
        words = [cut_words(info, unit) for info in infos]
        if any(words):
            by_words.setdefault("; ".join(filter(None, words)), []).append(name)
    return [f"{', '.join(names)}: {words}" for words, names in by_words.items()]


def limit_note(
    subject: Subject,
    lengths: Sequence[int],
    texts: str = "documents",
    windows: Sequence[WindowInfo] = (),
) -> list[str]:
    """A note if texts exceed the model's own limit, and are read beyond it in one of the windows.

    Without windows, all texts are read whole.
    """
    longer = 0 if subject.limit is None else sum(length > subject.limit for length in lengths)
    reads = [info.window for info in windows if info.texts == texts]
    all_stop = reads and all(window and window <= (subject.limit or 0) for window in reads)
    if not longer or all_stop:
        return []
    note = (
        f"{subject.name} comes with a limit of {subject.limit:,} tokens, and {longer:,} of "
        f"{len(lengths):,} {texts} are longer: reading beyond the limit may itself explain "
        "differences between positions or lengths"
    )
    return [note]


def cut_words(info: WindowInfo, unit: str) -> str:
    """Such as "40 of 160 documents were cut at 512 tokens"; empty if none was."""
    if not info.cut:
        return ""
    counted = f"{info.cut:,} of {info.count:,}"
    if info.texts == "evidence":
        return f"{counted} queries ask for text that was not read"
    return f"{counted} {info.texts} were cut at {info.window:,} {unit}"
