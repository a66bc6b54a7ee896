"""What pages say of a run: its facts, its settings, and names in place of local paths."""

from pathlib import Path

from fairspan.report.page import Pairs
from fairspan.report.text import model_name
from fairspan.runs.header import Header

_MOST_PLANS = 8


def facts_of(header: Header) -> Pairs:
    """The facts shown under a run's title."""
    facts = [("model", model_name(header.model.name)), *measured_on(header)]
    if header.documents is not None:
        facts.append(("documents", f"{header.documents:,}"))
    if header.plans and not header.task:
        more = " …" if len(header.plans) > _MOST_PLANS else ""
        facts.append(("languages", ", ".join(header.plans[:_MOST_PLANS]) + more))
    if not header.complete:
        facts.append(("status", header.status))
    facts.append(("finished", (header.finished or "not yet")[:16].replace("T", " ")))
    return tuple((name, value) for name, value in facts if value)


def measured_on(header: Header) -> list[tuple[str, str]]:
    """The task and how much was searched, or the corpus."""
    task = header.task
    if task is not None:
        counts = (("queries", task.queries), ("documents", task.documents))
        searched = ", ".join(f"{count:,} {what}" for what, count in counts if count)
        return [("task", source_name(task.source)), ("searched", searched)]
    return [("corpus", model_name(header.corpus.name))] if header.corpus else []


def source_name(source: str) -> str:
    """What was read, without folders: "beir:scifact" for "beir:/data/scifact"."""
    kind, colon, place = source.partition(":")
    return model_name(kind) + colon + model_name(place)


def settings_of(header: Header) -> Pairs:
    """What it was made with: weights, versions, machine. What was asked is shown beside it."""
    inside = header.model.transformer
    window = ""
    if inside is not None:
        window = f"{inside.window:,} {header.token_unit}" if inside.window else "any length"
    if len({treated.window for treated in header.windows}) > 1:
        window += "; shorter under some treatments: see the notes"
    precision = [] if inside is None else filter(None, (inside.dtype, inside.device))
    machine = header.machine
    versions = (f"{name} {version}" for name, version in header.versions.items())
    settings = [
        ("run", header.run),
        ("weights", header.model.fingerprint or "not fingerprinted"),
        ("max_seq_length", window),
        ("precision", ", ".join(precision)),
        ("started", header.started),
        ("rows", f"{header.rows:,}"),
        ("machine", f"{machine.system}, {machine.processor}, {machine.cores} cores"),
        ("versions", ", ".join(versions)),
    ]
    return tuple((name, value) for name, value in settings if value)


def places_of(header: Header, folder: Path) -> dict[str, str]:
    """Local paths, which a page must not show, and what it shows instead; the longest first."""
    sources = [*header.sources, *(header.task.names if header.task else ())]
    if header.corpus:
        sources.append(header.corpus.name)
    parts = {part for source in sources for part in source.split(":")}
    places = sorted({header.model.name, *parts, str(folder)}, key=len, reverse=True)
    return {place: name for place in places if (name := model_name(place)) != place}
