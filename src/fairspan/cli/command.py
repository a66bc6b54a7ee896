"""`command`: a command whose options are parameters of a function and fields of dataclasses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, Group, Parameter

from fairspan.encoding.calling import described
from fairspan.errors import DesignError

T = TypeVar("T")

GROUPS = {
    "Options": "",
    "Data": "corpus languages language mixed sizes sets opening lengths natural documents labelled "
    "parts guards side text_field id_field only_longer_than_window",
    "Measurement": "treatments candidates temperatures measures indexes metrics metric margin",
    "Model": "endpoint endpoint_model preset calibration tile_size max_seq_length device",
    "Run": "out strict picture dry_run verbose fail_if as_json",
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
# Commas inside brackets belong to a value, as in paper+layers=[1,3].
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


def command(*classes: type) -> Callable[[Callable[..., None]], App]:
    """Turn a function into a command, with the fields of `classes` as further options.

    The function is called with what was typed and nothing else, so that each default is written
    once. Docstrings are the help. If two sources have an option of one name, the first counts.
    """

    def build(verb: Callable[..., None]) -> App:
        """The command of a function."""
        options: dict[str, Option] = {}
        sources: list[Callable[..., Any]] = [verb, *classes]
        for source in sources:
            texts = described(source)
            # Arguments come from the first source that has some.
            has_arguments = any(option.is_argument for option in options.values())
            for name, parameter in inspect.signature(source).parameters.items():
                if has_arguments:
                    parameter = parameter.replace(kind=parameter.KEYWORD_ONLY)
                group = _GROUP_OF.get(name, "Options" if source is verb else "Advanced")
                option = Option(parameter, texts.get(name, ""), group)
                if option.can_be_typed:
                    options.setdefault(name, option)
        arguments = [name for name, option in options.items() if option.is_argument]

        def call(*values: Any, **typed: Any) -> None:
            verb(**dict(zip(arguments, values, strict=False)), **typed)

        order = [*arguments, *(name for name in _GROUP_OF if name not in arguments), *options]
        names = sorted(options, key=order.index)
        parameters = [options[name].as_parameter(options) for name in names]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        about = inspect.cleandoc(verb.__doc__ or "").partition("\n\nArgs:\n")[0]
        # Terminals wrap paragraphs; lines that are indented stay as they are.
        app = App(name=verb.__name__, help=re.sub(r"(?<=\S)\n(?=\S)", " ", about))
        app.default(call)
        return app

    return build


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter in Python, what its docstring says, and its group in `--help`."""

    parameter: inspect.Parameter
    text: str
    group: str

    @property
    def is_argument(self) -> bool:
        return self.parameter.kind is self.parameter.POSITIONAL_OR_KEYWORD

    @property
    def type(self) -> str:
        """The type as it is written."""
        annotation = self.parameter.annotation
        return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    @property
    def can_be_typed(self) -> bool:
        only_python = re.search(r"Progress|^(collections\.abc\.)?Mapping", self.type)
        return self.parameter.kind is not self.parameter.VAR_KEYWORD and not only_python

    def as_parameter(self, names: Container[str]) -> inspect.Parameter:
        """The parameter as cyclopts reads it; `names` are those of all options."""
        name = self.parameter.name
        default = self.parameter.default
        kind, settings = self._reading()
        settings |= {
            "help": _help(self.text, names),
            "allow_leading_hyphen": name in _WITH_HYPHEN,
            "show_default": _shown(default),
        }
        if not self.is_argument:
            settings |= {
                "name": _flag(name),
                "group": _SORTED[self.group],
                "negative": _flag(name).replace("--", "--no-") if default is True else "",
                # The last one counts, so that a script can add to a command.
                "allow_repeating": True,
            }
        return inspect.Parameter(
            name,
            self.parameter.POSITIONAL_ONLY if self.is_argument else self.parameter.KEYWORD_ONLY,
            # Python has the default. cyclopts would check it against the type.
            default=default if default in (inspect.Parameter.empty, True, False) else None,
            annotation=Annotated[kind, Parameter(**settings)],
        )

    def _reading(self) -> tuple[Any, dict[str, Any]]:
        """The type of what is typed, and the settings that convert it."""
        listed = re.findall(r"\w+", self.type)
        kinds = [_TYPES[word] for word in listed if word in _TYPES] or [str]
        kind: Any = kinds[0]
        if "Sequence" in listed:
            if self.is_argument or self.parameter.name in _REPEATED:
                return list[kind] | None, {}
            metavar = "A,B,…" if kind is str else "1,2,…"
            return Any, {"converter": self._list_reader(kind), "metavar": metavar}
        if kind is int and "str" in listed:
            return Any, {"converter": _number_or_word, "metavar": "INT|WORD"}
        return (bool if kind is bool else kind | None), {}

    def _list_reader(self, kind: Any) -> Callable[..., list[Any]]:
        """What reads a list that is typed as one word."""

        def read(_: Any, tokens: Any) -> list[Any]:
            """The values of the last word that was typed."""
            text = tokens[-1].value
            try:
                values = [kind(word) for word in words(text)]
            except ValueError:
                values = []
            if text and not values:
                raise DesignError(f"{self.parameter.name} takes {_EXAMPLES[kind]}, got {text!r}.")
            return values

        return read


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


def _number_or_word(_: Any, tokens: Any) -> int | str:
    text: str = tokens[-1].value
    return int(text) if text.isdecimal() else text


def _flag(name: str) -> str:
    """How the option of that name is typed."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _shown(default: Any) -> str | bool:
    """A default as it would be typed; False for none."""
    if isinstance(default, bool) or default in (None, inspect.Parameter.empty, (), ""):
        return False
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _help(text: str, names: Container[str]) -> str:
    """The text of a docstring for a terminal: options as they are typed, and nothing on Python."""
    text = text.partition(" In Python")[0]
    text = re.sub(r"`([^`]+)`", lambda code: _flag(code[1]) if code[1] in names else code[1], text)
    return text[:1].upper() + text[1:]
