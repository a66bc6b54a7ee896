"""Passages as queries: what is cut out of a document asks for the rest of it."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import UNKNOWN, Segment
from fairspan.corpus.sentences import Span, sentences
from fairspan.errors import CorpusError
from fairspan.report.text import counted
from fairspan.retrieval.task import FIFTHS, Evidence, Passage, Query, RetrievalTask, same_texts
from fairspan.retrieval.words import count_words, first_words

LEAST_WORDS = 6
"""Words of a passage; fewer do not say what is searched for."""
MOST_WORDS = 60
"""Words of a passage; longer ones leave too little of a document."""
ENOUGH_WORDS = 30
"""Words of a passage after which no further sentence is added."""
LONG = 750
"""Words of a document from which every fifth has a passage."""
MOST_DRAWN = 225_000
"""Words of all drawn documents, if their number is not set and is at least `LEAST_DOCUMENTS`."""
LEAST_DOCUMENTS = 100
MOST_DOCUMENTS = 1000

Cut = tuple[int, int]
"""The first sentence of a passage, and the one after its last."""


@dataclass(frozen=True)
class Article:
    """A document in sentences, from which passages can be cut out."""

    segment: Segment
    spans: tuple[Span, ...]
    words: tuple[int, ...]

    @classmethod
    def of(cls, segment: Segment) -> "Article":
        spans = tuple(sentences(segment.text, _language(segment)))
        return cls(segment, spans, tuple(count_words(segment.text[slice(*span)]) for span in spans))

    @property
    def name(self) -> str:
        """Its id, with its language where that is known."""
        language = _language(self.segment)
        return f"{self.segment.id}/{language}" if language else self.segment.id

    @cached_property
    def plain_sentences(self) -> list[str]:
        """Its sentences with one space for any white space."""
        return [" ".join(self.segment.text[slice(*span)].split()) for span in self.spans]

    def zones(self) -> list[range]:
        """The sentences that one passage each is cut out of: all, or those of every fifth.

        The first sentence of a zone stays, so that passages do not touch.
        """
        ends = np.cumsum(self.words)
        if not len(ends) or ends[-1] < LONG:
            return [range(1, len(self.spans))]
        starts = ends - self.words
        borders = np.arange(FIFTHS + 1) * ends[-1] / FIFTHS
        return [
            range(int(np.searchsorted(starts, low)) + 1, int(np.searchsorted(ends, high, "right")))
            for low, high in pairwise(borders)
        ]

    def cuts(self, zone: range, repeated: Mapping[str, int]) -> list[Cut]:
        """Runs of sentences in a zone that can be cut out, one from each sentence on.

        A run ends after 30 words, and has at most a fifth of all words. None of its sentences
        occurs twice, except for very short ones.
        """
        most = min(MOST_WORDS, sum(self.words) // FIFTHS)
        runs = []
        for first in zone:
            stop = first
            length = 0
            while stop < zone.stop and length < ENOUGH_WORDS:
                if length + self.words[stop] > most:
                    break
                if self.words[stop] >= LEAST_WORDS and repeated[self.plain_sentences[stop]] > 1:
                    break
                length += self.words[stop]
                stop += 1
            if length >= LEAST_WORDS:
                runs.append((first, stop))
        return runs

    def without(self, cuts: Sequence[Cut]) -> tuple[str, dict[int, Span]]:
        """The text without these sentences, and where the others are in it, by number."""
        gone = {number for cut in cuts for number in range(*cut)}
        text = self.segment.text
        rest = text[: self.spans[0][0]]
        places: dict[int, Span] = {}
        last = None
        for number, (start, end) in enumerate(self.spans):
            if number in gone:
                continue
            if last is not None:
                rest += self._gap(last, number)
            places[number] = len(rest), len(rest) + end - start
            rest += text[start:end]
            last = number
        return rest, places

    def _gap(self, before: int, after: int) -> str:
        """The greatest break among the white space between two sentences."""
        around = pairwise(self.spans[before : after + 1])
        gaps = [self.segment.text[end:start] for (_, end), (start, _) in around]
        return max(gaps, key=lambda gap: (gap.count("\n"), len(gap)))


@dataclass(frozen=True)
class PassageDraw:
    """Draws passages, each of which asks for the document that it was cut out of.

    All documents are in the index, in all languages. A document of 750 words or more has a passage
    in every fifth, a shorter one has one, where there are sentences for it. A query is the first
    words of its passage, of which nothing is left in the index. Everything is measured in words, so
    that it does not depend on a model.

    Attributes:
        query_words: of the longest query.
        documents: how many to draw, translations counted once; None for all, or as many as have
            225,000 words, from 100 to 1,000.
    """

    query_words: int
    documents: int | None = None
    seed: int = 0

    def task(self, corpus: Corpus) -> RetrievalTask:
        """The index of a corpus, and its passages."""
        ids = self._drawn(corpus)
        there = len({segment.id for segment in corpus.segments})
        articles = [Article.of(segment) for segment in corpus.segments if segment.id in ids]
        # Sorted, so that nothing depends on the order of files.
        articles.sort(key=lambda article: article.name)
        repeated = Counter(line for article in articles for line in set(article.plain_sentences))
        for article in articles:
            within = Counter(article.plain_sentences)
            repeated.update({line: count for line, count in within.items() if count > 1})
        documents = []
        asked: list[tuple[Query, Evidence]] = []
        unasked = 0
        for article in articles:
            document, queries = self._cut(article, repeated)
            documents.append(document)
            asked += queries
            unasked += not queries
        if len({query.cluster for query, _ in asked}) < 2:
            raise CorpusError(
                f"passages can be cut out of {len(articles) - unasked} of "
                f"{counted(len(articles), 'document')} of {corpus.label}, and a search needs 2: a "
                f"document needs sentences of {LEAST_WORDS} to {MOST_WORDS} words, and 5 times as "
                "many words in all. Use longer documents."
            )
        notes = list(corpus.notes)
        if unasked:
            are = "is" if unasked == 1 else "are"
            notes.append(
                f"{unasked:,} of {len(articles):,} documents {are} only in the index: too short, "
                "or without sentences to cut out"
            )
        same = _siblings(articles)
        return RetrievalTask(
            f"passages from {corpus.name}",
            queries=tuple(query for query, _ in asked),
            documents=tuple(documents),
            relevant={query.id: {where.document: 1.0} for query, where in asked},
            evidence={query.id: where for query, where in asked},
            left_out={
                query.id: same[where.document] for query, where in asked if same[where.document]
            },
            notes=(*notes, *same_texts(documents)),
            drawn=len(ids) if len(ids) < there else None,
            drawn_from=there if len(ids) < there else None,
        )

    def _drawn(self, corpus: Corpus) -> set[str]:
        """The ids of the documents that are searched."""
        texts: dict[str, list[str]] = defaultdict(list)
        for segment in corpus.segments:
            texts[segment.id].append(segment.text)
        ids = sorted(texts)
        shuffled = [ids[place] for place in np.random.default_rng(self.seed).permutation(len(ids))]
        if self.documents is not None:
            return set(shuffled[: self.documents])
        drawn: set[str] = set()
        words = 0
        for id in shuffled[:MOST_DOCUMENTS]:
            words += sum(map(count_words, texts[id]))
            if words > MOST_DRAWN and len(drawn) >= LEAST_DOCUMENTS:
                break
            drawn.add(id)
        return drawn

    def _cut(
        self, article: Article, repeated: Mapping[str, int]
    ) -> tuple[Passage, list[tuple[Query, Evidence]]]:
        """A document without its passages, and these as queries."""
        language = _language(article.segment)
        chosen = dict(self._chosen(article, repeated))
        if not chosen:
            return Passage(article.name, article.segment.text, language), []
        text, places = article.without(list(chosen))
        asked = []
        for (first, stop), fifth in chosen.items():
            passage = article.segment.text[article.spans[first][0] : article.spans[stop - 1][1]]
            body = first_words(passage, self.query_words)
            query = Query(f"{article.name}/{first + 1}", body, language, article.segment.id)
            # The evidence is the sentences before and after the gap.
            after = places.get(stop, places[first - 1])
            asked.append((query, Evidence(article.name, places[first - 1][0], after[1], fifth)))
        return Passage(article.name, text, language), asked

    def _chosen(
        self, article: Article, repeated: Mapping[str, int]
    ) -> Iterator[tuple[Cut, int | None]]:
        """A random passage of each zone that has one, and its fifth if zones are fifths."""
        # Of each document alone, so that it does not change with what else is drawn.
        rng = np.random.default_rng([self.seed, zlib.crc32(article.name.encode())])
        zones = article.zones()
        for number, zone in enumerate(zones):
            cuts = article.cuts(zone, repeated)
            if cuts:
                yield cuts[rng.integers(len(cuts))], number if len(zones) > 1 else None


def _siblings(articles: Sequence[Article]) -> dict[str, frozenset[str]]:
    """By document the others that hold what it holds: its translations, and copies of its text."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for article in articles:
        groups["id", article.segment.id].add(article.name)
        groups["text", " ".join(article.segment.text.split())].add(article.name)
    siblings: dict[str, set[str]] = {article.name: set() for article in articles}
    for names in groups.values():
        for name in names:
            siblings[name] |= names - {name}
    return {name: frozenset(others) for name, others in siblings.items()}


def _language(segment: Segment) -> str:
    return "" if segment.language == UNKNOWN else segment.language
