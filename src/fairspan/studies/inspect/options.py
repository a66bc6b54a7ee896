"""What can be asked of `inspect`, checked before anything heavy is imported and a model is loaded."""

from collections.abc import Sequence

from fairspan.calibration.treatment import DEFAULT_TREATMENTS, AnyTreatment, Treatment, as_treatments
from fairspan.errors import DesignError, require_whole
from fairspan.model.source import Loading


def check_options(
    loading: Loading, treatments: Sequence[AnyTreatment] = DEFAULT_TREATMENTS, parts: int | None = None
) -> tuple[Treatment, ...]:
    """The treatments to look through; an error if they, the parts or the device cannot be."""
    chosen = as_treatments(treatments)
    for one in chosen:
        if one.fitted or one.chunks:
            reason = "is fitted on a corpus" if one.fitted else "has no single pass over a document"
            raise DesignError(f"{one.name} {reason} and cannot be inspected: run an audit.")
    if parts is not None:
        require_whole("parts", parts, least=2)
    loading.require_device()
    return chosen
