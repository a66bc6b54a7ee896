"""The table of measured models in docs/measured.md: one command makes a model's row.

    python -m benchmarks.measured MODEL [--qmsum beir:FOLDER]
    python -m benchmarks.measured --page

MODEL is a folder, a name on the hub or all-MiniLM-L6-v2, and is measured in float32 with its own
window: `audit` on the sample, `tune` on the long sample, `evaluate` on QMSum, on which nothing is
chosen. All figures go to benchmarks/measured/NAME.json, from which the table is made; a `note`
there is shown beside the model's name. A command that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import torch

import fairspan
from benchmarks.long import cell
from benchmarks.quality import METRIC, ONLY, say, short
from fairspan.model.loading import Loading, load_model
from fairspan.model.pooling import pooling_of
from fairspan.model.window import window_of
from fairspan.report.frames import columns_of, interval
from fairspan.report.text import model_name
from fairspan.stats.choice import quality
from fairspan.studies.evaluate.measures import EvaluateEntries
from fairspan.studies.tune.summary import PLAIN, decide

Facts = dict[str, Any]
ROOT = Path(__file__).parents[1]
FACTS, PAGE = ROOT / "benchmarks/measured", ROOT / "docs/measured.md"
QMSUM = {
    PLAIN: (PLAIN, "whole"),
    "chunks": ("chunk-mean-window", "whole"),
    "long": (f"long{ONLY}", "whole"),
}
QMSUM["several"] = PLAIN, "chunk-max"
ANSWERS = {"use": "use {}", "probably": "probably {}", "keep": "keep plain; {}"}


def measure(given: argparse.Namespace) -> None:
    """Write what is found about a model, study by study, beside what was known."""
    name, model = model_name(given.model), load_model(given.model, Loading(dtype="float32"))
    file = FACTS / f"{name.replace('/', '--')}.json"
    known: Facts = json.loads(file.read_text("utf-8")) if file.exists() else {"note": ""}
    facts = {**known, "model": name, "parameters": sum(one.numel() for one in model.parameters())}
    facts |= {"dimensions": model.get_embedding_dimension(), "window": window_of(model)}
    facts |= {"pooling": pooling_of(model, model[0]).module.pooling_mode}
    for verb, study, asked in (
        ("audit", audit, {}),
        ("tune", tune, {}),
        ("qmsum", qmsum, {"task": given.qmsum}),
    ):
        log, found = study(model, **asked, name=name)
        machine = (
            torch.cuda.get_device_name()
            if model.device.type == "cuda"
            else log.header.machine.processor
        )
        facts[verb] = {**found, "machine": machine, "date": log.header.finished[:10]}
        facts[verb]["versions"] = log.header.versions
        file.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "utf-8")
        say(f"{name}, {verb}: {found}")


def audit(model: Any, **asked: Any) -> tuple[Any, Facts]:
    log = fairspan.audit(model, treatments=[PLAIN, "tiles"], progress=False, **asked)
    names = ("verdict", "position", "estimate", "low", "high", "documents", "sentence")
    return log, {
        one["treatment"]: {key: one[key] for key in names}
        for one in log.frame("families").to_dicts()
    }


def tune(model: Any, **asked: Any) -> tuple[Any, Facts]:
    log = fairspan.tune(model, progress=False, **asked)
    decision, candidates = (
        decide(log.rows, log.header),
        log.frame("candidates").select("treatment", "quality").rows(),
    )
    assert decision.choice  # only guards can exclude every candidate
    found = {
        "answer": decision.answer,
        "treatment": decision.name,
        **columns_of(decision.choice.gain),
    }
    found |= {
        name: quality(decision.choice.checked, arm)
        for name, arm in (("before", PLAIN), ("after", decision.name))
    }
    return log, found | {"sentence": log.verdicts["sentence"][0], "candidates": dict(candidates)}


def qmsum(model: Any, **asked: Any) -> tuple[Any, Facts]:
    how = {
        "treatments": list(dict.fromkeys(treatment for treatment, _ in QMSUM.values())),
        "documents_only": False,
    }
    how |= {"indexes": ["whole", "chunk-max"], "chunk_tokens": "window", "too_long": "cut"}
    log = fairspan.evaluate(model, **asked, **how, metrics=[METRIC], progress=False)
    rows = {(one["treatment"], one["index"]): one for one in log.frame("quality").to_dicts()}
    entries = log.header.part(EvaluateEntries)
    costs = {(cost.treatment, cost.index): cost for cost in entries.costs}
    names = ("estimate", "low", "high", "change_estimate", "change_low", "change_high", "queries")
    found = {arm: {key: rows[pair][key] for key in names} for arm, pair in QMSUM.items()}
    return log, found | {"vectors": {arm: costs[pair].vectors for arm, pair in QMSUM.items()}}


def row(facts: Facts) -> str:
    """A model's line of the table; studies that are missing have empty cells."""
    cells = [
        " ".join(filter(None, (facts["model"], facts["note"]))),
        f"{facts['parameters'] / 1e6:.0f} M",
    ]
    cells += [f"{facts['dimensions']:,}", f"{facts['window']:,}", facts["pooling"]]
    for one in (facts["audit"][arm] for arm in (PLAIN, "tiles")):
        where = "" if one["verdict"] == "fair" else f" at position {one['position']}"
        cells.append(f"{one['verdict']}: {short(one['estimate'], '+.3f')}{where}")
    tuned, found, answer = facts.get("tune"), facts.get("qmsum"), ""
    if tuned:
        chunks = next(
            value for name, value in tuned["candidates"].items() if name.startswith("chunk-mean")
        )
        answer = (
            f"{ANSWERS[tuned['answer']].format(tuned['treatment'])}: {short(tuned['before'])} → "
        )
        answer += f"{short(tuned['after'])} ({cell(interval(tuned), '+.3f')}); "
        answer += f"averaged chunks {short(chunks)}"
    measured = {} if found is None else found
    searched = {arm: short(measured[arm]["estimate"]) if arm in measured else "" for arm in QMSUM}
    if "long" in measured:
        searched["long"] += f" ({cell(interval(found['long'], 'change_'), '+.3f')})"
    return f"| {' | '.join([*cells, answer, *searched.values()])} |\n"


def with_table(text: str) -> str:
    """The page with the rows that the files make, the smallest model first."""
    known = [json.loads(file.read_text("utf-8")) for file in FACTS.glob("*.json")]
    rows = "".join(map(row, sorted(known, key=lambda one: (one["parameters"], one["model"]))))
    return re.sub(r"(?m)^(\|---.*\n)(?:\|.*\n)*", lambda found: found[1] + rows, text, count=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", metavar="MODEL")
    parser.add_argument(
        "--qmsum", default="mteb:LEMBQMSumRetrieval", help="that of mteb, or beir:FOLDER"
    )
    parser.add_argument("--page", action="store_true", help="only write the table again")
    given = parser.parse_args()
    if given.model and not given.page:
        measure(given)
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
