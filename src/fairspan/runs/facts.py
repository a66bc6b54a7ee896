"""What a run was made with, in words: facts for the head of a page, settings and versions for its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from fairspan.report.page import Pairs, Part, json_download, row_download
from fairspan.report.text import changed, model_name

if TYPE_CHECKING:
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
# Bytes of a page that raw rows may take, all runs together: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000


def part_of(log: RunLog, label: str = "", room: int = ROOM_FOR_ROWS) -> Part:
    """A run as a part of a page."""
    places = _places(log)

    def shared(text: str) -> str:
        for place, name in places.items():
            text = text.replace(place, name)
        return text

    statistics = {key: value for key, value in log.to_dict().items() if key != "folder"}
    return Part(
        label=label or model_name(log.model),
        view=changed(log.view, shared) if places else log.view,
        facts=facts_of(log),
        settings=settings_of(log),
        spec=json.dumps(changed(log.spec, shared), ensure_ascii=False, indent=2),
        downloads=(
            row_download(log.run, log.rows.with_columns(pl.col("model").replace(places)), room),
            json_download(f"{log.run}-statistics.json", "statistics (JSON)", changed(statistics, shared)),
        ),
    )


def facts_of(log: RunLog) -> Pairs:
    """The facts shown under a run's title."""
    header = log.header
    found = [("model", model_name(log.model))]
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
    if log.status != "complete":
        found.append(("status", log.status))
    found.append(("finished", str(header.get("finished") or "not yet")[:16].replace("T", " ")))
    return tuple((name, value) for name, value in found if value)


def settings_of(log: RunLog) -> Pairs:
    """Everything needed to do it again: seeds, weights, versions, machine."""
    header, spec, model = log.header, log.spec, log.header["model"]
    unit, windows = header.get("token_unit", "tokens"), {one["window"] for one in header.get("windows", ())}
    window = f"{model['window']:,} {unit}" if model.get("window") else "no limit"
    if len(windows) > 1:
        window += "; shorter under some treatments: see the notes"
    inference = spec.get("inference")
    found = [
        ("run", log.run),
        ("model", model_name(log.model)),
        ("weights", str(model.get("fingerprint") or "not fingerprinted")),
        ("window", window),
        ("precision", ", ".join(str(model[name]) for name in ("dtype", "device") if model.get(name))),
        ("seed", str(header.get("seed", ""))),
        ("inference", f"{inference}: {INFERENCES.get(str(inference), '')}" if inference else ""),
        ("margin", f"±{spec['margin']:g}" if spec.get("margin") is not None else ""),
        ("started", str(header.get("started"))),
        ("finished", str(header.get("finished") or "not yet")),
        ("rows", f"{header.get('rows', 0):,}"),
        ("machine", ", ".join(f"{value}" for value in header.get("machine", {}).values()) + " cores"),
        ("versions", ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items())),
    ]
    return tuple((name, value) for name, value in found if value)


def _places(log: RunLog) -> dict[str, str]:
    """Local paths, which a page must not show, and what it shows instead; the longest first."""
    header, spec = log.header, log.spec
    tables = [spec, *spec.get("tasks", ()), *spec.get("guards", ())]
    read = [table.get(name) for table in tables for name in ("corpus", "fit_corpus", "labelled", "task", "documents")]
    corpus, task = header.get("corpus") or {}, header.get("task") or {}
    read += [corpus.get("name"), *(task.get("names") or ())]
    parts = [part for source in read if source for part in str(source).split(":")]
    known = sorted({log.model, *parts, str(log.folder)}, key=len, reverse=True)
    return {place: name for place in known if (name := model_name(place)) != place}
