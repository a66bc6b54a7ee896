"""What an audit shows: verdicts, profiles, attention and tables, made from its frames."""

from collections.abc import Sequence
from dataclasses import replace
from math import log as logarithm

import polars as pl

from fairspan.report.frames import Estimate, interval
from fairspan.report.table import VERDICTS
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import FEW_BARS, Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.audit.charts import Shown, attention_section, measure_sections
from fairspan.studies.audit.summary import summarize
from fairspan.studies.audit.tables import Frames, attention_tables, reason, tables_of

METHODS = (
    """Documents are built from segments that were written independently of each other. The orders are balanced: every
    segment is at every position equally often, so that content is not confused with position.""",
    """Representation is the cosine between the vector of the whole document and the vector of one of its segments
    embedded alone. Least squares on the positions, with errors clustered on the sets of segments, give the means, the
    differences from position 1 and their intervals.""",
    """A treatment is fair if every difference between positions is significantly smaller than the margin, biased if
    at least one is significantly larger (after Holm's correction over the positions of all families of documents),
    and inconclusive otherwise. For inconclusive ones the number of further sets that would decide is estimated. In
    documents of two languages, position 1 is the only one in its language and is not compared.""",
    """Treatments change attention while the model runs, never its weights. Segments and documents are embedded under
    the same treatment unless the treatment says otherwise.""",
    """Two languages are compared in documents of just these two, in both orders: at each position the one minus the
    other, averaged over positions, at the same length of segments where lengths vary. They are judged as positions
    are, with Holm's correction over all pairs of languages and all sizes of documents.""",
)


def view_of(log: RunLog) -> View:
    """Everything that an audit has to show."""
    frames, notes = summarize(log)
    shown = Shown(model_name(log.model), frames)
    sections = [
        section for measure in shown.measures for section in measure_sections(shown, measure)
    ]
    if "attention" in frames:
        sections.append(
            replace(attention_section(shown), folded=tuple(attention_tables(frames["attention"])))
        )
    tables = tables_of(frames, log.model, notes)
    if tables:
        first = next(table for table in tables if "-coefficients" in table.name)
        folded = tuple(table for table in tables if table is not first)
        sections.append(Section("Tables", tables=(first,), folded=folded))
    return View(
        title=f"How fairly {model_name(log.model)} represents each part of a text",
        heading=_heading(log),
        cards=_cards(frames),
        sections=tuple(sections),
        frames=frames,
        picture=next((chart.name for section in sections for chart in section.charts), ""),
        remarks=tuple(_joint_sentences(frames)),
        notes=tuple(notes),
        switch=shown.treatments,
        all_first=len(shown.treatments) <= FEW_BARS,
        methods=tuple(
            " ".join(one.split()) for one in (METHODS if "languages" in frames else METHODS[:-1])
        ),
    )


def together(logs: Sequence[tuple[str, RunLog]]) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The profiles of several runs, each with a label, on common axes, and the switch that they need."""
    frames: dict[str, pl.DataFrame] = {}
    for name in ("verdicts", "means", "coefficients", "languages", "joint"):
        there = [
            (pl.lit(f"{label}: "), log.view.frames[name])
            for label, log in logs
            if name in log.view.frames
        ]
        named = [
            frame.with_columns((label + pl.col("treatment")).alias("treatment"))
            for label, frame in there
        ]
        frames |= {name: pl.concat(named, how="diagonal_relaxed")} if named else {}
    shown = Shown(" and ".join(dict.fromkeys(model_name(log.model) for _, log in logs)), frames)
    return shown.treatments, tuple(
        part for measure in shown.measures for part in measure_sections(shown, measure)
    )


def _heading(log: RunLog) -> str:
    header = log.header
    seconds = header.timings.seconds
    sizes = ", ".join(map(str, log.spec["sizes"]))
    took = "" if seconds is None else f", {number(seconds, '.0f')} s"
    plans = ", ".join(header.plans or ())
    return f"{log.where}: {header.documents} documents of {sizes} segments, {plans}{took}"


def _cards(frames: Frames) -> tuple[Card, ...]:
    """The verdict on every treatment, measure by measure."""
    verdicts = frames["verdicts"]
    several = verdicts["measure"].n_unique() > 1
    cards = []
    for one in verdicts.iter_rows(named=True):
        chosen = {"measure": one["measure"], "treatment": one["treatment"]}
        uneven = frames.get(
            "unevenness", pl.DataFrame(schema=["measure", "treatment", "spread_estimate"])
        )
        spreads = uneven.filter(**chosen)["spread_estimate"]
        name = f"{one['treatment']} · {one['measure']}" if several else one["treatment"]
        low, high = (number(value) for value in (spreads.min(), spreads.max()))  # type: ignore[arg-type]
        spread = (
            [f"spread between positions {low if low == high else f'{low} to {high}'}"]
            if len(spreads)
            else []
        )
        cards.append(Card(name, one["verdict"], VERDICTS[one["verdict"]], (reason(one), *spread)))
    for one in frames.get("language_verdicts", pl.DataFrame()).iter_rows(named=True):
        about = f"{one['measure']} by language" if several else "languages"
        cards.append(
            Card(
                f"{one['treatment']} · {about}",
                one["verdict"],
                VERDICTS[one["verdict"]],
                (reason(one),),
            )
        )
    return tuple(cards)


def _joint_sentences(frames: Frames) -> list[str]:
    """What the model over all plans says about position, language and length."""
    if "joint" not in frames:
        return []
    found = frames["joint"].partition_by(
        "measure", "treatment", "n", as_dict=True, maintain_order=True
    )
    sentences = []
    for (measure, treatment, n), rows in found.items():
        parts = []
        mixed = "mixed" in rows["plans"]
        for effect in ("model", "position", "language"):
            own = rows.filter(pl.col("effect") == effect)
            known = own.filter(pl.col("reason").is_null()).to_dicts()
            if known:
                words = ", ".join(
                    f"{one[effect]} {with_bounds(interval(one), '+.3f')}" for one in known
                )
                only = mixed and not any("(mixed)" in one["averaged_over"] for one in known)
                where = " in documents of one language" if only else ""
                parts.append(f"{effect} against {known[0]['against']}{where}: {words}")
            parts += [reason.removesuffix(".") for reason in own["reason"].drop_nulls()]
        for slope in rows.filter(pl.col("effect") == "log_tokens").to_dicts():
            if slope["reason"]:
                parts.append("the effect of length is not estimated")
            else:
                doubled = Estimate(
                    *(slope[name] * logarithm(2) for name in ("estimate", "low", "high"))
                )
                parts.append(f"a segment twice as long: {with_bounds(doubled, '+.3f')}")
        sentences.append(f"{treatment}, n={n}, {measure}, all plans together: {'; '.join(parts)}")
    return sentences
