"""`view_of` a study of length: what it means, verdicts, a table and a chart of the frames."""

from collections.abc import Mapping

import polars as pl

from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.report.chart import Chart
from fairspan.report.table import VERDICTS, Column, Table
from fairspan.report.text import model_name
from fairspan.report.view import Card, Section, View
from fairspan.runs.folder import write_calibration
from fairspan.runs.log import LogKind, RunLog
from fairspan.studies.collapse.entries import SCHEMA, CollapseEntries
from fairspan.studies.collapse.options import CollapseAnalysis
from fairspan.studies.collapse.summary import frames_of

OVERVIEW = "length-overview"
# With fewer documents, intervals of skewed distributions are too narrow.
FEW = 30
NAMES = {
    "cosine": "mean pairwise cosine",
    "share": "share of the common direction",
}
NOTES = (
    "mean pairwise cosine: how similar different texts of the same length are",
    "share of the common direction: mean cosine with the direction that all vectors have in common",
)
METHODS = """
To separate length from content, the same documents are cut at sentence borders to every length.
Intervals are made by leaving out one document at a time (jackknife).

The vectors of a model have a direction in common, found from short general texts. A text's share of
it is the cosine of its vector with it. A larger share adds to the score for every query, by the
query's own share times the difference, and search returns such texts more often. The query's share
is that of the shortest texts of the first treatment.

The verdict is on two slopes over the logarithm of length: of the mean cosine, and of the score for
every query. Biased: one of them is significantly beyond the margin. Fair: both are significantly
within it; a slope that does not differ significantly from 0 shows nothing. Inconclusive: neither.

A treatment is suggested if it is fair itself, after a correction for the number that were tried.
Measure with fairspan evaluate whether it helps search."""


def view_of(log: RunLog) -> View:
    """What a study's log has to show."""
    frames = frames_of(log, log.analysis)
    study = log.header.part(CollapseEntries)
    texts = frames["lengths"]["texts"].to_list()
    notes = list(log.notes)
    if min(texts) < FEW:
        few = f"{min(texts)} documents: with fewer than {FEW}, intervals may be too narrow"
        notes.append(few)
    kind = "cut to" if study.paired else "of"
    names = ", ".join(study.names.values())
    return View(
        title=f"What length does to {model_name(log.model)}",
        heading=f"{log.where}: {max(texts)} documents {kind} {names} tokens",
        cards=tuple(
            Card(name, word, VERDICTS[word], (sentence,))
            for name, word, sentence in frames["verdicts"].rows()
        ),
        sections=(
            Section("At a glance", charts=(_chart(log, frames),), tables=(_table(log, frames),)),
        ),
        frames=frames,
        meaning=frames["suggestion"]["sentence"][0],
        picture=OVERVIEW,
        notes=tuple(notes),
        methods=tuple(" ".join(paragraph.split()) for paragraph in METHODS.split("\n\n")),
    )


def _lengths(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The measures of each length, in words."""
    rows = frames["geometry"].filter(pl.col("length").is_not_null())
    return rows.with_columns(pl.col("measure").replace(NAMES))


def _table(log: RunLog, frames: Mapping[str, pl.DataFrame]) -> Table:
    """A row for each measure and treatment, a column for each length."""
    wide = _lengths(frames).pivot(
        "length", index=["measure", "treatment"], values="estimate", maintain_order=True
    )
    names = log.header.part(CollapseEntries).names
    return Table(
        "geometry",
        f"Vectors of texts by length ({log.where})",
        wide,
        heads=("measure", "treatment"),
        columns={str(length): Column(name, "tokens") for length, name in names.items()},
        grouped=1,
        notes=NOTES,
        brief=True,
        tidy=frames["geometry"],
    )


def _chart(log: RunLog, frames: Mapping[str, pl.DataFrame]) -> Chart:
    """Every measure by length under every treatment.

    The first of several bins begins at 0, which has no place on a logarithmic axis.
    """
    study = log.header.part(CollapseEntries)
    words = pl.col("length").replace_strict(study.names)
    return Chart(
        name=OVERVIEW,
        title="What length does to vectors",
        subtitle=log.where,
        frame=_lengths(frames).with_columns(words.alias("tokens")),
        kind="lines",
        x="length" if study.paired else "tokens",
        panel="measure",
        x_title="tokens",
        scale="log" if study.paired else "names",
        label="tokens",
        free=True,
        series=log.measured,
    )


def write_results(log: RunLog) -> None:
    """Write the calibration of the suggested treatment, if there is one."""
    suggested = log.frame("suggestion")["treatment"][0]
    if suggested is not None:
        asked = {treatment["name"]: treatment for treatment in log.spec["treatments"]}
        # Temperatures by length are not among the treatments of the run; their name defines them.
        treatment = (
            Treatment.from_dict(asked[suggested]) if suggested in asked else as_treatment(suggested)
        )
        write_calibration(log.folder, treatment.calibration)


LOG = LogKind(SCHEMA, view_of, CollapseAnalysis)
