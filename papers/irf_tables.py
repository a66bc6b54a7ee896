"""IRF, Tables 1–19: coefficients of finished audits, laid out as in the paper, beside its own.

IRF is "Information Representation Fairness in Long-Document Embeddings" (2026, arXiv 2601.16934).
docs/papers.md has the commands of the audits; tables for which RUN has no documents are left out.
A run of gte-multilingual-base gets the tables of mGTE, one of jina-embeddings-v3 those of jina-v3,
and any other model both. In Tables 16 to 19 c. is calibrated (paper) and uc. is plain.

Time: seconds; nothing is embedded. OUT gets each table as Markdown, as LaTeX (it needs booktabs and
amssymb) and, with intervals, as CSV.

    python papers/irf_tables.py irf-one-language irf-mixed irf-calibrated --out irf-tables
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import polars as pl

import fairspan
from fairspan.errors import DesignError
from scripting import make_app, run

PUBLISHED = Path(__file__).parent / "irf.csv"
MODELS = {"mGTE": "gte-multilingual-base", "jina-v3": "jina-embeddings-v3"}
"""The paper's names of its models, and how theirs on the hub begin, without the owner."""
MARKERS = "none p < .001, ◇ p < .01, □ p < .05, • not significant"
LATEX = {"β": r"$\beta$", "−": "$-$", "◇": r"$^{\Diamond}$", "□": r"$^{\square}$"}
LATEX |= {"•": r"$^{\bullet}$", "_": r"\_", "&": r"\&", "%": r"\%"}

app = make_app(__doc__)


@app.default
def main(*runs: Path, out: Path = Path("irf-tables")) -> None:
    """Lay out the coefficients of runs.

    Args:
        runs: Folders of finished runs of audit.
        out: Folder for the tables.
    """
    if not runs:
        raise DesignError("name the folder of at least one run of audit.")
    frames = [read_run(folder) for folder in runs]
    written = 0
    for number, model, rows in tables_of(pl.concat(frames, how="diagonal_relaxed")):
        table = lay_out(rows)
        name = f"table-{number:02}"
        title = f"IRF, Table {number} ({model}): coefficients of {rows['measure'][0]}"
        text = f"{title}\n\n{to_markdown(table)}\n\nSigns: {MARKERS}. IRF: arXiv 2601.16934.\n"
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.md").write_text(text, encoding="utf-8")
        (out / f"{name}.tex").write_text(to_latex(table, title), encoding="utf-8")
        rows.write_csv(out / f"{name}.csv")
        print(text)
        written += 1
    if not written:
        raise DesignError(
            "the paper has no table of such documents: it has documents of 3 to 6 segments, all in "
            "one of en, zh, de, it, ko and hi, or with en, zh, de or hi later."
        )


class Table(NamedTuple):
    """The cells of a table: its heads, one or two lines of them, and its rows."""

    heads: list[list[str]]
    rows: list[list[str]]


def published() -> pl.DataFrame:
    """Every printed number, table by table."""
    rows = pl.read_csv(PUBLISHED).with_columns(pl.col("marker").fill_null(""))
    same = pl.col("lead") == pl.col("later")
    several = pl.format("[{}, {}, ..., {}]", "lead", "later", "later")
    plan = pl.when(same).then("lead").otherwise(several)
    return rows.with_columns(plan=plan, source=pl.lit("IRF"), digits=2)


def read_run(folder: Path) -> pl.DataFrame:
    """The coefficients of a run."""
    log = fairspan.read_log(folder)
    if log.verb != "audit" or "coefficients" not in log.view.frames:
        raise DesignError(f"{folder} is no audit of representation or retention.")
    name = log.model.rstrip("/").rpartition("/")[2]
    return log.frame("coefficients").with_columns(source=pl.lit(name), digits=3)


def tables_of(measured: pl.DataFrame) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """The number and the model of each table that was measured, and its rows beside the paper's."""
    keys = ["measure", "treatment", "lead", "later", "n", "position"]
    for (number,), printed in published().group_by("table", maintain_order=True):
        model = printed["model"][0]
        others = [name for paper, name in MODELS.items() if paper != model]
        is_other = pl.any_horizontal(pl.col("source").str.starts_with(name) for name in others)
        places = printed.select(*keys, "plan")
        rows = measured.filter(~is_other).drop("plan").join(places, on=keys)
        if set(rows["treatment"]) == set(printed["treatment"]):
            documents = rows.select("lead", "later", "n").unique()
            beside = printed.join(documents, on=documents.columns, how="semi")
            columns = [*keys, "source", "plan", "coefficient", "estimate", "marker", "digits"]
            both = [rows.select(*columns, "low", "high"), beside.select(columns)]
            order = pl.col("plan").cast(pl.Enum(printed["plan"].unique(maintain_order=True)))
            whole = pl.concat(both, how="diagonal_relaxed")
            yield number, model, whole.sort("n", "position", order, maintain_order=True)


def lay_out(rows: pl.DataFrame) -> Table:
    """A column for each plan, and in it for each source and treatment, as the paper has them."""
    calibrated = rows["treatment"].n_unique() > 1
    several = rows["source"].n_unique() > 1
    columns: dict[tuple[str, str, str], list[str]] = {}
    for plan in rows["plan"].unique(maintain_order=True):
        for source in rows["source"].unique(maintain_order=True):
            for treatment in sorted(rows["treatment"].unique()):
                kind = ("uc." if treatment == "plain" else "c.") if calibrated else ""
                words = [source] * several + [kind] * calibrated
                columns[plan, source, treatment] = [plan, " ".join(words)]
    cells = {
        (n, position, *column): f"{estimate:.{digits}f}".replace("-", "−") + marker
        for n, position, *column, estimate, digits, marker in rows.select(
            "n", "position", "plan", "source", "treatment", "estimate", "digits", "marker"
        ).iter_rows()
    }
    heads = [["n", "", *(plan for plan, _ in columns.values())]]
    if calibrated or several:
        heads.append(["", "", *(kind for _, kind in columns.values())])
    lines = []
    for n, position in rows.select("n", "position").unique(maintain_order=True).iter_rows():
        label = "β0" if position == 1 else f"β{position}"
        if not calibrated:
            label += " (Intercept)" if position == 1 else f" ({position} vs. 1)"
        values = [cells.get((n, position, *column), "") for column in columns]
        lines.append([str(n) if position == 1 else "", label, *values])
    return Table(heads, lines)


def to_markdown(table: Table) -> str:
    heads = [" ".join(filter(None, column)) for column in zip(*table.heads, strict=True)]
    lines = [heads, ["---"] * 2 + ["---:"] * (len(heads) - 2), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_latex(table: Table, title: str) -> str:
    """The table with the rules of booktabs, and each plan over its columns."""
    plans = [(plan, len(list(columns))) for plan, columns in groupby(table.heads[0][2:])]
    spans = [rf"\multicolumn{{{count}}}{{c}}{{{escape(plan)}}}" for plan, count in plans]
    kinds = [list(map(escape, line)) for line in table.heads[1:]]
    body = [" & ".join(line) + r" \\" for line in [["n", "", *spans], *kinds]]
    for row in table.rows:
        body += [r"\midrule"] * bool(row[0]) + [" & ".join(map(escape, row)) + r" \\"]
    begin = [r"\begin{table}", rf"\caption{{{escape(title)}}}"]
    begin += [rf"\begin{{tabular}}{{ll{'r' * (len(table.heads[0]) - 2)}}}", r"\toprule"]
    return "\n".join([*begin, *body, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def escape(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


if __name__ == "__main__":
    run(app)
