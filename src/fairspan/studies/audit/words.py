"""`Words`: what each measure is called in verdicts, charts and tables."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The words for one measure.

    Attributes:
        done: said of a position in a verdict, as in "less represented".
        section: the heading on a page.
        title: of a figure.
        caption: what a figure shows, without its intervals.
        intro: explains the section of a page.
    """

    done: str
    section: str
    title: str
    caption: str
    intro: str


POSITION_MEASURES = {
    "representation": Words(
        done="represented",
        section="How well each position is represented",
        title="How well one vector represents each part of a document",
        caption="Cosine of a document's vector with each of its segments alone, by position",
        intro="Bars show the mean cosine between a document's vector and the vector of each of its segments alone, "
        "with 95 % intervals. In a fair embedding they are equally high. The mean length of the segments at each "
        "position, in tokens, is shown below.",
    ),
    "retention": Words(
        done="retained",
        section="How much each position retains",
        title="How much of its own meaning each part keeps inside a document",
        caption="Cosine of each segment inside a document with the same segment alone, by position",
        intro="Bars show the mean cosine between a segment's vector inside the document (late chunking) and its "
        "vector alone, with 95 % intervals.",
    ),
}


@dataclass(frozen=True, slots=True)
class AttentionWords:
    """The words for one way to divide a text: its parts, its figure, its axis, and what titles say of it."""

    part: str
    name: str
    x_label: str
    by: str

    @property
    def relative(self) -> bool:
        """Whether parts are shares of a document."""
        return self.part == "bin"


ATTENTION_MEASURES = {
    "attention_segment": AttentionWords("segment", "attention-segments", "segment", "by segment"),
    "attention_basket": AttentionWords(
        "basket", "attention-baskets", "basket of 128 tokens", "by basket of 128 tokens"
    ),
    "attention_bin": AttentionWords(
        "bin", "attention-relative", "place in the document, in %", "from a document's beginning to its end"
    ),
}
