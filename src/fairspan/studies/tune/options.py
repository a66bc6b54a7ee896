"""`TuneOptions`: everything that is asked of a tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import count as count_from
from itertools import takewhile
from typing import ClassVar

from fairspan.calibration.calibration import CALIBRATION_FILE, DEFAULT
from fairspan.calibration.treatment import (
    PLAIN,
    AnyTreatment,
    Treatment,
    as_treatment,
    as_treatments,
)
from fairspan.errors import CorpusError, DesignError, require_list, require_whole
from fairspan.retrieval.indexes import index_of
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
    options_of,
    refuse_unused,
)
from fairspan.retrieval.task import LEAST_TOKENS
from fairspan.runs.options import StudyOptions, source

CANDIDATES = ("fair", "tiles-64")
QUERY_TOKENS = (60, 30, 15, LEAST_TOKENS)
"""Lengths of queries to try, so that the plain model does not find nearly everything."""
USUAL_VECTORS = 4
"""Per document, that are measured beside one."""
SETS: dict[str, int | None] = {PAGES: 220, PASSAGES: None}
"""How many pages or documents are drawn by default; documents by their tokens."""
LEAST_CLUSTERS = 20
"""Fewer documents are not tuned on: each half chooses by ten."""
# Standard deviations of a change of nDCG@10 on articles: between documents, and between the
# queries of one.
SPREAD = 0.05
SPREAD_WITHIN = 0.21


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
        vectors: how many vectors of a document can be stored. The answer then says how many are
            enough. By default it advises one, and says what four and one per chunk would find.
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
    vectors: int | None = None
    metric: str = "ndcg@10"
    margin: float = 0.01
    strict: bool = False
    prompt: str | None = None
    query_prompt: str | None = None
    query_tokens: int | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Bring tasks and guards into one form, and raise for values that are not allowed."""
        self.name_sources()
        usual = (PAGES if self.parts else PASSAGES,)
        object.__setattr__(self, "tasks", _as_names("tasks", self.tasks) or usual)
        object.__setattr__(self, "guards", _as_names("guards", self.guards))
        if self.parts and self.tasks != usual:
            raise CorpusError(
                "parts is for documents that are made from a corpus: omit it, or the tasks."
            )
        parse_metric(self.metric)
        if self.vectors is not None:
            require_whole("vectors", self.vectors)
        if not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, such as 0.01, got {self.margin!r}.")
        require_whole("seed", self.seed, least=0)
        _ = self.searched, self.all_treatments

    @cached_property
    def searched(self) -> tuple[TaskSource, ...]:
        """The tasks, and the guards after them, each with the options of its kind."""
        sources: list[TaskSource] = []
        used: set[str] = set()
        names = (*self.tasks, *self.guards)
        for name in names:
            word, colon, corpus = name.partition(":")
            task = word if word in SETS else name
            values = {"sets": SETS.get(word), **self.changed}
            kind = kind_of(task)
            options = options_of(kind)
            if colon and word in SETS:
                values["corpus"] = corpus
                options.remove("corpus")
            searched = make_source(kind, task, values)
            if searched in sources:
                raise CorpusError(
                    f"{name} is named twice: tasks and guards need documents of their own."
                )
            sources.append(searched)
            used.update(options)
        refuse_unused(self.changed, used, names)
        return tuple(sources)

    @property
    def part_indexes(self) -> tuple[str, ...]:
        """Indexes of several vectors per document that what is advised is measured with."""
        most = self.vectors or 1
        if most == 1:
            return (index_of(USUAL_VECTORS),)
        powers = takewhile(lambda count: count < most, (2**n for n in count_from(1)))
        return tuple(index_of(count) for count in dict.fromkeys([*powers, most]))

    @property
    def unused(self) -> set[str]:
        return self.idle(*map(type, self.searched))

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The plain model, and what differs from it and from each other."""
        require_list("candidates", self.candidates, "['fair']")
        names: dict[Treatment, str] = {}
        candidates = as_treatments(self.candidates)
        for candidate in candidates:
            name = candidate.name
            if not candidate.acts or name == PLAIN:
                raise DesignError(
                    f"{name!r} is what candidates are compared with: omit it, or rename it."
                )
            if (candidate.baseline and not candidate.chunks) or candidate.by_segments:
                raise DesignError(
                    f"{name!r} is not only a calibration, and cannot be written to "
                    f"{CALIBRATION_FILE}: compare it with evaluate, and omit it."
                )
            same = names.setdefault(replace(candidate, name=""), name)
            if same != name:
                raise DesignError(f"{same!r} and {name!r} are the same: omit one of them.")
        if all(candidate.chunks for candidate in candidates):
            raise DesignError(
                "averaged chunks cannot be chosen, and there is no other candidate: name one."
            )
        return (as_treatment(PLAIN), *candidates)

    def check(self) -> None:
        """Read the files of all tasks, and raise if there are too few documents."""
        for task in self.searched:
            if isinstance(task, PageSource | PassageSource):
                plans, corpus = task.planned_corpus
                documents = len(corpus.ids([plans[0].lead]))
                if isinstance(task, PageSource):
                    require_enough(corpus.label, documents // task.size, "pages")
                else:
                    require_enough(corpus.label, documents, "documents")
            elif not isinstance(task, MtebSource):
                task.read()


def require_enough(name: str, documents: int, what: str = "documents that queries ask for") -> None:
    """Raise if there is nothing to choose by."""
    if documents < LEAST_CLUSTERS:
        raise CorpusError(
            f"{name} has {documents} {what}, and tune needs at least {LEAST_CLUSTERS}; with 200 it "
            f"sees a gain of {visible_gain(200, 600):.2f}. Add documents, or use the preset "
            f"{DEFAULT}."
        )


def visible_gain(clusters: int, queries: int) -> float:
    """The gain that so many documents and queries usually confirm in 80 % of cases."""
    return (1.96 + 0.84) * math.sqrt(SPREAD**2 / clusters + SPREAD_WITHIN**2 / queries)


def _as_names(option: str, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """The tasks or guards that an option names."""
    names = (value,) if isinstance(value, str) else value or ()
    require_list(option, names, f"['{PASSAGES}']", CorpusError)
    return tuple(names)
