"""What runs every study: from what was typed to the result that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairspan.cli.command import of_fields, taken
from fairspan.cli.gate import fail_on_run, read_conditions
from fairspan.cli.options import Remote, Showing
from fairspan.cli.progress import TerminalProgress, running, say_loading
from fairspan.cli.showing import (
    print_forecast,
    require_file,
    require_folder,
    require_picture,
    show,
)
from fairspan.errors import DesignError
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.options import StudyOptions

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog


def run_study(options: type[StudyOptions], **typed: Any) -> RunLog | None:
    """The log of a study as it was typed, which is shown; None for a forecast.

    Exits with code 1 if --fail-if is met.
    """
    keywords = _keywords(options, typed)
    showing = taken(Showing, typed)
    conditions = read_conditions(options.verb, typed.get("fail_if"), keywords.get("treatments"))
    with running(kept=not typed.get("fresh")) as progress:
        require_picture(showing.picture)
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
    if options.verb == "evaluate" and keywords["task"] == PASSAGES and keywords["model"]:
        # The first word, where the model is an endpoint.
        keywords["task"] = keywords["model"]
        keywords["model"] = None
    if keywords["model"] is not None:
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
