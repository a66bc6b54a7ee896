"""`fairspan evaluate`, `collapse` and `tune`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.cli.command import command
from fairspan.cli.options import Failing, Remote, Showing
from fairspan.cli.showing import put
from fairspan.retrieval.source import PASSAGES
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.tune.options import TuneOptions

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog


@command(EvaluateOptions, Remote, Failing, Showing, omitted=["name"])
def evaluate(model: str | None = None, task: str = PASSAGES, /, **typed: Any) -> None:
    """Measure what search finds in short and long documents, with and without keywords.

    All your documents are in the index. By default, queries are passages that are cut out of them.
    Vectors are stored, so the same command continues an interrupted run.

    For example:

        fairspan evaluate
        fairspan evaluate MODEL --corpus my_documents/ --picture by_depth.png
        fairspan evaluate MODEL --corpus my_documents/ --vectors 1,2,4,8,all
        fairspan evaluate MODEL my_questions/ --treatments plain,fair,tiles-64
        fairspan evaluate MODEL mteb:SciFact --dry-run
        fairspan evaluate --endpoint http://localhost:8000/v1 --model MODEL
    """
    from fairspan.cli.run_study import run_study

    run_study(EvaluateOptions, model=model, task=task, **typed)


@command(CollapseOptions, Showing, omitted=["name", "seed", "store", "batch_tokens", "verbose"])
def collapse(model: str | None = None, /, **typed: Any) -> None:
    """Measure what length does to a model's vectors, and which treatments undo it.

    It measures whether long texts are more similar to each other than short ones, and whether they
    score higher for every query. The same documents are cut to several lengths, so that long and
    short texts are about the same topics. With --natural, whole documents are compared instead. If
    a treatment is shown to help, the folder of the run gets a calibration.json, which fairspan
    calibrate takes.

    For example:

        fairspan collapse
        fairspan collapse MODEL --lengths 50,100,200,400 --picture length.png
        fairspan collapse MODEL --corpus my_articles/ --dry-run
        fairspan collapse MODEL --treatments plain,tempscale+temperature=0.9
        fairspan collapse MODEL --corpus my_articles/ --natural --out natural
    """
    from fairspan.cli.run_study import run_study

    _say_calibration(run_study(CollapseOptions, model=model, **typed), typed)


@command(TuneOptions, Showing, omitted=["name", "seed", "picture", "verbose"])
def tune(model: str | None = None, task: str = PASSAGES, /, **typed: Any) -> None:
    """Find out which treatment to use for your documents, if any.

    The candidates are evaluated, and the answer is one that is shown to help, or none. A candidate
    that loses for short or for long documents, or on a guard, is not chosen.

    The folder of the run gets a calibration.json, which fairspan calibrate takes, and a page,
    tune.html. Vectors are stored, so the same command continues an interrupted run.

    For example:

        fairspan tune MODEL --corpus my_documents/ --out tuned
        fairspan calibrate MODEL better --calibration tuned
        fairspan tune MODEL my_questions/ --guard datasets/scifact
    """
    from fairspan.cli.run_study import run_study

    log = run_study(TuneOptions, model=model, task=task, **typed)
    _say_calibration(log, typed)
    if log is not None and not typed.get("as_json"):
        put(f"page: {log.folder / 'tune.html'}")


def _say_calibration(log: RunLog | None, typed: Mapping[str, Any]) -> None:
    """Print where the calibration to use is, if there is one."""
    if log is not None and not typed.get("as_json"):
        file = log.folder / CALIBRATION_FILE
        if file.is_file():
            put(f"calibration: {file}")
