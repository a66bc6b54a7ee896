"""`fairspan calibrate MODEL OUT`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.words import in_words
from fairspan.cli.options import AsJson, calibrating, chosen_calibration, print_json, typed
from fairspan.cli.showing import require_folder


@calibrating
def calibrate(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")
    ],
    out: Annotated[
        Path, typer.Argument(help="The folder to write; it must be empty or not exist yet.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write a calibrated copy of MODEL to OUT.

    OUT is a SentenceTransformer folder. Load it with `fairspan.load(OUT)`, or with
    `SentenceTransformer(OUT, trust_remote_code=True)` where fairspan is installed. The default preset is long: texts
    of any length are read whole, and texts that fit into the model's window keep their vectors.

    Examples:

        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-long

        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-tiles --tile-size 64

        fairspan calibrate my-model my-model-fair --preset paper+basket_size=64+temperature=0.9
    """
    from fairspan.model.saving import require_new, written_whole
    from fairspan.model.source import Loading, find_model

    given = typed(context)
    wanted = chosen_calibration(given) or Calibration.preset("long")
    require_folder(out)
    require_new(out)
    find_model(model)
    typer.echo(f"loading {model} …", err=True)
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model

    loaded = load_model(model, Loading(device="cpu", dtype="auto"))
    fair = calibrate(loaded, wanted, max_seq_length=given.get("max_seq_length"))
    with written_whole(out) as partial:
        fair.save_pretrained(str(partial))
    if as_json:
        print_json({"model": model, "out": str(out), "calibration": wanted.to_dict()})
    else:
        typer.echo(f"{out}: {model}, {in_words(wanted)}. Load it with fairspan.load({str(out)!r}).")
