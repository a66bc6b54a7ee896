"""What mteb runs: a calibrated model, and a search by position."""

import hashlib
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.spelling import AnyCalibration
from fairspan.encoding.tokens import Characters
from fairspan.errors import CorpusError, UnsupportedModel
from fairspan.model.build import calibrate, copy_sharing_weights
from fairspan.model.card import name_of
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import load
from fairspan.model.transformer import calibrated_transformers
from fairspan.model.window import window_of
from fairspan.retrieval.measured import measure_task
from fairspan.retrieval.mteb_reading import mteb_library
from fairspan.retrieval.source import PASSAGES, TaskOptions, TaskSource
from fairspan.retrieval.task import RetrievalTask

# The passages of the embedded essays, and what mteb wants to know of them.
_REVISION = "ee0cdc1f568f723c3c6b0a543d2c916462036494226275b8386a467a758486cf"
_FEDERALIST: dict[str, Any] = {
    "name": "FederalistPassageRetrieval.v2",
    "description": "Passages cut out of essays search for the rest; also scored by their position.",
    "reference": "https://en.wikipedia.org/wiki/The_Federalist_Papers",
    "date": ("1787-10-27", "1788-08-16"),
    "domains": ["Government", "Legal", "Written"],
    "task_subtypes": ["Article retrieval"],
    "eval_langs": ["eng-Latn"],
    "dialect": [],
    "license": "cc0-1.0",
    "sample_creation": "found",
    "bibtex_citation": "",
}


def mteb_model(
    model: str | SentenceTransformer, calibration: AnyCalibration | None = None, **more: Any
) -> Any:
    """The `ModelMeta` of a calibrated model: `mteb.evaluate` takes it, `mteb.get_model` finds it.

    Name and revision include model, calibration, weights and prompts, so that mteb does not return
    results of another model. Its data on the plain model, such as training data, are kept.

    Args:
        calibration, more: as in `fairspan.calibrate`; by default those of a calibrated model.
    """
    mteb = mteb_library()
    wrapper = mteb.SentenceTransformerEncoderWrapper
    registry = mteb.models.model_implementations.MODEL_REGISTRY
    plain = model if isinstance(model, SentenceTransformer) else load(model)
    name = name_of(plain)
    base = registry.get(name) or mteb.models.ModelMeta.create_empty({"loader": wrapper})
    if base.loader is not wrapper and plain is not model:
        raise UnsupportedModel(
            f"mteb runs {name} by code of its own: give a SentenceTransformer with your prompts."
        )
    prompts = None if plain is model else base.loader_kwargs.get("model_prompts")
    if calibration is None and not more:
        calibration = next((part.calibration for part in calibrated_transformers(plain)), None)
    fair = calibrate(plain, calibration, **more)
    parts = list(calibrated_transformers(fair))

    def calibrated(
        name: str, revision: str | None = None, device: str | None = None, embed_dim: Any = None
    ) -> Any:
        placed = fair if device is None else copy_sharing_weights(fair).to(device)
        # mteb calls names that are deprecated.
        with warnings.catch_warnings(action="ignore"):
            return wrapper(placed, model_prompts=prompts)

    # mteb also names folders of results after it.
    treatment = re.sub(r"[^\w.,=+-]", "", parts[0].treatment.name.replace(":", "="))
    listed = f"{name if '/' in name else f'local/{name}'} ({treatment})"
    facts = {
        "name": listed,
        "revision": _revision(fair, parts, prompts),
        "loader": calibrated,
        "loader_kwargs": {},
        "adapted_from": name,
        "n_parameters": sum(weights.numel() for weights in fair.parameters()),
        "max_tokens": window_of(fair) or float("inf"),
        "embed_dim": fair.get_embedding_dimension(),
        "similarity_fn_name": mteb.models.model_meta.ScoringFunction(fair.similarity_fn_name),
        "framework": ["Sentence Transformers", "PyTorch"],
    }
    registry[listed] = base.model_copy(update=facts)
    return registry[listed]


def _revision(model: SentenceTransformer, parts: Sequence[Any], prompts: Any) -> str:
    """16 digits that differ if weights, calibration or prompts do."""
    settings = [
        (part.calibration.to_dict(), part.max_seq_length, part.untiled_length) for part in parts
    ]
    decisive = [fingerprint(model), settings, model.prompts, model.default_prompt_name, prompts]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:16]


def mteb_task(task: str = PASSAGES, *, eval_langs: Sequence[str] = ("und",), **options: Any) -> Any:
    """A search task for `mteb.evaluate` with nDCG@10 by fifth: "ndcg_at_10_position_1" to 5.

    Args:
        task: "passages", or a folder whose queries say where their answers are.
        eval_langs: as mteb writes them, such as "deu-Latn".
        options: as in `fairspan.evaluate`: `corpus`, `languages`, `sets`, `query_words`, `seed`.
    """
    mteb = mteb_library()
    searched = TaskSource(task, TaskOptions(**options)).task
    letters = Characters("")
    positions = measure_task(searched, letters, letters).positions
    if not positions:
        raise CorpusError(f"queries of {task} do not say where their answers are.")
    if any(gain % 1 for gains in searched.relevant.values() for gain in gains.values()):
        raise CorpusError(f"mteb takes gains that are whole numbers, and {task} has others.")
    revision = searched.fingerprint
    # mteb finds results by the name of a task, whatever its revision.
    name = f"PositionRetrieval-{revision[:12]}"
    about = {"name": name, "description": searched.name, "eval_langs": [*eval_langs]}
    if revision == _REVISION:
        about = _FEDERALIST

    class PositionRetrieval(mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc,name-defined]
        metadata = mteb.TaskMetadata(
            **about,
            type="Retrieval",
            category="t2t",
            main_score="ndcg_at_10",
            annotations_creators="derived",
            dataset={"path": searched.name, "revision": revision},
        )

        def load_data(self, **_: Any) -> None:
            fifths = {query: position.fifth for query, position in positions.items()}
            self.dataset = {"default": {"test": _tables(searched, fifths)}}
            self.data_loaded = True

        def task_specific_scores(
            self, scores: Any, *_: Any, hf_split: str, hf_subset: str
        ) -> dict[str, float]:
            """The mean by fifth; queries whose position is not known are at 0."""
            by_fifth = defaultdict(list)
            for query in self.dataset[hf_subset][hf_split]["queries"]:
                by_fifth[query["position"]].append(scores[query["id"]]["ndcg_cut_10"])
            by_fifth.pop(0, None)
            return {
                f"ndcg_at_10_position_{fifth}": sum(values) / len(values)
                for fifth, values in sorted(by_fifth.items())
            }

    return PositionRetrieval()


def _tables(task: RetrievalTask, fifths: Mapping[str, int]) -> dict[str, Any]:
    """A task as mteb holds it, with the fifth of each query's evidence."""
    table = import_module("datasets").Dataset.from_list
    documents = [{"id": text.id, "title": "", "text": text.text} for text in task.documents]
    queries = [
        {"id": query.id, "text": query.text, "position": fifths.get(query.id, 0)}
        for query in task.queries
    ]
    relevant = {
        query: {id: int(gain) for id, gain in gains.items()}
        for query, gains in task.relevant.items()
    }
    return {
        "corpus": table(documents),
        "queries": table(queries),
        "relevant_docs": relevant,
        "top_ranked": None,
    }
