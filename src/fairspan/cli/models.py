"""`fairspan calibrate MODEL OUT` and `fairspan export MODEL OUT`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.cli.command import command, taken
from fairspan.cli.options import Calibrating
from fairspan.cli.showing import print_result, require_folder, say
from fairspan.model.source import Loading, find_model

# Weights are saved as they are.
_LOADING = Loading(device="cpu", dtype="auto")


@command(Calibrating)
def calibrate(model: str, out: Path, /, *, as_json: bool = False, **typed: Any) -> None:
    """Write a calibrated copy of MODEL to OUT.

    OUT is a SentenceTransformer folder. Load it with `fairspan.load(OUT)`, or with
    `SentenceTransformer(OUT, trust_remote_code=True)` where fairspan is installed. The default
    preset is fair: documents of any length are read whole, in tiles, and their vectors are level.

    For example:

        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-fair
        fairspan calibrate MODEL my-model-128 --tile-size 128
        fairspan calibrate MODEL my-model-baskets --preset paper+basket_size=64

    Args:
        model: a SentenceTransformer: a folder or a name on the hub.
        out: the folder to write; it must be empty or not exist yet.
        as_json: print the result as JSON.
    """
    from fairspan.calibration.words import in_words
    from fairspan.model.saving import require_new, written_whole

    asked = taken(Calibrating, typed)
    chosen = asked.chosen
    require_folder(out)
    require_new(out)
    find_model(model)
    say(f"loading {model} …")
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model
    from fairspan.model.transformer import calibrated_transformers

    limit = asked.max_seq_length
    calibrated = calibrate(load_model(model, _LOADING), chosen, max_seq_length=limit)
    with written_whole(out) as partial:
        calibrated.save_pretrained(str(partial))
    # "auto" has been replaced by what it means for this model.
    calibration = next(calibrated_transformers(calibrated)).calibration
    facts = {"model": model, "out": str(out), "calibration": calibration.to_dict()}
    words = f"{out}: {model}, {in_words(calibration)}."
    opening = (
        f"Load it with fairspan.load({str(out)!r}) or, where fairspan is installed, with "
        f"SentenceTransformer({str(out)!r}, trust_remote_code=True)."
    )
    print_result(facts, [words, opening], as_json=as_json)


@command(Calibrating)
def export(
    model: str,
    out: Path,
    /,
    *,
    side: Side = "document",
    as_json: bool = False,
    **typed: Any,
) -> None:
    """Write MODEL as a folder that runs without fairspan.

    It holds an ONNX graph with its tokenizer and configuration. The graph includes tiles or
    baskets, pooling and normalisation, and takes batches of any size and texts up to the model's
    limit. fastembed, transformers.js, sentence-transformers with backend="onnx" and others read the
    folder. Nothing is written if a vector differs from the model's by more than 1e-4.

    For example:

        fairspan export MODEL model-onnx --max-seq-length 8192
        fairspan export all-MiniLM-L6-v2 minilm-onnx --preset plain --json

    Args:
        model: a SentenceTransformer, calibrated or not: a folder or a name on the hub.
        out: the folder to write, new or empty.
        side: vectors of encode_document or encode_query: document or query.
        as_json: print the result as JSON.
    """
    from fairspan.cli.progress import running, say_loading
    from fairspan.model.saving import require_exportable

    asked = taken(Calibrating, typed)
    _ = asked.chosen
    with running(kept=False) as progress:
        require_exportable(out)
        require_folder(out)
        find_model(model)
        say_loading(progress, model)
        from fairspan.exporting.export import export

        loaded = asked.load(model, _LOADING)
        facts = export(loaded, out, side=side, name=model, stage=progress.stage)
    print_result(facts, _exported(facts, out, side), as_json=as_json)


def _exported(facts: dict[str, Any], out: Path, side: Side) -> Iterator[str]:
    """What was exported, in words."""
    from fairspan.calibration.words import in_words
    from fairspan.exporting.folder import one_side

    calibration = facts["calibration"]
    words = in_words(Calibration.from_dict(calibration) if calibration else PRESETS["plain"])
    off = f"vectors differ by at most {facts['verified']['largest_difference']:.1e}"
    yield f"{out}: {facts['model']}, {words}, {facts['dimension']} dimensions; {off}."
    for name, prompt in facts["prompts"].items():
        if prompt:
            yield f"Put this before every {name}, unless your program does: {prompt!r}."
    if len(facts["sides"]) == 1:
        yield one_side(side)
