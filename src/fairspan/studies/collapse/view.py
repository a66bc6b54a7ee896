"""`view_of` a study of length: verdicts, the suggested temperature, charts and tables."""

from fairspan.report.table import Tone
from fairspan.report.text import model_name
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.advice import remarks
from fairspan.studies.collapse.charts import OVERVIEW, charts_of
from fairspan.studies.collapse.frames import frames_of
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.collapse.tables import tables_of, where

TONES: dict[str, Tone] = {"more alike": "bad", "not more alike": "good", "less alike": "good"}
"""What was shown has a colour; all else is open."""

SECTIONS = {
    "At a glance": (OVERVIEW,),
    "What length does": ("length-similarity", "length-geometry", "length-classification", "length-repeated-words"),
    "What attention does": ("length-sigma", "length-filter-rates", "length-token-spread"),
}
METHODS = (
    """To separate length from content, the same documents are cut at sentence borders to every length. The mean
    cosine over pairs of different texts of one length shows how similar their vectors are. Intervals are made by
    leaving out one document at a time (jackknife).""",
    """The verdict is on the slope of the mean cosine over the logarithm of length. More alike: the slope is
    significantly above the margin. Not more alike: it is significantly below the margin. That is a test of its own: a
    slope that does not differ significantly from 0 shows nothing. Inconclusive: neither.""",
    """σ_a is the largest singular value of an attention matrix after the constant direction is removed: how much of
    the differences between tokens a layer lets through at most. The bounds are those of Theorems 2 and 3 of the
    length-collapse paper.""",
    """The suggested temperature makes long texts no more similar than the shortest texts of the first treatment, by
    less than the margin for each doubling of length. Whether it helps search or classification has to be measured
    there.""",
)


def view_of(log: RunLog) -> View:
    """What a study's log has to show."""
    summary = summarize_length(log)
    return View(
        title=f"What length does to {model_name(log.model)}",
        heading=_heading(summary),
        cards=tuple(
            Card(name, verdict, TONES.get(verdict, "open"), (sentence,))
            for name, verdict, sentence in summary.verdicts.rows()
        ),
        sections=_sections(summary),
        frames=frames_of(summary),
        picture=OVERVIEW,
        remarks=tuple(remarks(summary)["sentence"]),
        notes=tuple(summary.notes),
        switch=tuple(summary.treatments),
        all_first=True,
        methods=tuple(" ".join(paragraph.split()) for paragraph in METHODS),
    )


def _heading(summary: LengthSummary) -> str:
    count = max(one["texts"] for one in summary.log.header["lengths"])
    kind = "of" if summary.natural else "cut to"
    return f"{where(summary)}: {count} documents {kind} {', '.join(map(summary.name, summary.lengths))} tokens"


def _sections(summary: LengthSummary) -> tuple[Section, ...]:
    paired = "documents of natural length" if summary.natural else "the same documents cut at sentence borders"
    intros = {
        "What length does": f"Texts of each length are {paired}. Intervals are {summary.percent}, over documents.",
        "What attention does": f"Means over {summary.log.spec['spectra']} texts of each length at most. Dashed lines "
        "are the theorems' bounds.",
    }
    charts, tables = charts_of(summary), tables_of(summary)
    found = [
        Section(title, intros.get(title, ""), tuple(charts[name] for name in names if name in charts))
        for title, names in SECTIONS.items()
    ]
    return (
        *(section for section in found if section.charts),
        Section("Tables", tables=tuple(tables[:1]), folded=tuple(tables[1:])),
    )
