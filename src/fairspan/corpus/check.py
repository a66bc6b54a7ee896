"""What a corpus holds: how many segments there are in each language, and how long they are."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.errors import require_whole

PERCENTILES = (0, 5, 25, 50, 75, 95, 100)


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """What `check` found.

    Attributes:
        aligned: segments that are there in every language.
        unit: what lengths are counted in.
        languages: for each language the number of its segments, and their lengths by percentile.
        sets: by number of segments per document, how many documents share no segment.
    """

    corpus: str
    fingerprint: str
    aligned: int
    unit: str
    languages: dict[str, dict[str, int]]
    sets: dict[int, int]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(
    corpus: Corpus,
    sizes: Sequence[int],
    count: Callable[[Sequence[str]], Sequence[int]] | None = None,
    unit: str = "characters",
) -> CorpusCheck:
    """Lengths in each language as `count` counts them (default: characters), and the disjoint sets of each size."""
    for size in sizes:
        require_whole("sizes", size)
    languages = {}
    for language in corpus.languages:
        texts = [corpus.text(id, language) for id in corpus.ids([language])]
        lengths = [len(text) for text in texts] if count is None else count(texts)
        shares = np.percentile(lengths, PERCENTILES, method="inverted_cdf")
        found = {str(share): int(length) for share, length in zip(PERCENTILES, shares, strict=True)}
        languages[language] = {"segments": len(lengths), **found}
    aligned = len(corpus.ids())
    sets = {size: aligned // size for size in sizes}
    return CorpusCheck(corpus.name, corpus.fingerprint, aligned, unit, languages, sets, corpus.notes)
