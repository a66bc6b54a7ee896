"""Docstrings, and functions under `@call_of`, for the reference: read from the source alone."""

import inspect
import re
from typing import Any

import griffe

# "first, second: text": of several names in one line griffe would know neither type nor default.
SEVERAL = re.compile(r"^( +)((?:\w+, )+)(\w+): ", re.MULTILINE)


class Verbs(griffe.Extension):
    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = SEVERAL.sub(one_by_one, obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in modules(pkg):
            for function in module.functions.values():
                for decorator in () if function.is_alias else function.decorators:
                    if str(decorator.value).startswith("call_of("):
                        take_fields(function, module[str(decorator.value.arguments[0])])


def one_by_one(line: re.Match[str]) -> str:
    indent, names, last = line.groups()
    others = [f"{indent}{name}: see `{last}`.\n" for name in names.split(", ") if name]
    return "".join(others) + f"{indent}{last}: "


def modules(module: griffe.Module) -> Any:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from modules(inner)


def take_fields(function: griffe.Function, options: Any) -> None:
    """As in `call_of`: the fields are the parameters, and every base documents its own."""
    classes = (options, *options.mro())
    docs = [inspect.cleandoc(kind.docstring.value) for kind in classes if kind.docstring]
    listed = "\n".join(doc.partition("Attributes:\n")[2] for doc in docs)
    function.docstring.value = f"{inspect.cleandoc(function.docstring.value)}\n\nArgs:\n{listed}"
    function.parameters = griffe.Parameters(
        *(simple(field) for field in options.parameters if field.name != "self")
    )


def simple(parameter: griffe.Parameter) -> griffe.Parameter:
    """A field that is declared with `source(default)` shows its default."""
    if str(parameter.default).startswith("source("):
        parameter.default = str(parameter.default)[len("source(") : -1] or "None"
    return parameter
