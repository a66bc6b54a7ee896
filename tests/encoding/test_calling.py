"""The function of a verb takes the fields of its options, each listed once."""

import inspect
from dataclasses import dataclass, field

import pytest

from fairspan.encoding.calling import call_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked.

    Attributes:
        left: the first.
        right: the second.
        others: further ones,
            which may be left out.
    """

    left: int
    right: int = 1
    others: tuple[int, ...] = field(default=(), kw_only=True)


@call_of(Asked)
def add(asked: Asked) -> int:
    """Add them up."""
    return asked.left + asked.right + sum(asked.others)


def test_values_pass_by_place_and_by_keyword() -> None:
    assert add(1) == 2
    assert add(1, 2) == add(right=2, left=1) == 3
    assert add(1, 2, others=(3, 4)) == 10


def test_the_signature_and_the_text_are_those_of_the_fields() -> None:
    assert str(inspect.signature(add)) == (
        "(left: int, right: int = 1, *, others: tuple[int, ...] = ()) -> int"
    )
    assert (add.__name__, add.__module__) == ("add", __name__)
    listed = [
        "left: the first.",
        "right: the second.",
        "others: further ones, which may be left out.",
    ]
    assert add.__doc__ == "\n    ".join(["Add them up.\n\nArgs:", *listed])


def test_wrong_keywords_are_refused_in_the_name_of_the_function() -> None:
    with pytest.raises(TypeError, match=r"^add\(\): got an unexpected keyword argument 'rigth'"):
        add(1, rigth=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^add\(\): missing a required argument: 'left'"):
        add()  # type: ignore[call-arg]
