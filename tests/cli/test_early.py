"""Mistakes are reported, and the first line printed, before anything that takes many seconds is
imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.searches import write_beir

# The command line where nothing heavy can be imported, for one command after another.
LIGHT = """
import contextlib, io, json, sys, traceback, types
import polars, scipy.stats  # before torch is replaced: they would ask it for more
for name in ("torch", "transformers", "sentence_transformers", "datasets", "mteb"):
    sys.modules[name] = None
from fairspan.cli import main

# All that is asked of torch before a model is loaded: whether the device is there.
cuda = types.SimpleNamespace(device_count=lambda: 0)
no_gpu = types.SimpleNamespace(__version__="2.9", cuda=cuda)

def run(words):
    sys.modules["torch"] = no_gpu if "cuda" in words else None
    sys.argv, err, code = ["fairspan", *words], io.StringIO(), 0
    with contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
            code = 1
    return code, err.getvalue()

print(json.dumps([run(words) for words in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a corpus, a task, a document and what looks like a model."""
    folder = tmp_path_factory.mktemp("place")
    files = {
        "file": "x",
        "page.md": "# One\n\nw1\n\n# Two\n\nw2\n",
        "model/modules.json": "[]",
        "empty.jsonl": "",
        "cut.parquet": "PAR1",
    }
    for name, count in (("corpus", 4), ("many", 20)):
        texts = [" ".join(f"w{number} w1 w{k}." for k in range(20)) for number in range(count)]
        rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        files[f"{name}/en.jsonl"] = "\n".join(map(json.dumps, rows))
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    document, query = {"id": "1", "text": "w1 w2"}, {"id": "q", "text": "w1", "document": "2"}
    write_beir(folder / "task", [document], [query])
    return folder


AUDIT = "audit model --corpus corpus"
TUNE = "tune model --corpus many"
EMBED = "embed model corpus out"
GOOD = [
    AUDIT,
    EMBED,
    "evaluate model --corpus corpus",
    TUNE,
    "collapse model --corpus corpus",
    "inspect model page.md",
    "calibrate model out",
    "export model x",
]
NOT_THERE = "there is no device 'cuda' on this machine: torch 2.9 finds 0 of kind cuda."
MISTAKES = [
    ("embed model empty.jsonl out", "empty.jsonl holds no rows"),
    ("embed model cut.parquet out", "cut.parquet is not a Parquet file"),
    *((f"{words} --device cuda", NOT_THERE) for words in (*GOOD[:6], "serve model --port 0")),
    ("inspect model page.md --dtype int3", "there is no dtype 'int3'"),
    ("audit model --corpus empty.jsonl", "empty is empty: it needs records with 'text'"),
    ("audit model --corpus nowhere.jsonl", "there is no file or folder 'nowhere.jsonl'"),
    (f"{AUDIT} --languages en,xx", "has no language 'xx'"),
    (f"{AUDIT} --out file", "file cannot be written: file is no folder that you may write into"),
    (f"{AUDIT} --store file/store", "file/store cannot be written: "),
    (f"{AUDIT} --picture file/p.png", "file/p.png cannot be written: "),
    (f"{AUDIT} --max-seq-length 0", "max_seq_length must be a whole number of at least 1, got 0"),
    (f"{AUDIT} --device gpu", "there is no device 'gpu'"),
    ("audit nowhere/at-all --corpus corpus", "nowhere/at-all could not be loaded: "),
    ("evaluate model nowhere", "there is no task 'nowhere'"),
    ("evaluate model task", "there is no document '2' in corpus.jsonl"),
    ("serve nowhere/at-all --port 0", "nowhere/at-all could not be loaded: "),
    ("serve model --port 70000", "port must be from 0 to 65535, got 70000"),
    ("serve model --max-inputs 0", "max_inputs must be a whole number of at least 1"),
    (f"{TUNE} --guard nowhere", "there is no task 'nowhere'"),
    ("tune model --corpus corpus", "corpus asks about 4 documents, and tune needs at least 20"),
    (f"{TUNE} --metrics good", "there is no metric 'good': choose from ndcg@k, recall@k, mrr"),
    ("inspect model nowhere.md", "nowhere.md cannot be read"),
    ("inspect nowhere/at-all page.md", "nowhere/at-all could not be loaded: "),
    ("inspect model page.md --html file/page.html", "file/page.html cannot be written: "),
    ("calibrate nowhere/at-all out", "nowhere/at-all could not be loaded: "),
    ("calibrate model file/out", "file/out cannot be written: "),
    ("calibrate model out --max-seq-length 0", "max_seq_length must be"),
    ("calibrate model out --calibration nowhere.json", "nowhere.json"),
    ("export model x.onnx", "a model is exported to a folder: use 'x' for 'x.onnx'"),
]


@pytest.fixture(scope="module")
def ended(place: Path) -> dict[str, tuple[int, str]]:
    """The exit code and what was said on stderr, for every command."""
    commands = [*(words for words, _ in MISTAKES), *GOOD]
    done = subprocess.run(
        [sys.executable, "-c", LIGHT],
        input=json.dumps([command.split() for command in commands]),
        cwd=place,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(commands, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_is_reported_before_the_model_is_loaded(
    ended: dict[str, tuple[int, str]], place: Path, words: str, said: str
) -> None:
    code, err = ended[words]
    last = err.strip().splitlines()[-1]
    assert code == 2, err
    assert last.startswith("fairspan: ")
    assert said in last
    assert "Traceback" not in err
    assert "loading" not in err.removesuffix(f"{last}\n")
    assert not (place / "fairspan-runs").exists()


@pytest.mark.parametrize("words", GOOD)
def test_what_is_loaded_is_said_before_anything_is_imported(
    ended: dict[str, tuple[int, str]], words: str
) -> None:
    """The premise: the import fails, and the line stands before what is said of it."""
    code, err = ended[words]
    *_, before, failed = err.strip().splitlines()
    assert (code, before) == (1, "loading model …")
    assert failed.startswith("fairspan: this is a fault of fairspan (ModuleNotFoundError: ")
    assert "halted; None in sys.modules): run again with --debug" in failed
