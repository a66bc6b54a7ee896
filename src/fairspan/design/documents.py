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
    """All documents of an audit, and their segments."""

    documents: tuple[Document, ...]
    segments: dict[Key, str]
    notes: tuple[str, ...]


def build_documents(
    material: Material, plans: Sequence[LanguagePlan], design: Design, counter: TokenCounter
) -> Documents:
    """The drawn sets of every size, each in every order and language plan."""
    draws: dict[int, Draw] = {}
    orders_of: dict[int, list[np.ndarray]] = {}
    for n in design.sizes:
        # Every size has its own random stream, so that another size does not change its sets.
        rng = np.random.default_rng([design.seed, n])
        draws[n] = _draw(material.ids, n, design, rng)
        orders_of[n] = [orders(design.design, n, rng) for _ in draws[n].sets]
    fitted = _fitted(material, draws, languages_of(plans), design, counter)
    joined = [
        _join(number, place, plan, [members[i] for i in order], fitted)
        for n, draw in draws.items()
        for plan in plans
        for number, members in enumerate(draw.sets)
        for place, order in enumerate(orders_of[n][number])
    ]
    documents = _measured(joined, counter)
    used = {key: fitted.texts[key] for document in documents for key in document.keys}
    notes = [*fitted.notes, *(note for n in design.sizes for note in _notes(draws[n], n, design))]
    if fitted is not material:
        in_documents = [fitted.lengths[key] for key in used]
        notes.append(
            f"segments have {np.mean(list(material.lengths.values())):.0f} {counter.unit} on "
            f"average in the corpus and {np.mean(in_documents):.0f} in documents"
        )
    return Documents(documents, used, tuple(notes))


def _fitted(
    material: Material,
    draws: Mapping[int, Draw],
    languages: Sequence[str],
    design: Design,
    counter: TokenCounter,
) -> Material:
    """The material with its longest segments cut to as many tokens as let every set fit.

    An error if segments would have fewer tokens than the design asks for, or too few.
    """
    if counter.window is None:
        return material
    # Less special tokens, prompt and n joints.
    room = counter.window - counter.count_whole([""])[0]
    sets = [(members, room - n) for n, draw in draws.items() for members in draw.sets]

    def too_long(most: int, lengths: Mapping[str, int]) -> bool:
        """Whether some set does not fit even if no segment has more than so many tokens."""
        return any(sum(min(lengths[id], most) for id in members) > space for members, space in sets)

    lengths = _longest(material, languages)
    longest = max(lengths.values())
    if not too_long(longest, lengths):
        return material
    limit = bisect_left(range(1, longest + 1), True, key=lambda most: too_long(most, lengths))
    wrong = (
        f"documents of {max(draws)} segments do not fit into the model's {counter.window} "
        f"{counter.unit}"
    )
    least = max(_LEAST_OPENING, design.min_tokens or 0, design.opening or 0)
    for most in range(limit, least - 1, -1):
        cut = material.shortened(most, counter)
        # Tokenised alone, the beginning of a text may have one token more.
        if not too_long(longest, _longest(cut, languages)):
            note = f"{wrong}: {cut.notes[-1]}; set opening or a larger max_seq_length"
            return replace(cut, notes=(*material.notes, note))
    opening = f"use opening={limit}, " if limit else ""
    raise DesignError(
        f"{wrong}: {opening}use fewer segments per document or a model with a longer window."
    )


def _longest(material: Material, languages: Sequence[str]) -> dict[str, int]:
    """The length of each segment in the language in which it is longest."""
    return {
        segment: max(material.lengths[segment, language] for language in languages)
        for segment in material.ids
    }


def _draw(ids: Sequence[str], n: int, design: Design, rng: np.random.Generator) -> Draw:
    """The sets of one size; an error for fewer than two."""
    draw = draw_sets(ids, n, design.sets_of(n), rng)
    if len(draw.sets) < 2:
        few = f"only {len(draw.sets)} sets of {n} can be made of {len(ids)} segments"
        remedy = "add texts or put fewer segments into a document"
        raise DesignError(f"{few}, and intervals need 2: {remedy}.")
    return draw


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
    if draw.disjoint < count:
        others = f"the other {count - draw.disjoint} reuse segments"
        notes.append(f"the corpus yields {draw.disjoint} disjoint sets; {others}")
    return [f"n={n}: {note}" for note in notes]
