"""The coefficients of IRF's Tables 1–19 (arXiv 2601.16934) as printed, beside those of a run."""

from pathlib import Path

import polars as pl

from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.report.text import model_name
from fairspan.runs.log import RunLog
from fairspan.studies.audit.measures import PLAN

FILE = Path(__file__).parent / "data" / "irf.csv"
MODELS = {"mGTE": "gte-multilingual-base", "jina-v3": "jina-embeddings-v3"}
"""The paper's names of its models, and how theirs on the hub begin, without the owner."""
MISSING = (
    "IRF published no coefficients of such documents: it has documents of 3 to 6 segments in en, "
    "zh, de, it, ko and hi, and of two of these languages with en, zh, de or hi later"
)


def published_coefficients() -> pl.DataFrame:
    """Every printed number, table by table; some are in two tables. `digits` are as printed."""
    return pl.read_csv(FILE).with_columns(PLAN, pl.col("marker", "note").fill_null(""), digits=2)


def published_frame(log: RunLog) -> pl.DataFrame:
    """What IRF published of the run's measures, sizes and plans, under its treatments.

    Of the run's model if that is one of the paper's, otherwise of all of them.
    """
    documents = log.rows.select("measure", "lead", "later", "n").unique()
    hub_name = model_name(log.model).rpartition("/")[2].lower()
    same = [name for name, on_hub in MODELS.items() if hub_name.startswith(on_hub)]
    asked = [Treatment.from_dict(entry) for entry in log.spec["treatments"]]
    calibrations = [treatment.calibration for treatment in asked if not treatment.chunks]
    rows = published_coefficients()
    names = rows["treatment"].unique()
    treatments = [name for name in names if as_treatment(name).calibration in calibrations]
    under = pl.when(treatment="plain").then(pl.lit("")).otherwise(" " + pl.col("treatment"))
    return (
        rows.filter(pl.col("model").is_in(same or list(MODELS)))
        .filter(pl.col("treatment").is_in(treatments))
        .join(documents, on=documents.columns, how="semi", maintain_order="left")
        .unique(
            ["model", "measure", "treatment", "plan", "n", "position"],
            keep="first",
            maintain_order=True,
        )
        .with_columns(treatment="IRF: " + pl.col("model") + under)
    )
