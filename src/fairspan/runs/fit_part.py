"""`FitPart`: texts that a whitening is fitted on, none of which is tested."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_documents, room_of
from fairspan.encoding.encoder import Text
from fairspan.errors import CorpusError
from fairspan.retrieval.task import Passage

# The longest text to fit on. Longer segments are cut into several at the ends of sentences.
_TOKENS = 128
# Texts for each dimension. With fewer, what is whitened is the accident of the draw; more would change little.
_LEAST, _MOST = 2, 10
# Two texts that share so many characters from the beginning of one of them are parts of one text.
_HEAD = 40


@dataclass(frozen=True, slots=True)
class FitPart:
    """Texts to fit on; there are none where no treatment is fitted."""

    texts: tuple[Text, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(text.length for text in self.texts)

    @property
    def decisive(self) -> list[str]:
        """What of it decides a result: nothing where there are no texts."""
        listed = json.dumps([text.text for text in self.texts]).encode()
        return [sha256(listed).hexdigest()] if self.texts else []


def choose_fit_part(
    treatments: Sequence[Treatment],
    model: SentenceTransformer,
    counter: TokenCounter,
    source: str | None,
    languages: Sequence[str] | None,
    tested: Iterable[str],
    *,
    seed: int,
) -> FitPart:
    """What the whitenings among `treatments` are fitted on.

    A segment of the corpus is omitted in all its languages if in any of them it begins in a tested text, or a tested
    text begins in it. What remains is cut into texts of at most 128 tokens.

    Args:
        source: the corpus to take texts from.
        tested: every text that is measured, queries included.

    Raises:
        CorpusError: if there is no corpus, or it leaves fewer than two texts per dimension.
    """
    fitted = [treatment for treatment in treatments if treatment.whitens]
    if not fitted:
        return FitPart()
    if source is None:
        raise CorpusError(
            f"{fitted[0].name} is fitted on texts that are never tested, and this task has none to spare: name a "
            "corpus of other texts with [[fit_corpus=]]."
        )
    corpus = Corpus.read(source, languages, partial=True)
    seen = overlaps([segment.text for segment in corpus.segments], tested)
    gone = {segment.id for segment, is_tested in zip(corpus.segments, seen, strict=True) if is_tested}
    texts = _cut([segment for segment in corpus.segments if segment.id not in gone], counter)
    width = int(model.get_embedding_dimension() or 0)
    for treatment in fitted:
        _refuse_few(treatment, width, len(texts), corpus.name)
    if len(texts) > _MOST * width:
        drawn = np.random.default_rng(seed).choice(len(texts), _MOST * width, replace=False)
        texts = [texts[number] for number in sorted(drawn)]
    lengths = counter.count_whole(texts)
    note = (
        f"{', '.join(one.name for one in fitted)}: fitted on {len(texts)} texts of {corpus.name} that are not tested"
    )
    return FitPart(tuple(Text(text, length) for text, length in zip(texts, lengths, strict=True)), (note,))


def overlaps(texts: Sequence[str], tested: Iterable[str]) -> list[bool]:
    """For each text whether it begins somewhere in a tested text, or a tested text begins somewhere in it.

    White space does not count. A text of fewer than 40 characters, such as a title or a short opening, may occur
    anywhere by chance: it counts only if the other text begins with it.
    """
    own = [" ".join(text.split()) for text in texts]
    others = {" ".join(text.split()) for text in tested}
    begun = _found({text[:_HEAD] for text in own}, others)
    heads = {text[:_HEAD] for text in others}
    return [text[:_HEAD] in begun or bool(_found(heads, [text])) for text in own]


def _found(heads: Collection[str], texts: Iterable[str]) -> set[str]:
    """Those of the heads that occur in any of the texts, short ones at its beginning."""
    short = {len(head) for head in heads if len(head) < _HEAD}
    found: set[str] = set()
    for text in texts:
        parts = {text[start : start + _HEAD] for start in range(len(text) - _HEAD + 1)}
        parts |= {text[:length] for length in short}
        found |= {part for part in parts if part in heads}
    return found


def _cut(segments: Sequence[Segment], counter: TokenCounter) -> list[str]:
    """Each different text once, in an order that does not depend on how the corpus is stored."""
    ordered = sorted(segments, key=lambda segment: (segment.id, segment.language))
    passages = [Passage(segment.id, segment.text, segment.language) for segment in ordered]
    room = room_of(counter)
    chunks = chunk_documents(passages, counter, _TOKENS if room is None else min(_TOKENS, room))
    cut = (passage.text[slice(*span)] for passage, spans in zip(passages, chunks, strict=True) for span in spans)
    return list(dict.fromkeys(cut))


def _refuse_few(treatment: Treatment, width: int, count: int, corpus: str) -> None:
    kept = treatment.dimensions or width
    if kept > width:
        raise CorpusError(f"{treatment.name} keeps {kept} dimensions, and the model's vectors have {width}.")
    if count < _LEAST * kept:
        fewer = f"keep at most {count // _LEAST} dimensions, as in whitening-{count // _LEAST}, " if count > 1 else ""
        raise CorpusError(
            f"{treatment.name} needs {_LEAST * kept} texts of up to {_TOKENS} tokens to be fitted on, {_LEAST} for "
            f"each of {kept} dimensions, and {corpus} has {count} that are not tested: add {_LEAST * kept - count}, "
            f"{fewer}test fewer, or name another corpus with [[fit_corpus=]]."
        )
