"""`FitPart`: texts to fit a whitening on, none of which is tested."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_texts, room_of
from fairspan.encoding.encoder import Text
from fairspan.errors import CorpusError
from fairspan.runs.identity import hash_of

# The longest text to fit on. Longer segments are cut into several at the ends of sentences.
_LONGEST = {"tokens": 128, "characters": 512}
# Texts for each dimension: fewer fit the noise of the sample, more would change little.
_LEAST = 2
_MOST = 10
# Texts that share this many characters from the beginning of one of them are parts of one text.
_HEAD = 40


@dataclass(frozen=True, slots=True)
class FitPart:
    """Texts to fit on, and notes about them; empty where no treatment is fitted."""

    texts: tuple[Text, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text_hashes(self) -> list[str]:
        """A hash of the texts, if there are any."""
        return [hash_of([text.text for text in self.texts])] if self.texts else []


def choose_fit_part(
    treatments: Sequence[Treatment],
    model: Any,
    counter: TokenCounter,
    corpus: Corpus | None,
    tested: Iterable[str],
    *,
    seed: int,
) -> FitPart:
    """What the whitenings among `treatments` are fitted on: each different text once.

    A segment of the corpus is omitted in all its languages if in any of them it begins in a tested
    text, or a tested text begins in it. The rest is cut into texts of at most 128 tokens.

    Args:
        corpus: to take texts from.
        tested: every text that is measured, queries included.
    """
    whitened = [treatment for treatment in treatments if treatment.whitens]
    if not whitened:
        return FitPart()
    if corpus is None:
        raise CorpusError(
            f"{whitened[0].name} must be fitted on texts that are not tested, and this task has "
            "none left: name another corpus with fit_corpus."
        )
    texts = _untested_texts(corpus, tested, counter)
    width = int(model.get_embedding_dimension() or 0)
    for treatment in whitened:
        _require_enough(treatment, width, len(texts), corpus.name)
    if len(texts) > _MOST * width:
        drawn = np.random.default_rng(seed).choice(len(texts), _MOST * width, replace=False)
        texts = [texts[number] for number in sorted(drawn)]
    names = ", ".join(treatment.name for treatment in whitened)
    return FitPart(
        tuple(map(Text, texts, counter.count_whole(texts))),
        (f"{names}: fitted on {len(texts)} texts of {corpus.name} that are not tested",),
    )


def _untested_texts(corpus: Corpus, tested: Iterable[str], counter: TokenCounter) -> list[str]:
    """The different texts of a corpus, without segments that overlap with tested texts."""
    overlapping = overlaps([segment.text for segment in corpus.segments], tested)
    omitted = {
        segment.id for segment, omit in zip(corpus.segments, overlapping, strict=True) if omit
    }
    segments = [segment for segment in corpus.segments if segment.id not in omitted]
    # Sorted, so that a draw does not depend on how the corpus is stored.
    segments.sort(key=lambda segment: (segment.id, segment.language))
    return list(dict.fromkeys(_pieces(segments, counter)))


def _require_enough(treatment: Treatment, width: int, count: int, corpus: str) -> None:
    """Raise if so many texts are too few for the dimensions that a whitening keeps."""
    kept = treatment.number or width
    if kept > width:
        raise CorpusError(
            f"{treatment.name} keeps {kept} dimensions, and the model's vectors have {width}."
        )
    if count < _LEAST * kept:
        raise CorpusError(
            f"{treatment.name} needs {_LEAST * kept} texts of up to {_LONGEST['tokens']} tokens to "
            f"be fitted on, {_LEAST} for each of {kept} dimensions, and {corpus} has {count} that "
            f"are not tested: keep at most {count // _LEAST} dimensions, test fewer, or name "
            "another corpus with fit_corpus."
        )


def overlaps(texts: Sequence[str], tested: Iterable[str]) -> list[bool]:
    """For each text whether it begins in a tested text, or a tested text begins in it.

    White space does not count. A text of fewer than 40 characters, such as a title, may occur
    anywhere by chance: it counts only if the other text begins with it.
    """
    candidates = [" ".join(text.split()) for text in texts]
    others = {" ".join(text.split()) for text in tested}
    contained = _occurring({text[:_HEAD] for text in candidates}, others)
    heads = {text[:_HEAD] for text in others}
    return [text[:_HEAD] in contained or bool(_occurring(heads, [text])) for text in candidates]


def _occurring(heads: Collection[str], texts: Iterable[str]) -> set[str]:
    """Those of the heads that occur in any of the texts, short ones at its beginning."""
    short = {len(head) for head in heads if len(head) < _HEAD}
    occurring: set[str] = set()
    for text in texts:
        parts = {text[start : start + _HEAD] for start in range(len(text) - _HEAD + 1)}
        parts |= {text[:length] for length in short}
        occurring |= {part for part in parts if part in heads}
    return occurring


def _pieces(segments: Sequence[Segment], counter: TokenCounter) -> list[str]:
    texts = [Text(segment.text, 0, language=segment.language) for segment in segments]
    longest = _LONGEST[counter.unit]
    chunks = chunk_texts(texts, counter, min(longest, room_of(counter) or longest))
    return list(chain.from_iterable(chunks))
