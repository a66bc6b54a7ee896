"""Passages as queries: what is cut out of a document asks for the rest of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import UNKNOWN
from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import CorpusError
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.task import (
    FIFTHS,
    LEAST_TOKENS,
    Evidence,
    Passage,
    Query,
    RetrievalTask,
    make_task,
)

# Fifths take turns in this order: two that follow each other are not neighbours in a document.
_TURNS = (0, 2, 4, 1, 3)
# Draws from one document, and how many that seem good are measured before it is given up.
_DRAWS, _TRIES = 2000, 20
# Passages of a long document.
_MOST = 10

Counts = NDArray[np.int64]
Asked = tuple[Query, Evidence]


@dataclass(frozen=True, slots=True)
class _Article:
    """A document with its sentences, the length of each, and the runs that can be cut out: [runs, first and stop].

    `too_long` says whether the model is not to read it whole without its passages.
    """

    id: str
    text: str
    spans: Sequence[Span]
    lengths: Counts
    runs: Counts
    too_long: bool


@dataclass(frozen=True)
class PassageDraw:
    """Draws passages: one asks for the document that it was cut out of, which is indexed without it.

    A passage consists of whole sentences and is no longer than a fifth of its document. It is in no document of the
    index, and none of its sentences of 8 tokens or more is. The evidence is the sentence before it and the one after
    it. Every fifth has equally many queries, to within one: over all documents, and over those that the model reads
    whole. Of a longer one the fifths are those of what the model reads, as if it were shortened.

    Attributes:
        tokens: the longest passage.
        per_document: how many passages are cut out of a document, each from another fifth: 1 to 5.
        tokens_each: of documents that are longer than so many times `per_document`, one passage for so many tokens,
            up to ten, every fifth having equally many to within one.
        documents: how many to use at most, drawn at random; None for all.
        most_tokens: how many tokens they may have together, if there are more than `least` of them.
    """

    counter: TokenCounter
    tokens: int = 60
    per_document: int = 3
    documents: int | None = None
    seed: int = 0
    most_tokens: float = float("inf")
    least: int = 0
    tokens_each: float = 250

    def tasks(self, corpus: Corpus, languages: Sequence[str]) -> tuple[RetrievalTask, ...]:
        """One task for each language."""
        chosen = corpus.select(languages)
        return tuple(self._task(chosen, language) for language in chosen.languages)

    @cached_property
    def _room(self) -> float:
        """How many tokens of a document's own text the model reads."""
        window = self.counter.window
        return float("inf") if window is None else window - self.counter.count_whole([""])[0]

    def _task(self, corpus: Corpus, language: str) -> RetrievalTask:
        articles, notes = self._usable(corpus, language)
        everything = "\n".join(_spaced(article.text) for article in articles)
        rng = np.random.default_rng(self.seed)
        every = [articles[number] for number in rng.permutation(len(articles))]
        drawn, spoken = every[: self._number(every)], _spoken(language)
        # In the place of one that nothing can be cut out of comes another that is too long, or is not, as that one.
        spare = {
            long: iter([one for one in every[len(drawn) :] if one.too_long == long])
            for long in (False, True)
        }
        # Turns go on from one document to the next, so that documents that follow each other are balanced: those of
        # about one length, and those that remain if the too long ones are left out.
        drawn.sort(key=lambda article: (article.too_long, article.lengths.sum()))
        turns = cycle(np.roll(_TURNS, rng.integers(FIFTHS)).tolist())
        waiting = list[int]()
        made: list[Passage] = []
        asked: list[Asked] = []
        long = tried = 0
        while drawn:
            article = drawn.pop(0)
            tried += 1
            count = self._passages(article)
            waiting += islice(turns, max(0, count - len(waiting)))
            found = self._draw(article, language, sorted(waiting[:count]), everything, rng)
            if found is None:
                drawn[:0] = islice(spare[article.too_long], 1)
                continue
            made.append(found[0])
            asked += found[1]
            long += article.too_long
            del waiting[:count]
        where = f"{tried} documents{spoken}"
        if len(made) < 2:
            raise CorpusError(
                f"{self.per_document} passages with text between them can be cut out of {len(made)} of {where}, and "
                "a search needs 2: use longer documents, or cut out fewer or shorter passages."
            )
        if len(made) < tried:
            notes.append(
                f"{tried - len(made)} of {where} have too few places to cut out passages and were not used"
            )
        if tried < len(every) and self.most_tokens < float("inf"):
            notes.append(f"{len(made)} of {len(every)} documents{spoken} were drawn")
        if long:
            notes.append(
                f"{long} of {len(made)} documents{spoken} are too long for the model, and their passages "
                f"are from the first {self.counter.window} {self.counter.unit}"
            )
        of = corpus.name if language == UNKNOWN else f"{corpus.name}, {language}"
        return make_task(f"passages from {of}", made, asked, (*corpus.notes, *notes))

    def _passages(self, article: _Article) -> int:
        """How many are cut out of an article."""
        return max(
            self.per_document,
            min(_MOST, int(min(article.lengths.sum(), self._room) // self.tokens_each)),
        )

    def _number(self, articles: Sequence[_Article]) -> int:
        """How many articles are drawn."""
        tokens = np.cumsum([article.lengths.sum() for article in articles])
        few_enough = max(self.least, int(np.searchsorted(tokens, self.most_tokens, side="right")))
        return min(few_enough, self.documents or few_enough)

    def _usable(self, corpus: Corpus, language: str) -> tuple[list[_Article], list[str]]:
        """The documents that have passages in all fifths: the one that is wanted must not decide which are used."""
        # Sorted, so that a draw does not depend on the order of files.
        ids = sorted(corpus.ids([language]))
        first_with: dict[str, str] = {}
        for id in ids:
            first_with.setdefault(_spaced(corpus.text(id, language)), id)
        texts = {id: corpus.text(id, language) for id in first_with.values()}
        spans = {id: sentences(text, language) for id, text in texts.items()}
        flat = [texts[id][start:end] for id, found in spans.items() for start, end in found]
        lengths = np.array(self.counter.count(flat), dtype=np.int64)
        times = Counter(map(_spaced, flat))
        repeated = np.array([times[_spaced(sentence)] > 1 for sentence in flat], dtype=bool)
        repeated &= lengths >= LEAST_TOKENS
        articles, short, seen = [], 0, 0
        for id, found in spans.items():
            own = slice(seen, seen := seen + len(found))
            total = int(lengths[own].sum())
            if len(found) < FIFTHS or total < FIFTHS * LEAST_TOKENS:
                short += 1
                continue
            longest = min(self.tokens, int(min(total, self._room)) // FIFTHS)
            # A document slightly longer than the window fits without its passages.
            too_long = total - self.per_document * longest / 2 > self._room
            reach = self._room + self.per_document * longest
            runs = _runs(lengths[own], repeated[own], longest, reach)
            article = _Article(id, texts[id], found, lengths[own], runs, too_long)
            if set(_fifths(article, np.arange(len(runs))[:, None], self._room).flat) >= set(
                range(FIFTHS)
            ):
                articles.append(article)
        unit = self.counter.unit
        why = {
            "have the text of another one": len(ids) - len(texts),
            f"have fewer than {FIFTHS} sentences or {FIFTHS * LEAST_TOKENS} {unit}": short,
            f"have a fifth without sentences of {LEAST_TOKENS} to {self.tokens} {unit} that occur once": (
                len(texts) - short - len(articles)
            ),
        }
        left_out = [
            f"{count} of {len(ids)} documents{_spoken(language)} {what}"
            for what, count in why.items()
            if count
        ]
        if len(articles) < 2:
            raise CorpusError(
                f"passages need 2 documents to cut them out of, and {corpus.name} has {len(articles)}"
                f"{_spoken(language)}{''.join(f'; {one}' for one in left_out)}. Add longer documents, or raise "
                "query_tokens."
            )
        return articles, [f"{one} and were not used" for one in left_out]

    def _draw(
        self,
        article: _Article,
        language: str,
        wanted: Sequence[int],
        everything: str,
        rng: np.random.Generator,
    ) -> tuple[Passage, list[Asked]] | None:
        """A document without one passage from each wanted fifth, and these as queries; None if it has none such."""
        draws = _DRAWS if len(wanted) <= FIFTHS else 10 * _DRAWS
        drawn = np.sort(rng.integers(len(article.runs), size=(draws, len(wanted))), axis=1)
        good = (_fifths(article, drawn, self._room) == wanted).all(1)
        for runs in drawn[good][:_TRIES]:
            document, asked = _cut_out(article, language, article.runs[runs].tolist())
            texts = [query.text for query, _ in asked]
            if any(everything.count(_spaced(text)) > 1 for text in texts):
                continue
            if not all(LEAST_TOKENS <= count <= self.tokens for count in self.counter.count(texts)):
                continue
            if self._measured(document, asked, article) == wanted:
                return document, asked
        return None

    def _measured(self, document: Passage, asked: Sequence[Asked], article: _Article) -> list[int]:
        """The fifths of the queries in what the model reads; none if it reads other documents than it should."""
        # Far more than is read of the document; counting all of a long one takes its time.
        enough = int(np.searchsorted(article.lengths.cumsum(), 2 * self._room))
        probe = replace(document, text=document.text[: article.spans[: enough + 1][-1][1]])
        task = make_task(document.id, [probe], asked)
        try:
            measured = measure_task(task, self.counter, self.counter, too_long="shorten")
        except CorpusError:
            return []
        is_cut = measured.task.documents[0].text != probe.text
        return (
            [one.group - 1 for one in measured.positions.values()]
            if is_cut == article.too_long
            else []
        )


def _runs(lengths: Counts, repeated: NDArray[np.bool_], longest: int, reach: float) -> Counts:
    """[runs, 2], the first sentence and the one after the last: from each of the first `reach` tokens the longest."""
    ends = lengths.cumsum()
    runs = []
    for first, begin in enumerate(ends - lengths):
        stop = int(np.searchsorted(ends, begin + longest, side="right"))
        long_enough = stop > first and ends[stop - 1] - begin >= LEAST_TOKENS
        if begin < reach and long_enough and not repeated[first:stop].any():
            runs.append((first, stop))
    return np.array(runs, dtype=np.int64).reshape(-1, 2)


def _fifths(article: _Article, drawn: Counts, room: float) -> Counts:
    """[draws, passages] of a document without these runs: the fifth in which each one's evidence begins.

    Runs are given by number and in order. -1 if the evidence of one is cut out with another, or is not read.
    """
    ends = np.concatenate([[0], article.lengths.cumsum()])
    first, stop = article.runs[drawn, 0], article.runs[drawn, 1]
    gone = (ends[stop] - ends[first]).cumsum(1)
    begin = ends[np.maximum(first - 1, 0)] - np.pad(gone, ((0, 0), (1, 0)))[:, :-1]
    end = ends[np.minimum(stop + 1, len(ends) - 1)] - gone
    left = np.minimum(ends[-1] - gone[:, -1:], room)
    apart = np.pad(first[:, 1:] > stop[:, :-1], ((0, 0), (0, 1)), constant_values=True)
    found = np.minimum(FIFTHS - 1, FIFTHS * begin // left).astype(np.int64)
    return np.where(apart & (end <= room), found, -1)


def _cut_out(article: _Article, language: str, runs: Sequence[Span]) -> tuple[Passage, list[Asked]]:
    """The document without these sentences, and the queries that they are."""
    gone = {number for first, stop in runs for number in range(first, stop)}
    name, text, spans = f"{article.id}/{language}", "", article.spans
    places: dict[int, Span] = {}
    for number, (start, end) in enumerate(spans):
        if number in gone:
            continue
        if places:
            # Of the white space between the sentences of a gap, that of the greatest break.
            gaps = [
                article.text[spans[one][1] : spans[one + 1][0]]
                for one in range(max(places), number)
            ]
            text += max(gaps, key=lambda gap: (gap.count("\n"), len(gap)))
        places[number] = len(text), len(text) + end - start
        text += article.text[start:end]
    asked = []
    for first, stop in runs:
        around = [places[number] for number in (first - 1, stop) if number in places]
        body = article.text[spans[first][0] : spans[stop - 1][1]]
        query = Query(f"{name}/{first + 1}-{stop}", body, language, cluster=article.id)
        asked.append((query, Evidence(name, around[0][0], around[-1][1])))
    return Passage(name, text, language), asked


def _spaced(text: str) -> str:
    """A text with one space for any white space, as which it may be repeated."""
    return " ".join(text.split())


def _spoken(language: str) -> str:
    return "" if language == UNKNOWN else f" in {language}"
