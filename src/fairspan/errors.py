"""What a user can put right. Messages name an option by its keyword, such as `max_tokens`."""

from collections.abc import Iterable


class FairspanError(Exception):
    """Base of fairspan's own errors; raised itself if a log, a store or an endpoint fails."""


class UnsupportedModel(FairspanError):  # noqa: N818 - a public name that reads well when caught
    """The model cannot be calibrated, loaded or exported correctly."""


class MissingExtra(FairspanError):  # noqa: N818 - as above
    """A package is not installed; the message has the command that installs it."""


class CorpusError(FairspanError, ValueError):
    """A corpus or a retrieval task cannot be read, or lacks what is needed."""


class DesignError(FairspanError, ValueError):
    """An option has an invalid value, or the data do not allow it."""


def require_whole(
    name: str, value: object, *, least: int = 1, kind: type[FairspanError] = DesignError
) -> None:
    """Raise unless an option's value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise kind(f"{name} must be a whole number of at least {least}, got {value!r}.")


def require_list(
    name: str, value: object, example: str, kind: type[FairspanError] = DesignError
) -> None:
    """Raise if an option that takes a list was given one word, or something else."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise kind(f"{name} must be a list, such as {example}, got {value!r}.")


def first_line(error: Exception) -> str:
    """The first line of an error's message, or the name of its class."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (message.strip().splitlines() or [type(error).__name__])[0]
