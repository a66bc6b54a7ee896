"""`fairspan evaluate`, `collapse` and `tune`, and what runs every study."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.cli.command import command, of_fields, taken
from fairspan.cli.gate import fail_on_run, read_conditions
from fairspan.cli.options import Failing, Remote, Showing
from fairspan.cli.progress import TerminalProgress, running, say_loading
from fairspan.cli.showing import print_forecast, put, require_file, require_folder, show
from fairspan.errors import DesignError
from fairspan.runs.options import StudyOptions
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.tune.options import TuneOptions

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog


@command(EvaluateOptions, Remote, Failing, Showing, omitted=["name"])
def evaluate(**typed: Any) -> None:
    """Measure what search finds of short and long documents, beside keywords, and what would help.

    All your documents are in the index. Passages that are cut out of them are the queries, unless
    you have questions of your own. Vectors are stored, so the same command continues an interrupted
    run.

    For example:

        fairspan evaluate
        fairspan evaluate MODEL --corpus my_documents/ --picture by_depth.png
        fairspan evaluate MODEL --corpus my_documents/ --vectors 1,2,4,8,all
        fairspan evaluate MODEL my_questions/ --treatments plain,fair,fair+tile_size=256
        fairspan evaluate MODEL mteb:SciFact --dry-run
        fairspan evaluate --endpoint http://localhost:8000/v1 --model MODEL --fail-if worse
    """
    run_study(EvaluateOptions, typed)


@command(CollapseOptions, Showing, omitted=["name", "seed", "store", "batch_tokens", "verbose"])
def collapse(**typed: Any) -> None:
    """Measure what length does to a model's vectors, and which treatments undo it.

    Two things: whether long texts look more similar to each other than short ones, and whether they
    score higher for every query. The same documents are cut to several lengths, so that long and
    short texts are about the same topics. With --natural whole documents are compared by their own
    length. If a treatment is enough, the folder gets calibration.json, for fairspan calibrate.

    For example:

        fairspan collapse
        fairspan collapse MODEL --lengths 50,100,200,400 --picture length.png
        fairspan collapse ibm-granite/granite-embedding-30m-english --corpus my_articles/ --dry-run
        fairspan collapse MODEL --treatments plain,tempscale+temperature=0.9,fair,chunk-mean
        fairspan collapse MODEL --corpus my_articles/ --natural --out natural
    """
    _say_calibration(run_study(CollapseOptions, typed), typed)


@command(TuneOptions, Showing, omitted=["name", "seed", "picture", "verbose"])
def tune(**typed: Any) -> None:
    """Find out which treatment to use for your documents, if any.

    The candidates are evaluated, and the answer is one that is shown to help, or none. Neither
    short nor long documents may lose, and no guard.

    The folder gets calibration.json, for fairspan calibrate, and the page tune.html. Vectors are
    stored, so the same command continues an interrupted run.

    For example:

        fairspan tune ibm-granite/granite-embedding-30m-english --corpus my_documents/ --out tuned
        fairspan calibrate ibm-granite/granite-embedding-30m-english better --calibration tuned
        fairspan tune MODEL my_questions/ --guard datasets/scifact
    """
    log = run_study(TuneOptions, typed)
    _say_calibration(log, typed)
    if log is not None and not typed.get("as_json"):
        put(f"page: {log.folder / 'tune.html'}")


def _say_calibration(log: RunLog | None, typed: Mapping[str, Any]) -> None:
    """Print where the calibration to use is, if there is one."""
    if log is not None and not typed.get("as_json"):
        file = log.folder / CALIBRATION_FILE
        if file.is_file():
            put(f"calibration: {file}")


def run_study(options: type[StudyOptions], typed: Mapping[str, Any]) -> RunLog | None:
    """The log of a study as it was typed, which is shown; None for a forecast.

    Exits with code 1 if --fail-if is met.
    """
    keywords = _keywords(options, typed)
    showing = taken(Showing, typed)
    conditions = read_conditions(options.verb, typed.get("fail_if"), keywords.get("treatments"))
    with running(showing.picture, kept=not typed.get("fresh")) as progress:
        asked = options(**keywords, progress=progress)
        result = _outcome(asked, progress, showing.dry_run)
    if showing.dry_run:
        print_forecast(result, as_json=showing.as_json)
        return None
    show(result, showing, ending=f"log: {result.folder}")
    fail_on_run(result, conditions)
    return cast("RunLog", result)


def _keywords(options: type[StudyOptions], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a study that were typed, with the endpoint as the model."""
    keywords = of_fields(options, typed)
    remote = taken(Remote, typed)
    if remote.endpoint is None and remote.endpoint_model is None:
        return keywords
    if remote.endpoint is None or remote.endpoint_model is None:
        raise DesignError(
            "an endpoint needs its address and the name of its model: give --endpoint and --model."
        )
    if "task" not in keywords and options.verb == "evaluate" and "model" in keywords:
        keywords["task"] = keywords.pop("model")  # the first word, where the model is an endpoint
    if "model" in keywords:
        raise DesignError(
            f"MODEL {keywords['model']!r} and --endpoint are two models: omit one of them."
        )
    from fairspan.encoding.endpoint import Endpoint

    return {**keywords, "model": Endpoint(remote.endpoint, remote.endpoint_model)}


def _outcome(options: StudyOptions, progress: TerminalProgress, dry_run: bool) -> Any:
    """The log, or the forecast."""
    _ = options.checked
    if options.out is not None:
        require_folder(Path(options.out))
    if options.store is not None and not Path(options.store).exists():
        require_file(Path(options.store))
    say_loading(progress, options.model)
    study = import_module(f"fairspan.studies.{options.verb}.run").STUDY
    return study.forecast(options) if dry_run else study(options)
