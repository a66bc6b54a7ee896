"""What the measures of a study of length are called, and what they mean."""

from fairspan.studies.collapse.spec import WORDS

LABELS = {
    "cosine": "mean pairwise cosine",
    "distance": "distance to the centre",
    "rank": "effective rank",
    "correct": "accuracy",
    "entropy": "entropy in nats",
    "sigma_a": "σ_a",
    "theorem_3": "Theorem 3's bound on σ_a",
    "sigma_s": "σ_s of the scores",
    "filter_rate": "log filter rate",
    "theorem_2": "Theorem 2's bound on the filter rate",
    "hc_dc": "‖HC‖/‖DC‖",
    WORDS: "raw word embeddings",
}
MEANINGS = {
    "cosine": "how alike different texts of one length are",
    "distance": "mean over texts, each to the mean of the others",
    "rank": "how many directions the texts really use",
    "sigma_a": "the smaller it is, the more alike attention makes the tokens",
    "filter_rate": "how much of the differences between tokens a layer keeps (logarithm)",
    "hc_dc": "how much the tokens of a text differ from their mean",
}


def label(name: str) -> str:
    """The words for a measure or the control; a treatment has its own name."""
    return LABELS.get(name, name)


def meaning(measure: str) -> str:
    """A measure and what it says, in one line."""
    return f"{label(measure)}: {MEANINGS[measure]}"
