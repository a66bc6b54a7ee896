"""`fairspan calibrate MODEL OUT`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.calibration.calibration import PRESETS, Calibration, as_calibration
from fairspan.calibration.language_method import LanguageMethod
from fairspan.cli.options import AsJson, CalibrationOptions, chosen_calibration, option, typed
from fairspan.errors import CalibrationError, LoadError

if TYPE_CHECKING:
    from fairspan.model.languages import LanguageCorrection


def calibrate(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A SentenceTransformer: a folder or a name on the hub.")],
    out: Annotated[Path, typer.Argument(help="The folder to write; it must be empty or not exist yet.")],
    preset: str | None = option(
        f"Preset to start from: {', '.join(PRESETS)}. Default: tiles, or paper if an option of baskets is given."
    ),
    calibration: Path | None = CalibrationOptions.calibration,
    basket_size: int | None = option("Number of tokens per basket."),
    layers: str | None = option(
        "Layers that are calibrated: last_half, last, all, how many of the last, or numbers such as 3,5."
    ),
    rows: str | None = option("Rows of attention that are calibrated: auto, pooling or all."),
    strength: float | None = option("From 0 (unmodified) to 1 (equal baskets)."),
    bos: str | None = option("First token: auto, basket, equal, original or a share."),
    eos: str | None = option("Last token: as --bos."),
    short_texts: str | None = option("What to do with texts that fill no basket: calibrate, leave or ramp."),
    temperature: str | None = option(
        'Softmax temperature: a number, or JSON: [[400, 0.9]], {"query": 1, "document": 0.8}.'
    ),
    sides: str | None = option("Texts that are calibrated: both, document or query."),
    tile_size: int | None = option("Number of tokens per tile; texts are then read in tiles."),
    tile_layers: str | None = option(
        "Layers that are tiled: all, first_three_quarters, first_half, or how many of the first."
    ),
    tile_reach: int | None = option("How many tiles on either side a token sees besides its own."),
    max_seq_length: int | None = CalibrationOptions.max_seq_length,
    languages: str | None = option(
        "Take away what vectors say about their language: centre, subspace, shift, lir, subspace-3, lir-2, …"
    ),
    fit_corpus: str | None = option("Corpus in several languages that --languages is fitted on."),
    as_json: AsJson = False,
) -> None:
    """Write a calibrated copy of MODEL to OUT.

    The copy is a SentenceTransformer folder: `fairspan.load(OUT)` reads it, and so does
    `SentenceTransformer(OUT, trust_remote_code=True)` wherever fairspan is installed.

    Examples:

        fairspan calibrate BAAI/bge-m3 bge-m3-fair --preset tiles --max-seq-length 32768

        fairspan calibrate BAAI/bge-m3 bge-m3-fair --preset retrieval --sides document

        fairspan calibrate my-model my-model-fair --basket-size 64 --layers 3,4,5 --temperature 0.9

        fairspan calibrate my-model my-model-fair --calibration calibration.json --sides document

        fairspan calibrate BAAI/bge-m3 bge-m3-fair --preset tiles --languages subspace --fit-corpus my_translations/
    """
    from fairspan.cli.checking import require_folder
    from fairspan.model.source import Loading, find_model

    chosen = chosen_calibration(typed(context))
    given = typed(context, "model", "out", "preset", "calibration", "max_seq_length", "languages", "fit_corpus")
    given |= {name: _READERS[name](given[name]) for name in _READERS if name in given}
    wanted = as_calibration(chosen or ("paper" if _OF_BASKETS & set(given) else "tiles"), **given)
    _require_fit(languages, fit_corpus)
    require_folder(out)
    if out.exists() and any(out.iterdir()):
        raise LoadError(f"{out} exists and is not an empty folder: choose another, or remove it.")
    find_model(model)
    typer.echo(f"loading {model} …", err=True)
    from fairspan.model.build import calibrate
    from fairspan.model.loading import load_model
    from fairspan.model.saved import save_whole

    loaded = load_model(model, Loading(device="cpu", dtype="auto"))
    fit = _fitted(model, loaded, wanted, languages, fit_corpus) if languages and fit_corpus else None
    save_whole(calibrate(loaded, wanted, max_seq_length=max_seq_length, languages=fit), out)
    if as_json:
        made = {"model": model, "out": str(out), "calibration": wanted.to_dict()}
        known = {} if fit is None else {"languages": {"method": fit.method, "fitted_on": fit.fitted_on}}
        typer.echo(json.dumps({**made, **known}))
    else:
        typer.echo(f"{out}: {model} calibrated. Load it with fairspan.load({str(out)!r}).")


def _require_fit(languages: str | None, fit_corpus: str | None) -> None:
    """Raise, before a model is loaded, if a correction of languages cannot be fitted."""
    if languages is not None:
        LanguageMethod.read(languages)
    if (languages is None) != (fit_corpus is None):
        given, missing = ("languages", "fit_corpus") if fit_corpus is None else ("fit_corpus", "languages")
        raise CalibrationError(f"[[{given}]] needs [[{missing}]]: give both, or neither.")


def _fitted(model: str, loaded: Any, wanted: Calibration, method: str, corpus: str) -> "LanguageCorrection":
    """A correction that is fitted where and as vectors are computed by default; weights are saved as they are."""
    from fairspan.model.fingerprint import fingerprint
    from fairspan.model.loading import load_model
    from fairspan.runs.language_fit import fit_languages

    fit = fit_languages(load_model(model), corpus, method, calibration=wanted)
    return replace(fit, fitted_on={**fit.fitted_on, "model": model, "fingerprint": fingerprint(loaded)})


def _layers(text: str) -> str | int | list[int]:
    if not text.replace(",", "").replace(" ", "").isdigit():
        return text
    return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)


def _share(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _temperature(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise CalibrationError(f"temperature must be a number or JSON such as [[400, 0.9]], got {text!r}.") from None


_OF_BASKETS = {"basket_size", "layers", "rows", "strength", "bos", "eos", "short_texts"}
_Reader = Callable[[str], Any]
_READERS: dict[str, _Reader] = {
    "layers": _layers,
    "tile_layers": _layers,
    "bos": _share,
    "eos": _share,
    "temperature": _temperature,
}
