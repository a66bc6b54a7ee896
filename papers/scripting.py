"""What the scripts of this folder share: options, progress, errors in one line, tables."""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from cyclopts import App, CycloptsError, Parameter, Token
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import FairspanError, MissingExtra
from fairspan.model.fingerprint import fingerprint
from fairspan.report.drawing import COLOURS, DASHES, SHAPES


def _split(kind: Any, tokens: Sequence[Token]) -> list[Any]:
    """What was typed with commas, as a list."""
    [item] = kind.__args__
    return [item(word.strip()) for word in tokens[-1].value.split(",")]


def _join(values: Sequence[Any] | None) -> str:
    return "none" if values is None else ",".join(map(str, values))


_LISTED = Parameter(converter=_split, n_tokens=1, negative="", show_default=_join)
Words = Annotated[Sequence[str], _LISTED]
Numbers = Annotated[Sequence[float], _LISTED]
Counts = Annotated[Sequence[int], _LISTED]


@Parameter(name="*")
@dataclass(frozen=True)
class Prompts:
    """What is put before texts, in place of the model's own prompts.

    Attributes:
        prompt: Put before every document. By default the model's own prompt.
        query_prompt: Put before every query. By default the model's own prompt.
    """

    prompt: str | None = None
    query_prompt: str | None = None

    def open(self, model: str, max_seq_length: int | None = None) -> SentenceTransformer:
        """The model of that name or in that folder."""
        say(f"loading {model} …")
        loaded = fairspan.load(model)
        if max_seq_length is not None:
            loaded.max_seq_length = max_seq_length
        for side, text in (("document", self.prompt), ("query", self.query_prompt)):
            if text is not None:
                loaded.prompts[side] = text
        return loaded


OWN_PROMPTS = Prompts()


def make_app(docstring: str | None) -> App:
    """The command of a script, which its docstring explains."""
    return App(
        # Terminals wrap paragraphs; lines that are indented stay as they are.
        help=re.sub(r"(?<=\S)\n(?=\S)", " ", docstring or ""),
        help_flags="--help",
        help_format="plaintext",
        version_flags=(),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )


def run(app: App, typed: Sequence[str] | None = None) -> None:
    """Run a script: a mistake is one line on stderr, with exit code 2."""
    try:
        app(typed)
    except (FairspanError, CycloptsError) as error:
        say(f"{Path(sys.argv[0]).name}: {' '.join(str(error).split())}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("interrupted: the same command continues from here.")
        sys.exit(130)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def folder_of(out: Path, model: SentenceTransformer, data: Any) -> Path:
    """A folder in `out` for this model, its prompts and these data, as JSON can hold them."""
    decisive = [fairspan.__version__, fingerprint(model), model.prompts, model.max_seq_length, data]
    folder = out / hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(file: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array of a file, which is made if there is none."""
    if not file.exists():
        # A file is complete, or has another name.
        np.save(file.with_name("unfinished.npy"), make())
        file.with_name("unfinished.npy").replace(file)
    return np.asarray(np.load(file))


def encoded(encode: Callable[..., Any], texts: Sequence[str], what: str) -> np.ndarray:
    """Vectors [texts, d] of length 1, by a method of a model such as `encode_document`."""
    say(f"{what}: {len(texts):,} texts …")
    bar = sys.stderr.isatty()
    return np.asarray(encode(list(texts), normalize_embeddings=True, show_progress_bar=bar))


def temperature_presets(temperatures: Sequence[float]) -> dict[float, fairspan.Calibration]:
    """A calibration for each of them, in ascending order."""
    preset = fairspan.Calibration.preset("tempscale")
    return {number: preset.but(temperature=number) for number in sorted(set(temperatures))}


def require(package: str) -> None:
    """Raise before hours of work, not after them, if a package is missing."""
    if find_spec(package) is None:
        raise MissingExtra(f"this script needs {package}: pip install {package}")


def print_table(frame: pl.DataFrame) -> None:
    """Print all rows and columns of a frame, and nothing about it."""
    with pl.Config(
        tbl_formatting="NOTHING",
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=1000,
    ):
        print(frame)


def colours_and_shapes(rows: pl.DataFrame, by: str) -> dict[str, Any]:
    """Channels that tell apart the values of a column, with one legend."""
    import altair as alt

    names = rows[by].unique(maintain_order=True).to_list()
    legend = None if names == [None] else alt.Legend(labelLimit=400)
    # Grey is for the plain model. Six colours and seven shapes make 42 pairs.
    return {
        "color": alt.Color(f"{by}:N", legend=legend).scale(domain=names, range=COLOURS[1:]),
        "shape": alt.Shape(f"{by}:N", legend=legend).scale(domain=names, range=SHAPES),
    }


def curves(rows: pl.DataFrame, x: str, y: str, by: str, *, dash: str = "", **axis: Any) -> Any:
    """Lines with points by the values of a column; `dash` is a column that dashes them instead.

    Columns `low` and `high` are the ends of bars.
    """
    import altair as alt

    places = alt.X(f"{x}:Q").scale(zero=False, nice=False, padding=10, **axis)
    values = rows[x].unique().sort().to_list()
    height = {"type": "quantitative", "title": None, "scale": alt.Scale(zero=False)}
    looks = colours_and_shapes(rows, by)
    dashes = alt.StrokeDash(f"{dash or by}:N", sort=None, legend=None).scale(range=DASHES)
    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(
        x=places.axis(grid=False, values=values), y=alt.Y(y, **height), color=looks["color"]
    )
    points = base.mark_point(filled=True, size=50, opacity=1).encode(shape=looks["shape"])
    figure = base.mark_line().encode(strokeDash=dashes) + points
    if "low" in rows.columns:
        figure += base.mark_rule().encode(y=alt.Y("low", **height), y2="high")
    return figure


def heat_map(rows: pl.DataFrame, x: Any, y: Any, colour: Any, form: str) -> Any:
    """A number in each cell, on its colour."""
    import altair as alt

    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(x=x.axis(labelAngle=0), y=y)
    numbers = base.mark_text().encode(text=alt.Text(colour.shorthand, format=form))
    cells = base.mark_rect().encode(color=colour)
    return (cells + numbers).properties(width=alt.Step(60), height=alt.Step(45))
