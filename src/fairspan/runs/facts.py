"""What a run was made with, in words: facts for the head of a page, settings and versions for its end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairspan.report.page import Pairs
from fairspan.report.text import model_name

Header = Mapping[str, Any]


def facts_of(header: Header) -> Pairs:
    """The facts shown under a run's title."""
    found = [("model", model_name(header["model"]["name"]))]
    task, corpus = header.get("task"), header.get("corpus")
    if task:
        kind, colon, place = str(task["source"]).partition(":")
        found.append(("task", model_name(kind) + colon + model_name(place)))
        counted = [f"{task[what]:,} {what}" for what in ("queries", "documents") if task.get(what)]
        found.append(("searched", ", ".join(counted)))
    elif corpus:
        found.append(("corpus", model_name(str(corpus["name"]))))
    if "documents" in header:
        found.append(("documents", f"{header['documents']:,}"))
    if header.get("plans") and not task:
        found.append(("languages", ", ".join(header["plans"][:8]) + (" …" if len(header["plans"]) > 8 else "")))
    if header["status"] != "complete":
        found.append(("status", header["status"]))
    found.append(("finished", str(header.get("finished") or "not yet")[:16].replace("T", " ")))
    return tuple((name, value) for name, value in found if value)


def settings_of(header: Header) -> Pairs:
    """What it was made with: weights, versions, machine. What was asked is shown beside it."""
    model = header["model"]
    unit, windows = header.get("token_unit", "tokens"), {one["window"] for one in header.get("windows", ())}
    window = f"{model['window']:,} {unit}" if model.get("window") else "no limit"
    if len(windows) > 1:
        window += "; shorter under some treatments: see the notes"
    found = [
        ("run", header["run"]),
        ("weights", str(model.get("fingerprint") or "not fingerprinted")),
        ("max_seq_length", window),
        ("precision", ", ".join(str(model[name]) for name in ("dtype", "device") if model.get(name))),
        ("started", str(header.get("started"))),
        ("rows", f"{header.get('rows', 0):,}"),
        ("machine", ", ".join(f"{value}" for value in header.get("machine", {}).values()) + " cores"),
        ("versions", ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items())),
    ]
    return tuple((name, value) for name, value in found if value)


def places_of(header: Header, folder: Path) -> dict[str, str]:
    """Local paths, which a page must not show, and what it shows instead; the longest first."""
    corpus, task = header.get("corpus") or {}, header.get("task") or {}
    read = [*header.get("sources", ()), corpus.get("name"), *(task.get("names") or ())]
    parts = [part for source in read if source for part in str(source).split(":")]
    known = sorted({header["model"]["name"], *parts, str(folder)}, key=len, reverse=True)
    return {place: name for place in known if (name := model_name(place)) != place}
