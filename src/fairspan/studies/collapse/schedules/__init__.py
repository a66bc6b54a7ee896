"""Ways to a `LengthSchedule`: derived from LC Theorem 3, or fitted on texts that are not tested.

Lengths are those a schedule is evaluated at: tokens as the model reads them, prompt and special ones counted.
"""

from fairspan.calibration.temperature import PLAIN
from fairspan.studies.collapse.schedules.fitting import FittedBin, FittedSchedule, fit_schedule
from fairspan.studies.collapse.schedules.held_out import Split, split
from fairspan.studies.collapse.schedules.theorem_3 import (
    Reach,
    keep_reference,
    keeping_temperature,
    predicted_sigma_a,
    reference_reach,
)

__all__ = [
    "PLAIN",
    "FittedBin",
    "FittedSchedule",
    "Reach",
    "Split",
    "fit_schedule",
    "keep_reference",
    "keeping_temperature",
    "predicted_sigma_a",
    "reference_reach",
    "split",
]
