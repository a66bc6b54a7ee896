"""`fairspan calibrate MODEL OUT`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.calibration.treatment import CORRECTIONS, read_correction
from fairspan.cli.options import (
    AsJson,
    CalibrationOptions,
    chosen_calibration,
    option,
    print_json,
    shared,
    typed,
    words,
)
from fairspan.errors import DesignError, UnsupportedModel

if TYPE_CHECKING:
    from fairspan.model.correction import LanguageCorrection

_OF_BASKETS = {"basket_size", "layers", "strength"}


@shared(CalibrationOptions)
def calibrate(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")],
    out: Annotated[Path, typer.Argument(help="The folder to write; it must be empty or not exist yet.")],
    tile_size: int | None = option("Number of tokens per tile."),
    basket_size: int | None = option("Number of tokens per basket."),
    layers: str | None = option(
        "Layers whose baskets are calibrated: last_half, last, all, how many of the last, or numbers such as 3,5."
    ),
    strength: float | None = option("Of baskets, from 0 (unmodified) to 1 (equal)."),
    temperature: str | None = option(
        'Softmax temperature: a number, or JSON: [[400, 0.9]], {"query": 1, "document": 0.8}.'
    ),
    sides: str | None = option("Texts that are calibrated: both, document or query."),
    correction: str | None = option(
        f"Remove what vectors say about their language: {', '.join(CORRECTIONS)}, subspace-3, lir-2, …"
    ),
    fit_corpus: str | None = option("Corpus in several languages that --correction is fitted on."),
    as_json: AsJson = False,
) -> None:
    """Write a calibrated copy of MODEL to OUT.

    The copy is a SentenceTransformer folder: `fairspan.load(OUT)` reads it, and so does
    `SentenceTransformer(OUT, trust_remote_code=True)` wherever fairspan is installed. Without a preset or a file, it
    reads in tiles, or in baskets if an option of baskets is given. Further fields are set in a --calibration file.

    Examples:

        fairspan calibrate BAAI/bge-m3 bge-m3-fair --preset tiles --max-seq-length 32768

        fairspan calibrate my-model my-model-fair --basket-size 64 --layers 3,4,5 --temperature 0.9

        fairspan calibrate BAAI/bge-m3 bge-m3-fair --correction subspace --fit-corpus my_translations/
    """
    from fairspan.cli.checking import require_folder
    from fairspan.model.source import Loading, find_model

    given = typed(context, "model", "out", "preset", "calibration", "max_seq_length", "correction", "fit_corpus")
    given |= {
        name: read(given[name]) for name, read in (("layers", _layers), ("temperature", _json)) if name in given
    }
    default = "paper" if _OF_BASKETS & set(given) else "tiles"
    wanted = as_calibration(chosen_calibration(typed(context)) or default, **given)
    if correction is not None:
        read_correction(correction)
    if (correction is None) != (fit_corpus is None):
        raise DesignError("correction and fit_corpus belong together: give both, or neither.")
    require_folder(out)
    if out.exists() and any(out.iterdir()):
        raise UnsupportedModel(f"{out} exists and is not an empty folder: choose another, or remove it.")
    find_model(model)
    typer.echo(f"loading {model} …", err=True)
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model
    from fairspan.model.saving import save_whole

    loaded = load_model(model, Loading(device="cpu", dtype="auto"))
    fit = _fitted(model, loaded, wanted, correction, fit_corpus) if correction and fit_corpus else None
    save_whole(calibrate(loaded, wanted, max_seq_length=typed(context).get("max_seq_length"), correction=fit), out)
    if as_json:
        made: dict[str, Any] = {"model": model, "out": str(out), "calibration": wanted.to_dict()}
        print_json(made if fit is None else {**made, "correction": {"method": fit.method, **fit.fitted_on}})
    else:
        typer.echo(f"{out}: {model} calibrated. Load it with fairspan.load({str(out)!r}).")


def _fitted(model: str, loaded: Any, wanted: Calibration, method: str, corpus: str) -> "LanguageCorrection":
    """A correction that is fitted where and as vectors are computed by default; weights are saved as they are."""
    from fairspan.model.fingerprint import fingerprint
    from fairspan.model.loading import load_model
    from fairspan.runs.correction import fit_correction

    fit = fit_correction(load_model(model), corpus, method, calibration=wanted)
    fit.fitted_on |= {"model": model, "fingerprint": fingerprint(loaded)}
    return fit


def _layers(text: str) -> str | int | list[int]:
    try:
        return [int(word) for word in words(text)] if "," in text else int(text)
    except ValueError:
        return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise DesignError(f"temperature must be a number or JSON such as [[400, 0.9]], got {text!r}.") from None
