"""`view_of` a tuning: the answer first, its figures, the candidates and the tests."""

import polars as pl

from fairspan.calibration.calibration import CALIBRATION_FILE, PRESETS
from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.report.chart import Chart, Panel, Series, point
from fairspan.report.files import write_file
from fairspan.report.frames import interval
from fairspan.report.table import CHANGE, VERDICTS, Column, Table
from fairspan.report.text import bounds, model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.stats.choice import ALPHA, FEW_CHANGED
from fairspan.studies.tune.options import REFERENCE
from fairspan.studies.tune.summary import frames_of, names_in_words

PARTS = (
    "Documents, with their queries and everything that shares a text with them, are divided by the seed: one half is "
    "tuned on, a quarter guards the choice, a quarter is for the figures that are reported. Guard tasks are not "
    "tuned on, so that three quarters of them guard."
)
RULE = (
    "Of the candidates within one standard error of the best quality, the fairest are kept; of those within one "
    "standard error of the fairest, the mildest is preferred: the one that moves the vectors least. Standard errors "
    "are those of paired differences, by the jackknife over clusters of queries."
)
GUARDING = (
    "The preferred candidate, and those that the same rule prefers among milder ones, are tested on the guard part, "
    "in that order. The first is chosen whose gain is above 0 and whose loss is below the margin on every task. The "
    f"tests share the {ALPHA:.0%} by which the choice may be wrong; the first one has most of it."
)
CLAIM = (
    "The claim is that the choice is not worse by more than the margin at 95 %, on documents and queries like these. "
    "It does not say that it is never worse."
)

PAGE = "tune.html"


def view_of(log: RunLog) -> View:
    """Everything that a tuning has to show."""
    frames = frames_of(log)
    shown = _Shown(log, frames)
    _, chosen, word, sentence, _ = frames["verdicts"].row(0)
    finished = "candidates" in frames
    return View(
        title=f"Which treatment to use with {model_name(log.model)}",
        heading=log.where,
        cards=(Card(chosen, word, VERDICTS[word], (sentence,)),),
        sections=shown.results() if finished else (),
        frames=frames,
        picture="candidates" if finished else "",
        notes=tuple(log.notes),
        remarks=shown.remarks() if finished else (),
        methods=(PARTS, RULE, CLAIM),
    )


class _Shown:
    """The tables and charts of one log's frames."""

    def __init__(self, log: RunLog, frames: dict[str, pl.DataFrame]) -> None:
        self.log, self.frames, self.metric = log, frames, str(log.spec["metric"])
        self.model = model_name(log.model)

    def results(self) -> tuple[Section, ...]:
        tests = (self._tests(),) if "tests" in self.frames else ()
        chart = self.quality_chart()
        return (
            Section("The figures", "On the part that nothing was decided on.", tables=(self._report(),)),
            Section("Candidates", "On the part that is tuned on.", tables=(self._candidates(),), charts=(chart,)),
            *(Section("Tests on the guard part", GUARDING, tables=(table,)) for table in tests),
        )

    def _figures(self, frame: pl.DataFrame) -> dict[str, Column | str]:
        """The columns of quality, and of fairness if there is something to be fair to."""
        found: dict[str, Column | str] = {"quality": self.metric, "change": CHANGE}
        if frame["psi"].is_finite().any():
            change = Column("change of PSI [95 %]", form="+.2f")
            found |= {"psi": Column("PSI", form=".2f"), "psi_change": change}
        return {**found, "clusters": Column("clusters", form=",d")}

    def _report(self) -> Table:
        frame, said = self.frames["report"], names_in_words(self.log.header)
        return Table.from_frame(
            "report",
            f"On the report part ({self.model})",
            frame,
            heads=("task", "treatment"),
            columns=self._figures(frame),
            grouped=1,
            notes=(f"{REFERENCE}: {said[REFERENCE]}, embedded by the plain model",),
            brief=True,
        )

    def _candidates(self) -> Table:
        frame = self.frames["candidates"]
        more: dict[str, Column | str] = {"moved": "moved", "outcome": Column("outcome", align="wrap")}
        return Table.from_frame(
            "candidates",
            f"Candidates on the part that is tuned on ({self.model})",
            frame,
            heads=("treatment",),
            columns={**self._figures(frame), **more},
            notes=(
                "moved: mean cosine distance from the plain model's vectors",
                "change: on the same queries, not corrected for the number of candidates",
            ),
            brief=True,
        )

    def _tests(self) -> Table:
        return Table.from_frame(
            "tests",
            "Tests on the guard part",
            self.frames["tests"],
            heads=("treatment", "task"),
            columns={
                "claim": Column("gain of", align="left"),
                "gain": Column("gain", form="+.3f"),
                "gain_lower": Column("above", form="+.3f"),
                "change": Column(f"change of {self.metric}", form="+.3f"),
                "change_lower": Column("above", form="+.3f"),
                "clusters": Column("clusters", form=",d"),
                "level": Column("level", form=".1%"),
                "verdict": Column("verdict", align="left"),
            },
            grouped=1,
            notes=(f"lower bounds are one-sided; a loss below {self.log.spec['margin']:g} counts as none",),
        )

    def quality_chart(self) -> Chart:
        """How quality changes with every candidate."""
        rows = self.frames["candidates"].filter(pl.col("treatment") != PLAIN).sort(-pl.col("quality")).to_dicts()
        points = []
        for one in rows:
            change = interval(one, "change_")
            told = (one["treatment"], f"{self.metric} {number(one['quality'])}", one["outcome"])
            points.append(point(change, "\n".join(told), bounds(change, "+.3f")))
        series = Series(f"change of {self.metric}", -1, tuple(points))
        return Chart(
            "candidates",
            "Which treatment finds more",
            "Candidates on the part that is tuned on. Changes from the plain model on the same queries, with 95 % "
            "intervals.",
            "rows",
            "treatment",
            f"change of {self.metric}",
            (Panel("all queries", tuple(str(one["treatment"]) for one in rows), (series,)),),
            subtitle=f"{self.model}, {self.log.header['task']['source']}",
            form="+.3f",
        )

    def remarks(self) -> tuple[str, ...]:
        """What the figures say against the choice."""
        chosen, tests = self.frames["verdicts"]["treatment"][0], self.frames.get("tests")
        if chosen == PLAIN or tests is None:
            return ()
        few = tests.filter(pl.col("treatment") == chosen, pl.col("changed") < FEW_CHANGED)
        worse = self.frames["report"].filter(pl.col("treatment") == chosen, pl.col("change_high") < 0)
        said = [
            f"On {task} {chosen} changes {changed} of {clusters} clusters: a rare loss may not be among them."
            for task, changed, clusters in few.select("task", "changed", "clusters").rows()
        ]
        more = "is worse, which the guard part did not show."
        return (*said, *(f"On the report part of {task} {chosen} {more}" for task in worse["task"]))


def write_results(log: RunLog) -> None:
    """Write the calibration to use, and the page, where they are missing or older than the log."""
    chosen = log.verdicts["treatment"][0]
    named = {one["name"]: Treatment.from_dict(one).calibration for one in log.spec["treatments"]}
    file, page = log.folder / CALIBRATION_FILE, log.folder / PAGE
    text = f"{named.get(chosen, PRESETS[PLAIN]).to_json()}\n"
    if not file.is_file() or file.read_bytes() != text.encode():
        write_file(file, text)
    if not page.is_file() or page.stat().st_mtime < (log.folder / "run.json").stat().st_mtime:
        log.save_page(page)
