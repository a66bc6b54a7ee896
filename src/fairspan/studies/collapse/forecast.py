"""What a study of length would do, without doing it: texts, tokens and time of each treatment."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text
from fairspan.encoding.spectra import spectra
from fairspan.errors import UnsupportedModel
from fairspan.runs.speed import on_trial, tokens_per_second
from fairspan.studies.collapse.prepare import PreparedCollapse

_TRIAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ArmForecast:
    """What one treatment embeds, and the seconds that vectors and spectra take, predicted from a short trial."""

    treatment: str
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would embed, all treatments together."""

    arms: tuple[ArmForecast, ...]
    lengths: tuple[int, ...]
    texts: int
    notes: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return sum(arm.tokens for arm in self.arms)

    @property
    def seconds(self) -> float:
        return sum(arm.seconds for arm in self.arms)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tokens": self.tokens, "seconds": self.seconds}


def forecast(prepared: PreparedCollapse) -> Forecast:
    """Count what a run would embed, and time a small part of it under every treatment."""
    labelled = prepared.labelled.cuts.texts if prepared.labelled else ()
    cut = [text.text for text in (*prepared.cuts.texts, *labelled)]
    texts = _texts([*cut, *(text for pair in prepared.pairs for text in pair.texts)], prepared.subject.counter)
    arms, inside = [], None
    treatments = prepared.spec.treatments
    each = [sum(text.length for text in texts)] * len(treatments)
    for treatment, tokens in zip(treatments, prepared.fit.tokens(treatments, each), strict=True):
        treated = on_trial(prepared.subject, treatment, prepared.fit)
        seconds = tokens / tokens_per_second(treated.documents, texts[: len(cut)])
        if treatment.baseline is None and prepared.spec.spectra:
            inside = _spectra_seconds(prepared, treated.documents.model) if inside is None else inside
            seconds += inside
        arms.append(ArmForecast(treatment.name, tokens, seconds))
    notes = (*prepared.header["notes"], *prepared.fit.notes)
    return Forecast(tuple(arms), prepared.cuts.lengths, len(texts), notes)


def _spectra_seconds(prepared: PreparedCollapse, model: SentenceTransformer) -> float:
    """The time of all spectra of one treatment, from one text of each length, the short ones first.

    Lengths that the trial has no time for are taken to need time in proportion to the square of their tokens.
    """
    layers: Any = prepared.spec.layers
    total = spent = one = 0.0
    tokens = 1
    for length in prepared.cuts.lengths:
        texts = prepared.cuts.at(length)[: prepared.spec.spectra]
        if spent < _TRIAL_SECONDS:
            started = time.perf_counter()
            try:
                list(spectra(model, [texts[0].text], prompt=prepared.subject.prompts["document"], layers=layers))
            except UnsupportedModel:
                return 0.0
            one, tokens = time.perf_counter() - started, texts[0].tokens
            spent += one
        total += sum(one * (text.tokens / tokens) ** 2 for text in texts)
    return total


def _texts(texts: list[str], counter: TokenCounter) -> list[Text]:
    return [Text(text, length) for text, length in zip(texts, counter.count_whole(texts), strict=True)]
