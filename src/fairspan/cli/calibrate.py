"""`fairspan calibrate MODEL OUT`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import CORRECTIONS, read_correction
from fairspan.calibration.words import in_words
from fairspan.cli.options import AsJson, calibrating, chosen_calibration, option, print_json, typed
from fairspan.cli.showing import require_folder
from fairspan.errors import DesignError


@calibrating
def calibrate(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")
    ],
    out: Annotated[
        Path, typer.Argument(help="The folder to write; it must be empty or not exist yet.")
    ],
    correction: str | None = option(
        f"Make vectors independent of the text's language: {', '.join(CORRECTIONS)}, subspace-3, lir-2, …"
    ),
    fit_corpus: str | None = option("Corpus in several languages that --correction is fitted on."),
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

        fairspan calibrate MODEL model-fair --correction subspace --fit-corpus my_translations/
    """
    from fairspan.model.saving import require_new, written_whole
    from fairspan.model.source import Loading, find_model

    given = typed(context)
    wanted = chosen_calibration(given) or Calibration.preset("long")
    if correction is not None:
        read_correction(correction)
    if (correction is None) != (fit_corpus is None):
        raise DesignError("correction and fit_corpus belong together: give both, or neither.")
    require_folder(out)
    require_new(out)
    find_model(model)
    typer.echo(f"loading {model} …", err=True)
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model

    loaded = load_model(model, Loading(device="cpu", dtype="auto"))
    fit = None
    if correction is not None and fit_corpus is not None:
        from fairspan.model.fingerprint import fingerprint
        from fairspan.runs.correction import fit_correction

        # On a model that is loaded where and as vectors are computed by default; weights are saved as they are.
        fit = fit_correction(load_model(model), fit_corpus, correction, calibration=wanted)
        fit.fitted_on |= {"model": model, "fingerprint": fingerprint(loaded)}
    fair = calibrate(loaded, wanted, max_seq_length=given.get("max_seq_length"), correction=fit)
    with written_whole(out) as partial:
        fair.save_pretrained(str(partial))
    if as_json:
        made: dict[str, Any] = {"model": model, "out": str(out), "calibration": wanted.to_dict()}
        print_json(
            made if fit is None else {**made, "correction": {"method": fit.method, **fit.fitted_on}}
        )
    else:
        typer.echo(f"{out}: {model}, {in_words(wanted)}. Load it with fairspan.load({str(out)!r}).")
