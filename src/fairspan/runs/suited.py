"""Which treatments a model can be measured under."""

from collections.abc import Sequence
from dataclasses import replace

from fairspan.calibration.treatment import CLOSED_TREATMENTS, Treatment
from fairspan.encoding.chunks import chunk_tokens
from fairspan.errors import UnsupportedModel
from fairspan.runs.subject import Subject


def refuse_unsuited(
    subject: Subject, treatments: Sequence[Treatment], beyond: Sequence[str] = ()
) -> None:
    """Raise, before anything is embedded, if the model cannot be measured under these treatments.

    What is measured `beyond` vectors, such as attention, takes one pass of a SentenceTransformer.
    """
    in_chunks = [treatment for treatment in treatments if treatment.chunks]
    for treatment in in_chunks:
        chunk_tokens(treatment.chunk_size(), replace(subject, treatments=()).counter)
    if not subject.is_open:
        _refuse_closed(subject, treatments, beyond)
        return
    if in_chunks and beyond:
        raise UnsupportedModel(
            f"{in_chunks[0].name} reads a document in several passes, in which {beyond[0]} is not "
            f"defined: omit it, or omit {beyond[0]}."
        )


def _refuse_closed(
    subject: Subject, treatments: Sequence[Treatment], beyond: Sequence[str]
) -> None:
    """Raise if anything but vectors is needed of an object that gives nothing else."""
    inside = [
        treatment.name
        for treatment in treatments
        if treatment.calibration.reads or treatment.acts != treatment.chunks
    ]
    if impossible := [*inside, *beyond]:
        raise UnsupportedModel(
            f"{type(subject.model).__name__} is not a SentenceTransformer: it gives vectors and no "
            f"access to its attention and tokens, so that only {', '.join(CLOSED_TREATMENTS)} and "
            f"chunk-mean+level=true can be measured: omit {', '.join(impossible)}."
        )
