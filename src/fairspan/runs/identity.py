"""`Identity`: everything that decides a result; it names the run and the entries of the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.runs.hashes import engine_versions, hash_of, slug
from fairspan.runs.prepared import Prepared

_TEXTS = ("documents", "segments", "queries")


@dataclass(frozen=True, slots=True)
class Identity:
    """Two runs with the same identity have the same result.

    Attributes:
        weights: the fingerprint of the subject, None for an object whose results are not kept.
        calibrations: those that the model has before any treatment.
        windows: tokens that are read, by treatment and kind of text; None for any number.
        counted: tokens that texts may have, by side.
        texts: hashes of everything that was read: corpora, tasks, labels, texts to fit on.
    """

    name: str
    weights: str | None
    prompts: Mapping[str, str]
    similarity: str
    calibrations: list[dict[str, Any]]
    windows: Mapping[str, Mapping[str, int | None]]
    counted: Mapping[str, int | None]
    texts: list[Any]
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, prepared: Prepared) -> Identity:
        """The identity of a study that is ready to run."""
        subject = prepared.subject
        options = prepared.options
        # Tiles may be as long as what the plain model reads.
        treatments = (as_treatment(PLAIN), *options.all_treatments)
        windows = {
            treatment.name: {texts: subject.window(treatment, texts) for texts in _TEXTS}
            for treatment in treatments
        }
        return cls(
            name=subject.name,
            weights=subject.fingerprint,
            prompts=dict(subject.prompts),
            similarity=subject.similarity,
            calibrations=subject.calibrations,
            windows=windows,
            counted={side: counter.window for side, counter in subject.counters.items()},
            texts=[*prepared.text_hashes, *prepared.fit.text_hashes],
            options=options.decisive,
            versions={"fairspan": version("fairspan"), **engine_versions()},
        )

    @property
    def run_name(self) -> str:
        """The name of a run's folder: the model's, and a hash of everything."""
        return f"{slug(self.name)}-{hash_of(asdict(self))[:8]}"
