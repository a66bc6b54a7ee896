"""What is refused before a model is loaded, which takes many seconds: its name, what is read, what is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.cli.options import LoadingOptions, RunningOptions, pick
from fairspan.corpus.corpus import Corpus
from fairspan.design.plan import choose_plans, languages_of
from fairspan.errors import DesignError, LogError, require_whole

if TYPE_CHECKING:
    from fairspan.encoding.endpoint import Endpoint
    from fairspan.studies.audit.spec import AuditSpec
    from fairspan.studies.collapse.spec import CollapseSpec
    from fairspan.studies.evaluate.spec import EvaluationSpec
    from fairspan.studies.tune.spec import TuningSpec


def check_model(model: Endpoint | str | None, given: dict[str, Any]) -> None:
    """Raise if there is no such model, or an option of how it is loaded or run cannot be; no request is sent."""
    from fairspan.model.source import Loading, find_model

    loading = pick(given, LoadingOptions)
    Loading(**loading)
    settings = pick(given, RunningOptions)
    if settings.get("batch_tokens") is not None:
        require_whole("batch_tokens", settings["batch_tokens"])
    require_folder(settings.get("out"))
    store = settings.get("store")
    if store is not None and not store.exists():
        require_file(store)
    if isinstance(model, str | None):
        find_model(model)
    elif loading:
        raise DesignError(f"[[{next(iter(loading))}]] is for a model that is loaded here: omit it for an endpoint.")


def check_audit(spec: AuditSpec) -> None:
    """Read what an audit reads, and raise if that fails."""
    plans, _ = choose_plans(spec.corpus, spec.languages, spec.mixed, partial=spec.partial)
    if spec.fit_corpus is not None:
        Corpus.read(spec.fit_corpus, languages_of(plans), partial=True)


def check_evaluation(spec: EvaluationSpec) -> None:
    """Read what an evaluation reads, and raise if that fails; tasks of mteb are looked up later."""
    from fairspan.retrieval.source import MTEB

    languages = spec.fit_languages
    if spec.source.is_built:
        languages = languages_of(spec.source.read_corpus()[0])
    elif not spec.task.startswith(MTEB):
        spec.source.read_collections()
    if spec.fit_corpus is not None:
        Corpus.read(spec.fit_corpus, languages, partial=True)


def check_tuning(spec: TuningSpec) -> None:
    """Read what a tuning reads, and raise if that fails; tasks of mteb are looked up later."""
    from fairspan.retrieval.source import MTEB

    for source in (*spec.tasks, *spec.guards):
        if source.is_built:
            source.read_corpus()
        elif not source.task.startswith(MTEB):
            source.read_collection()


def check_collapse(spec: CollapseSpec) -> None:
    """Read what a study of length reads, and raise if that fails."""
    from fairspan.studies.collapse.classification import read_labelled
    from fairspan.studies.collapse.reading import read_corpus

    language = read_corpus(spec)[1]
    if spec.labelled is not None:
        read_labelled(spec.labelled)
    if spec.fit_corpus is not None:
        Corpus.read(spec.fit_corpus, [language], partial=True)


def require_folder(folder: Path | None) -> None:
    """Raise if no folder can be made there, or nothing written into the one that is there."""
    if folder is not None:
        _require_place(folder, folder)


def require_file(file: Path | None) -> None:
    """Raise if no file can be written there."""
    if file is None:
        return
    if file.is_dir():
        raise LogError(f"{file} cannot be written: it is a folder.")
    _require_place(file, file.parent)


def _require_place(target: Path, folder: Path) -> None:
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise LogError(f"{target} cannot be written: {error.strerror}.") from None
    if not there.is_dir():
        raise LogError(f"{target} cannot be written: {'it' if there == target else there} is not a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise LogError(f"{target} cannot be written: no permission to write into {there}: choose another place.")
