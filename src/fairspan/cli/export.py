"""`fairspan export MODEL OUT`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import Side
from fairspan.cli.command import command, taken
from fairspan.cli.options import Calibrating
from fairspan.errors import DesignError


@command(Calibrating)
def export(
    model: str,
    out: Path,
    *,
    side: Side = "document",
    int8: bool = False,
    as_json: bool = False,
    **calibrating: Any,
) -> None:
    """Write MODEL as a folder that runs without fairspan.

    It holds an ONNX graph with its tokenizer and configuration. The graph includes tiles or
    baskets, pooling and normalisation, and takes batches of any size and texts up to the model's
    limit. fastembed, transformers.js, sentence-transformers with backend="onnx" and others read the
    folder. Nothing is written if a vector differs from the model's by more than 1e-4.

    For example:

        fairspan export MODEL model-onnx --preset long --max-seq-length 8192
        fairspan export all-MiniLM-L6-v2 minilm-onnx --preset long --int8 --json

    Args:
        model: a SentenceTransformer, calibrated or not: a folder or a name on the hub.
        out: the folder to write, new or empty.
        side: vectors of encode_document or encode_query: document or query.
        int8: weights in 8 bits: a quarter of the size, vectors close but not equal.
        as_json: print the result as JSON.
    """
    from fairspan.cli.progress import running, say_loading
    from fairspan.cli.showing import print_json, require_folder
    from fairspan.model.saving import require_exportable
    from fairspan.model.source import Loading, find_model

    asked = taken(Calibrating, calibrating)
    calibration = asked.chosen
    if side not in ("document", "query"):
        raise DesignError(f"side must be document or query, got {side!r}.")
    with running(kept=False) as progress:
        require_exportable(out)
        require_folder(out)
        find_model(model)
        say_loading(progress, model)
        from fairspan.exporting.export import export
        from fairspan.model.build import calibrate_if_asked
        from fairspan.model.loading import load_model

        loaded = load_model(model, Loading(device="cpu", dtype="auto"))
        calibrated = calibrate_if_asked(loaded, calibration, asked.max_seq_length)
        facts = export(calibrated, out, side=side, int8=int8, name=model, stage=progress.stage)
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts, out, side)


def _print_facts(facts: dict[str, Any], out: Path, side: Side) -> None:
    """What was exported, in words."""
    off = f"{facts['verified']['largest_difference']:.1e} off the model's vectors"
    if "int8" in facts:
        off = f"the lowest cosine to the model's vectors is {facts['int8']['lowest_cosine']:.4f}"
    print(f"{out}: {facts['model']}, {facts['dimension']} dimensions; {off}.")
    for name, prompt in facts["prompts"].items():
        if prompt:
            print(f"Put this before every {name}, where the program you use does not: {prompt!r}.")
    if len(facts["sides"]) == 1:
        print(f"Its vectors are those of encode_{side}: export the other side as well.")
