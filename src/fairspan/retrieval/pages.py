"""Pages of several articles, searched by one of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.corpus.sentences import sentences
from fairspan.design.design import Design
from fairspan.design.documents import Document, Documents, build_documents
from fairspan.design.lengths import Key, Material, TokenCounter, measure_segments
from fairspan.design.plan import LanguagePlan, languages_of
from fairspan.errors import CorpusError
from fairspan.retrieval.task import LEAST_TOKENS, Evidence, Passage, Query, RetrievalTask, make_task

QUERIES = ("held-out", "first-sentence", "title")


def build_pages(
    corpus: Corpus,
    plans: Sequence[LanguagePlan],
    design: Design,
    counter: TokenCounter,
    query: str = "held-out",
    tokens: int = 60,
    language: str | None = None,
    editions: int | None = None,
) -> tuple[RetrievalTask, ...]:
    """One task for each language plan and edition. The index of an edition holds every set once, in one order.

    Args:
        query: "held-out" puts the first part of every segment on the page and searches with what follows; with
            "first-sentence" the whole segment is on the page, its first sentence included; "title" is on no page.
        tokens: the longest held-out query.
        language: of all queries; None asks for each segment in the language that it has on the page.
        editions: how many indexes to build; None builds one for each order, so that every segment is looked for at
            every position.
    """
    parts, asked, notes = _split(corpus, plans, design, counter, query, tokens, language)
    within = replace(design, opening=None)
    material = measure_segments(parts, languages_of(plans), within, counter)
    made, few = _disjoint(material, plans, within, counter)
    available = 1 + max(page.order for page in made.documents)
    editions = editions or available
    if editions > available:
        raise CorpusError(
            f"{editions} editions were asked for, and sets of {design.sizes[0]} segments have {available} "
            f"{design.design} orders: ask for at most editions={available}."
        )
    said = (*corpus.notes, *notes, *few, *made.notes)
    tasks = []
    for plan, edition in product(plans, range(editions)):
        pages = [page for page in made.documents if (page.plan, page.order) == (plan, edition)]
        name = f"pages of {design.sizes[0]} from {corpus.name}, {plan}, edition {edition + 1}"
        tasks.append(_edition(name, pages, asked, language, said))
    return tuple(tasks)


def _disjoint(
    material: Material, plans: Sequence[LanguagePlan], design: Design, counter: TokenCounter
) -> tuple[Documents, list[str]]:
    """As many of the wanted sets as have no segment in common: a query asks for one page."""
    (n,) = design.sizes
    possible = max(2, min(design.sets_of(n), len(material.ids) // n))
    made = build_documents(material, plans, replace(design, sets=possible, documents={}), counter)
    if made.disjoint[n] < 2:
        raise CorpusError(
            f"only one page of {n} can be made without repeating a segment: add texts, or put fewer on a page."
        )
    if made.shared[n]:
        possible = made.disjoint[n]
        made = build_documents(
            material, plans, replace(design, sets=possible, documents={}), counter
        )
    few = possible < design.sets_of(n)
    return made, [
        f"the corpus yields {possible} pages of {n} different segments each"
    ] if few else []


def _edition(
    name: str,
    pages: Sequence[Document],
    asked: dict[Key, str],
    query_language: str | None,
    notes: tuple[str, ...],
) -> RetrievalTask:
    """The task of pages that have one plan and one order."""
    plan, found = pages[0].plan, []
    for page in pages:
        for (segment, language), span in zip(page.keys, page.spans, strict=True):
            spoken = query_language or language
            query = Query(
                f"{segment}/{spoken}", asked[segment, spoken], spoken, cluster=f"set{page.set}"
            )
            found.append((query, Evidence(page.name, *span)))
    made = make_task(
        name, [Passage(page.name, page.text, str(plan), page.spans) for page in pages], found
    )
    return replace(made, edition=pages[0].order, lead=plan.lead, later=plan.later, notes=notes)


def _split(
    corpus: Corpus,
    plans: Sequence[LanguagePlan],
    design: Design,
    counter: TokenCounter,
    query: str,
    tokens: int,
    query_language: str | None,
) -> tuple[Corpus, dict[Key, str], list[str]]:
    """The part of every segment that is on the page, the query that asks for it, and notes on what is not used."""
    shown = languages_of(plans)
    spoken = shown if query_language is None else (query_language,)
    languages = tuple(dict.fromkeys((*shown, *spoken)))
    ids = corpus.ids(languages)
    keys = [(segment, language) for segment in ids for language in languages]
    found = [corpus.segment(*key) for key in keys]
    parts = [segment.text for segment in found]
    if design.opening is not None:
        parts = counter.cut(parts, design.opening)
    if query == "title":
        asked, why = [(segment.title or "").strip() for segment in found], "have no title"
    elif query == "first-sentence":
        asked = [_first_of_several(part, s.language) for part, s in zip(parts, found, strict=True)]
        why = "have only one sentence"
    else:
        if design.opening is None:
            parts = [_first_half(segment) for segment in found]
        rests = [
            segment.text[len(part) :].strip() for segment, part in zip(found, parts, strict=True)
        ]
        cut = counter.cut(rests, tokens)
        lengths = counter.count(cut)
        asked = [
            text if length >= LEAST_TOKENS else ""
            for text, length in zip(cut, lengths, strict=True)
        ]
        why = f"have fewer than {LEAST_TOKENS} {counter.unit} left to ask with"
    texts = dict(zip(keys, asked, strict=True))
    silent = {
        segment for segment, language in keys if language in spoken and not texts[segment, language]
    }
    kept = [
        Segment(segment.id, segment.language, part, segment.title)
        for segment, part in zip(found, parts, strict=True)
        if segment.id not in silent and segment.language in shown
    ]
    usable, wanted = len(ids) - len(silent), 2 * design.sizes[0]
    if silent and usable < wanted:
        raise CorpusError(
            f"2 pages of {design.sizes[0]} need {wanted} segments, and queries can be made for {usable} of the "
            f"{len(ids)} segments of {corpus.name}: {len(silent)} {why}. Add texts, put less of each on its page "
            f"with opening, or choose another query: {', '.join(QUERIES)}."
        )
    notes = [f"{len(silent)} of {len(ids)} segments {why} and were not used"] if silent else []
    if design.opening is not None:
        notes.append(f"pages hold the first {design.opening} {counter.unit} of every segment")
    return Corpus.from_segments(corpus.name, kept), texts, notes


def _first_half(segment: Segment) -> str:
    """A segment to the end of the sentence that ends nearest its middle; all of it if it has one sentence."""
    ends = [end for _, end in sentences(segment.text, segment.language)]
    if len(ends) < 2:
        return segment.text
    return segment.text[: min(ends[:-1], key=lambda end: abs(end - len(segment.text) / 2))]


def _first_of_several(text: str, language: str) -> str:
    found = sentences(text, language)
    return text[slice(*found[0])] if len(found) > 1 else ""
