"""Which treatments a model can be measured under."""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.calibration.treatment import CLOSED_TREATMENTS, Treatment
from fairspan.encoding.chunks import chunk_tokens
from fairspan.errors import UnsupportedModel
from fairspan.model.baselines import last_two
from fairspan.runs.subject import Subject


def refuse_unsuited(
    subject: Subject,
    treatments: Sequence[Treatment],
    *,
    on_tokens: Sequence[Treatment] = (),
    beyond: Sequence[str] = (),
) -> None:
    """Raise, before anything is embedded, if the model cannot be measured under these treatments.

    Tokens are compared with whole vectors under those `on_tokens`. What is asked for `beyond` them,
    only a SentenceTransformer can do.
    """
    for treatment in treatments:
        if treatment.chunks:
            chunk_tokens(treatment.chunk_size(), replace(subject, treatments=()).counter)
    if not subject.is_open:
        _refuse_closed(subject, treatments, beyond)
        return
    for treatment in treatments:
        _refuse_open(subject, treatment, on_tokens, beyond)


def _refuse_closed(
    subject: Subject, treatments: Sequence[Treatment], beyond: Sequence[str]
) -> None:
    """Raise if anything but vectors is needed of an object that gives nothing else."""
    inside = [
        treatment.name
        for treatment in treatments
        if treatment.calibration.but(level=False).acts or treatment.acts != treatment.chunks
    ]
    if impossible := [*inside, *beyond]:
        raise UnsupportedModel(
            f"{type(subject.model).__name__} is not a SentenceTransformer: it gives vectors and no "
            f"access to its attention and tokens, so that only {', '.join(CLOSED_TREATMENTS)} and "
            f"chunk-mean+level=true can be measured: omit {', '.join(impossible)}."
        )


def _refuse_open(
    subject: Subject, treatment: Treatment, on_tokens: Sequence[Treatment], beyond: Sequence[str]
) -> None:
    """Raise if a SentenceTransformer cannot be measured under a treatment."""
    if treatment.baseline == "last2avg":
        last_two(subject.model)
    truncated = getattr(subject.model, "truncate_dim", None)
    if treatment.whitens and truncated is not None:
        raise UnsupportedModel(
            f"truncate_dim={truncated} would truncate the vectors after they are whitened: load "
            "the model without it, and keep fewer dimensions of the whitening."
        )
    if (treatment.whitens or treatment.chunks) and treatment in on_tokens:
        raise UnsupportedModel(
            f"vectors of {treatment.name} are not comparable with token vectors: omit it, or omit "
            "retention and late chunks."
        )
    if treatment.chunks and "attention" in beyond:
        raise UnsupportedModel(
            f"{treatment.name} reads a document in several passes, which have no attention in "
            "common: omit it, or omit attention."
        )
