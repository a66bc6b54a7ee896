"""Numbers as JSON has them."""

from __future__ import annotations

from typing import Any

import numpy as np


def finite(value: Any) -> float | None:
    """JSON has no NaN and no infinity."""
    number = float(value)
    return number if np.isfinite(number) else None
