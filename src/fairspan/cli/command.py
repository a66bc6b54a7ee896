"""`command`: a function as a command of cyclopts, with fields of dataclasses as further options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, Unpack, get_type_hints

from cyclopts import App, Group, Parameter

from fairspan.cli.values import as_typed
from fairspan.encoding.calling import described

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
_REPEATED = ("guards",)
# Types of what only Python passes; they would load torch.
_UNLOADED = {"AnyModel": Any, "Progress": Any, "SentenceTransformer": Any}


def command(*classes: type, omitted: Collection[str] = ()) -> Callable[[Callable[..., None]], App]:
    """Turn a function into a command; `**typed` are the fields of `classes` that were typed.

    So each default is written once, where Python has it. Fields that are `omitted` are for Python
    only, and of two with one name the first counts. Docstrings are the help.
    """

    def build(verb: Callable[..., None]) -> App:
        """The command of a function."""
        hints = get_type_hints(verb)
        parameters = {
            name: item
            for name, item in inspect.signature(verb).parameters.items()
            if item.kind is not item.VAR_KEYWORD
        }
        further = _fields(classes, {*parameters, *omitted, "progress"})
        options = [name for name, item in parameters.items() if item.kind is item.KEYWORD_ONLY]
        flags = {name: _flag(name) for name in (*options, *further)}
        texts: dict[str, str] = {}
        for source in (*reversed(classes), verb):
            texts |= described(source)

        def annotated(name: str, hint: Any, default: Any, others: str) -> Any:
            """A type, and what cyclopts needs to know of the parameter of that name."""
            settings: dict[str, Any] = {
                "help": _help(texts.get(name, ""), flags),
                "show_default": _shown(default),
                "allow_leading_hyphen": name in _WITH_HYPHEN,
            }
            if name in flags:
                settings |= {"name": flags[name], "group": _SORTED[_GROUP_OF.get(name, others)]}
            return Annotated[as_typed(hint, repeated=name in _REPEATED), Parameter(**settings)]

        for name, item in parameters.items():
            verb.__annotations__[name] = annotated(name, hints[name], item.default, "Options")
        if further:
            kinds = {name: annotated(name, *field, "Advanced") for name, field in further.items()}
            # mypy takes names that it can read.
            typed = TypedDict("Typed", kinds, total=False)  # type: ignore[misc]
            verb.__annotations__["typed"] = Unpack[typed]
        app = App(name=verb.__name__, help=_about(verb))
        app.default(verb)
        return app

    return build


def _fields(classes: Collection[type], omitted: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """The types and defaults of fields, in the order of `GROUPS`."""
    options: dict[str, tuple[Any, Any]] = {}
    for kind in classes:
        hints = get_type_hints(kind, localns=_UNLOADED)
        for field in fields(kind):
            if field.name not in omitted:
                options.setdefault(field.name, (hints[field.name], field.default))
    order = [*_GROUP_OF, *options]
    return dict(sorted(options.items(), key=lambda option: order.index(option[0])))


def _about(verb: Callable[..., None]) -> str:
    """The text of a docstring. Terminals wrap paragraphs; lines that are indented stay."""
    text = inspect.cleandoc(verb.__doc__ or "").partition("\n\nArgs:\n")[0]
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def _flag(name: str) -> str:
    """How the option of that name is typed."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _shown(default: Any) -> str | bool:
    """A default as it would be typed; False for none."""
    shown = isinstance(default, str | int | float | tuple | Path)
    if not shown or isinstance(default, bool) or default in ((), ""):
        return False
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _help(text: str, flags: Mapping[str, str]) -> str:
    """The text of a docstring for a terminal: options as they are typed, and nothing on Python."""
    text = text.partition(" In Python")[0]
    for name, flag in flags.items():
        text = text.replace(f"`{name}`", flag)
    return text[:1].upper() + text[1:]


def taken(options: type[T], typed: Mapping[str, Any]) -> T:
    """A dataclass with what was typed of its fields."""
    return options(**of_fields(options, typed))


def of_fields(options: Any, typed: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed of the fields of a dataclass."""
    names = {field.name for field in fields(options)}
    return {name: value for name, value in typed.items() if name in names}
