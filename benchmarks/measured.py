"""What search finds with models as they are published: tables and pictures of README and docs/.

    python -m benchmarks.measured FILE.npz …    # files of `benchmarks.level`
    python -m benchmarks.measured FILE.json …   # files of `benchmarks.keywords`
    python -m benchmarks.measured FOLDER …      # runs of `fairspan audit`, and of the demo
    python -m benchmarks.measured               # make the pages again

The figures of a model go to benchmarks/measured/NAME.json, where NAME is that of the file or
folder, and pages are made of all these files. Pictures need Pillow.
One half of the queries chose the default, and the other half is what the pages show.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import t as student

import fairspan
from benchmarks.measure import short, with_few_colours
from fairspan.report.drawing import COLOURS, DASHES, SHAPES, figure_bytes

Facts = dict[str, Any]
ROOT = Path(__file__).parents[1]
FACTS = ROOT / "benchmarks/measured"
DOCS = ROOT / "docs"
PAGE = DOCS / "measured.md"
VECTORS_PAGE = DOCS / "evaluate.md"
LEVEL_PAGE = DOCS / "findings/level.md"
README = ROOT / "README.md"
MIXED = ("mixed docs", "mixed wikipedia", "mixed essays")
TITLES = {
    "essays": "essays",
    "docs": "documentation",
    "wikipedia": "Wikipedia",
    "reviews": "reviews",
    "xquad": "XQuAD",
    "pages4": "pages of 4 parts",
    "pages16": "pages of 16 parts",
    "mixed essays": "mixed essays",
    "mixed docs": "mixed documentation",
    "mixed wikipedia": "mixed Wikipedia",
    "scifact": "abstracts (SciFact)",
    "qmsum": "meetings (QMSum)",
}
GAIN_TASKS = ("essays", "docs", "wikipedia", "pages4", "pages16", "scifact")
SIZES = ("64", "128", "256", "window")
WAYS = ("0.8/even", "1/even", "1/own")
LEVEL = "+six"
"""What level readings end with: the direction of general texts in six languages."""
PLAIN = "plain"
FAIR = "64/1/even/all/alike+six"
BEFORE = "128/0.8/even/longer"
LEAVING = "64/1/even/longer+six"
WIDE = "window/1/own/all+six"
CHUNKS = "chunks+six"
EACH = "one per chunk"
NAMES = {
    PLAIN: "plain",
    PLAIN + LEVEL: "plain, level",
    BEFORE: "the default of 0.2",
    FAIR: "`fair`",
    LEAVING: "`fair+short_texts=leave`",
    WIDE: "`fair+short_texts=leave`, wide tiles",
    CHUNKS: "averaged chunks, level",
    EACH: "one per chunk",
}
LARGER = "256/1/even/all/alike+six"
CHOICES = {
    PLAIN: ("plain", "1", ""),
    FAIR: ("`fair`, the default", "1", ""),
    LARGER: ("`fair+tile_size=256`", "1", "most texts are about as long as the window"),
    LEAVING: (
        "`fair+short_texts=leave`",
        "1",
        "you cannot embed the short texts of [an index](method.md#an-index-that-exists) again",
    ),
    CHUNKS: (
        "averaged chunks, level",
        "1",
        "you cannot change the model, such as one behind an API",
    ),
    EACH: ("one vector per chunk", "4 to 21", "you can store and search that many"),
}
COMPARED = {
    "plain": "plain",
    "fair": "`fair`, the default",
    EACH: "one vector per chunk",
    "keywords": "keywords (BM25)",
    "plain and keywords": "plain and keywords, fused",
    "fair and keywords": "`fair` and keywords, fused",
}
"""The ways to search that README compares: those of `benchmarks.keywords`, and the chunks."""
LONG_TASKS = ("essays", "docs", "wikipedia")
COLUMNS = {
    "long": LONG_TASKS,
    "unrelated": ("pages16",),
    "abstracts": ("scifact",),
    "mixed": MIXED,
}
"""The tasks of a column of the tables that compare ways to search."""
COMPARED_TASKS = [task for tasks in COLUMNS.values() for task in tasks]
HALVES = ("choose", "report")
GROUPS = ("all", "long", "short")
FEWEST = 20
"""Queries of a group that is judged."""
MARGIN = 0.01
BEST = 10
"""Candidates that the table of the choice shows, besides those with a name."""
CURVES = ("all-MiniLM-L6-v2", "granite-embedding-30m-english", "gte-small")
CURVE_TASKS = ("essays", "docs", "pages16")
PARTS = ("2", "4", "8")
SHOWN_SHARES = ("gte-small", "all-MiniLM-L6-v2")
LEVEL_READINGS = {"plain": PLAIN, "default of 0.2": BEFORE, "fair": FAIR}


def candidates() -> Iterator[str]:
    """The readings that the default was chosen from."""
    for level in ("", LEVEL):
        yield PLAIN + level
        for size, way in product(SIZES, WAYS):
            yield f"{size}/{way}/all{level}" if way == "1/own" else f"{size}/{way}/all/alike{level}"
            if size != "window":
                yield f"{size}/{way}/longer{level}"


def in_words(reading: str) -> str:
    """A candidate as a row of a table names it."""
    name = reading.removesuffix(LEVEL)
    level = ", level" if reading.endswith(LEVEL) else ""
    if name == PLAIN:
        return f"plain{level}"
    size, temperature, pooling, scope, *_ = name.split("/")
    tiles = "of the window" if size == "window" else f"of {size}"
    texts = "longer texts" if scope == "longer" else "every text"
    even = ", even" if pooling == "even" else ""
    return f"tiles {tiles}, {texts}, temperature {temperature}{even}{level}"


class Scores:
    """nDCG@10 of the queries of one task under the readings of one model."""

    def __init__(self, file: Mapping[str, np.ndarray], task: str) -> None:
        names = file[f"{task}|readings"].tolist()
        scores = file[f"{task}|scores"].astype(np.float64)
        self.of = dict(zip(names, scores, strict=True))
        self.half = file[f"{task}|half"]
        self.cluster = file[f"{task}|cluster"]
        self.is_long = file[f"{task}|long"]

    def find(self, reading: str) -> np.ndarray | None:
        """The scores of a reading, or of what it is in a model that has no such.

        Models that do not take the mean keep their pooling; where tiles are as large as the window,
        no text is longer than the window and in one tile.
        """
        own = reading.replace("/even", "/own")
        wider = reading.replace("/longer", "/all/alike")
        names = (reading, own, wider, own.replace("/longer", "/all/alike"))
        names += tuple(name.replace("/alike", "") for name in names)
        return next((self.of[name] for name in names if name in self.of), None)

    def queries(self, half: int, group: str) -> np.ndarray:
        """[queries] bool: those of a half that ask for a long document, a short one, or any."""
        wanted = {"all": True, "long": self.is_long, "short": ~self.is_long}[group]
        return np.asarray((self.half == half) & wanted)


def change(scores: np.ndarray, before: np.ndarray, cluster: np.ndarray) -> list[float]:
    """The mean change with its 95 % interval: the jackknife over clusters, and t."""
    difference = scores - before
    _, number = np.unique(cluster, return_inverse=True)
    sums, counts = np.bincount(number, difference), np.bincount(number)
    clusters = len(counts)
    without = (difference.sum() - sums) / (len(difference) - counts)
    error = np.sqrt((clusters - 1) / clusters * ((without - without.mean()) ** 2).sum())
    width = student.ppf(0.975, clusters - 1) * error
    mean = difference.mean()
    return [round(float(value), 4) for value in (mean, mean - width, mean + width)]


def facts_of(path: Path) -> Facts:
    """What is kept of a file of `benchmarks.level`."""
    file = dict(np.load(path))
    tasks = [name.removesuffix("|scores") for name in file if name.endswith("|scores")]
    facts: Facts = {"share": round(float(file["share"][1]), 3), "tasks": {}}
    facts["shares by length"] = shares_by_length(file, tasks)
    facts["shares by length"]["level"] = round(float(file["share"][0]), 3)
    for name in tasks:
        scores = Scores(file, name)
        facts["tasks"][name] = {
            "documents": len(file[f"{name}|lengths"]),
            "queries": len(scores.half),
            "chunks": round(float(file.get(f"{name}|chunks", np.nan)), 1),
            "means": means_of(scores),
            "changes": changes_of(scores, NAMES),
            "losses": losses_of(scores),
            "parts": parts_of(scores),
            "fifths": fifths_of(scores, file[f"{name}|fifth"]),
        }
    return facts


def means_of(scores: Scores) -> dict[str, Any]:
    """By reading and half, of all queries and of those for long and for short documents."""
    means: dict[str, Any] = {}
    for reading in dict.fromkeys([*candidates(), *NAMES]):
        found = scores.find(reading)
        if found is not None:
            means[reading] = [
                [mean_of(found, scores.queries(half, group)) for group in GROUPS]
                for half in range(len(HALVES))
            ]
    return means


def mean_of(scores: np.ndarray, queries: np.ndarray) -> float | None:
    return round(float(scores[queries].mean()), 4) if queries.sum() >= FEWEST else None


def changes_of(scores: Scores, readings: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """The change from plain on the half that reports, by reading and group."""
    plain = scores.of[PLAIN]
    changes: dict[str, dict[str, list[float]]] = {}
    for reading in readings:
        found = scores.find(reading)
        if found is None or reading == PLAIN:
            continue
        changes[reading] = {}
        for group in GROUPS:
            queries = scores.queries(1, group)
            if queries.sum() >= FEWEST:
                own = (found[queries], plain[queries], scores.cluster[queries])
                changes[reading][group] = change(*own)
    return changes


def losses_of(scores: Scores) -> dict[str, list[list[str]]]:
    """The groups that a candidate finds significantly less of than plain, by more than a margin."""
    plain = scores.of[PLAIN]
    losses: dict[str, list[list[str]]] = {}
    for reading in candidates():
        found = scores.find(reading)
        if found is None or reading == PLAIN:
            continue
        losses[reading] = [[], []]
        for half, group in product(range(len(HALVES)), GROUPS[1:]):
            queries = scores.queries(half, group)
            if queries.sum() < FEWEST:
                continue
            mean, _, high = change(found[queries], plain[queries], scores.cluster[queries])
            if mean < -MARGIN and high < 0:
                losses[reading][half].append(group)
    return losses


def parts_of(scores: Scores) -> dict[str, float]:
    """nDCG@10 of all queries by the most vectors of a document."""
    parts = {}
    for name, reading in {"plain": PLAIN, "fair": FAIR}.items():
        stem, level = reading.removesuffix(LEVEL), LEVEL if reading.endswith(LEVEL) else ""
        for count in PARTS:
            found = scores.find(f"{stem}, {count} parts{level}")
            if found is not None:
                parts[f"{name}, {count}"] = round(float(found.mean()), 4)
    for name, reading in {"plain, 1": PLAIN, "fair, 1": FAIR, "each": EACH}.items():
        found = scores.find(reading)
        if found is not None:
            parts[name] = round(float(found.mean()), 4)
    return parts


def fifths_of(scores: Scores, fifth: np.ndarray) -> dict[str, list[float]]:
    """nDCG@10 on the half that reports, by the fifth of the document that is asked for."""
    if len(fifth) < len(scores.half):
        return {}
    fifths = {}
    for name, reading in {"plain": PLAIN, "fair": FAIR}.items():
        found = scores.find(reading)
        if found is not None:
            groups = [found[(scores.half == 1) & (fifth == number)] for number in range(5)]
            fifths[name] = [round(float(group.mean()), 3) for group in groups]
    return fifths


def shares_by_length(file: Mapping[str, np.ndarray], tasks: Iterable[str]) -> Facts:
    """The mean cosine of vectors with the common direction of English texts, by length in powers of
    two of tokens: plain, and as the default of 0.2 read texts."""
    lengths, shares = [], []
    for name in tasks:
        readings = file[f"{name}|share readings"].tolist()
        longer = next(
            reading
            for reading in readings
            if reading.startswith("128/0.8/") and "/longer" in reading
        )
        own = file[f"{name}|shares"][[readings.index(PLAIN), readings.index(longer)]]
        lengths.append(file[f"{name}|lengths"])
        shares.append(own)
    length, share = np.concatenate(lengths), np.concatenate(shares, axis=1)
    binned = np.round(np.log2(np.clip(length, 32, 16384))).astype(int)
    kept = [number for number in np.unique(binned) if (binned == number).sum() >= FEWEST]
    return {
        "tokens": [2 ** int(number) for number in kept],
        "plain": [round(float(share[0, binned == number].mean()), 3) for number in kept],
        "tiles": [round(float(share[1, binned == number].mean()), 3) for number in kept],
    }


def keep(path: Path) -> None:
    """Write the facts of a file or of a run beside what is known of its model."""
    target = FACTS / f"{path.stem if path.is_file() else path.name}.json"
    before = json.loads(target.read_text("utf-8")) if target.exists() else {}
    if path.is_dir():
        facts = {**before, **facts_of_run(path, before)}
        beside = {}
    elif path.suffix == ".json":
        facts = before
        beside = json.loads(path.read_text("utf-8"))
    else:
        about = {key: before[key] for key in ABOUT if key in before}
        facts = {**about, **facts_of(path)}
        tasks = before.get("tasks", {})
        beside = {key: task["keywords"] for key, task in tasks.items() if "keywords" in task}
    for key, means in beside.items():
        facts["tasks"][key]["keywords"] = means
    lines = ",\n".join(
        f' "{key}": {json.dumps(value, ensure_ascii=False)}'
        for key, value in facts.items()
        if key != "tasks"
    )
    tasks = ",\n".join(f'  "{name}": {json.dumps(task)}' for name, task in facts["tasks"].items())
    target.write_text(f'{{\n{lines},\n "tasks": {{\n{tasks}\n }}\n}}\n', "utf-8")


def facts_of_run(folder: Path, before: Facts) -> Facts:
    """What is kept of a run: the demo of `evaluate`, or an audit beside those of other designs."""
    log = fairspan.read_log(folder)
    header = log.header
    place = {
        "date": header.started[:10],
        "machine": f"{header.machine.processor}, {header.model.transformer.device}",
        "dtype": header.model.transformer.dtype,
        "versions": {name: header.versions[name] for name in VERSIONS},
    }
    if log.verb == "evaluate":
        return {"demo": demo_of(log) | place}
    audit = audit_of(log) | place
    design = (audit["paragraphs"], audit["tokens"])
    others = [
        other
        for other in before.get("audits", [])
        if (other["paragraphs"], other["tokens"]) != design
    ]
    audits = sorted([*others, audit], key=lambda other: other["paragraphs"])
    return {"audits": audits}


def demo_of(log: fairspan.RunLog) -> Facts:
    """How often the document of a passage is among the first ten, by what searched."""
    names = {"parts-all": EACH, "keywords": "keywords"}
    recalls = {}
    for row in log.frame("quality").filter(pl.col("metric") == "recall@10").iter_rows(named=True):
        name = names.get(row["index"], row["treatment"])
        if row["index"] == "fused":
            name = f"{name} and keywords"
        recalls[name] = round(row["estimate"], 4)
    return {"documents": log.header.searched.documents, "recall@10": recalls}


def audit_of(log: fairspan.RunLog) -> Facts:
    """The spread between positions with its interval, and the verdict, by treatment."""
    families = {row["treatment"]: row for row in log.frame("families").iter_rows(named=True)}
    ends = ("spread_estimate", "spread_low", "spread_high")
    return {
        "paragraphs": next(iter(families.values()))["n"],
        "tokens": round(log.rows["tokens"].mean(), 1),
        "sets": next(iter(families.values()))["sets"],
        "spread": {name: [round(row[end], 4) for end in ends] for name, row in families.items()},
        "verdict": {name: row["verdict"] for name, row in families.items()},
        "sentence": {name: row["sentence"] for name, row in families.items()},
    }


VERSIONS = ("python", "fairspan", "torch", "transformers", "sentence-transformers")
ABOUT = (
    "note", "model", "parameters", "dimensions", "window", "pooling", "machine", "date", "dtype",
    "versions", "audits", "demo",
)  # fmt: skip


def models() -> list[Facts]:
    """What the files say, the smallest model first."""
    facts = [json.loads(file.read_text("utf-8")) for file in FACTS.glob("*.json")]
    return sorted(facts, key=lambda model: (model["parameters"], model["model"]))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def figure(value: float | None) -> str:
    return "" if value is None else short(value)


def signed(values: list[float] | None) -> str:
    if values is None:
        return ""
    mean, low, high = (short(value, "+.3f") for value in values)
    return f"{mean} [{low}, {high}]"


def spread(values: list[float]) -> str:
    """With its interval; no −.000."""
    mean, low, high = (short(round(value, 3) + 0.0) for value in values)
    return f"{mean} [{low}, {high}]"


def reported(task: Facts, reading: str, group: str = "all") -> float | None:
    """The mean of a reading on the half that chose nothing."""
    means = task["means"].get(reading)
    value: float | None = means and means[1][GROUPS.index(group)]
    return value


def model_table() -> str:
    """The models, and the share of their common direction in short texts."""
    rows = []
    for facts in models():
        name = " ".join(filter(None, (facts["model"], facts["note"])))
        size = f"{facts['parameters'] / 1e6:.0f} M"
        shape = (f"{facts['dimensions']:,}", f"{facts['window']:,}", facts["pooling"])
        rows.append([name, size, *shape, short(facts["share"], ".2f")])
    return table(["model", "parameters", "dimensions", "window", "pooling", "share"], rows)


def search_table() -> str:
    """Search with one vector per document, and with one per chunk, model by model."""
    rows = []
    for facts in models():
        for key, title in TITLES.items():
            if key not in facts["tasks"] or key in MIXED:
                continue
            task = facts["tasks"][key]
            gain = task["changes"][FAIR].get("all") if FAIR in task["changes"] else None
            cells = [figure(reported(task, name)) for name in (PLAIN, CHUNKS, FAIR)]
            chunks = "" if np.isnan(task["chunks"]) else f"{task['chunks']:.1f}"
            rows.append(
                [facts["model"], title, *cells, signed(gain), figure(reported(task, EACH)), chunks]
            )
    head = ("model", "task", "plain", "averaged chunks", "`fair`", "`fair` − plain")
    return table([*head, "one per chunk", "chunks"], rows)


def mixed_mean(facts: Facts, reading: str, group: str) -> float:
    """The mean over indexes of mixed lengths, without groups of too few queries."""
    values = [reported(facts["tasks"][key], reading, group) for key in MIXED]
    return float(np.mean([value for value in values if value is not None]))


def which_table() -> str:
    """The choices of a user, as means over the published models."""
    published = [facts for facts in models() if not facts["note"]]
    rows = []
    for reading, (name, vectors, advice) in CHOICES.items():
        cells = []
        for keys in (LONG_TASKS, ("pages16",), ("scifact",)):
            values = [reported(facts["tasks"][key], reading) for facts in published for key in keys]
            known = [value for value in values if value is not None]
            cells.append(short(float(np.mean(known))) if len(known) == len(values) else "")
        mixed = ""
        if cells[-1]:
            means = [
                float(np.mean([mixed_mean(facts, reading, group) for facts in published]))
                for group in GROUPS[1:]
            ]
            mixed = " / ".join(map(short, means))
        rows.append([name, vectors, *cells, mixed, advice])
    head = ("", "vectors", "long documents", "unrelated parts", "abstracts")
    return table([*head, "mixed index: long / short", "take it if"], rows)


def with_keywords() -> list[Facts]:
    """The published models that were also measured beside keywords."""
    return [
        facts
        for facts in models()
        if not facts["note"] and all("keywords" in facts["tasks"][key] for key in COMPARED_TASKS)
    ]


def compared(searched: str, key: str, group: str = "all") -> str:
    """nDCG@10 of a way to search as a mean over models and tasks, or nothing if not measured.

    `key` names a column; groups of too few queries are left out of a mean.
    """
    number = GROUPS.index(group)
    values = []
    for facts, task in product(with_keywords(), COLUMNS[key]):
        measures = facts["tasks"][task]
        if searched == EACH:
            values.append(reported(measures, EACH, group))
        else:
            values.append(measures["keywords"][searched][number])
    kept = [value for value in values if value is not None]
    return short(float(np.mean(kept))) if kept else ""


def compared_table() -> str:
    """Vectors, keywords and both: a line for each way to search."""
    chunks = [
        facts["tasks"][task]["chunks"]
        for facts, task in product(with_keywords(), (*LONG_TASKS, "pages16"))
    ]
    rows = []
    for searched, name in COMPARED.items():
        count = "" if searched == "keywords" else "1"
        if searched == EACH:
            count = f"{min(chunks):.0f} to {max(chunks):.0f}"
        mixed = [compared(searched, "mixed", group) for group in GROUPS[1:]]
        cells = [compared(searched, key) for key in ("long", "unrelated", "abstracts")]
        rows.append([name, count, *cells, " / ".join(filter(None, mixed))])
    head = ("", "vectors", "long documents", "unrelated parts", "abstracts")
    return table([*head, "mixed index: long / short"], rows)


def audit_table() -> str:
    """How evenly one vector represents paragraphs: a line for each audit."""
    rows = []
    for facts in models():
        for audit in facts.get("audits", []):
            spreads = [spread(audit["spread"][name]) for name in ("plain", "fair")]
            verdicts = [audit["verdict"][name] for name in ("plain", "fair")]
            shape = (str(audit["paragraphs"]), f"{audit['tokens']:.0f}")
            rows.append([facts["model"], *shape, *spreads, *verdicts])
    head = ("model", "paragraphs", "tokens of each", "spread, plain", "spread, `fair`")
    return table([*head, "verdict, plain", "verdict, `fair`"], rows)


def mixed_table() -> str:
    """Indexes of mixed lengths: what asks for long and for short documents."""
    readings = (PLAIN, PLAIN + LEVEL, BEFORE, FAIR, LEAVING, WIDE)
    rows = []
    for facts, key in product(models(), MIXED):
        task = facts["tasks"][key]
        cells = [
            " / ".join(figure(reported(task, reading, group)) or "–" for group in GROUPS[1:])
            for reading in readings
        ]
        rows.append([facts["model"], TITLES[key].removeprefix("mixed "), *cells])
    return table(["model", "index", *(NAMES[reading] for reading in readings)], rows)


def regrets(half: int) -> dict[str, tuple[float, float, str, int]]:
    """By candidate: mean regret over models and tasks, the largest with its place, and the number
    of groups that lose."""
    candidate_list = [*candidates()]
    found: dict[str, list[tuple[float, str]]] = {name: [] for name in candidate_list}
    lost = dict.fromkeys(candidate_list, 0)
    for facts in models():
        for key, task in facts["tasks"].items():
            values = {
                name: task["means"][name][half][0]
                for name in candidate_list
                if name in task["means"] and task["means"][name][half][0] is not None
            }
            # QMSum chooses nothing.
            if len(values) < len(candidate_list):
                continue
            best = max(values.values())
            for name, value in values.items():
                found[name].append((best - value, f"{facts['model']}, {TITLES[key]}"))
                lost[name] += len(task["losses"].get(name, [[], []])[half])
    result = {}
    for name, pairs in found.items():
        worst, place = max(pairs)
        result[name] = (float(np.mean([regret for regret, _ in pairs])), worst, place, lost[name])
    return result


def choice_table() -> str:
    """The best candidates on the choosing half, and those with a name."""
    choosing, reporting = regrets(0), regrets(1)
    rows = []
    ranked = sorted(choosing, key=lambda name: choosing[name][0])
    for name in [name for name in ranked if name in ranked[:BEST] or name in NAMES]:
        chosen, report = choosing[name], reporting[name]
        mark = "**" if name == FAIR else ""
        cells = [short(chosen[0], ".4f"), str(chosen[3]), short(report[0], ".4f"), str(report[3])]
        rows.append([f"{mark}{in_words(name)}{mark}", *cells, f"{short(report[1])}: {report[2]}"])
    return table(["setting", "regret", "losses", "regret", "losses", "largest regret"], rows)


def vectors_table() -> str:
    """nDCG@10 by the number of vectors per document, plain and with the default."""
    rows = []
    for key in CURVE_TASKS:
        for facts in models():
            if facts["model"] not in CURVES:
                continue
            task = facts["tasks"][key]
            parts = task["parts"]
            cells = [
                " → ".join(figure(parts.get(f"{name}, {count}")) for name in ("plain", "fair"))
                for count in ("1", *PARTS)
            ]
            chunks = [figure(parts.get("each")), f"{task['chunks']:.1f}"]
            rows.append([TITLES[key], facts["model"], *cells, *chunks])
    return table(["task", "model", "1", *PARTS, "one per chunk", "chunks"], rows)


def by(channel: Any, column: str, names: Iterable[str], looks: Sequence[Any]) -> Any:
    """A channel that tells apart the values of a column."""
    scale = alt.Scale(domain=list(names), range=looks)
    return channel(f"{column}:N", title=None, scale=scale, legend=alt.Legend(labelLimit=300))


def draw_gains() -> alt.LayerChart:
    """Every dot is a model and a task: plain on one axis, the default on the other."""
    published = [facts for facts in models() if not facts["note"]]
    rows = [
        {
            "model": facts["model"],
            "task": TITLES[key],
            "plain": reported(facts["tasks"][key], PLAIN),
            "fair": reported(facts["tasks"][key], FAIR),
        }
        for facts in published
        for key in GAIN_TASKS
    ]
    axis = {"scale": alt.Scale(domain=[0.15, 0.9]), "axis": alt.Axis(format=".1f", tickCount=8)}
    x = alt.X("plain:Q", title="plain, nDCG@10", **axis)
    y = alt.Y("fair:Q", title="with fairspan, nDCG@10", **axis)
    dots = plot(rows, x, y).mark_point(filled=True, size=70, opacity=0.85)
    dots = dots.encode(
        color=by(alt.Color, "model", [facts["model"] for facts in published], COLOURS[1:]),
        shape=by(alt.Shape, "task", [TITLES[key] for key in GAIN_TASKS], SHAPES),
    )
    ends = [{"plain": end, "fair": end} for end in (0.15, 0.9)]
    line = plot(ends, x, y).mark_line(color="#aaaaaa", strokeWidth=1)
    beside = plot([{"plain": 0.3, "fair": 0.26}], x, y)
    words = beside.mark_text(text="no change", align="left", color="#777777")
    return (line + words + dots).properties(width=420, height=420)


def plot(rows: list[Facts], x: alt.X, y: alt.Y) -> alt.Chart:
    return alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)


def draw_vectors() -> alt.HConcatChart:
    """Quality against vectors per document: a panel for each task, a colour for each model."""
    readings = {"fair": "fair", "plain": "plain, which cuts parts off"}
    y = alt.Y("ndcg:Q", title="nDCG@10").scale(domain=[0.1, 0.8])
    colour = by(alt.Color, "model", CURVES, COLOURS[1:])
    shape = by(alt.Shape, "model", CURVES, SHAPES)
    panels = []
    for key in CURVE_TASKS:
        rows = [
            {
                "model": facts["model"],
                "reading": reading,
                "vectors per document": int(count),
                "ndcg": facts["tasks"][key]["parts"][f"{name}, {count}"],
            }
            for facts in models()
            if facts["model"] in CURVES
            for name, reading in readings.items()
            for count in ("1", *PARTS)
        ]
        lines = by_doubling(rows, "vectors per document", y, readings.values(), colour, shape)
        panels.append(lines.properties(title=TITLES[key], width=240, height=240))
    return alt.hconcat(*panels).configure_legend(orient="bottom")


def by_doubling(
    rows: list[Facts],
    x: str,
    y: alt.Y,
    readings: Iterable[str],
    colour: alt.Color,
    shape: alt.Shape,
) -> alt.LayerChart:
    """Lines by model and reading, the second of which is dotted, along an axis of doublings."""
    axis = alt.Axis(values=sorted({row[x] for row in rows}), grid=False)
    places = alt.X(f"{x}:Q", axis=axis).scale(type="log", nice=False, padding=10)
    dashes = by(alt.StrokeDash, "reading", readings, (DASHES[0], DASHES[2]))
    base = plot(rows, places, y).encode(colour)
    return base.mark_line().encode(dashes) + base.mark_point(
        filled=True, size=50, opacity=1
    ).encode(shape)


def draw_level() -> alt.HConcatChart:
    """The share of the common direction by length, and what a mixed index finds."""
    # The published models have their colours of the other pictures.
    names = [facts["model"] for facts in sorted(models(), key=lambda facts: facts["note"])]
    colour = by(alt.Color, "model", names, COLOURS[1:])
    shape = by(alt.Shape, "reading", LEVEL_READINGS, ("circle", "cross", "square"))
    panels = (draw(colour, shape) for draw in (draw_shares, draw_mixed))
    return alt.hconcat(*(panel.properties(width=360, height=360) for panel in panels))


def draw_shares(colour: alt.Color, shape: alt.Shape) -> alt.LayerChart:
    """The share by length, and the share of level vectors."""
    shares = {facts["model"]: facts["shares by length"] for facts in models()}
    rows = [
        {"model": model, "reading": reading, "tokens of a text": tokens, "share": value}
        for model in SHOWN_SHARES
        for name, reading in {"plain": "plain", "tiles": "default of 0.2"}.items()
        for tokens, value in zip(shares[model]["tokens"], shares[model][name], strict=True)
    ]
    y = alt.Y("share:Q", title="cosine with the common direction").scale(domain=[-0.1, 1])
    lines = by_doubling(rows, "tokens of a text", y, LEVEL_READINGS, colour, shape)
    levels = [
        {"model": model, "share": shares[model]["level"], "words": f"level of {model}"}
        for model in SHOWN_SHARES
    ]
    level = plot(levels, alt.value(0), y).encode(colour)
    rules = level.mark_rule(opacity=0.6).encode(x2=alt.value("width"))
    return lines + rules + level.mark_text(align="left", dx=4, dy=-7).encode(text="words:N")


def draw_mixed(colour: alt.Color, shape: alt.Shape) -> alt.LayerChart:
    """A mark for each model and reading: what asks for long documents, and what for short ones."""
    rows = [
        {"model": facts["model"], "reading": name}
        | {group: mixed_mean(facts, reading, group) for group in GROUPS[1:]}
        for facts in models()
        for name, reading in LEVEL_READINGS.items()
    ]
    # A step is as long on both axes.
    ends = {
        "scale": alt.Scale(domain=[0.15, 0.75], nice=False),
        "axis": alt.Axis(format=".1f", values=[0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    }
    x = alt.X("long:Q", title="nDCG@10 of what asks for long documents", **ends)
    y = alt.Y("short:Q", title="nDCG@10 of what asks for short documents", **ends)
    base = plot(rows, x, y).encode(colour)
    lines = [
        base.mark_line(strokeDash=dash, strokeWidth=1.3).transform_filter(
            alt.FieldOneOfPredicate("reading", ["plain", name])
        )
        for name, dash in (("default of 0.2", DASHES[2]), ("fair", DASHES[0]))
    ]
    return alt.layer(*lines, base.mark_point(filled=True, size=80, opacity=1).encode(shape))


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    """The page with its tables made again: each stands below a comment with its name."""
    for name, lines in tables.items():
        pattern = rf"<!-- {name} -->\n(?:\n|\|.*\n)*"
        made = f"<!-- {name} -->\n\n{lines}\n"
        text, count = re.subn(pattern, lambda _, made=made: made, text)
        if count != 1:
            raise ValueError(f"the page needs one line <!-- {name} -->")
    return text


def pages() -> dict[Path, str]:
    """The text of each page, as the files make it."""
    tables = {
        PAGE: {
            "models": model_table(),
            "which": which_table(),
            "search": search_table(),
            "audits": audit_table(),
        },
        VECTORS_PAGE: {"vectors": vectors_table()},
        LEVEL_PAGE: {"mixed": mixed_table(), "choice": choice_table()},
        README: {"compared": compared_table()},
    }
    return {page: with_tables(page.read_text("utf-8"), made) for page, made in tables.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    for path in parser.parse_args().files:
        keep(path)
    for page, text in pages().items():
        page.write_text(text, "utf-8")
    pictures = {"measured": draw_gains, "vectors": draw_vectors, "level": draw_level}
    for name, draw in pictures.items():
        figure = draw().configure_view(stroke=None)
        (DOCS / f"images/{name}.png").write_bytes(with_few_colours(figure_bytes(figure, "png")))


if __name__ == "__main__":
    main()
