"""What an example makes of a folder, as JSON on stdout. Runs in the environment of its program.

    python -m tests.builders.consumers EXAMPLE FOLDER < TEXTS

TEXTS is a list in JSON. Its vectors come in one batch, and again each alone.
"""

import contextlib
import json
import runpy
import sys

import numpy as np

if __name__ == "__main__":
    example, folder = sys.argv[1:]
    texts = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        embed = runpy.run_path(example)["embed"]
        batch = np.asarray(embed(folder, texts))
        alone = np.vstack([embed(folder, [text]) for text in texts])
    json.dump([batch.tolist(), alone.tolist()], sys.stdout)
