"""The wall time of a whole audit against plain `encode` of the same texts.

    python -m benchmarks.audit [--sets 24] [--rounds 3]

Both sides embed every segment and document once under each treatment, with the model already
loaded. The audit does all the rest as well: counting tokens, drawing and building documents,
hashing the weights, storing every vector, measuring, writing the log and the statistics. Each round
runs both, one after the other, with a fresh store.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import fairspan
from benchmarks.measure import time_side_by_side
from fairspan.model.loading import load_model
from fairspan.runs.progress import Silent
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.run import STUDY


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()

    model = load_model()
    asked = AuditOptions(
        model, sets=chosen.sets, treatments=["plain", "paper+basket_size=64"], progress=False
    )
    prepared = STUDY.read(asked, Silent())
    texts = [text.text for text in prepared.segments + prepared.texts]
    models = [fairspan.calibrate(model, treatment.for_documents) for treatment in asked.measured]

    def encode() -> None:
        for one in models:
            one.encode_document(texts, show_progress_bar=False)

    def audit() -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = STUDY(
                replace(asked, out=Path(folder) / "run", store=Path(folder) / "store.sqlite")
            )
            assert log.view

    print(f"{len(texts)} texts, {len(models)} treatments, all-MiniLM-L6-v2", flush=True)
    timings = time_side_by_side({"encode": encode, "audit": audit}, "encode", chosen.rounds)
    for name, timing in timings.items():
        low, high = timing.spread
        print(
            f"{name:7s} {timing.median:6.1f} s   ratio {timing.ratio:.3f} ({low:.3f} to {high:.3f})"
        )
    print("target: the audit at most 1.10")


if __name__ == "__main__":
    main()
