"""`Offer`: whether a corpus and a model are enough for an audit that comes with the project."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairspan.corpus.corpus import Corpus
from fairspan.design.design import Design
from fairspan.design.lengths import within_limits
from fairspan.design.plan import language_plans, languages_of
from fairspan.design.sets import draw_sets
from fairspan.studies.audit.config import read_config


@dataclass(frozen=True, slots=True)
class Offer:
    """What a corpus offers for one configuration of `audit`.

    Attributes:
        missing: languages that it needs and the corpus lacks.
        segments: those that keep its length limits in all of its languages.
        wanted, disjoint: by size, the sets that it draws, and how many of them would share no segment here.
    """

    config: str
    missing: tuple[str, ...]
    segments: int
    wanted: Mapping[int, int]
    disjoint: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @property
    def words(self) -> str:
        """Such as "irf: n=3 120 of 167 sets, n=4 all 42 sets"."""
        if self.missing:
            return f"{self.config}: not possible, the corpus has no {', '.join(self.missing)}"
        if max(self.disjoint.values()) < 2:
            return (
                f"{self.config}: not possible, {self.segments} segments keep its length limits, and make no two sets"
            )
        parts = []
        for n, wanted in self.wanted.items():
            there = self.disjoint[n]
            parts.append(f"n={n} {'all ' if there >= wanted else f'{there} of '}{wanted} sets")
        return f"{self.config}: {', '.join(parts)}"


def check_offer(config: str, corpus: Corpus, lengths: Mapping[tuple[str, str], int], window: int | None) -> Offer:
    """What a corpus offers for the largest audit of a configuration.

    Args:
        lengths: the tokens of every segment, by id and language.
        window: how many tokens of text a document may have; None for no limit.
    """
    fields = dict(read_config(config)[0].fields)
    own = {name: fields[name] for name in Design.__dataclass_fields__ if name in fields}
    design = Design(orders=fields.get("design", "latin"), **own)
    languages = languages_of(language_plans(fields.get("languages") or (), fields.get("mixed", ())))
    wanted = {n: design.sets_of(n) for n in design.sizes}
    missing = tuple(language for language in languages if language not in corpus.languages)
    if missing:
        return Offer(config, missing, 0, wanted, dict.fromkeys(wanted, 0))
    longest = _lengths(corpus.ids(languages), languages, lengths, design)
    disjoint = {}
    for n, count in wanted.items():
        room = None if window is None else window - n
        if len(longest) < n:
            disjoint[n] = 0
            continue
        rng = np.random.default_rng([design.seed, n])
        disjoint[n] = draw_sets(sorted(longest), n, count, rng, lengths=longest, room=room).disjoint
    return Offer(config, (), len(longest), wanted, disjoint)


def _lengths(
    ids: Sequence[str], languages: Sequence[str], lengths: Mapping[tuple[str, str], int], design: Design
) -> dict[str, int]:
    """The longest translation of every segment that keeps the limits, cut to its opening where that is asked."""
    opening = design.opening or max(lengths.values(), default=0)
    cut = {(id, language): min(lengths[id, language], opening) for id in ids for language in languages}
    kept = [id for id in ids if within_limits(id, languages, cut, design)]
    return {id: max(cut[id, language] for language in languages) for id in kept}
