"""How far each treatment reads: its window, and how many texts are longer and were cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairspan.calibration.treatment import Treatment

if TYPE_CHECKING:  # reports read these words and need no model
    from fairspan.runs.subject import Subject

Record = dict[str, Any]


def windows_of(
    subject: Subject, treatments: Sequence[Treatment], lengths: Mapping[str, Sequence[int]]
) -> list[Record]:
    """One record for each treatment and kind of text, given the lengths of these texts.

    Kinds are "documents", "segments" and "queries", and "evidence" for how far documents have to be read for it to be
    seen. `window` is None where nothing is known of a limit.
    """
    found = []
    for treatment in treatments:
        for texts, own in lengths.items():
            window = subject.window(treatment, "documents" if texts == "evidence" else texts)
            cut = sum(window is not None and length > window for length in own)
            record = {
                "treatment": treatment.name,
                "texts": texts,
                "window": window,
                "count": len(own),
                "cut": cut,
            }
            found.append(record)
    return found


def window_notes(
    records: Sequence[Record], unit: str, more: Mapping[str, str] | None = None
) -> list[str]:
    """What was cut in words, with `more` by treatment; nothing where all windows are equal."""
    if len({one["window"] for one in records}) < 2:
        return []
    said: dict[str, list[str]] = {}
    for name in dict.fromkeys(one["treatment"] for one in records):
        own = sorted(
            (one for one in records if one["treatment"] == name),
            key=lambda one: one["texts"] != "evidence",
        )
        words = [*(cut_words(one, unit) for one in own if one["cut"]), (more or {}).get(name, "")]
        if any(words):
            said.setdefault("; ".join(filter(None, words)), []).append(name)
    return [f"{', '.join(names)}: {words}" for words, names in said.items()]


def limit_note(subject: Subject, lengths: Sequence[int], texts: str = "documents") -> list[str]:
    """A note if texts exceed the model's own limit, although it can read them."""
    longer = 0 if subject.limit is None else sum(length > subject.limit for length in lengths)
    if not longer:
        return []
    note = (
        f"{subject.name} comes with a limit of {subject.limit:,} tokens, and {longer:,} of {len(lengths):,} {texts} "
        "are longer: reading beyond the limit may itself explain differences between positions or lengths"
    )
    return [note]


def cut_words(record: Record, unit: str) -> str:
    """Such as "40 of 160 documents were cut at 512 tokens"; empty if none was."""
    counted = f"{record['cut']:,} of {record['count']:,}"
    if record["texts"] == "evidence":
        return f"{counted} queries ask for text that was never seen" if record["cut"] else ""
    return (
        f"{counted} {record['texts']} were cut at {record['window']:,} {unit}"
        if record["cut"]
        else ""
    )
