"""Temperatures by length: what LC Theorem 3 can keep, and schedules fitted on texts that are not tested.

Lengths are those a schedule is evaluated at: tokens as the model reads them, prompt and special ones counted.
"""

from fairspan.studies.collapse.schedules.fitting import FittedBin, FittedSchedule, fit_schedule
from fairspan.studies.collapse.schedules.held_out import Split, split
from fairspan.studies.collapse.schedules.theorem_3 import Reach, keeping_temperature, reference_reach

__all__ = [
    "FittedBin",
    "FittedSchedule",
    "Reach",
    "Split",
    "fit_schedule",
    "keeping_temperature",
    "reference_reach",
    "split",
]
