"""What mteb runs: `mteb_model`, a calibrated model, and `mteb_task`, a search with scores by position."""

import hashlib
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import AnyCalibration
from fairspan.calibration.treatment import as_treatment
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
from fairspan.retrieval.source import PASSAGES, TaskOptions, find_source

# The passages of the embedded essays, and what mteb wants to know of them.
_REVISION = "baed2f60301f9435111383ba206e465d9a11edcf69e3c2d64c108d4db882d428"
_FEDERALIST: dict[str, Any] = {
    "name": "FederalistPassageRetrieval",
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
_COMMON = {
    "type": "Retrieval",
    "category": "t2t",
    "main_score": "ndcg_at_10",
    "annotations_creators": "derived",
}


def mteb_model(
    model: str | SentenceTransformer, calibration: AnyCalibration | None = None, **more: Any
) -> Any:
    """The `ModelMeta` of a calibrated model: `mteb.evaluate` takes it, and `mteb.get_model` finds it by its name.

    Name and revision say which model, calibration, weights and prompts, so that mteb takes no other's results for its
    own. What mteb knows of the plain model, such as training data, is kept.

    Args:
        calibration, more: as in `fairspan.calibrate`. A calibrated model stays as it is if nothing is given.
    """
    mteb = mteb_library()
    wrapper, registry = (
        mteb.SentenceTransformerEncoderWrapper,
        mteb.models.model_implementations.MODEL_REGISTRY,
    )
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
    parts, window = list(calibrated_transformers(fair)), window_of(fair)
    settings = [
        (one.calibration.to_dict(), one.max_seq_length, one.untiled_length) for one in parts
    ]
    decisive = json.dumps(
        [fingerprint(fair), settings, fair.prompts, fair.default_prompt_name, prompts]
    )
    revision = hashlib.sha256(decisive.encode()).hexdigest()[:16]
    # Folders of results are called so.
    treatment = re.sub(r"[^\w.,=+-]", "", as_treatment(parts[0].calibration).name.replace(":", "="))

    def calibrated(
        name: str, revision: str | None = None, device: str | None = None, embed_dim: Any = None
    ) -> Any:
        made = fair if device is None else copy_sharing_weights(fair).to(device)
        with warnings.catch_warnings(action="ignore"):  # about what mteb itself calls
            return wrapper(made, model_prompts=prompts)

    listed = f"{name if '/' in name else f'local/{name}'} ({treatment})"
    facts = {
        "name": listed,
        "revision": revision,
        "loader": calibrated,
        "loader_kwargs": {},
        "adapted_from": name,
        "n_parameters": sum(one.numel() for one in fair.parameters()),
        "max_tokens": window or float("inf"),
        "embed_dim": fair.get_embedding_dimension(),
        "similarity_fn_name": mteb.models.model_meta.ScoringFunction(fair.similarity_fn_name),
        "framework": ["Sentence Transformers", "PyTorch"],
    }
    meta = registry[listed] = base.model_copy(update=facts)
    return meta


class _Words(Characters):
    """Five characters each: passages must be the same for all models, and not every language has spaces."""

    unit = "words of five characters"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text) // 5) for text in texts]


def mteb_task(task: str = PASSAGES, *, eval_langs: Sequence[str] = ("und",), **options: Any) -> Any:
    """A search for `mteb.evaluate`, which also gives "ndcg_at_10_position_1" to 5, by fifths of the document.

    Args:
        task: "passages", or a folder whose queries say where their answers are.
        eval_langs: as mteb writes them, such as "deu-Latn".
        options: as in `fairspan.evaluate`, such as `corpus`, `sets` and `seed`; `query_tokens` are words.
    """
    mteb, words = mteb_library(), _Words()
    found = find_source(task, TaskOptions(**options)).read(words)
    measured = measure_task(found[0], words, words, too_long="cut")
    searched, revision, places = found[0], found[0].fingerprint, measured.positions
    if len(found) > 1 or not places:
        raise CorpusError(
            f"mteb needs one index with known positions: {task} has {len(found)} with {len(places)}."
        )
    if any(gain % 1 for own in searched.relevant.values() for gain in own.values()):
        raise CorpusError(f"mteb takes gains that are whole numbers, and {task} has others.")
    # mteb finds results by the name of a task, whatever its revision.
    own = {
        "name": f"PositionRetrieval-{revision[:12]}",
        "description": searched.name,
        "eval_langs": [*eval_langs],
    }
    about = _FEDERALIST if revision == _REVISION else own

    class PositionRetrieval(mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc,name-defined]
        metadata = mteb.TaskMetadata(
            **about, **_COMMON, dataset={"path": searched.name, "revision": revision}
        )

        def load_data(self, **_: Any) -> None:
            table = import_module("datasets").Dataset.from_list
            at = {query: where.group for query, where in places.items()}
            queries = [
                {"id": one.id, "text": one.text, "position": at.get(one.id, 0)}
                for one in searched.queries
            ]
            gains = {
                query: {id: int(gain) for id, gain in own.items()}
                for query, own in searched.relevant.items()
            }
            corpus = table(
                [{"id": one.id, "title": "", "text": one.text} for one in searched.documents]
            )
            tables = {
                "corpus": corpus,
                "queries": table(queries),
                "relevant_docs": gains,
                "top_ranked": None,
            }
            self.dataset, self.data_loaded = {"default": {"test": tables}}, True

        def task_specific_scores(
            self, scores: Any, *_: Any, hf_split: str, hf_subset: str
        ) -> dict[str, float]:
            by_place = defaultdict(list)
            for one in self.dataset[hf_subset][hf_split]["queries"]:
                by_place[one["position"]].append(scores[one["id"]]["ndcg_cut_10"])
            kept = sorted(by_place.keys() - {0})
            return {
                f"ndcg_at_10_position_{place}": sum(by_place[place]) / len(by_place[place])
                for place in kept
            }

    return PositionRetrieval()
