"""What the commands of all studies do: answer from a log, or check, load, measure and show."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.cli.command import of_fields, taken
from fairspan.cli.gate import fail_on_runs, read_conditions
from fairspan.cli.options import Remote, Showing
from fairspan.cli.progress import TerminalProgress, running, say_loading
from fairspan.cli.showing import print_forecast, print_json, require_file, require_folder, show
from fairspan.errors import DesignError
from fairspan.runs.log import RunLog
from fairspan.runs.options import StudyOptions

if TYPE_CHECKING:
    from fairspan.runs.forecast import Forecast


def run_study(options: type[StudyOptions], typed: Mapping[str, Any]) -> RunLog | None:
    """Carry out a study as it was typed, show it, and exit with code 1 if --fail-if is met.

    Returns:
        Its log; None for a forecast.
    """
    keywords = _keywords(options, typed)
    showing = taken(Showing, typed)
    conditions = read_conditions(options.verb, typed.get("fail_if"), keywords.get("treatments"))
    with running(showing.picture) as progress:
        result = _outcome(options(**keywords, progress=progress), progress, showing.dry_run)
    if not isinstance(result, RunLog):
        if showing.as_json:
            print_json(result.to_dict())
        else:
            print_forecast(result)
        return None
    show(
        result,
        as_json=showing.as_json,
        picture=showing.picture,
        ending=f"log: {result.folder}",
        verbose=showing.verbose,
    )
    fail_on_runs([result], conditions)
    return result


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


def _outcome(options: StudyOptions, progress: TerminalProgress, dry_run: bool) -> RunLog | Forecast:
    """The log, which needs no model if the run is complete; or the forecast."""
    from fairspan.runs.key import known_log

    if not dry_run:
        view = import_module(f"fairspan.studies.{options.verb}.view")
        log = known_log(options, view.view_of)
        if log is not None:
            # What a study writes beside its log may be lost.
            getattr(view, "write_results", lambda log: None)(log)
            return log
    _ = options.checked
    if options.out is not None:
        require_folder(Path(options.out))
    if options.store is not None and not Path(options.store).exists():
        require_file(Path(options.store))
    say_loading(progress, options.model)
    study = import_module(f"fairspan.studies.{options.verb}.run").STUDY
    result: RunLog | Forecast = study.forecast(options) if dry_run else study(options)
    return result
