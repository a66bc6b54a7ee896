"""How fast a model is under a treatment, from a short trial on this machine: for forecasts of a run."""

import time
from collections.abc import Sequence

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.runs.bases import Treated
from fairspan.runs.fit_part import FitPart
from fairspan.runs.subject import Subject

_TRIAL_SECONDS = 1.5


def on_trial(subject: Subject, treatment: Treatment, fit: FitPart) -> Treated:
    """The model under a treatment, fitted on anything: what it is fitted on does not change how long it takes."""
    return subject.under(treatment, fit=fit, embed=_stand_in, lasting=False)


def tokens_per_second(encoder: Encoder, texts: Sequence[Text]) -> float:
    """From texts of medium length."""
    ordered = sorted(texts, key=lambda text: text.length)
    middle = ordered[len(ordered) // 2 :][:4]
    encoder.vectors(middle[:1])
    done, started = 0, time.perf_counter()
    while done == 0 or time.perf_counter() - started < _TRIAL_SECONDS:
        encoder.vectors(middle)
        done += sum(tokens_read(encoder, text) for text in middle)
    return done / (time.perf_counter() - started)


def tokens_read(encoder: Encoder, text: Text) -> int:
    """The tokens of a text, up to the window."""
    return text.length if encoder.window is None else min(text.length, encoder.window)


def _stand_in(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    """Vectors to fit on that need no embedding."""
    (one,) = encoder.vectors(texts[:1])
    return np.random.default_rng(0).standard_normal((len(texts), len(one)))
