"""The identity of a run: everything that decides its rows, and the name of its folder."""

import re
from importlib.metadata import version
from typing import Any

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.runs.hashing import hash_of
from fairspan.runs.texts import Texts
from fairspan.runs.versions import engine_versions

_KINDS = ("documents", "segments", "queries")


def identity_of(texts: Texts) -> dict[str, Any]:
    """What decides the rows of a run, as JSON holds it: two runs with the same have the same rows.

    Options that only analyse rows are not in it.
    """
    subject = texts.subject
    options = texts.options
    # Tiles may be as long as what the plain model reads.
    treatments = (as_treatment(PLAIN), *options.all_treatments)
    return {
        "verb": options.verb,
        "name": subject.name,
        "weights": subject.fingerprint,
        "prompts": dict(subject.prompts),
        "similarity": subject.similarity,
        "calibrations": subject.calibrations,
        "windows": {
            treatment.name: {kind: subject.window(treatment, kind) for kind in _KINDS}
            for treatment in treatments
        },
        "counted": {side: counter.window for side, counter in subject.counters.items()},
        "texts": texts.text_hashes,
        "options": options.decisive,
        "versions": {"fairspan": version("fairspan"), **engine_versions()},
    }


def run_name(texts: Texts) -> str:
    """The name of a run's folder: its verb, the model, and a hash of its identity."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", texts.subject.name.rstrip("/").split("/")[-1])
    hashed = hash_of(identity_of(texts))[:8]
    return f"{texts.options.verb}-{model.strip('-.') or 'model'}-{hashed}"
