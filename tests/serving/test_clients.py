"""`fairspan serve` with common clients, and saved models in other libraries' classes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
KEY = "sesame"
DOCUMENT = (
    "The bridge at Marlow was closed in March. Engineers from the county replaced the bearings. "
    * 12
)
TEXTS = [DOCUMENT, "Another document,\nwith two lines."]
QUESTION = "who repaired the bridge?"
# Vectors of length 1 from batches of other widths: some hundred float32 roundings of 6e-8.
CLOSE = 2e-5


@dataclass(frozen=True)
class Served:
    """A server, and the model that it serves."""

    url: str
    folder: Path
    model: SentenceTransformer

    @property
    def documents(self) -> Any:
        return self.model.encode_document(TEXTS)

    @property
    def query(self) -> Any:
        return self.model.encode_query(QUESTION)


def near(vectors: Any, expected: Any) -> bool:
    return bool(np.allclose(vectors, expected, rtol=0, atol=CLOSE))


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """`fairspan serve` in a process of its own, and its base URL."""
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", "serve", str(folder)]
    command += ["--port", "0", "--device", "cpu", *options]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "FAIRSPAN_API_KEY": KEY}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"on (http://\S+)", line):
                break
        else:
            pytest.fail("".join(said))
        # The premise of "when it is ready": whoever has read the line can connect.
        with urlopen(f"{found[1]}/health") as reply:
            assert reply.status == 200
        yield f"{found[1]}/v1"
        process.terminate()
        assert process.wait(15) == 0


@pytest.fixture(scope="module")
def served(
    minilm: SentenceTransformer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """MiniLM with prompts, in tiles on the side of documents only: the sides of a text differ."""
    folder = tmp_path_factory.mktemp("served") / "my-model"
    fair = fairspan.calibrate(minilm, "tiles-64", sides="document", max_seq_length=1024)
    fair.prompts = {"query": "question: ", "document": "passage: "}
    fair.save_pretrained(str(folder))
    model = fairspan.load(folder, device="cpu")
    ways = [model.encode_document, model.encode_query, model.encode]
    ways += [partial(model.encode, prompt_name="query"), partial(model.encode, task="query")]
    vectors = [encode(DOCUMENT) for encode in ways]
    assert not any(near(*pair) for pair in combinations(vectors, 2)), "the premise"
    limits = ["--max-inputs", "64", "--max-request-tokens", "2000", "--max-queue-tokens", "2000"]
    with serving(folder, *limits) as url:
        yield Served(url, folder, model)


def test_curl(served: Served) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    (line,) = re.findall(r"^    (curl .*)$", PAGE, flags=re.MULTILINE)
    typed = shlex.split(
        line.replace("http://localhost:8000/v1", served.url).replace("$FAIRSPAN_API_KEY", KEY)
    )
    reply = json.loads(subprocess.run(typed, capture_output=True, check=True).stdout)
    assert near(reply["data"][0]["embedding"], served.query)


def sections(page: str) -> dict[str, list[str]]:
    """The Python blocks of a page by heading."""
    parts = re.split(r"^##+ (.*)$", page, flags=re.MULTILINE)[1:]
    blocks = {
        title: re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {title: codes for title, codes in blocks.items() if codes}


def code_for(served: Served) -> dict[str, list[str]]:
    """The code of docs/serve.md by section, for this server."""
    page = PAGE.replace("http://localhost:8000/v1", served.url).replace("my-key", KEY)
    page = page.replace('"./my-model"', f'"{served.folder}"').replace("A long document …", DOCUMENT)
    return sections(page)


def test_openai(served: Served) -> None:
    code = code_for(served)
    names: dict[str, Any] = {}
    exec("\n".join([*code["Clients"], *code["openai"]]), names)
    assert near(names["documents"], served.documents)
    assert near(names["query"], served.query)


@pytest.fixture(scope="module")
def told(served: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What other libraries make of it."""
    python = ROOT / ".clients" / "bin" / "python"
    if not (python.parents[1] / ".installed").exists():
        pytest.skip("needs LangChain and LlamaIndex: make integrations")
    code = code_for(served)
    del code["openai"]
    blocks = tmp_path_factory.mktemp("page") / "blocks.json"
    blocks.write_text(json.dumps(code), encoding="utf-8")
    typed = [python, "-m", "tests.builders.clients", blocks]
    done = subprocess.run(
        list(map(str, typed)), cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


BLOCKS = ["LangChain 0", "LangChain 1", "LlamaIndex 0"]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_on_the_page(served: Served, told: dict[str, Any], block: str) -> None:
    assert {*told} == {*BLOCKS}
    assert near(told[block]["documents"], served.documents)
    assert near(told[block]["query"], served.query)
