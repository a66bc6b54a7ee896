"""`FitPart`: texts to fit a whitening or a language correction on, none of which is tested."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_documents, room_of
from fairspan.encoding.encoder import Text
from fairspan.errors import CorpusError

# The longest text to fit on. Longer segments are cut into several at the ends of sentences.
_TOKENS, _CHARACTERS = 128, 512
# Texts for each dimension. With fewer, what is whitened is the accident of the draw; more would change little.
_LEAST, _MOST = 2, 10
# Texts of each language for a correction. All languages have the same ones, so that their differences have a small
# error where each mean still has a large one.
LEAST_PARALLEL, MOST_PARALLEL = 20, 500
# Texts that share this many characters from the beginning of one of them are parts of one text.
_HEAD = 40

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class FitPart:
    """Texts to fit on; there are none where no treatment is fitted.

    Attributes:
        texts: what a whitening is fitted on.
        parallel: what corrections of languages are fitted on: the same texts in each language, in one order.
    """

    texts: tuple[Text, ...] = ()
    notes: tuple[str, ...] = ()
    parallel: tuple[Text, ...] = ()

    def tokens(self, treatment: Treatment) -> int:
        """Those of the texts that a treatment is fitted on."""
        texts = self.texts if treatment.whitens else ()
        parallel = self.parallel if treatment.correction else ()
        return sum(text.length for text in (*texts, *parallel))

    @property
    def decisive(self) -> list[str]:
        """What of it decides a result: nothing where there are no texts."""
        listed: list[Any] = [[text.text for text in self.texts]] if self.texts else []
        listed += [[[text.language, text.text] for text in self.parallel]] if self.parallel else []
        return [sha256(json.dumps(one).encode()).hexdigest() for one in listed]


def choose_fit_part(
    treatments: Sequence[Treatment],
    model: Any,
    counter: TokenCounter,
    source: str | None,
    languages: Sequence[str] | None,
    tested: Iterable[str],
    *,
    seed: int,
) -> FitPart:
    """What the whitenings and the corrections of languages among `treatments` are fitted on.

    A segment of the corpus is omitted in all its languages if in any of them it begins in a tested text, or a tested
    text begins in it. What remains is cut into texts of at most 128 tokens.

    Args:
        model: of which a whitening has the dimensions.
        source: the corpus to take texts from.
        languages: those to read of it; None for all.
        tested: every text that is measured, queries included.

    Raises:
        CorpusError: if there is no corpus, or it leaves too few texts or languages.
    """
    whitened = [treatment for treatment in treatments if treatment.whitens]
    corrected = [treatment for treatment in treatments if treatment.correction is not None]
    if not (whitened or corrected):
        return FitPart()
    if source is None:
        raise CorpusError(
            f"{(whitened or corrected)[0].name} must be fitted on texts that are not tested, and this task has "
            "none left: name another corpus with fit_corpus."
        )
    corpus = Corpus.read(source, languages, partial=True)
    seen = overlaps([segment.text for segment in corpus.segments], tested)
    gone = {
        segment.id for segment, is_tested in zip(corpus.segments, seen, strict=True) if is_tested
    }
    left = [segment for segment in corpus.segments if segment.id not in gone]
    texts: tuple[Text, ...] = ()
    parallel: tuple[Text, ...] = ()
    notes = []
    if whitened:
        texts = _choose_texts(
            whitened, int(model.get_embedding_dimension() or 0), left, corpus.name, counter, seed
        )
        notes.append(
            f"{_names(whitened)}: fitted on {len(texts)} texts of {corpus.name} that are not tested"
        )
    if corrected:
        parallel = choose_parallel(corrected[0].name, left, corpus, counter, seed=seed)
        notes.append(
            f"{_names(corrected)}: fitted on {len(parallel) // len(corpus.languages)} texts of {corpus.name}, the "
            f"same in each of {', '.join(corpus.languages)}, that are not tested"
        )
    return FitPart(texts, tuple(notes), parallel)


def _names(treatments: Sequence[Treatment]) -> str:
    return ", ".join(one.name for one in treatments)


def choose_parallel(
    name: str, segments: Sequence[Segment], corpus: Corpus, counter: TokenCounter, *, seed: int
) -> tuple[Text, ...]:
    """The same texts in every language of a corpus, language by language, for the correction of that name.

    Every segment is cut into texts of at most 128 tokens. Of each id as many of them are kept, from the beginning, as
    it has in all languages, so that languages differ in nothing else; of all these, at most 500 are drawn.
    """
    languages = corpus.languages
    if len(languages) < 2:
        raise CorpusError(
            f"{name} needs at least two languages to be fitted on, and there is only {languages[0]!r} of "
            f"{corpus.name}: use more languages, or a corpus to fit on that has more."
        )
    pieces = dict(
        zip([(one.id, one.language) for one in segments], _pieces(segments, counter), strict=True)
    )
    ids = sorted({one.id for one in segments})
    shared = {id: min(len(pieces.get((id, language), ())) for language in languages) for id in ids}
    places = [(id, number) for id in ids for number in range(shared[id])]
    if len(places) < LEAST_PARALLEL:
        raise CorpusError(
            f"{name} needs {LEAST_PARALLEL} texts that all of {', '.join(languages)} have, and {corpus.name} has "
            f"{len(places)} that are not tested: add texts, test fewer, or name another corpus to fit on."
        )
    places = _drawn(places, MOST_PARALLEL, seed)
    texts = [pieces[id, language][number] for language in languages for id, number in places]
    spoken = [language for language in languages for _ in places]
    told = zip(texts, counter.count_whole(texts), spoken, strict=True)
    return tuple(Text(text, length, language=language) for text, length, language in told)


def _choose_texts(
    fitted: Sequence[Treatment],
    width: int,
    segments: Sequence[Segment],
    corpus: str,
    counter: TokenCounter,
    seed: int,
) -> tuple[Text, ...]:
    """What whitenings of vectors of that width are fitted on: each different text once."""
    # Sorted, so that a draw does not depend on how the corpus is stored.
    ordered = sorted(segments, key=lambda segment: (segment.id, segment.language))
    texts = list(dict.fromkeys(text for own in _pieces(ordered, counter) for text in own))
    for treatment in fitted:
        kept = treatment.number or width
        if kept > width:
            raise CorpusError(
                f"{treatment.name} keeps {kept} dimensions, and the model's vectors have {width}."
            )
        if len(texts) < _LEAST * kept:
            raise CorpusError(
                f"{treatment.name} needs {_LEAST * kept} texts of up to {_TOKENS} tokens to be fitted on, {_LEAST} "
                f"for each of {kept} dimensions, and {corpus} has {len(texts)} that are not tested: keep at most "
                f"{len(texts) // _LEAST} dimensions, test fewer, or name another corpus with fit_corpus."
            )
    drawn = _drawn(texts, _MOST * width, seed)
    return tuple(Text(*one) for one in zip(drawn, counter.count_whole(drawn), strict=True))


def _drawn(found: list[Drawn], most: int, seed: int) -> list[Drawn]:
    """At most that many of them, in order."""
    if len(found) <= most:
        return found
    return [
        found[number]
        for number in sorted(np.random.default_rng(seed).choice(len(found), most, replace=False))
    ]


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


def _pieces(segments: Sequence[Segment], counter: TokenCounter) -> list[list[str]]:
    """Every segment in texts of whole sentences."""
    texts = [Text(segment.text, 0, language=segment.language) for segment in segments]
    room, most = room_of(counter), _TOKENS if counter.unit == "tokens" else _CHARACTERS
    chunks = chunk_documents(texts, counter, most if room is None else min(most, room))
    return [
        [one.text[slice(*span)] for span in spans] for one, spans in zip(texts, chunks, strict=True)
    ]
