"""What is said of a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairspan.errors import FairspanError


def said_by(
    action: Callable[..., object],
    *arguments: Any,
    kind: type[Exception] = FairspanError,
    **options: Any,
) -> str:
    """The message of the error that a call ends in, which is one line."""
    with pytest.raises(kind) as caught:
        action(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
