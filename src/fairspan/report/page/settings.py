"""What a run was made with, for people: facts for the head of a page, settings and versions for its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairspan.report.tables.text import model_name
from fairspan.runs.log import RunLog

INFERENCES = {
    "auto": "chosen by the number of sets and whether they share segments",
    "cr1": "CR1 clustered errors, t with G − 1 degrees of freedom",
    "z": "CR1 clustered errors, normal quantiles as in the published tables",
    "cr2": "CR2 clustered errors with Satterthwaite's degrees of freedom",
    "cr3": "CR3 clustered errors (jackknife)",
    "wild": "wild cluster bootstrap",
    "two-way": "two-way clusters, sets and segments",
}


def facts_of(log: RunLog) -> tuple[tuple[str, str], ...]:
    """The few that stand under a run's title."""
    header = log.header
    found = [("model", model_name(log.model))]
    task, corpus = header.get("task"), header.get("corpus")
    if task:
        counted = f"{task['queries']:,} queries" + (f", {task['documents']:,} documents" if task["documents"] else "")
        kind, colon, place = str(task["source"]).partition(":")
        found += [("task", kind + colon + model_name(place) if colon else model_name(kind)), ("asked", counted)]
    elif corpus:
        found.append(("corpus", model_name(str(corpus["name"]))))
    if "documents" in header:
        found.append(("documents", f"{header['documents']:,}"))
    if header.get("plans") and not task:
        found.append(("languages", ", ".join(header["plans"][:8]) + (" …" if len(header["plans"]) > 8 else "")))
    if log.status != "complete":
        found.append(("status", log.status))
    found.append(("finished", str(header.get("finished") or "not yet")[:16].replace("T", " ")))
    return tuple(found)


def settings_of(log: RunLog) -> tuple[tuple[str, str], ...]:
    """Everything needed to do it again: seeds, weights, versions, machine."""
    header = log.header
    model = header["model"]
    found = [
        ("run", log.run),
        ("model", log.model),
        ("weights", str(model.get("fingerprint") or "not fingerprinted")),
        (
            "window",
            f"{model['window']:,} {header.get('token_unit', 'tokens')}" if model.get("window") else "no limit",
        ),
        ("precision", ", ".join(str(model[name]) for name in ("dtype", "device") if model.get(name))),
        ("seed", str(header.get("seed"))),
        ("inference", _inference(log.spec)),
        ("margin of fairness" if header["verb"] == "audit" else "margin", _margin(log.spec)),
        ("started", str(header.get("started"))),
        ("finished", str(header.get("finished"))),
        ("rows", f"{header.get('rows', 0):,}"),
        ("machine", ", ".join(f"{value}" for value in header.get("machine", {}).values()) + " cores"),
        ("versions", ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items())),
    ]
    return tuple((name, value) for name, value in found if value)


def spec_text(log: RunLog) -> str:
    """The whole spec as JSON."""
    return json.dumps(log.spec, ensure_ascii=False, indent=2)


def methods_of(log: RunLog) -> str:
    """The template that tells in plain words how it was measured."""
    return f"methods-{log.header['verb']}.html"


def _inference(spec: Mapping[str, Any]) -> str:
    name = spec.get("inference")
    return f"{name}: {INFERENCES.get(str(name), '')}" if name else ""


def _margin(spec: Mapping[str, Any]) -> str:
    return f"±{spec['margin']:g}" if spec.get("margin") is not None else ""
