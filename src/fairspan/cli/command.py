"""`command`: a command whose options are parameters of a function and fields of dataclasses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, Group, Parameter

from fairspan.encoding.calling import described
from fairspan.errors import DesignError

T = TypeVar("T")

GROUPS = {
    "Options": "",
    "Data": "corpus languages mixed sizes sets query_words opening lengths natural documents "
    "guards side text_field id_field only_longer_than_window",
    "Measurement": "treatments candidates measures vectors metrics margin",
    "Model": "endpoint endpoint_model preset calibration tile_size max_seq_length device",
    "Run": "out picture dry_run verbose fail_if as_json",
    "Advanced": "",
}
"""The groups of `--help` and their options, in order. Other parameters of a command's function are
under Options, and other fields of dataclasses under Advanced."""
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}
_SORTED = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS, 1)}
_FLAGS = {"as_json": "--json", "endpoint_model": "--model", "guards": "--guard"}
# Values that may begin with a hyphen: a text, and `-` for stdin.
_WITH_HYPHEN = ("file", "prompt", "query_prompt")
# Typed once for each value. All other lists are typed as one word, such as en,de.
_REPEATED = ("guards", "dump")
_TYPES = {"bool": bool, "int": int, "float": float, "Path": Path}
_EXAMPLES = {
    int: "whole numbers such as 3,4",
    float: "numbers such as 1.0,0.9",
    str: "words such as en,de",
}
# Commas inside brackets belong to a value, as in paper+layers=[1,3], and that of q 1, d 0.8, too.
_COMMA = re.compile(r",(?![^\[{]*[\]}])(?! ?d [\d.])")


def command(*classes: type, omitted: Sequence[str] = ()) -> Callable[[Callable[..., None]], App]:
    """Turn a function into a command, with the fields of `classes` as further options.

    Those that are `omitted` are for Python only.

    The function is called with what was typed and nothing else, so that each default is written
    once. Docstrings are the help. If two sources have an option of one name, the first counts.
    """

    def build(verb: Callable[..., None]) -> App:
        """The command of a function."""
        parameters = _parameters(verb, classes)
        parameters = {name: item for name, item in parameters.items() if name not in omitted}
        arguments = [name for name, option in parameters.items() if _is_argument(option)]

        def call(*values: Any, **typed: Any) -> None:
            verb(**dict(zip(arguments, values, strict=False)), **typed)

        order = [*arguments, *_GROUP_OF, *parameters]
        listed = sorted(parameters.values(), key=lambda option: order.index(option.name))
        call.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        call.__annotations__ = {option.name: option.annotation for option in listed}
        about = inspect.cleandoc(verb.__doc__ or "").partition("\n\nArgs:\n")[0]
        # Terminals wrap paragraphs; lines that are indented stay as they are.
        app = App(name=verb.__name__, help=re.sub(r"(?<=\S)\n(?=\S)", " ", about))
        app.default(call)
        return app

    return build


def _parameters(verb: Callable[..., None], classes: Sequence[type]) -> dict[str, inspect.Parameter]:
    """What can be typed, as cyclopts reads it; arguments are of the first source that has some."""
    callables: list[Callable[..., Any]] = [verb, *classes]
    sources = {source: _typed_parameters(source) for source in callables}
    names = {name for parameters in sources.values() for name in parameters}
    options: dict[str, inspect.Parameter] = {}
    for source, parameters in sources.items():
        texts = described(source)
        others = "Options" if source is verb else "Advanced"
        has_arguments = any(map(_is_argument, options.values()))
        for name, parameter in parameters.items():
            group: str | None = _GROUP_OF.get(name, others)
            if not has_arguments and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                group = None
            option = _option(parameter, _help(texts.get(name, ""), names), group)
            options.setdefault(name, option)
    return options


def _option(parameter: inspect.Parameter, text: str, group: str | None) -> inspect.Parameter:
    """A parameter as cyclopts reads it; an argument has no group."""
    default = parameter.default
    kind, settings = _reading(parameter, is_argument=group is None)
    settings["help"] = text
    settings["allow_leading_hyphen"] = parameter.name in _WITH_HYPHEN
    settings["show_default"] = _shown(default)
    if group is not None:
        flag = _flag(parameter.name)
        negative = flag.replace("--", "--no-") if default is True else ""
        settings |= {"name": flag, "group": _SORTED[group], "negative": negative}
        # The last one counts, so that a script can add to a command.
        settings["allow_repeating"] = True
    return inspect.Parameter(
        parameter.name,
        parameter.POSITIONAL_ONLY if group is None else parameter.KEYWORD_ONLY,
        # Python has the default. cyclopts would check it against the type.
        default=default if default in (inspect.Parameter.empty, True, False) else None,
        annotation=Annotated[kind, Parameter(**settings)],
    )


def _is_argument(option: inspect.Parameter) -> bool:
    return option.kind is option.POSITIONAL_ONLY


def _typed_parameters(source: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that can be typed, with their types as they are written."""
    typed = {}
    for name, parameter in inspect.signature(source).parameters.items():
        kind = parameter.annotation
        kind = kind if isinstance(kind, str) else inspect.formatannotation(kind)
        only_python = re.search(r"Progress|^(collections\.abc\.)?Mapping\[str", kind)
        if parameter.kind is not parameter.VAR_KEYWORD and not only_python:
            typed[name] = parameter.replace(annotation=kind)
    return typed


def _reading(parameter: inspect.Parameter, *, is_argument: bool) -> tuple[Any, dict[str, Any]]:
    """The type of what is typed, and the settings that convert it."""
    listed = re.findall(r"\w+", parameter.annotation)
    kind: Any = next((_TYPES[word] for word in listed if word in _TYPES), str)
    if "Mapping" in listed and kind is int:
        return Any, {"converter": partial(_read_counts, parameter.name), "metavar": "INT|1:2,…"}
    if "Sequence" in listed:
        if is_argument or parameter.name in _REPEATED:
            return list[kind] | None, {}
        metavar = "A,B,…" if kind is str else "1,2,…"
        read_as = str if "str" in listed else kind
        return Any, {"converter": partial(_read_list, parameter.name, read_as), "metavar": metavar}
    if kind is int and "str" in listed:
        return Any, {"converter": _number_or_word, "metavar": "INT|WORD"}
    return (bool if kind is bool else kind | None), {}


def _read_list(name: str, kind: Any, _: Any, tokens: Any) -> list[Any]:
    """The values of the last word that was typed."""
    text = tokens[-1].value
    try:
        values = [kind(word) for word in words(text)]
    except ValueError:
        values = []
    if text and not values:
        raise DesignError(f"{name} takes {_EXAMPLES[kind]}, got {text!r}.")
    return values


def _read_counts(name: str, _: Any, tokens: Any) -> int | dict[int, int]:
    """The number, or the numbers by number, of the last word that was typed."""
    text = tokens[-1].value
    try:
        if ":" not in text:
            return int(text)
        pairs = [word.split(":") for word in words(text)]
        return {int(number): int(count) for number, count in pairs}
    except ValueError:
        form = "a number, or pairs such as 3:167,4:42"
        raise DesignError(f"{name} takes {form}, got {text!r}.") from None


def _number_or_word(_: Any, tokens: Any) -> int | str:
    text: str = tokens[-1].value
    return int(text) if text.isdecimal() else text


def taken(options: type[T], typed: Mapping[str, Any]) -> T:
    """A dataclass with what was typed of its fields."""
    return options(**of_fields(options, typed))


def of_fields(options: Any, typed: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed of the fields of a dataclass."""
    names = {field.name for field in fields(options)}
    return {name: value for name, value in typed.items() if name in names}


def words(text: str) -> list[str]:
    """ "en, de" as ["en", "de"]."""
    return [word.strip() for word in _COMMA.split(text) if word.strip()]


def _flag(name: str) -> str:
    """How the option of that name is typed."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _shown(default: Any) -> str | bool:
    """A default as it would be typed; False for none."""
    shown = isinstance(default, str | int | float | tuple | Path)
    if not shown or isinstance(default, bool) or default in ((), ""):
        return False
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _help(text: str, names: Container[str]) -> str:
    """The text of a docstring for a terminal: options as they are typed, and nothing on Python."""
    text = text.partition(" In Python")[0]
    text = re.sub(r"`([^`]+)`", lambda code: _flag(code[1]) if code[1] in names else code[1], text)
    return text[:1].upper() + text[1:]
