"""Options that several verbs share, and how what was typed becomes keywords of the Python function."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.file import read_calibration
from fairspan.cli.plain import takes_any_text
from fairspan.errors import CalibrationError, DesignError, require_whole

if TYPE_CHECKING:
    from fairspan.encoding.endpoint import Endpoint

# Commas inside brackets belong to a value, as in paper+layers=[1,3].
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


def option(help: str, *names: str, default: Any = None) -> Any:
    """An option of a verb; a default of False with a name makes it a flag."""
    return typer.Option(default, *names, help=help)


def print_json(value: Any) -> None:
    """A result on stdout, for programs."""
    # Escaped, a character stays what it is; written plainly it would be another.
    typer.echo(json.dumps(value, ensure_ascii=not takes_any_text(), indent=2, allow_nan=False))


def words(text: str) -> list[str]:
    """ "en, de" as ["en", "de"]."""
    return [word.strip() for word in _COMMA.split(text) if word.strip()]


def whole_numbers(name: str, text: str) -> list[int]:
    """ "3,4" as [3, 4]."""
    found = words(text)
    if not found or not all(word.isascii() and word.isdecimal() for word in found):
        raise DesignError(f"[[{name}]] takes whole numbers such as 3,4,5, got {text!r}.")
    return [int(word) for word in found]


def numbers(name: str, text: str) -> list[float]:
    """ "1,0.9" as [1.0, 0.9]."""
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise DesignError(f"[[{name}]] takes numbers such as 1.0,0.9,0.8, got {text!r}.") from None


# Options that are typed as one word and are lists in Python, the same in every verb.
_LISTS: dict[str, Callable[[str, str], list[Any]]] = {
    **dict.fromkeys(
        ("languages", "mixed", "treatments", "measures", "indexes", "metrics"), lambda name, text: words(text)
    ),
    **dict.fromkeys(("sizes", "lengths"), whole_numbers),
    **dict.fromkeys(("temperatures", "temperature_grid"), numbers),
}

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
BatchTokens = Annotated[int | None, typer.Option(help="Number of tokens in a batch, padding included.")]
ModelName = Annotated[
    str | None,
    typer.Argument(help="A SentenceTransformer: a folder or a name on the hub. Default: all-MiniLM-L6-v2."),
]
CorpusPath = Annotated[
    str | None,
    typer.Option(help="sample, a folder with en.jsonl, de.jsonl, …, a JSONL or Parquet file, or a dataset."),
]
Prompt = Annotated[str | None, typer.Option(help="Text put before every document. Default: the model's own.")]


class LoadingOptions:
    """How the model is loaded."""

    window: int | None = option(
        "Longest text to read, in tokens. Beyond the model's positions, only treatments in tiles read on."
    )
    device: str | None = option("cpu, cuda or mps.")
    dtype: str | None = option("float32, bfloat16, float16, or auto for that of the saved weights.")
    trust_remote_code: bool = option("Run code that comes with the model.", "--trust-remote-code", default=False)


class CalibrationOptions:
    """How the model is calibrated, and how far it reads."""

    preset: str | None = option(f"Preset to apply: {', '.join(PRESETS)}. Default: the model as it is.")
    calibration: Path | None = option(
        "JSON file of a calibration to start from, or a folder with a calibration.json, in place of a preset."
    )
    max_seq_length: int | None = option(
        "Longest text to read, in tokens. Texts in tiles may be longer than the model's own limit."
    )


class EndpointOptions:
    """A model that is asked for vectors over HTTP, in place of one that is loaded."""

    endpoint: str | None = option(
        "Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1, in place of MODEL."
    )
    endpoint_model: str | None = option("Name of the model that the endpoint has.", "--model")
    api_key_env: str | None = option(
        "Environment variable that holds the key of the endpoint. Default: OPENAI_API_KEY, if it is set."
    )
    dimensions: int | None = option("Length of the vectors to ask the endpoint for.")
    body: str | None = option("Further fields of every request to the endpoint, as JSON.")
    query_body: str | None = option("The same for queries, in place of --body.")
    concurrency: int | None = option("Number of requests to the endpoint at a time. Default: 4.")


class RunningOptions:
    """Where a run goes."""

    out: Path | None = option("Folder of the run. Default: one in fairspan-runs that belongs to this command.")
    store: Path | None = option("File that keeps the vectors. Default: in your cache folder.")
    batch_tokens: BatchTokens = None
    fresh: bool = option(
        "Measure again even if the run is complete; vectors in the store are used.", "--fresh", default=False
    )


def shared(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the fields of option groups to a verb, which finds what was typed of them with `typed`."""

    def add(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=hint)
            for group in groups
            for name, hint in get_type_hints(group, include_extras=True).items()
        ]

        @wraps(verb)
        def wrapped(**given: Any) -> None:
            verb(**{name: given[name] for name in own.parameters})

        last = own.parameters["as_json"]
        kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.parameters.values() if one != last]
        parameters = [*kept, *more, last.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return add


def typed(context: typer.Context, *but: str) -> dict[str, Any]:
    """What was typed, by the names that the Python function has for it; defaults are left to that function."""
    given = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is None or source.name == "DEFAULT" or name in (*but, "as_json"):
            continue
        is_list = name in _LISTS and isinstance(value, str) and (name, value) != ("mixed", "all")
        given[name] = _LISTS[name](name, value) if is_list else value
    return given


def take_endpoint(given: dict[str, Any]) -> Endpoint | None:
    """The endpoint that was typed, its options taken out of what was given; None if there is none."""
    own = {name: given.pop(name) for name in get_type_hints(EndpointOptions) if name in given}
    if not own:
        return None
    if "endpoint" not in own:
        name = next(iter(own)).replace("endpoint_", "")
        raise DesignError(f"[[{name}]] is for a model behind an [[endpoint=]]: name its address, or omit [[{name}]].")
    if "endpoint_model" not in own:
        raise DesignError("an [[endpoint=]] needs the name of a model: give it with [[model=]].")
    from fairspan.encoding.endpoint import Endpoint

    for name in ("body", "query_body"):
        try:
            own |= {name: json.loads(own[name])} if name in own else {}
        except ValueError:
            raise DesignError(f"[[{name}]] takes a JSON object, got {own[name]!r}.") from None
    return Endpoint(own.pop("endpoint"), own.pop("endpoint_model"), **own)


def pick(given: dict[str, Any], group: type) -> dict[str, Any]:
    """Those that belong to a group."""
    return {name: given[name] for name in get_type_hints(group) if name in given}


def chosen_calibration(given: Mapping[str, Any]) -> Calibration | None:
    """The preset or the file that was typed of `CalibrationOptions`; None for the model as it is."""
    preset, file = given.get("preset"), given.get("calibration")
    if preset is not None and file is not None:
        raise CalibrationError("[[preset]] and [[calibration]] both say what to start from: omit one of them.")
    if given.get("max_seq_length") is not None:
        require_whole("max_seq_length", given["max_seq_length"], kind=CalibrationError)
    if file is not None:
        return read_calibration(file)
    return None if preset is None else Calibration.preset(preset)
