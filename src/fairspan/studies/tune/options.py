"""`TuneOptions`: everything that is asked of a tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.calibration.treatment import (
    PLAIN,
    AnyTreatment,
    Treatment,
    as_treatment,
    as_treatments,
)
from fairspan.errors import CorpusError, DesignError, require_list, require_whole
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import (
    PAGES,
    PASSAGES,
    MtebSource,
    PageSource,
    PassageSource,
    TaskOptions,
    TaskSource,
    kind_of,
    make_source,
    options_for,
    refuse_unused,
)
from fairspan.runs.options import StudyOptions, source

CANDIDATES = ("long", "tiles-256", "tiles-128", "tiles")
DOCUMENTS = 250
SETS = {PAGES: 220, PASSAGES: DOCUMENTS}
"""How many pages or documents are drawn by default."""
MOST_TOKENS = 200_000
"""Of all documents together, unless their number is given: every candidate reads all of them."""
LEAST_DOCUMENTS = 50
"""That are read however long they are."""
LEAST_CLUSTERS = 20
"""Fewer documents are not tuned on: each half chooses by ten."""
SPREAD, SPREAD_WITHIN = 0.05, 0.21
"""Standard deviations of a change of nDCG@10 between documents and between queries of one, as seen on articles."""


@dataclass(frozen=True)
class TuneOptions(StudyOptions, TaskOptions):
    """What to choose for, from what, and under which conditions.

    Attributes:
        tasks: what search should get better at, instead of passages that are cut out of the
            documents of `corpus`: the folder of a collection, beir:FOLDER or mteb:NAME; pages, as
            with `parts`; passages:CORPUS or pages:CORPUS for another corpus. Results of several are
            averaged.
        guards: task on other documents that must not get worse. May be repeated.
        parts: for documents made of unrelated parts: join texts of `corpus` to pages.
        candidates: treatments to choose from. chunk-mean-128 is compared, and never chosen.
        metric: metric to maximise: ndcg@k, recall@k or mrr.
        margin: gains and losses below it do not matter.
        strict: write a calibration only if its gain is confirmed.
        prompt: text put before every document. By default the model's own.
        query_prompt: text put before every query. By default the model's own.
        sets: number of documents or pages. By default 250 documents, or fewer if they are long; 220
            pages.
        query_tokens: length of the longest passage that asks. By default 60, and less if that is
            too easy.
    """

    verb: ClassVar[str] = "tune"
    tasks: str | Sequence[str] = source()
    _: KW_ONLY
    guards: str | Sequence[str] = field(default=(), metadata={"source": True})
    parts: bool = False
    candidates: Sequence[AnyTreatment] = CANDIDATES
    metric: str = "ndcg@10"
    margin: float = 0.01
    strict: bool = False
    prompt: str | None = None
    query_prompt: str | None = None
    sets: int | None = None  # type: ignore[assignment]
    query_tokens: int | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        usual = (PAGES if self.parts else PASSAGES,)
        for name, otherwise in (("tasks", usual), ("guards", ())):
            given = getattr(self, name)
            listed = (given,) if isinstance(given, str) else given or ()
            require_list(name, listed, f"['{PASSAGES}']", CorpusError)
            object.__setattr__(self, name, tuple(listed) or otherwise)
        if self.parts and self.tasks != usual:
            raise CorpusError(
                "parts is for documents that are made from a corpus: omit it, or the tasks."
            )
        parse_metric(self.metric)
        if not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, such as 0.01, got {self.margin!r}.")
        require_whole("seed", self.seed, least=0)
        _ = self.searched, self.all_treatments

    @cached_property
    def searched(self) -> tuple[TaskSource, ...]:
        """The tasks, and the guards after them, each with the options of its kind."""
        sources = list[TaskSource]()
        used = set[str]()
        names = (*self.tasks, *self.guards)
        for name in names:
            word, colon, corpus = name.partition(":")
            has_corpus = bool(colon) and word in SETS
            task = word if has_corpus else name
            kind = kind_of(task)
            values = {"sets": SETS[word], **self.changed} if word in SETS else self.changed
            searched = make_source(
                kind, task, {**values, "corpus": corpus} if has_corpus else values
            )
            if searched in sources:
                raise CorpusError(
                    f"{name} is named twice: tasks and guards need documents of their own."
                )
            sources.append(searched)
            used |= options_for(kind) - ({"corpus"} if has_corpus else set())
        refuse_unused(self.changed, used, names)
        return tuple(sources)

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The plain model, and what differs from it and from each other."""
        require_list("candidates", self.candidates, "['long']")
        found = as_treatments(self.candidates)
        for number, one in enumerate(found):
            if not one.acts or one.name == PLAIN:
                raise DesignError(
                    f"{one.name!r} is what candidates are compared with: omit it, or rename it."
                )
            if (one.baseline is not None and not one.chunks) or one.by_segments:
                raise DesignError(
                    f"{one.name!r} is not only a calibration, and cannot be written to {CALIBRATION_FILE}: compare "
                    "it with evaluate, and omit it."
                )
            same = [other.name for other in found[:number] if replace(other, name=one.name) == one]
            if same:
                raise DesignError(f"{same[0]!r} and {one.name!r} are the same: omit one of them.")
        if all(one.chunks for one in found):
            raise DesignError(
                "averaged chunks cannot be chosen, and there is no other candidate: name one."
            )
        return (as_treatment(PLAIN), *found)

    def check(self) -> None:
        for task in self.searched:
            if isinstance(task, PageSource):
                plans, corpus = task.read_corpus()
                pages = len(corpus.ids([plans[0].lead])) // task.size
                require_enough(corpus.name, pages, "pages")
            elif isinstance(task, PassageSource):
                plans, corpus = task.read_corpus()
                require_enough(corpus.name, len(corpus.ids([plans[0].lead])), "documents")
            elif not isinstance(task, MtebSource):
                task.read()


def require_enough(name: str, documents: int, what: str = "documents that queries ask for") -> None:
    """Raise if there is nothing to choose by."""
    if documents < LEAST_CLUSTERS:
        raise CorpusError(
            f"{name} has {documents} {what}, and tune needs at least {LEAST_CLUSTERS}; with 200 it sees a gain of "
            f"{visible_gain(200, 600):.2f}. Add documents, or use the preset long, which changes only the vectors of "
            "texts that are longer than the model's window."
        )


def visible_gain(clusters: int, queries: int) -> float:
    """The gain that so many documents and queries confirm in 80 % of cases, if they differ as usual."""
    return (1.96 + 0.84) * math.sqrt(SPREAD**2 / clusters + SPREAD_WITHIN**2 / queries)
