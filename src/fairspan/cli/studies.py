"""What the verbs of all studies do: answer from a log, check, load, measure or forecast, and show."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairspan.cli.gate import fail_on_runs, read_conditions
from fairspan.cli.options import print_json, typed
from fairspan.cli.showing import (
    print_forecast,
    require_file,
    require_folder,
    running,
    say_loading,
    show,
)
from fairspan.errors import DesignError
from fairspan.runs.options import StudyOptions

if TYPE_CHECKING:
    from fairspan.cli.showing import TerminalProgress
    from fairspan.runs.forecast import Forecast
    from fairspan.runs.log import RunLog

# What a verb does with a result, which is no option of the study.
_OF_COMMAND = ("picture", "dry_run", "verbose", "fail_if")


def asked(context: typer.Context) -> dict[str, Any]:
    """The keywords of a study that were typed, with the endpoint as the model."""
    given = typed(context, *_OF_COMMAND)
    if {"endpoint", "model"} <= given.keys() and "task" in context.params and "task" not in given:
        given["task"] = given.pop("model")  # the first word, where the model is an endpoint
    url, name = given.pop("endpoint", None), given.pop("endpoint_model", None)
    if url is None and name is None:
        return given
    if url is None or name is None:
        raise DesignError(
            "an endpoint needs its address and the name of its model: give --endpoint and --model."
        )
    if given.get("model") is not None:
        raise DesignError(
            f"MODEL {given['model']!r} and --endpoint are two models: omit one of them."
        )
    from fairspan.encoding.endpoint import Endpoint

    return {**given, "model": Endpoint(url, name)}


def run_study(
    options: type[StudyOptions], context: typer.Context, given: Mapping[str, Any] | None = None
) -> RunLog | None:
    """Carry out one study as it was typed or `given`, show it, and end with exit code 1 if --fail-if asks for it.

    Returns:
        Its log; None for a forecast.
    """
    given, typed = asked(context) if given is None else given, context.params
    conditions = read_conditions(options.verb, typed.get("fail_if"), given.get("treatments"))
    with running(typed["picture"]) as progress:
        found = outcome(options(**given, progress=progress), progress, dry_run=typed["dry_run"])
    from fairspan.runs.log import RunLog

    as_json = typed["as_json"]
    if not isinstance(found, RunLog):
        if as_json:
            print_json(found.to_dict())
        else:
            print_forecast(found)
        return None
    show(
        found,
        as_json=as_json,
        picture=typed["picture"],
        ending=f"log: {found.folder}",
        verbose=typed["verbose"],
    )
    fail_on_runs([found], conditions)
    return found


def outcome(
    options: StudyOptions, progress: TerminalProgress, *, dry_run: bool
) -> RunLog | Forecast:
    """The log, which needs no model if it is there; or the forecast."""
    from fairspan.runs.key import known_log

    if not dry_run:
        view = import_module(f"fairspan.studies.{options.verb}.view")
        known = known_log(options, view.view_of)
        if known is not None:
            # What a study writes beside its log may be lost.
            getattr(view, "write_results", lambda log: None)(known)
            return known
    _ = options.checked
    if options.out is not None:
        require_folder(Path(options.out))
    if options.store is not None and not Path(options.store).exists():
        require_file(Path(options.store))
    say_loading(progress, options.model)
    study = import_module(f"fairspan.studies.{options.verb}.run").STUDY
    found: RunLog | Forecast = study.forecast(options) if dry_run else study(options)
    return found
