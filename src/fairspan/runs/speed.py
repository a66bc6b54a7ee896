"""How fast a model is under a treatment, from a short trial on this machine: for forecasts of a run."""

import time
from collections.abc import Sequence

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.runs.bases import Treated
from fairspan.runs.fit_part import FitPart
from fairspan.runs.subject import Subject

_TRIAL_SECONDS = 1.5


def on_trial(subject: Subject, treatment: Treatment, fit: FitPart) -> Treated:
    """The model under a treatment, fitted on anything: what it is fitted on does not change how long it takes."""
    return subject.under(treatment, fit=fit, embed=_stand_in, lasting=False)


def tokens_per_second(encoder: Encoder, texts: Sequence[Text], most: float = float("inf")) -> float:
    """From texts of medium length, of which at least four and at most so many tokens are embedded."""
    middle = _middle(texts)
    _embed(encoder, middle[:1])
    done, started = 0, time.perf_counter()
    while done == 0 or (done < most and time.perf_counter() - started < _TRIAL_SECONDS):
        _embed(encoder, middle)
        done += sum(tokens_read(encoder, text) for text in middle)
    return done / (time.perf_counter() - started)


def relative_time(first: Encoder, second: Encoder, texts: Sequence[Text], rounds: int = 3) -> float:
    """How long the second takes for texts of medium length, in times of the first; the median of a few turns."""
    middle, found = _middle(texts), []
    for encoder in (first, second):
        _embed(encoder, middle)
    for _ in range(rounds):
        took = []
        for encoder in (first, second):
            started = time.perf_counter()
            _embed(encoder, middle)
            took.append(time.perf_counter() - started)
        found.append(took[1] / took[0])
    return float(np.median(found))


def _embed(encoder: Encoder, texts: Sequence[Text]) -> None:
    """As a run does it, with its batches halved where memory is short and its errors in one line; nothing is kept."""
    with Store(":memory:") as store:
        together = len(texts) * max(text.length for text in texts)
        fill(encoder, texts, store, budget=together, tally=Tally(), progress=lambda tokens: None)


def _middle(texts: Sequence[Text]) -> list[Text]:
    ordered = sorted(texts, key=lambda text: text.length)
    return ordered[len(ordered) // 2 :][:4]


def tokens_read(encoder: Encoder, text: Text) -> int:
    """The tokens of a text, up to the window."""
    return text.length if encoder.window is None else min(text.length, encoder.window)


def _stand_in(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    """Vectors to fit on that need no embedding."""
    (one,) = encoder.vectors(texts[:1])
    return np.random.default_rng(0).standard_normal((len(texts), len(one)))
