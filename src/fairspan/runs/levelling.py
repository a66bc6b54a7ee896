"""Level vectors of a model that is not loaded: its common direction is found by embedding."""

from collections.abc import Sequence

from fairspan.calibration.level import CommonDirection, fit_level
from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.encoding.text import Text
from fairspan.model.level import general_texts
from fairspan.runs.embedder import Embed, Pair
from fairspan.runs.subject import Subject


def level_pairs(subject: Subject, treatment: Treatment) -> list[Pair]:
    """General texts with what embeds them, if a direction has to be found from them."""
    if not _embeds_texts(subject, treatment):
        return []
    texts = general_texts()
    lengths = subject.counter.count_whole(texts)
    plain = subject.under(as_treatment(PLAIN)).documents
    return [(plain, list(map(Text, texts, lengths)))]


def find_common(subject: Subject, treatment: Treatment, embed: Embed) -> CommonDirection | None:
    """The common direction of a model that is not loaded, if the treatment needs one."""
    pairs = level_pairs(subject, treatment)
    return fit_level(embed(*pairs[0])) if pairs else None


def level_note(subject: Subject, treatments: Sequence[Treatment]) -> list[str]:
    """A note that general texts, which are not in the corpus, are embedded."""
    if not any(_embeds_texts(subject, treatment) for treatment in treatments):
        return []
    count = len(general_texts())
    paid = f"{count} general texts that come with fairspan are embedded once"
    return [f"{paid}, to find the direction that level vectors share"]


def _embeds_texts(subject: Subject, treatment: Treatment) -> bool:
    return treatment.for_documents.level and not subject.is_open
