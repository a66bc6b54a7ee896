"""What search finds with models as they are published: docs/measured.md and docs/vectors.md.

    python -m benchmarks.measured MODEL --data FOLDER [--task essays --task qmsum] [--dtype float16]
    python -m benchmarks.measured --page

MODEL is a folder, a name on the hub or all-MiniLM-L6-v2, read with its own window. Essays and the
sample for the audit come with fairspan; FOLDER holds the other tasks, each in the layout of BEIR,
and those that it lacks are left out. Figures go to benchmarks/measured/NAME.json, task by task, and
`--page` makes tables and pictures of them; a `note` in the file is shown beside the model's name.
A command that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

import fairspan
from benchmarks.quality import METRIC, say, short
from fairspan.model.loading import Loading, load_model
from fairspan.model.pooling import pooling_of
from fairspan.model.window import window_of
from fairspan.report.style import COLOURS, INK, MARKERS, PALE, figure_bytes, house_style, make_grid
from fairspan.report.text import model_name

Facts = dict[str, Any]
ROOT = Path(__file__).parents[1]
FACTS = ROOT / "benchmarks/measured"
DOCS = ROOT / "docs"
PAGE = DOCS / "measured.md"
VECTORS_PAGE = DOCS / "vectors.md"
README = ROOT / "README.md"
AUDIT = "audit"
TASKS = {
    "essays": "essays",
    "documentation": "documentation",
    "wikipedia": "Wikipedia",
    "pages4": "pages of 4 parts",
    "pages16": "pages of 16 parts",
    "qmsum": "meetings (QMSum)",
    "scifact": "abstracts (SciFact)",
}
"""What is searched, with titles."""
SINGLE = ("plain", "chunk-mean-window", "long", "tiles", "long+tile_size=window")
"""Readings of one vector per document."""
BEST = {"long": "", "tiles": " (`tiles`)", "long+tile_size=window": " (wide tiles)"}
"""Those that the best one is taken from, in hindsight."""
VECTORS = ("1", "2", "4", "8", "16", "all")
CURVES = ("all-MiniLM-L6-v2", "granite-embedding-30m-english", "all-mpnet-base-v2")
CURVE_TASKS = ("essays", "documentation", "wikipedia", "pages16", "qmsum")


def measure(asked: argparse.Namespace) -> None:
    """Write what is measured of a model, task by task, beside what was measured before."""
    name = model_name(asked.model)
    model = load_model(asked.model, Loading(dtype=asked.dtype))
    file = FACTS / f"{name.replace('/', '--')}.json"
    facts: Facts = json.loads(file.read_text("utf-8")) if file.exists() else {"note": ""}
    facts |= {
        "model": name,
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "dimensions": model.get_embedding_dimension(),
        "window": window_of(model),
        "pooling": pooling_of(model, model[0]).module.pooling_mode,
    }
    for key in asked.task or (AUDIT, *TASKS):
        options: dict[str, Any] = {"corpus": "long-sample", "sets": 1000}
        if key == AUDIT:
            facts[AUDIT] = audit(model, name) | {"dtype": asked.dtype}
        elif key == "essays" or (asked.data / key).exists():
            if key != "essays":
                options = {"task": f"beir:{asked.data / key}"}
            measured = search(model, name, options) | {"dtype": asked.dtype}
            facts.setdefault("tasks", {})[key] = measured
        else:
            say(f"{key}: not in {asked.data}, left out")
            continue
        file.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
        say(f"{name}: {key} measured")


def audit(model: Any, name: str) -> Facts:
    """The verdict on each of two treatments, on documents of four paragraphs of the sample."""
    log = fairspan.audit(model, treatments=["plain", "tiles"], name=name, progress=False)
    keys = ("verdict", "position", "estimate", "low", "high", "documents", "sentence")
    rows = log.frame("families").to_dicts()
    verdicts = {row["treatment"]: {key: row[key] for key in keys} for row in rows}
    return {**verdicts, **circumstances(log, model)}


def search(model: Any, name: str, options: Mapping[str, Any]) -> Facts:
    """nDCG@10 with its interval, by treatment and index, of one task."""
    common = {
        **options,
        "name": name,
        "documents_only": False,
        "metrics": [METRIC],
        "too_long": "cut",
        "progress": False,
    }
    several = fairspan.evaluate(model, treatments=["plain", "long"], vectors=VECTORS, **common)
    single = fairspan.evaluate(model, treatments=SINGLE, **common)
    names = ("estimate", "low", "high")
    results: dict[str, Facts] = {}
    for row in several.frame("vectors").to_dicts():
        cell = {key: row[key] for key in (*names, "vectors_per_document")}
        results[f"{row['treatment']}, {row['index']}"] = cell
    quality = single.frame("quality")
    for row in quality.filter(index="whole").to_dicts():
        cell = {key: row[key] for key in (*names, "change_estimate", "change_low", "change_high")}
        results.setdefault(f"{row['treatment']}, whole", {}).update(cell)
    return {
        "queries": quality["queries"][0],
        "documents": quality["clusters"][0],
        "results": results,
        **circumstances(single, model),
    }


def circumstances(log: Any, model: Any) -> Facts:
    """The machine, the day and the versions of what a log holds."""
    on_gpu = model.device.type == "cuda"
    return {
        "machine": torch.cuda.get_device_name() if on_gpu else log.header.machine.processor,
        "date": log.header.finished[:10],
        "versions": log.header.versions,
    }


def models() -> list[Facts]:
    """What the files say, the smallest model first."""
    facts = [json.loads(file.read_text("utf-8")) for file in FACTS.glob("*.json")]
    return sorted(facts, key=lambda model: (model["parameters"], model["model"]))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def model_table() -> str:
    """The models, and the verdicts of their audits."""
    rows = []
    for facts in models():
        verdicts = []
        for arm in ("plain", "tiles"):
            verdict = facts.get(AUDIT, {}).get(arm)
            if verdict is None:
                verdicts.append("")
                continue
            fair = verdict["verdict"] == "fair"
            where = "" if fair else f" at position {verdict['position']}"
            verdicts.append(f"{verdict['verdict']}: {short(verdict['estimate'], '+.3f')}{where}")
        name = " ".join(filter(None, (facts["model"], facts["note"])))
        size = f"{facts['parameters'] / 1e6:.0f} M"
        shape = (f"{facts['dimensions']:,}", f"{facts['window']:,}", facts["pooling"])
        rows.append([name, size, *shape, *verdicts])
    head = ("model", "parameters", "dimensions", "window", "pooling", "audit, plain")
    return table([*head, "audit, `tiles`"], rows)


def search_table() -> str:
    """Search with one vector per document, and with one per chunk, model by model."""
    rows = []
    for facts in models():
        for key, title in TASKS.items():
            if key not in facts.get("tasks", {}):
                continue
            results = facts["tasks"][key]["results"]
            estimates = {name: cell["estimate"] for name, cell in results.items()}
            best = max(BEST, key=lambda treatment: estimates[f"{treatment}, whole"])
            gain = results["long, whole"]
            low, middle, high = (
                short(gain[f"change_{end}"], "+.3f") for end in ("low", "estimate", "high")
            )
            rows.append(
                [
                    facts["model"],
                    title,
                    *(short(estimates[f"{treatment}, whole"]) for treatment in SINGLE[:3]),
                    f"{middle} [{low}, {high}]",
                    short(estimates[f"{best}, whole"]) + BEST[best],
                    short(estimates["plain, parts-all"]),
                    f"{results['plain, parts-all']['vectors_per_document']:.1f}",
                ]
            )
    head = ("model", "task", "plain", "averaged chunks", "`long`", "`long` − plain", "best")
    return table([*head, "one per chunk", "chunks"], rows)


def gain_table() -> str:
    """Plain and the default side by side: a line for each published model."""
    rows = []
    for facts in models():
        if facts["note"]:
            continue
        cells = []
        for key in TASKS:
            results = facts["tasks"][key]["results"]
            pair = [short(results[f"{name}, whole"]["estimate"]) for name in ("plain", "long")]
            cells.append(" → ".join(pair))
        rows.append([facts["model"], f"{facts['window']:,}", *cells])
    return table(["model", "window", *TASKS.values()], rows)


def vectors_table() -> str:
    """nDCG@10 by the number of vectors per document."""
    rows = []
    for key in CURVE_TASKS:
        for facts in models():
            task = facts.get("tasks", {}).get(key)
            if task is None or facts["model"] not in CURVES:
                continue
            results = task["results"]
            chunks = f"{results['long, parts-all']['vectors_per_document']:.1f}"
            for treatment in ("plain", "long"):
                indexes = ("whole", *(f"parts-{count}" for count in VECTORS[1:]))
                cells = [short(results[f"{treatment}, {index}"]["estimate"]) for index in indexes]
                rows.append([TASKS[key], facts["model"], treatment, *cells, chunks])
    head = ("task", "model", "", *VECTORS[:-1], "one per chunk", "chunks")
    return table(head, rows)


def draw_gains() -> bytes:
    """Every dot is a model and a task: plain on one axis, the default on the other."""
    with house_style():
        figure, grid = make_grid((7.2, 4.6), 1, 1)
        axes = grid[0][0]
        axes.set_axis_on()
        axes.plot((0, 1), (0, 1), color=PALE, linewidth=1, zorder=0)
        for number, facts in enumerate(models()):
            for marker, key in zip(MARKERS, TASKS, strict=True):
                if key in facts.get("tasks", {}):
                    results = facts["tasks"][key]["results"]
                    pair = [results[f"{name}, whole"]["estimate"] for name in ("plain", "long")]
                    colour = COLOURS[number + 1]
                    axes.plot(*pair, marker, color=colour, markersize=6, alpha=0.85)
        axes.set(xlim=(0.1, 0.9), ylim=(0.3, 0.9))
        axes.set_xlabel("plain, nDCG@10")
        axes.set_ylabel("with fairspan, nDCG@10")
        axes.text(0.72, 0.69, "no change", color="#777777", fontsize=8)
        dots = [
            axes.plot([], [], "o", color=COLOURS[number + 1], label=label_of(facts))[0]
            for number, facts in enumerate(models())
        ]
        shapes = [
            axes.plot([], [], marker, color=INK, linestyle="", label=title)[0]
            for marker, title in zip(MARKERS, TASKS.values(), strict=True)
        ]
        [space] = axes.plot([], [], linestyle="", label=" ")
        figure.legend(handles=[*dots, space, *shapes], loc="outside right center", frameon=False)
        return figure_bytes(figure, "png")


def label_of(facts: Facts) -> str:
    return facts["model"] + (" (for tests)" if facts["note"] else "")


def draw_vectors() -> bytes:
    """Quality against vectors per document: a panel for each task, a colour for each model."""
    with house_style():
        figure, grid = make_grid((9.6, 5.6), 2, 3)
        chosen = [facts for facts in models() if facts["model"] in CURVES]
        for axes, key in zip(grid.flat, CURVE_TASKS, strict=False):
            axes.set_axis_on()
            axes.set_title(TASKS[key], fontsize=9)
            for number, facts in enumerate(chosen):
                draw_curves(axes, facts["tasks"][key]["results"], COLOURS[number + 1])
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.set_ylim(0.1, 0.9)
        for axes in (*grid[1][:2], grid[0][2]):
            axes.set_xlabel("vectors per document")
        for row in grid:
            row[0].set_ylabel("nDCG@10")
        legend = grid[1][2]
        for number, facts in enumerate(chosen):
            legend.plot([], [], "o-", color=COLOURS[number + 1], label=facts["model"])
        legend.plot([], [], ":", color=INK, label="plain, which cuts parts off")
        legend.legend(loc="center", frameon=False)
        return figure_bytes(figure, "png")


def draw_curves(axes: Any, results: Mapping[str, Facts], colour: str) -> None:
    """The curve of the default with its intervals, and that of the plain model."""
    indexes = ("whole", *(f"parts-{count}" for count in VECTORS[1:]))
    for treatment, style in (("long", "o-"), ("plain", ":")):
        cells = [results[f"{treatment}, {index}"] for index in indexes]
        where = [cell["vectors_per_document"] for cell in cells]
        values = [cell["estimate"] for cell in cells]
        axes.plot(where, values, style, color=colour, markersize=4, linewidth=1.4)
        if treatment == "long":
            lows = [cell["low"] for cell in cells]
            highs = [cell["high"] for cell in cells]
            axes.fill_between(where, lows, highs, color=colour, alpha=0.12, linewidth=0)


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
        PAGE: {"models": model_table(), "search": search_table()},
        VECTORS_PAGE: {"vectors": vectors_table()},
        README: {"gains": gain_table()},
    }
    return {page: with_tables(page.read_text("utf-8"), made) for page, made in tables.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", metavar="MODEL")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the tasks")
    tasks = (AUDIT, *TASKS)
    parser.add_argument("--task", action="append", choices=tasks, help="only this; repeatable")
    parser.add_argument("--dtype", default="float32", help="number format of the weights")
    parser.add_argument("--page", action="store_true", help="only write tables and pictures")
    asked = parser.parse_args()
    if asked.model and not asked.page:
        measure(asked)
    for page, text in pages().items():
        page.write_text(text, "utf-8")
    (DOCS / "images/measured.png").write_bytes(draw_gains())
    (DOCS / "images/vectors.png").write_bytes(draw_vectors())


if __name__ == "__main__":
    main()
