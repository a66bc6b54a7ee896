"""The example of transformers.js, on a folder as `fairspan export` writes it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan

WORDS = ["the", "old", "town", "lies", "on", "a", "river", "where", "rain", "falls"]
EXAMPLE = Path(__file__).parents[1] / "examples" / "transformers_js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js"),
    pytest.mark.skipif(not (EXAMPLE / "node_modules").exists(), reason="make integrations installs transformers.js"),
]


def test_the_models_vectors(minilm: SentenceTransformer, tmp_path: Path) -> None:
    fair = fairspan.calibrate(minilm, "long")
    fairspan.export(fair, tmp_path / "folder")
    rng = np.random.default_rng(0)
    # Each word is one token, and there are two more.
    texts = [" ".join(rng.choice(WORDS, tokens - 2)) for tokens in (3, 65, 512, 5000)]
    command = ["node", str(EXAMPLE / "embed.js"), str(tmp_path / "folder")]
    done = subprocess.run(command, input="\n".join(texts), capture_output=True, text=True, check=True)
    vectors = np.array([json.loads(line) for line in done.stdout.splitlines()])
    np.testing.assert_allclose(vectors, fair.encode_document(texts), rtol=0, atol=1e-4)
