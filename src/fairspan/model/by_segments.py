"""`encode_segments`: documents given as lists of segments, embedded with one basket for each."""

from collections.abc import Sequence
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.errors import SegmentError
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import calibrated_transformers


def encode_segments(
    model: SentenceTransformer, documents: Sequence[Sequence[str]] | Sequence[str], **options: Any
) -> Any:
    """Embed documents whose segments are known, with one basket for each segment.

    Args:
        model: a calibrated model.
        documents: a list of documents, each a list of segments; or one document.
        options: whatever `model.encode_document` takes.

    Returns:
        What `model.encode_document` returns: one vector per document.
    """
    if not any(module.calibration.strength > 0 for module in calibrated_transformers(model)):
        raise SegmentError(
            "segments become baskets only inside a calibrated model: use fairspan.calibrate(model, 'paper') or any "
            "calibration with a strength above 0."
        )
    if documents and all(isinstance(part, str) for part in documents):
        return model.encode_document(SegmentedText(documents), **options)  # type: ignore[arg-type]
    return model.encode_document([SegmentedText(document) for document in documents], **options)
