"""Documents: the segments of one set in one order and language plan, joined by a space."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.corpus.sentences import Span
from fairspan.design.design import Design
from fairspan.design.lengths import Key, Material, TokenCounter
from fairspan.design.plan import LanguagePlan, languages_of
from fairspan.design.sets import Draw, draw_sets, orders
from fairspan.errors import DesignError

SEPARATOR = " "
# A segment of fewer tokens says too little to be found again in a document.
_LEAST_OPENING = 16


@dataclass(frozen=True, slots=True)
class Document:
    """One text and what it is made of: the segment at each position.

    A set is the same segment ids in every language plan; `tokens` are the lengths of the segments
    alone, `length` is that of the text as the model reads it.
    """

    set: int
    order: int
    plan: LanguagePlan
    keys: tuple[Key, ...]
    text: str
    spans: tuple[Span, ...]
    tokens: tuple[int, ...]
    length: int

    @property
    def n(self) -> int:
        return len(self.keys)

    @property
    def name(self) -> str:
        return f"n{self.n}/{self.plan}/set{self.set}/order{self.order}"


@dataclass(frozen=True, slots=True)
class Documents:
    """All documents of an audit, their segments, and the draw of sets of each size."""

    documents: tuple[Document, ...]
    segments: dict[Key, str]
    draws: dict[int, Draw]
    notes: tuple[str, ...]


def build_documents(
    material: Material, plans: Sequence[LanguagePlan], design: Design, counter: TokenCounter
) -> Documents:
    """The drawn sets of every size, each in every order and language plan."""
    languages = languages_of(plans)
    corpus = material.lengths.values()
    material, cut_to = _fitted(material, languages, design, counter)
    lengths = _longest(material, languages)
    notes = list(material.notes)
    joined: list[Document] = []
    draws = {}
    for n in design.sizes:
        rng = _rng(design, n)
        draws[n] = _draw(lengths, n, design, counter, rng)
        sets = draws[n].sets
        notes += _notes(draws[n], n, design)
        orders_of = [orders(design.design, n, rng) for _ in sets]
        joined += [
            _join(number, place, plan, [members[i] for i in order], material)
            for plan in plans
            for number, members in enumerate(sets)
            for place, order in enumerate(orders_of[number])
        ]
    documents = _measured(joined, counter)
    used = {key: material.texts[key] for document in documents for key in document.keys}
    if cut_to or any(draw.passed_over for draw in draws.values()):
        in_documents = [material.lengths[key] for key in used]
        notes.append(
            f"segments have {np.mean(list(corpus)):.0f} {counter.unit} on average in the corpus "
            f"and {np.mean(in_documents):.0f} in documents"
        )
    return Documents(documents, used, draws, tuple(notes))


def _fitted(
    material: Material, languages: Sequence[str], design: Design, counter: TokenCounter
) -> tuple[Material, int | None]:
    """The material with its longest segments cut to as many tokens as let every drawn set fit.

    It stays whole, without a number, if all sets fit, if too little would be left, or if an opening
    that was asked for fits nowhere.
    """
    lengths = _longest(material, languages)
    ordered = sorted(lengths.values())
    rooms = {n: room for n in design.sizes if (room := _room(n, counter)) is not None}
    fits_nowhere = any(sum(ordered[:n]) > room for n, room in rooms.items())
    if design.too_long != "cut" or (design.opening and fits_nowhere):
        return material, None
    sets = [
        (members, room)
        for n, room in rooms.items()
        for members in draw_sets(material.ids, n, design.sets_of(n), _rng(design, n)).sets
    ]

    def too_long(most: int, lengths: Mapping[str, int] = lengths) -> bool:
        """Whether some set does not fit even if no segment has more than so many tokens."""
        return any(sum(min(lengths[id], most) for id in members) > room for members, room in sets)

    longest = ordered[-1]
    limit = bisect_left(range(1, longest + 1), True, key=too_long)
    while max(_LEAST_OPENING, design.min_tokens or 0) <= limit < longest:
        cut = material.shortened(limit, counter)
        # The beginning of a text may have a token more than it had as a part of the text.
        if not too_long(longest, _longest(cut, languages)):
            note = (
                f"documents of {max(rooms)} segments do not fit into the model's {counter.window} "
                f"{counter.unit}: {cut.notes[-1]}; set opening or a larger max_seq_length"
            )
            return replace(cut, notes=(*material.notes, note)), limit
        limit -= 1
    return material, None


def _longest(material: Material, languages: Sequence[str]) -> dict[str, int]:
    """The length of each segment in the language in which it is longest."""
    return {
        segment: max(material.lengths[segment, language] for language in languages)
        for segment in material.ids
    }


def _rng(design: Design, n: int) -> np.random.Generator:
    """Every size has its own random stream, so that adding a size does not change the others."""
    return np.random.default_rng([design.seed, n])


def _draw(
    lengths: Mapping[str, int],
    n: int,
    design: Design,
    counter: TokenCounter,
    rng: np.random.Generator,
) -> Draw:
    """The sets of one size; an error if fewer than two fit into the model."""
    room = _room(n, counter)
    ordered = sorted(lengths.values())
    which = "longest" if design.too_long == "error" else "shortest"
    least = sum(ordered[-n:] if which == "longest" else ordered[:n])
    if room is not None and least > room:
        limit = f"max_tokens={room // n} or " if which == "longest" else ""
        use = f"use {limit}opening={room // n}, " if room >= n else ""
        other = ", or let them be cut: too_long=cut" if which == "longest" else ""
        raise DesignError(
            f"the {n} {which} segments have {least} {counter.unit}, and the model reads "
            f"{counter.window}: {use}use fewer segments per document or a model with a longer "
            f"window{other}."
        )
    draw = draw_sets(list(lengths), n, design.sets_of(n), rng, lengths=lengths, room=room)
    if len(draw.sets) < 2:
        few = f"only {len(draw.sets)} sets of {n} can be made of {len(lengths)} segments"
        remedy = "add texts or put fewer segments into a document"
        raise DesignError(f"{few}, and intervals need 2: {remedy}.")
    return draw


def _room(n: int, counter: TokenCounter) -> int | None:
    """Tokens for segments: the window less special tokens, prompt and n joints."""
    return None if counter.window is None else counter.window - counter.count_whole([""])[0] - n


def _join(
    number: int, place: int, plan: LanguagePlan, ids: Sequence[str], material: Material
) -> Document:
    """The document of these segments, whose length is not yet known."""
    keys = ((ids[0], plan.lead), *((segment, plan.later) for segment in ids[1:]))
    texts = [material.texts[key] for key in keys]
    ends = np.cumsum([len(text) + len(SEPARATOR) for text in texts]) - len(SEPARATOR)
    spans = tuple((int(end) - len(text), int(end)) for text, end in zip(texts, ends, strict=True))
    tokens = tuple(material.lengths[key] for key in keys)
    return Document(number, place, plan, keys, SEPARATOR.join(texts), spans, tokens, length=0)


def _measured(joined: Sequence[Document], counter: TokenCounter) -> tuple[Document, ...]:
    """Documents with their lengths; an error if the model would truncate one."""
    whole = zip(joined, counter.count_whole([document.text for document in joined]), strict=True)
    documents = tuple(replace(document, length=length) for document, length in whole)
    longest = max(documents, key=lambda document: document.length)
    if counter.window is not None and longest.length > counter.window:
        raise DesignError(
            f"document {longest.name} has {longest.length} {counter.unit} and the model reads "
            f"{counter.window}: lower max_tokens, take the beginnings of segments with opening, or "
            "put fewer into a document."
        )
    return documents


def _notes(draw: Draw, n: int, design: Design) -> list[str]:
    """What a reader of results should know about a draw."""
    notes = []
    count = len(draw.sets)
    wanted = design.sets_of(n)
    if count < wanted:
        notes.append(f"{count} different sets instead of {wanted}: the corpus has no more")
    if draw.shared:
        others = f"the other {count - draw.disjoint} reuse segments"
        notes.append(f"the corpus yields {draw.disjoint} disjoint sets; {others}")
    long = len(draw.passed_over)
    if long:
        segments = "1 segment is" if long == 1 else f"{long} segments are"
        notes.append(f"{segments} too long for the model's window beside others and not used")
    return [f"n={n}: {note}" for note in notes]
