"""`score_task`: the main score that mteb gives to vectors, for tasks of any type."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from sentence_transformers import SimilarityFunction

from fairspan.calibration.calibration import Side
from fairspan.errors import CorpusError, FairspanError, first_line
from fairspan.retrieval.mteb_reading import mteb_library, splits_of

Embed = Callable[[Sequence[str], Side | None, str | None], np.ndarray]
"""[texts, d]: the vectors of texts, given their side and prompt; None where a task has none."""


@dataclass(frozen=True)
class MtebEncoder:
    """A model as mteb calls it.

    Attributes:
        prompts: by name, of which mteb chooses one for a task, its type or a side.
        compare: the name of what compares vectors, such as "cosine".
    """

    embed: Embed
    prompts: Mapping[str, str]
    compare: str

    def encode(
        self, inputs: Iterable[Any], *, task_metadata: Any, prompt_type: Any = None, **_: Any
    ) -> np.ndarray:
        texts = [text for batch in inputs for text in batch["text"]]
        name_prompt = mteb_library().models.abs_encoder.get_prompt_name
        prompt = self.prompts.get(name_prompt(self.prompts, task_metadata, prompt_type))
        return self.embed(texts, None if prompt_type is None else prompt_type.value, prompt)

    def similarity(self, first: Any, second: Any) -> Any:
        return SimilarityFunction.to_similarity_fn(self.compare)(first, second)

    def similarity_pairwise(self, first: Any, second: Any) -> Any:
        return SimilarityFunction.to_similarity_pairwise_fn(self.compare)(first, second)

    @property
    def mteb_model_meta(self) -> Any:
        return mteb_library().models.ModelMeta.create_empty()


def score_task(task: Any, encoder: MtebEncoder) -> float:
    """The main score of a task whose data are loaded, as a mean over its splits and subsets."""
    # Tasks draw samples as they are scored: with copies, these are the same for all treatments.
    scored = copy(task)
    scored.rng_state = deepcopy(task.rng_state)
    scored.np_rng = deepcopy(task.np_rng)
    try:
        with _quiet():
            results = mteb_library().evaluate(
                encoder, scored, cache=None, co2_tracker=False, show_progress_bar=False
            )
    except FairspanError:
        raise
    # Tasks score in ways of their own, and let through whatever these raise.
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error).rstrip('.')}"
        raise CorpusError(f"mteb could not score {task.metadata.name}: {reason}.") from error
    return float(results.task_results[0].get_score())


def texts_of(task: Any) -> list[str]:
    """The different texts of what is scored, about those that mteb embeds."""
    texts: dict[str, None] = {}
    for split, data in splits_of(task):
        if split in task.eval_splits:
            tables = [data["corpus"], data["queries"]] if isinstance(data, Mapping) else [data]
            for table in tables:
                texts |= dict.fromkeys(_strings(table))
    return list(texts)


def contents_hash(task: Any) -> str:
    """Of everything in a task's data, texts and labels."""
    digest = blake2b(digest_size=16)
    for split, data in splits_of(task):
        for part in data.values() if isinstance(data, Mapping) else [data]:
            for row in part.items() if isinstance(part, Mapping) else part or ():
                digest.update(f"{split} {row!r}\n".encode())
    return digest.hexdigest()


def _strings(table: Any) -> Iterator[str]:
    """The texts of a table, also those in lists."""
    for column in table.column_names:
        if column not in ("id", "_id", "label", "labels"):
            for value in table[column]:
                values = value if isinstance(value, list) else [value]
                yield from (item for item in values if isinstance(item, str))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what mteb logs and warns of at every task."""
    logger = logging.getLogger("mteb")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
