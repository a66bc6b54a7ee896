"""Temperatures by length, made of treatments that differ in their temperature only."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, permutations

import polars as pl

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.slopes import Slopes, geometry, slopes_of


def with_steps(
    log: RunLog, tokens: Mapping[int, float], margin: float, *, paired: bool
) -> dict[str, Slopes]:
    """What every pair of temperatures does, one up to a length and the other beyond it.

    Texts of one length have the same vectors under steps as under the temperature of their step, so
    nothing is embedded for this. A jump between the two steps could hide a slope, so the slope
    across the jump is judged as well.
    """
    plain = log.measured[0]
    by_name = {}
    for low, high in _pairs(log):
        for ends in pairwise(tokens):
            border = round((tokens[ends[0]] * tokens[ends[1]]) ** 0.5)
            name = _name(low, high, border)
            is_short = pl.col("length") <= ends[0]
            treatment = pl.when(is_short).then(pl.lit(low.name)).otherwise(pl.lit(high.name))
            steps = log.rows.filter(pl.col("treatment") == treatment)
            rows = pl.concat(
                [log.rows.filter(treatment=plain), steps.with_columns(treatment=pl.lit(name))]
            )
            around = {end: tokens[end] for end in ends}
            whole = slopes_of(geometry(rows, [plain, name], tokens, paired=paired), margin)
            jump = slopes_of(geometry(rows, [plain, name], around, paired=paired), margin)
            if name not in log.measured and name in whole:
                jumps = {f"{measure}, jump": slope for measure, slope in jump[name].of.items()}
                by_name[name] = Slopes({**whole[name].of, **jumps}, margin)
    return by_name


def _pairs(log: RunLog) -> Iterator[tuple[Treatment, Treatment]]:
    """Measured treatments of two temperatures that are the same otherwise, in both orders."""
    families: dict[Calibration, list[Treatment]] = {}
    for treatment in map(Treatment.from_dict, log.spec["treatments"]):
        calibration = treatment.calibration
        has_one = isinstance(calibration.temperature, float) and not treatment.chunks
        if has_one and treatment.name in log.measured:
            families.setdefault(replace(calibration, temperature=1.0), []).append(treatment)
    for treatments in families.values():
        yield from permutations(treatments, 2)


def _name(low: Treatment, high: Treatment, border: int) -> str:
    """The name of a calibration with one temperature up to a number of tokens, and another one."""
    sharper = low if low.calibration.temperature != 1 else high
    ends = {border: low, None: high}
    steps = [[end, treatment.calibration.temperature] for end, treatment in ends.items()]
    return as_treatment(sharper.calibration.but(temperature=steps)).name
