"""Docstrings, and functions that `call_of` makes, as the reference shows them: read from the source alone."""

import inspect
import re
from typing import Any

import griffe


class Verbs(griffe.Extension):
    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:  # of several names in one line griffe would know neither type nor default
            several = re.compile(r"^( +)((?:\w+, )+)(\w+): ", re.MULTILINE)
            obj.docstring.value = several.sub(one_by_one, obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in modules(pkg):
            for name, member in list(module.members.items()):
                value = None if member.is_alias else getattr(member, "value", None)
                if isinstance(value, griffe.ExprCall) and str(value.function) == "call_of":
                    options, run = (module[str(one)] for one in value.arguments[:2])
                    module.set_member(name, verb(name, options, run))


def one_by_one(line: re.Match[str]) -> str:
    indent, names, last = line.groups()
    return (
        "".join(f"{indent}{name}: see `{last}`.\n" for name in names.split(", ") if name)
        + f"{indent}{last}: "
    )


def modules(module: griffe.Module) -> Any:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from modules(inner)


def verb(name: str, options: Any, run: Any) -> griffe.Function:
    """As in `call_of`: the fields of the dataclass are the parameters, and every base documents its own."""
    docs = [
        inspect.cleandoc(kind.docstring.value)
        for kind in (options, *options.mro())
        if kind.docstring
    ]
    fields = "\n".join(doc.partition("Attributes:\n")[2] for doc in docs)
    parameters = griffe.Parameters(
        *(simple(one) for one in options.parameters if one.name != "self")
    )
    function = griffe.Function(name, parameters=parameters, returns=run.returns)
    function.docstring = griffe.Docstring(
        f"{inspect.cleandoc(run.docstring.value)}\n\nArgs:\n{fields}", parent=function
    )
    return function


def simple(parameter: griffe.Parameter) -> griffe.Parameter:
    """A field that is declared with `source(default)` shows its default."""
    if str(parameter.default).startswith("source("):
        parameter.default = str(parameter.default)[len("source(") : -1] or "None"
    return parameter
