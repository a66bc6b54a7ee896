"""What a corpus holds: how many segments there are in each language, and how long they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.errors import require_whole

PERCENTILES = (0, 5, 25, 50, 75, 95, 100)


def check(
    corpus: Corpus,
    sizes: Sequence[int],
    count: Callable[[Sequence[str]], Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Numbers of segments and their lengths, in the tokens that `count` counts, or in characters.

    `aligned` are the segments that exist in every language; `sets`, by number of segments per
    document, how many documents share no segment.
    """
    for size in sizes:
        require_whole("sizes", size)
    languages = {}
    for language in corpus.languages:
        texts = [corpus.text(id, language) for id in corpus.ids([language])]
        lengths = [*map(len, texts)] if count is None else count(texts)
        shares = np.percentile(lengths, PERCENTILES, method="inverted_cdf")
        by_share = dict(zip(map(str, PERCENTILES), map(int, shares), strict=True))
        languages[language] = {"segments": len(lengths), **by_share}
    aligned = len(corpus.ids())
    return {
        "corpus": corpus.name,
        "fingerprint": corpus.fingerprint,
        "aligned": aligned,
        "unit": "characters" if count is None else "tokens",
        "languages": languages,
        "sets": {size: aligned // size for size in sizes},
        "notes": corpus.notes,
    }
