"""Options that several commands share and that only a command line has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.spelling import as_calibration, read_calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.errors import DesignError, require_whole
from fairspan.model.source import Loading

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass(frozen=True, kw_only=True)
class Calibrating:
    """How a model is calibrated, and how far it reads.

    Attributes:
        preset: preset to apply: fair, tiles-64, paper, retrieval, plain, …; change fields as in
            paper+basket_size=64. By default fair; plain leaves the model as it is. A calibrated
            model keeps its calibration unless you name another.
        calibration: JSON file of a calibration, or a folder with a calibration.json, such as a run
            of tune or collapse, instead of a preset.
        tile_size: tokens per tile: 64, 128, 256, …, or window for as many as the plain model reads,
            but at most 512.
        max_seq_length: longest text to read, in tokens. By default any length in tiles, otherwise
            the model's own limit.
    """

    preset: str | None = None
    calibration: Path | None = None
    tile_size: int | str | None = None
    max_seq_length: int | None = None

    def __post_init__(self) -> None:
        if self.preset is not None and self.calibration is not None:
            raise DesignError(
                "preset and calibration both say what to start from: omit one of them."
            )
        if self.max_seq_length is not None:
            require_whole("max_seq_length", self.max_seq_length)

    @property
    def chosen(self) -> Calibration | None:
        """The calibration; None for the default."""
        start = None if self.calibration is None else read_calibration(self.calibration)
        if self.preset is not None:
            treatment = as_treatment(self.preset)
            if treatment != Treatment(treatment.name, treatment.calibration):
                raise DesignError(
                    f"preset takes a calibration, such as {', '.join(PRESETS)}, "
                    f"got {self.preset!r}."
                )
            start = treatment.calibration
        return start if self.tile_size is None else as_calibration(start, tile_size=self.tile_size)

    def load(self, model: str, loading: Loading) -> SentenceTransformer:
        """The model of that name, calibrated."""
        from fairspan.model.build import calibrate_by_default
        from fairspan.model.loading import load_model

        return calibrate_by_default(load_model(model, loading), self.chosen, self.max_seq_length)


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A model behind an HTTP endpoint instead of one that is loaded.

    Attributes:
        endpoint: address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1,
            instead of MODEL. Its key is the environment variable OPENAI_API_KEY, if set.
        endpoint_model: name of the endpoint's model.
    """

    endpoint: str | None = None
    endpoint_model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Showing:
    """What a command does with the result of a study.

    Attributes:
        picture: draw the main figure into this PNG, SVG or PDF.
        dry_run: print how much would be embedded, and embed nothing.
        verbose: print every table of the page, such as regression coefficients.
        as_json: print the result as JSON.
    """

    picture: Path | None = None
    dry_run: bool = False
    verbose: bool = False
    as_json: bool = False


@dataclass(frozen=True, kw_only=True)
class Failing:
    """On which results a command fails.

    Attributes:
        fail_if: exit with code 1 on any of these results: for an audit biased, inconclusive,
            language-biased or language-inconclusive; otherwise worse or inconclusive. All
            treatments are judged; fair:biased judges only fair.
    """

    fail_if: str | None = None
