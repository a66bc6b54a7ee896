"""Bad inputs to every option of every verb, and kills at random moments, counted.

    python -m tests.hard_use inputs [--every 1] [--messages messages.txt]
    python -m tests.hard_use kills [--count 50]

Not collected by pytest: it takes minutes. Every command runs in a process of its own on a tiny random model.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import typer

from fairspan.cli import app
from tests.commands import Commands, Ended, assert_sound
from tests.tiny import tiny_model, words
from tests.verbs import TUNE, VERBS, write_articles
from tests.wikipedia_builds import topics, write_sitelinks, write_xml

TIMEOUT = 60
HURRY = f"import faulthandler; faulthandler.dump_traceback_later({TIMEOUT}, exit=True)"

_BUILD = ["--languages", "en,de", "--dumps", "dumps", "--model", "model", "--min-tokens", "1"]

MEASURING = [verb.name for verb in (*VERBS, TUNE)]

# Wrong for nearly every option of the kind; a value that an option takes counts as accepted.
BAD_VALUES: dict[type, list[str]] = {
    int: ["-1", "0", "x", "99999999", "1.5"],
    float: ["-0.5", "nan", "x", "inf"],
    Path: ["/nowhere/at/all/x.png", "/dev/full", "corpus/en.jsonl/below", ""],
    str: ["", "nope", "none,none", "en:xx", "[", "0,0", "../..", "\N{SNOWMAN}"],
}

BROKEN_FILES = {
    "empty": b"",
    "not-utf8": b'{"id": "a", "text": "\xff\xfe"}\n',
    "not-json": b"hello\n",
    "half-a-line": b'{"id": "a", "text": "w1 w2"}\n{"id": "b", "te',
    "a-list": b"[1, 2, 3]\n",
    "no-text": b'{"id": "a"}\n',
    "null-text": b'{"id": "a", "text": null}\n',
    "number-text": b'{"id": "a", "text": 7}\n',
    "empty-text": b'{"id": "a", "text": ""}\n',
    "twice": b'{"id": "a", "text": "w1"}\n{"id": "a", "text": "w2"}\n',
    "one-only": b'{"id": "a", "text": "w1 w2 w3. w4 w5 w6."}\n',
    "binary": bytes(range(256)) * 8,
    "nul": b'{"id": "a", "text": "w1 \x00 w2"}\n{"id": "b", "text": "w3"}\n',
    "surrogate": b'{"id": "a", "text": "w1 \\ud800 w2"}\n{"id": "b", "text": "w3"}\n',
}


class Place:
    """A folder with a model, a corpus, questions, a page and finished runs, and what runs commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tiny_model(folder / "weights", "bert", "mean").save_pretrained(str(folder / "model"))
        write_articles(folder / "corpus")
        questions = folder / "questions"
        questions.mkdir()
        documents = [{"id": f"d{n}", "text": words(60, n)} for n in range(12)]
        queries = [
            {"id": f"q{n}", "query": words(5, 100 + n), "document": f"d{n}", "start": 5, "end": 20} for n in range(12)
        ]
        for name, rows in (("documents", documents), ("queries", queries)):
            (questions / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        many = "".join(json.dumps({"id": n, "text": words(3 + n % 60, n)}) + "\n" for n in range(2000))
        (folder / "many.jsonl").write_text(many)
        (folder / "page.txt").write_text("\n\n".join(words(20, n) + "." for n in range(4)))
        (folder / "dumps").mkdir()
        wikis = topics(["en", "de"], dict.fromkeys(range(1, 6), 30))
        write_sitelinks(folder / "dumps", wikis)
        for language, pages in wikis.items():
            write_xml(folder / "dumps", language, pages)
        for name, content in BROKEN_FILES.items():
            (folder / f"{name}.jsonl").write_bytes(content)
        (folder / "logs").mkdir()
        self.commands = Commands(folder / "logs")
        for name, typed in base_commands().items():
            if name in MEASURING:
                ended = self.run([*typed, "--out", f"run-{name}"])
                assert ended.code == 0, ended.stderr

    def run(self, typed: list[str]) -> Ended:
        return self.commands.start(self.folder, *typed, before=HURRY).wait()


def base_commands() -> dict[str, list[str]]:
    """A valid command of every verb, quick enough to repeat; no vectors are computed twice."""
    small = {verb.name: [*verb.typed(), "--store", "store.sqlite"] for verb in (*VERBS, TUNE)}
    return {
        **small,
        "questions": ["evaluate", "model", "questions", "--treatments", "none,paper", "--store", "store.sqlite"],
        "inspect": ["inspect", "model", "page.txt", "--treatments", "none,paper"],
        "calibrate": ["calibrate", "model", "calibrated"],
        "embed": ["embed", "model", "many.jsonl", "vectors", "--rows-per-shard", "50"],
        "export": ["export", "model", "graph.onnx"],
        "report": ["report", "run-audit", "--out", "page.html"],
        "compare": ["compare", "run-audit"],
        "corpus check": ["corpus", "check", "corpus"],
        "corpus build": ["corpus", "build", "built", "--fresh", *_BUILD],
    }


def bad_commands() -> Iterator[list[str]]:
    """Every option with every bad value of its kind, then bad files, folders and words in place of good ones."""
    group: Any = typer.main.get_command(app)
    for name, typed in base_commands().items():
        command = group
        for word in {"questions": "evaluate"}.get(name, name).split():
            command = command.commands[word]
        for option in command.params:
            if not option.opts[0].startswith("--") or option.is_flag or option.opts[0] == "--help":
                continue
            for value in BAD_VALUES.get(option.type_descriptor.annotation, BAD_VALUES[str]):
                yield [*_without(typed, option.opts[0]), option.opts[0], value]
    audit, evaluate, inspect = (base_commands()[name] for name in ("audit", "questions", "inspect"))
    for name in BROKEN_FILES:
        file = f"{name}.jsonl"
        yield [*_without(audit, "--corpus"), "--corpus", file]
        yield ["corpus", "build", f"built-{name}", *_BUILD, "--dump", f"de={file}"]
        yield ["corpus", "build", f"linked-{name}", *_BUILD, "--sitelinks", file]
        yield ["corpus", "check", file]
        yield ["inspect", "model", file]
        yield [*_without(base_commands()["collapse"], "--labelled"), "--labelled", file]
        yield ["evaluate", "model", file]
        yield ["report", file]
        yield ["embed", "model", file, f"vectors-{name}"]
        yield ["embed", "model", file, f"strict-{name}", "--strict"]
    for model in ("", "nope", "corpus", "page.txt", "/dev/null", "sentence-transformers/nope", "run-audit"):
        yield ["audit", model, *audit[2:]]
        yield ["evaluate", model, *evaluate[2:]]
        yield ["inspect", model, *inspect[2:]]
        yield ["calibrate", model, "somewhere"]
        yield ["embed", model, "many.jsonl", "somewhere"]
        yield ["export", model, "somewhere.onnx"]
    for task in (
        "",
        "nope",
        "beir:",
        "beir:nope",
        "beir:corpus",
        "mteb:",
        "mteb:Nope",
        "corpus",
        "page.txt",
        "model",
    ):
        yield ["evaluate", "model", task, *evaluate[3:]]
        yield ["tune", "model", task, "--grid", "corpus/grid.toml"]
        yield [*base_commands()["tune"], "--guard", task]
    for run in ("", "nope", "corpus", "model", "page.txt", "run-collapse"):
        yield ["report", run]
        yield ["compare", "run-audit", run]
    for out in ("corpus", "model", "page.txt", "page.txt/x", "/proc/x", "/dev/null"):
        yield ["calibrate", "model", out]
        yield ["embed", "model", "many.jsonl", out]
        yield ["export", "model", out]
        yield [*audit, "--out", out]


def _without(typed: list[str], option: str) -> list[str]:
    if option not in typed:
        return typed
    place = typed.index(option)
    return typed[:place] + typed[place + 2 :]


def kind_of(ended: Ended) -> str:
    """How a command took what it was given."""
    if ended.code in (0, 1) and "Traceback" not in ended.stderr and "Timeout" not in ended.stderr:
        return "accepted" if ended.code == 0 else "WRONG EXIT CODE"
    if "Timeout" in ended.stderr:
        return "TIMEOUT"
    if "Traceback" in ended.stderr or ended.code not in (0, 2):
        return "TRACEBACK"
    lines = [line for line in ended.lines if not line.startswith("note: ")]
    if len(lines) == 1 and lines[0].startswith("fairspan: "):
        return "one line"
    return "usage" if any("Usage:" in line for line in lines) else "SEVERAL LINES"


def try_inputs(place: Place, every: int, messages: Path | None) -> None:
    tried = list(bad_commands())[::every]
    found: Counter[str] = Counter()
    said = []
    for number, typed in enumerate(tried, start=1):
        ended = place.run(typed)
        kind = kind_of(ended)
        found[kind] += 1
        said.append(f"{kind:12} {' '.join(map(repr, typed))}\n    {(ended.lines or [''])[-1][:400]}\n")
        if kind.isupper():
            print(f"{kind}: {typed}\n{ended.stderr[-1500:]}", flush=True)
        if number % 50 == 0:
            print(f"{number} of {len(tried)}: {dict(found)}", flush=True)
    if messages is not None:
        messages.write_text("".join(sorted(said)), encoding="utf-8")
    print(f"{len(tried)} bad inputs: {dict(found)}")


def try_kills(place: Place, count: int, seed: int) -> None:
    """Kill at a random moment; the same command then ends with the same rows, and nothing half-written is left."""
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    verbs = [*MEASURING, "report", "calibrate", "embed"]
    for number in range(count):
        name = verbs[number % len(verbs)]
        typed = base_commands()[name]
        if name in MEASURING:
            typed = [*_without(typed, "--store"), "--store", f"killed-{number}.sqlite", "--out", f"killed-{number}"]
        else:
            target = f"killed-{number}" + (".html" if name == "report" else "")
            typed = [*_without(typed, "--out")[: 3 if name == "calibrate" else 2], "--out", target]
            if name == "calibrate":
                typed = [*typed[:2], target]
            if name == "embed":
                typed = _embedding(target)
        started = place.commands.start(place.folder, *typed)
        time.sleep(rng.uniform(0, _seconds(place, name)))
        started.signal(signal.SIGKILL)
        killed = started.wait().code == -signal.SIGKILL
        again = place.run(typed)
        outcome = _check(place, name, number, again)
        found[f"{name}: {outcome}" + ("" if killed else " (was over)")] += 1
        if outcome != "same":
            print(f"{outcome}: {typed}\n{again.stderr[-1500:]}", flush=True)
    print(f"{count} kills: {dict(sorted(found.items()))}")


def _embedding(out: str) -> list[str]:
    typed = base_commands()["embed"]
    return [*typed[:3], out, *typed[4:]]


_TIMES: dict[str, float] = {}


def _seconds(place: Place, name: str) -> float:
    """How long a whole run of the verb takes, measured once, with what a kill is compared with."""
    if name not in _TIMES:
        typed, began = base_commands()[name], time.monotonic()
        if name in MEASURING:
            typed = [*_without(typed, "--store"), "--store", f"whole-{name}.sqlite", "--out", f"whole-{name}"]
        else:
            typed = {
                "report": ["report", "run-audit", "--out", "whole.html"],
                "calibrate": ["calibrate", "model", "whole"],
                "embed": _embedding("whole-embed"),
            }[name]
        ended = place.run(typed)
        assert ended.code == 0, ended.stderr
        _TIMES[name] = time.monotonic() - began
    return _TIMES[name]


def _check(place: Place, name: str, number: int, again: Ended) -> str:
    folder = place.folder
    target = folder / (f"killed-{number}" + (".html" if name == "report" else ""))
    if again.code == 2 and name == "calibrate" and (target / "modules.json").exists():
        again = Ended(0, "", "")  # It was complete: a folder that is there is not written again.
    if again.code != 0:
        return "FAILED"
    left = [file.name for file in folder.iterdir() if file.name.startswith(f".killed-{number}")]
    if left:
        return f"LEFT {left}"
    if name == "report":
        return "same" if target.read_bytes() == (folder / "whole.html").read_bytes() else "OTHER PAGE"
    if name == "calibrate":
        return "same" if _files(target) == _files(folder / "whole") else "OTHER FOLDER"
    if name == "embed":
        first, second = (pl.read_parquet(out / "part-*.parquet") for out in (target, folder / "whole-embed"))
        return "same" if first.equals(second) else "OTHER VECTORS"
    assert_sound(folder / f"killed-{number}.sqlite")
    first, second = (pl.read_parquet(run / "rows.parquet").drop("run") for run in (target, folder / f"whole-{name}"))
    return "same" if first.equals(second) else "OTHER ROWS"


def _files(folder: Path) -> list[tuple[str, int]]:
    return sorted(
        (str(file.relative_to(folder)), file.stat().st_size) for file in folder.rglob("*") if file.is_file()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["inputs", "kills"])
    parser.add_argument("--every", type=int, default=1, help="try every so many of the bad inputs")
    parser.add_argument("--messages", type=Path, help="write what was said to each into this file")
    parser.add_argument("--count", type=int, default=50, help="number of kills")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        if given.what == "inputs":
            try_inputs(place, given.every, given.messages)
        else:
            try_kills(place, given.count, given.seed)


if __name__ == "__main__":
    main()
