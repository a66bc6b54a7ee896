"""Options that several verbs share, and how what was typed becomes keywords of the Python function."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from fairspan.calibration.calibration import PRESETS, Calibration, as_calibration, read_calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.cli.plain import takes_any_text
from fairspan.errors import DesignError, require_whole

DATA, SEARCH, MODEL, RUN = "Data", "Search", "Model", "Run"
"""The groups of options in `--help`."""

# Commas inside brackets belong to a value, as in paper+layers=[1,3].
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


def option(help: str, *names: str, default: Any = None, group: str | None = None) -> Any:
    """An option of a verb; a default of False with a name makes it a flag."""
    return typer.Option(default, *names, help=help, rich_help_panel=group)


def flag(name: str, help: str, group: str | None = None) -> Any:
    """An option that takes no value."""
    return option(help, name, default=False, group=group)


def words(text: str) -> list[str]:
    """ "en, de" as ["en", "de"]."""
    return [word.strip() for word in _COMMA.split(text) if word.strip()]


def list_option(help: str, of: type = str, *, group: str | None = None, none: bool = False) -> Any:
    """An option that is typed as one word, such as en,de, and is a list of text or numbers in Python, or `none`."""
    example = {str: "words such as en,de", int: "whole numbers such as 3,4"}.get(
        of, "numbers such as 1.0,0.9"
    )

    def read(param: typer.CallbackParam, value: str | None) -> Any:
        try:
            found = None if value is None else [of(word) for word in words(value)]
        except ValueError:
            found = []
        if found == [] and not (none and value == ""):
            raise DesignError(f"{param.name} takes {example}, got {value!r}.")
        return found

    metavar = "A,B,…" if of is str else "1,2,…"
    return typer.Option(None, callback=read, metavar=metavar, help=help, rich_help_panel=group)


def number_or_word(typed: str) -> int | str:
    """ "64" as 64, and "window" as it is."""
    return int(typed) if typed.isdecimal() else typed


def print_json(value: Any) -> None:
    """A result on stdout, for programs."""
    # Escaped, a character stays what it is; written plainly it would be another.
    typer.echo(json.dumps(value, ensure_ascii=not takes_any_text(), indent=2, allow_nan=False))


AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RUN)
]
ModelName = Annotated[
    str | None,
    typer.Argument(
        help="A SentenceTransformer: a folder or a name on the hub. Default: all-MiniLM-L6-v2."
    ),
]
CorpusPath = Annotated[
    str | None,
    typer.Option(
        help="sample, a folder of .md and .txt files or with en.jsonl, de.jsonl, …, JSONL or Parquet, or a dataset.",
        rich_help_panel=DATA,
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        help="Text put before every document. Default: the model's own.", rich_help_panel=MODEL
    ),
]


class LoadingOptions:
    """How the model is loaded."""

    max_seq_length: int | None = option(
        "Longest text to read, in tokens. Only treatments in tiles can exceed the model's positions.",
        group=MODEL,
    )
    device: str | None = option("cpu, cuda or mps.", group=MODEL)
    dtype: str | None = option(
        "float32, bfloat16, float16, or auto for that of the saved weights.", group=MODEL
    )
    trust_remote_code: bool = flag(
        "--trust-remote-code", "Run code that comes with the model.", MODEL
    )


class CalibrationOptions:
    """How the model is calibrated, and how far it reads."""

    preset: str | None = option(
        f"Preset to apply: {', '.join(PRESETS)}; change fields as in paper+basket_size=64. Default: no change, "
        "in calibrate long.",
        group=MODEL,
    )
    calibration: Path | None = option(
        "JSON file of a calibration, or a folder with a calibration.json, instead of a preset.",
        group=MODEL,
    )
    tile_size: str | None = option(
        "Tokens per tile: 64, 128, 256, …, or window for as many as the plain model reads (the preset long).",
        group=MODEL,
    )
    max_seq_length: int | None = option(
        "Longest text to read, in tokens. Default: any length in tiles, otherwise the model's own limit.",
        group=MODEL,
    )


class EndpointOptions:
    """A model behind an HTTP endpoint instead of one that is loaded."""

    endpoint: str | None = option(
        "Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1, instead of MODEL. Its key is "
        "the environment variable OPENAI_API_KEY, if set.",
        group=MODEL,
    )
    endpoint_model: str | None = option("Name of the endpoint's model.", "--model", group=MODEL)


class RunningOptions:
    """Where a run goes, and what is shown of it."""

    picture: Path | None = option("Draw the main figure into this PNG, SVG or PDF.", group=RUN)
    out: Path | None = option(
        "Folder of the run. Default: one in fairspan-runs for this command.", group=RUN
    )
    store: Path | None = option(
        "File that stores the vectors. Default: in your cache folder.", group=RUN
    )
    fresh: bool = flag(
        "--fresh", "Measure again even if the run is complete; stored vectors are reused.", RUN
    )
    dry_run: bool = flag("--dry-run", "Print what would be embedded and how long it takes.", RUN)
    verbose: bool = flag(
        "--verbose", "Print every table of the page, such as regression coefficients.", RUN
    )
    as_json: bool = flag("--json", "Print the result as JSON.", RUN)


def shared(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the fields of option groups to a verb, which finds what was typed of them with `typed`."""

    def add(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=hint
            )
            for group in groups
            for name, hint in get_type_hints(group, include_extras=True).items()
        ]

        @wraps(verb)
        def wrapped(**given: Any) -> None:
            verb(**{name: given[name] for name in own.parameters})

        kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.parameters.values()]
        # What decides the form of the output comes last.
        parameters = sorted([*kept, *more], key=lambda one: one.name == "as_json")
        wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return add


calibrating = shared(CalibrationOptions)
studying = shared(LoadingOptions, RunningOptions)
studying_any = shared(EndpointOptions, LoadingOptions, RunningOptions)


def typed(context: typer.Context, *but: str) -> dict[str, Any]:
    """What was typed, by the names that the Python function has for it; defaults are left to that function."""
    given = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT" and name not in (*but, "as_json"):
            given[name] = value
    return given


def chosen_calibration(given: Mapping[str, Any]) -> Calibration | None:
    """What was typed of `CalibrationOptions`, which is a calibration or, if it is nothing, None."""
    preset, file = given.get("preset"), given.get("calibration")
    if preset is not None and file is not None:
        raise DesignError("preset and calibration both say what to start from: omit one of them.")
    if given.get("max_seq_length") is not None:
        require_whole("max_seq_length", given["max_seq_length"], kind=DesignError)
    found = None if file is None else read_calibration(file)
    if preset is not None:
        treatment = as_treatment(preset)
        if treatment != Treatment(treatment.name, treatment.calibration):
            raise DesignError(
                f"preset takes a calibration, such as {', '.join(PRESETS)}, got {preset!r}."
            )
        found = treatment.calibration
    size = given.get("tile_size")
    return found if size is None else as_calibration(found, tile_size=number_or_word(size))
