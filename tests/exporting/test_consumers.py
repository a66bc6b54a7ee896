"""Exported folders and saved models in other programs: every examples/with_*.py, where it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairspan

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Each is one token to both models.
WORDS = ["the", "old", "town", "lies", "on", "a", "river", "where", "rain", "falls"]
# The environment of a program, and what it reads.
PROGRAMS = {
    "onnxruntime": (".venv", "exported"),
    "openvino": (".clients", "exported"),
    "fastembed": (".clients", "exported"),
    "txtai": (".clients", "exported"),
    "haystack": (".clients", "saved"),
    "langchain": (".clients", "saved"),
    "sentence_transformers": (".optimum", "exported"),
    "infinity": (".optimum", "exported"),
    "transformers_js": ("examples/transformers_js/node_modules", "exported"),
}
# By the documentation of transformers.js, for a model with mean pooling.
PIPELINE = """
import { pipeline } from "@huggingface/transformers";
import { readFileSync } from "node:fs";
const extract = await pipeline("feature-extraction", process.argv[1], { dtype: "fp32" });
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  const found = await extract(text, { pooling: "mean", normalize: true });
  console.log(JSON.stringify(found.tolist()[0]));
}
"""
# What export itself promises.
CLOSE = 1e-4


@dataclass(frozen=True)
class Made:
    """A calibrated model's two folders, texts, and their vectors."""

    folder: Path
    texts: list[str]
    vectors: np.ndarray


@pytest.fixture(scope="module", params=["minilm", "granite"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Mean pooling without a prompt, and CLS pooling with one; both read texts of any length."""
    folder = tmp_path_factory.mktemp(request.param)
    fair = fairspan.calibrate(request.getfixturevalue(request.param), "fair")
    if request.param == "granite":
        fair.prompts = {"document": "passage: ", "query": "question: "}
    fair.save_pretrained(str(folder / "saved"))
    fairspan.export(fair, folder / "exported")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, tokens - 2)) for tokens in (3, 65, 512, 5000)]
    assert [len(fair.tokenizer(text)["input_ids"]) for text in texts] == [3, 65, 512, 5000]
    return Made(folder, texts, fair.encode_document(texts))


def run(typed: list[str], given: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(typed, input=given, capture_output=True, text=True, **how)


def embedded(program: str, folder: Path, texts: list[str]) -> Any:
    """One batch of vectors, and those of each text alone."""
    environment = ROOT / PROGRAMS[program][0]
    if not (environment / ".installed").exists():
        pytest.skip(f"needs {environment.name}: make integrations")
    if environment.name == "node_modules":
        return [in_node([str(environment.parent / "embed.js"), str(folder)], "\n".join(texts))]
    python = sys.executable if environment.name == ".venv" else environment / "bin" / "python"
    typed = [
        str(python),
        "-m",
        "tests.builders.consumers",
        f"examples/with_{program}.py",
        str(folder),
    ]
    env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    env["HF_HOME"] = str(folder.parent / "cache")
    if program == "infinity":
        env["PYTHONPATH"] = str(environment / "infinity")  # the optimum that it works with
    done = run(typed, json.dumps(texts), cwd=ROOT, env=os.environ | env, timeout=600)
    if "No module named 'openvino'" in done.stderr:
        pytest.skip("there is no OpenVINO for this platform")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_node(typed: list[str], given: str) -> list[list[float]]:
    if shutil.which("node") is None:
        pytest.skip("needs Node.js")
    done = run(["node", *typed], given, cwd=ROOT / "examples/transformers_js")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("program", PROGRAMS)
def test_vectors_in_a_program(program: str, made: Made) -> None:
    folder = made.folder / PROGRAMS[program][1]
    before = sorted(folder.rglob("*"))
    for vectors in embedded(program, folder, made.texts):
        np.testing.assert_allclose(vectors, made.vectors, rtol=0, atol=CLOSE)
    assert sorted(folder.rglob("*")) == before


def test_a_pipeline_of_transformers_js(made: Made) -> None:
    installed = ROOT / PROGRAMS["transformers_js"][0] / ".installed"
    if not installed.exists() or made.folder.name.startswith("granite"):
        pytest.skip("needs transformers.js (make integrations) and a model with mean pooling")
    typed = ["--input-type=module", "--eval", PIPELINE, str(made.folder / "exported")]
    vectors = in_node(typed, json.dumps(made.texts))
    np.testing.assert_allclose(vectors, made.vectors, rtol=0, atol=CLOSE)


def test_every_example_is_tested() -> None:
    there = {file.stem.removeprefix("with_") for file in (ROOT / "examples").iterdir()}
    # test_mteb.py, test_databases.py
    elsewhere = {"mteb", "chroma", "lancedb_table", "postgres", "qdrant"}
    assert there == {*PROGRAMS, *elsewhere}
