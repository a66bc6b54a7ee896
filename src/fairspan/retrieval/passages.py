"""Passages as queries: what is cut out of a document asks for the rest of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import UNKNOWN, few
from fairspan.corpus.sentences import sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import CorpusError
from fairspan.retrieval.articles import Article, find_runs
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
# Draws from one document, and how many likely ones are measured before it is given up.
_DRAWS = 2000
_TRIES = 20
_MOST_PASSAGES = 10

_SURPLUS = 3
"""Times as many documents as needed are looked at for passages, which takes long."""
_CHARACTERS = 4
"""Of a token, about."""

Cut = tuple[Passage, list[tuple[Query, Evidence]]]
"""A document without its passages, and these as queries."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many documents are used unless a number is asked for.

    Attributes:
        most_tokens: how many tokens they may have together, if there are more than `least` of them.
        documents: how many there are at most.
    """

    most_tokens: float = 300_000
    least: int = 100
    documents: int | None = 1000


@dataclass(frozen=True)
class PassageDraw:
    """Draws passages, each of which asks for the document that it was cut out of.

    A passage consists of whole sentences and is no longer than a fifth of its document. It is in no
    document of the index, and none of its sentences of 8 tokens or more is. The evidence is the
    sentence before it and the one after it. Every fifth has equally many queries, to within one:
    over all documents, and over those that the model reads whole. Of a longer one the fifths are
    those of what the model reads, as if it were shortened.

    Attributes:
        tokens: length of the longest passage.
        per_document: passages of a document, each from another fifth: 1 to 5.
        documents: how many to use at most, drawn at random; None for all.
        most_tokens, least: as in `Budget`.
        tokens_each: long documents have a passage for so many tokens, up to ten.
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
        chosen = corpus.select(languages)
        looked_at = self._sampled(chosen)
        return tuple(
            self._task(looked_at, language, len(chosen.ids([language])))
            for language in chosen.languages
        )

    def _sampled(self, corpus: Corpus) -> Corpus:
        """More documents than are needed, drawn at random if they are limited."""
        if self.most_tokens == float("inf"):
            return corpus
        characters: Counter[str] = Counter()
        for segment in corpus.segments:
            characters[segment.id] += len(segment.text)
        ids = sorted(characters)
        drawn = [ids[number] for number in np.random.default_rng(self.seed).permutation(len(ids))]
        totals = np.cumsum([characters[id] for id in drawn])
        enough = int(np.searchsorted(totals, _SURPLUS * _CHARACTERS * self.most_tokens)) + 1
        count = min(_SURPLUS * (self.documents or len(ids)), max(enough, _SURPLUS * self.least))
        kept = set(drawn[:count])
        segments = tuple(segment for segment in corpus.segments if segment.id in kept)
        return replace(corpus, segments=segments)

    @cached_property
    def _room(self) -> float:
        """How many tokens of a document's text the model reads."""
        window = self.counter.window
        return float("inf") if window is None else window - self.counter.count_whole([""])[0]

    def _task(self, corpus: Corpus, language: str, total: int) -> RetrievalTask:
        """The task of one language, which has `total` documents."""
        articles, left_out = self._usable(corpus, language)
        rng = np.random.default_rng(self.seed)
        shuffled = [articles[number] for number in rng.permutation(len(articles))]
        cuts, failed = self._draw_all(shuffled, language, rng)
        used = len(cuts)
        tried = used + len(failed)
        documents = f"documents{_in_language(language)}"
        if used < 2:
            raise CorpusError(
                f"{self.per_document} passages with text between them can be cut out of {used} of "
                f"{tried} {documents}, and a search needs 2: use longer documents, or cut out "
                "fewer or shorter passages."
            )
        if failed:
            left_out["too few places to cut out passages"] = failed
        notes = _reasons(left_out, language)
        is_drawn = tried < len(shuffled) or len(corpus.ids([language])) < total
        if is_drawn:
            notes.append(f"{used} of {total} {documents} were drawn")
        too_long = sum(article.too_long for article, _ in cuts)
        if too_long:
            notes.append(
                f"{too_long} of {used} {documents} are too long for the model, and their passages "
                f"are from the first {self.counter.window} {self.counter.unit}"
            )
        name = corpus.name if language == UNKNOWN else f"{corpus.name}, {language}"
        passages = [document for _, (document, _) in cuts]
        queries = [query for _, (_, asked) in cuts for query in asked]
        task = make_task(f"passages from {name}", passages, queries, (*corpus.notes, *notes))
        unusable = tuple(id for ids in left_out.values() for id in ids)
        return replace(task, drawn_from=total if is_drawn else None, left_out=unusable)

    def _draw_all(
        self, shuffled: Sequence[Article], language: str, rng: np.random.Generator
    ) -> tuple[list[tuple[Article, Cut]], list[str]]:
        """The documents that passages were cut out of, and those that they could not be."""
        everything = "\n".join(_spaced(article.text) for article in shuffled)
        count = self._number_drawn(shuffled)
        drawn = [*shuffled[:count]]
        # One that nothing can be cut out of is replaced by another that is as much too long.
        spare = {
            too_long: iter([rest for rest in shuffled[count:] if rest.too_long == too_long])
            for too_long in (False, True)
        }
        # Turns go on from one document to the next, so that documents of about one length are
        # balanced, and those that remain without the too long ones.
        drawn.sort(key=lambda article: (article.too_long, article.tokens))
        turns = cycle(np.roll(_TURNS, rng.integers(FIFTHS)).tolist())
        waiting = list[int]()
        cuts: list[tuple[Article, Cut]] = []
        failed = list[str]()
        while drawn:
            article = drawn.pop(0)
            by_length = int(min(article.tokens, self._room) // self.tokens_each)
            count = max(self.per_document, min(_MOST_PASSAGES, by_length))
            waiting += islice(turns, max(0, count - len(waiting)))
            cut = self._draw(article, language, sorted(waiting[:count]), everything, rng)
            if cut is None:
                failed.append(article.id)
                drawn[:0] = islice(spare[article.too_long], 1)
                continue
            cuts.append((article, cut))
            del waiting[:count]
        return cuts, failed

    def _number_drawn(self, articles: Sequence[Article]) -> int:
        tokens = np.cumsum([article.tokens for article in articles])
        few_enough = max(self.least, int(np.searchsorted(tokens, self.most_tokens, side="right")))
        return min(few_enough, self.documents or few_enough)

    def _usable(self, corpus: Corpus, language: str) -> tuple[list[Article], dict[str, list[str]]]:
        """The documents with passages in all fifths, and the others by what they lack."""
        # Sorted, so that a draw does not depend on the order of files.
        ids = sorted(corpus.ids([language]))
        # Of documents with the same text, the first.
        by_text = {_spaced(corpus.text(id, language)): id for id in reversed(ids)}
        texts = {id: corpus.text(id, language) for id in sorted(by_text.values())}
        spans = {id: sentences(text, language) for id, text in texts.items()}
        flat = [texts[id][start:end] for id, borders in spans.items() for start, end in borders]
        lengths = np.array(self.counter.count(flat), dtype=np.int64)
        times = Counter(map(_spaced, flat))
        repeated = np.array([times[_spaced(sentence)] > 1 for sentence in flat], dtype=bool)
        repeated &= lengths >= LEAST_TOKENS
        articles = []
        short = list[str]()
        uneven = list[str]()
        seen = 0
        for id, borders in spans.items():
            part = slice(seen, seen + len(borders))
            seen = part.stop
            total = int(lengths[part].sum())
            if len(borders) < FIFTHS or total < FIFTHS * LEAST_TOKENS:
                short.append(id)
                continue
            longest = min(self.tokens, int(min(total, self._room)) // FIFTHS)
            # A document slightly longer than the window fits without its passages.
            too_long = total - self.per_document * longest / 2 > self._room
            reach = self._room + self.per_document * longest
            runs = find_runs(lengths[part], repeated[part], longest, reach)
            article = Article(id, texts[id], borders, lengths[part], runs, too_long)
            if article.has_all_fifths(self._room):
                articles.append(article)
            else:
                uneven.append(id)
        unit = self.counter.unit
        reasons = {
            "same text as another document": [id for id in ids if id not in texts],
            f"fewer than {FIFTHS} sentences or {FIFTHS * LEAST_TOKENS} {unit}": short,
            f"a fifth of the document has no sentence of {LEAST_TOKENS} to {self.tokens} {unit} "
            "that occurs only there": uneven,
        }
        left_out = {reason: names for reason, names in reasons.items() if names}
        if len(articles) < 2:
            advice = "Add longer documents, or raise query_tokens."
            if not short and np.isfinite(self._room):
                advice = (
                    f"Only {self._room:.0f} {unit} of each are read: add a treatment that reads "
                    "them whole, such as fair, cut them (too_long=cut), or raise max_seq_length."
                )
            raise CorpusError(
                f"passages need 2 documents to cut them out of, and {corpus.label} has "
                f"{'; '.join([f'{len(articles)}', *_reasons(left_out, language)])}. {advice}"
            )
        return articles, left_out

    def _draw(
        self,
        article: Article,
        language: str,
        wanted: Sequence[int],
        everything: str,
        rng: np.random.Generator,
    ) -> Cut | None:
        """A document without one passage from each wanted fifth; None if it has none such."""
        # Measuring a draw takes long, so that fifths are first estimated.
        draws = _DRAWS if len(wanted) <= FIFTHS else 10 * _DRAWS
        drawn = np.sort(rng.integers(len(article.runs), size=(draws, len(wanted))), axis=1)
        likely = (article.estimated_fifths(drawn, self._room) == wanted).all(1)
        for runs in drawn[likely][:_TRIES]:
            document, queries = article.cut_out(article.runs[runs].tolist(), language)
            texts = [query.text for query, _ in queries]
            if any(everything.count(_spaced(text)) > 1 for text in texts):
                continue
            if not all(LEAST_TOKENS <= count <= self.tokens for count in self.counter.count(texts)):
                continue
            if self._fifths(article, document, queries) == wanted:
                return document, queries
        return None

    def _fifths(
        self, article: Article, document: Passage, queries: Sequence[tuple[Query, Evidence]]
    ) -> list[int]:
        """The fifths of the queries as an evaluation counts them; none if `too_long` is wrong."""
        # Far more than is read of the document; counting all of a long one takes its time.
        enough = int(np.searchsorted(article.lengths.cumsum(), 2 * self._room))
        end = article.sentences[: enough + 1][-1][1]
        probe = replace(document, text=document.text[:end])
        task = make_task(document.id, [probe], queries)
        try:
            measured = measure_task(task, self.counter, self.counter, too_long="shorten")
        except CorpusError:
            return []
        is_cut = measured.task.documents[0].text != probe.text
        positions = measured.positions.values() if is_cut == article.too_long else ()
        return [position.group - 1 for position in positions]


def _spaced(text: str) -> str:
    """A text with one space for any white space."""
    return " ".join(text.split())


def _reasons(left_out: Mapping[str, Sequence[str]], language: str) -> list[str]:
    """What documents lack that are not used, and their names."""
    where = _in_language(language)
    return [
        f"{len(names)}{where} left out ({reason}): {few(names)}"
        for reason, names in left_out.items()
    ]


def _in_language(language: str) -> str:
    return "" if language == UNKNOWN else f" in {language}"
