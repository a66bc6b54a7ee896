"""Pages of several articles, searched by one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.corpus.sentences import sentences
from fairspan.design.design import Design
from fairspan.design.documents import Document, Documents, build_documents
from fairspan.design.lengths import Key, Material, TokenCounter, measure_segments
from fairspan.design.plan import LanguagePlan, languages_of
from fairspan.errors import CorpusError
from fairspan.retrieval.rough_tokens import in_tokens
from fairspan.retrieval.task import LEAST_TOKENS, Evidence, Passage, Query, RetrievalTask, make_task

QUERIES = ("held-out", "first-sentence", "title")


@dataclass(frozen=True, slots=True)
class PageQueries:
    """What pages are searched with.

    A "held-out" query of at most so many tokens follows the part of its segment that is on the
    page; a "first-sentence" is on the page; a "title" is on none. Without a language, queries are
    in that of their segment.
    """

    kind: str = QUERIES[0]
    tokens: int = 60
    language: str | None = None


def build_pages(
    corpus: Corpus,
    plans: Sequence[LanguagePlan],
    design: Design,
    counter: TokenCounter,
    queries: PageQueries,
    editions: int | None = None,
) -> tuple[RetrievalTask, ...]:
    """One task for each language plan and edition, whose index holds every set once, in one order.

    By default every order has an edition, so that every segment is looked for at every position.
    """
    parts, texts, notes = _split(corpus, plans, design, counter, queries)
    # The parts are openings already, and their queries are what follows them.
    design = replace(design, opening=None, too_long="redraw")
    material = measure_segments(parts, languages_of(plans), design, counter)
    made, few, drawn_from = _disjoint(material, plans, design, counter)
    available = 1 + max(page.order for page in made.documents)
    editions = editions or available
    (size,) = design.sizes
    if editions > available:
        raise CorpusError(
            f"{editions} editions were asked for, and sets of {size} segments have {available} "
            f"{design.design} orders: ask for at most editions={available}."
        )
    all_notes = (*corpus.notes, *notes, *few, *made.notes)
    tasks = []
    for plan, edition in product(plans, range(editions)):
        pages = [page for page in made.documents if (page.plan, page.order) == (plan, edition)]
        name = f"pages of {size} from {corpus.name}, {plan}, edition {edition + 1}"
        task = _edition(name, pages, texts, queries.language)
        tasks.append(replace(task, edition=edition, notes=all_notes, drawn_from=drawn_from))
    return tuple(tasks)


def _disjoint(
    material: Material, plans: Sequence[LanguagePlan], design: Design, counter: TokenCounter
) -> tuple[Documents, list[str], int | None]:
    """As many of the wanted sets as have no segment in common: a query asks for one page.

    Also notes, and how many pages there could be, if that is more.
    """
    (size,) = design.sizes
    wanted = design.sets_of(size)
    possible = max(2, min(wanted, len(material.ids) // size))
    made = build_documents(material, plans, replace(design, sets=possible, documents={}), counter)
    if made.draws[size].disjoint < 2:
        raise CorpusError(
            f"only one page of {size} can be made without repeating a segment: add texts, or put "
            "fewer on a page."
        )
    if made.draws[size].shared:
        possible = made.draws[size].disjoint
        design = replace(design, sets=possible, documents={})
        made = build_documents(material, plans, design, counter)
    if possible < wanted:
        return made, [f"the corpus yields {possible} pages of {size} different segments each"], None
    available = len(material.ids) // size
    note = f"{possible} of {available} pages of {size} different segments each were drawn"
    return (made, [note], available) if possible < available else (made, [], None)


def _edition(
    name: str, pages: Sequence[Document], texts: dict[Key, str], query_language: str | None
) -> RetrievalTask:
    """The task of pages that have one plan and one order."""
    plan = pages[0].plan
    queries = []
    for page in pages:
        for (segment, language), span in zip(page.keys, page.spans, strict=True):
            asked_in = query_language or language
            text = texts[segment, asked_in]
            query = Query(f"{segment}/{asked_in}", text, asked_in, f"set{page.set}")
            queries.append((query, Evidence(page.name, *span)))
    passages = [Passage(page.name, page.text, str(plan), page.spans) for page in pages]
    task = make_task(name, passages, queries)
    return replace(task, lead=plan.lead, later=plan.later)


def _split(
    corpus: Corpus,
    plans: Sequence[LanguagePlan],
    design: Design,
    counter: TokenCounter,
    queries: PageQueries,
) -> tuple[Corpus, dict[Key, str], list[str]]:
    """The part of every segment that is on the page, its query by key, and notes."""
    shown = languages_of(plans)
    asked_in = shown if queries.language is None else (queries.language,)
    languages = tuple(dict.fromkeys((*shown, *asked_in)))
    ids = corpus.ids(languages)
    keys = [(id, language) for id in ids for language in languages]
    segments = [corpus.segment(*key) for key in keys]
    parts = _parts(segments, design, counter, queries)
    asked, why = _queries(segments, parts, counter, queries)
    texts = dict(zip(keys, asked, strict=True))
    silent = {id for id, language in keys if language in asked_in and not texts[id, language]}
    kept = [
        replace(segment, text=part)
        for segment, part in zip(segments, parts, strict=True)
        if segment.id not in silent and segment.language in shown
    ]
    (size,) = design.sizes
    usable = len(ids) - len(silent)
    if silent and usable < 2 * size:
        raise CorpusError(
            f"2 pages of {size} need {2 * size} segments, and queries can be made for {usable} of "
            f"the {len(ids)} segments of {corpus.name}: {len(silent)} {why}. Add texts, put less "
            f"of each on its page with opening, or choose another query: {', '.join(QUERIES)}."
        )
    notes = [f"{len(silent)} of {len(ids)} segments {why} and were not used"] if silent else []
    if design.opening is not None:
        notes.append(f"pages hold the first {design.opening} {counter.unit} of every segment")
    return Corpus.from_segments(corpus.name, kept), texts, notes


def _parts(
    segments: Sequence[Segment], design: Design, counter: TokenCounter, queries: PageQueries
) -> list[str]:
    """What is on the page of every segment."""
    texts = [segment.text for segment in segments]
    if design.opening is not None:
        return counter.cut(texts, design.opening)
    return [*map(_first_half, segments)] if queries.kind == "held-out" else texts


def _queries(
    segments: Sequence[Segment], parts: Sequence[str], counter: TokenCounter, queries: PageQueries
) -> tuple[list[str], str]:
    """The query of every segment, empty if it has none, and why that is so."""
    if queries.kind == "title":
        return [(segment.title or "").strip() for segment in segments], "have no title"
    pairs = list(zip(segments, parts, strict=True))
    if queries.kind == "first-sentence":
        firsts = [_first_of_several(part, segment.language) for segment, part in pairs]
        return firsts, "have only one sentence"
    counter = in_tokens(counter)
    rests = [segment.text[len(part) :].strip() for segment, part in pairs]
    rests = counter.cut(rests, queries.tokens)
    counted = zip(rests, counter.count(rests), strict=True)
    held_out = [text if length >= LEAST_TOKENS else "" for text, length in counted]
    return held_out, f"have fewer than {LEAST_TOKENS} {counter.unit} left to ask with"


def _first_half(segment: Segment) -> str:
    """A segment to the end of the sentence that ends nearest its middle; all of one sentence."""
    ends = [end for _, end in sentences(segment.text, segment.language)]
    if len(ends) < 2:
        return segment.text
    return segment.text[: min(ends[:-1], key=lambda end: abs(end - len(segment.text) / 2))]


def _first_of_several(text: str, language: str) -> str:
    spans = sentences(text, language)
    return text[slice(*spans[0])] if len(spans) > 1 else ""
