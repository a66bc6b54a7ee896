"""`fairspan calibrate MODEL OUT`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairspan.cli.command import command, taken
from fairspan.cli.options import Calibrating


@command(Calibrating)
def calibrate(model: str, out: Path, *, as_json: bool = False, **calibrating: Any) -> None:
    """Write a calibrated copy of MODEL to OUT.

    OUT is a SentenceTransformer folder. Load it with `fairspan.load(OUT)`, or with
    `SentenceTransformer(OUT, trust_remote_code=True)` where fairspan is installed. The default
    preset is long: texts of any length are read whole, and texts that fit into the model's window
    keep their vectors.

    For example:

        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-long
        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-tiles --tile-size 64
        fairspan calibrate my-model my-model-fair --preset paper+basket_size=64+temperature=0.9

    Args:
        model: a SentenceTransformer: a folder or a name on the hub.
        out: the folder to write; it must be empty or not exist yet.
        as_json: print the result as JSON.
    """
    from fairspan.calibration.calibration import Calibration
    from fairspan.calibration.words import in_words
    from fairspan.cli.showing import print_json, require_folder, say
    from fairspan.model.saving import require_new, written_whole
    from fairspan.model.source import Loading, find_model

    asked = taken(Calibrating, calibrating)
    calibration = asked.chosen or Calibration.preset("long")
    require_folder(out)
    require_new(out)
    find_model(model)
    say(f"loading {model} …")
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model

    # Weights are saved as they are.
    loaded = load_model(model, Loading(device="cpu", dtype="auto"))
    calibrated = calibrate(loaded, calibration, max_seq_length=asked.max_seq_length)
    with written_whole(out) as partial:
        calibrated.save_pretrained(str(partial))
    if as_json:
        print_json({"model": model, "out": str(out), "calibration": calibration.to_dict()})
        return
    words = in_words(calibration)
    print(f"{out}: {model}, {words}. Load it with fairspan.load({str(out)!r}).")
