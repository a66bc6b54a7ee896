"""Batches of texts under a budget of padded tokens."""

from collections.abc import Sequence


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of texts in batches, longest first, of at most `budget` tokens with padding; one text at least.

    Which texts share a batch depends on the lengths alone, so that an interrupted run forms the same batches again
    and computes the same vectors to the last bit.
    """
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    made: list[list[int]] = []
    room = 0
    for number in order:
        if room == 0:
            made.append([])
            room = max(1, budget // max(1, lengths[number]))
        made[-1].append(number)
        room -= 1
    return made


def halves(batch: Sequence[int]) -> tuple[list[int], list[int]]:
    """A batch in two parts, the first at least as large as the second."""
    middle = (len(batch) + 1) // 2
    return list(batch[:middle]), list(batch[middle:])
