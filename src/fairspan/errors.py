"""What a user can put right, one class for each kind of mistake.

A message names an option in a neutral way, and is read in Python or on the command line:

    in the message             in Python                on the command line
    [[chunk_tokens]]           chunk_tokens             --chunk-tokens
    [[out=]]                   out=                     --out
    [[too_long=shorten]]       too_long="shorten"       --too-long shorten
    [[languages=en,de]]        languages=["en", "de"]   --languages en,de
    [[languages=en,]]          languages=["en"]         --languages en
    [[partial=True]]           partial=True             --partial
"""

import json
import re
from collections.abc import Iterable

_OPTION = re.compile(r"\[\[([a-z_]+)(?:(=)([^\[\]]*))?\]\]")


def for_python(message: str) -> str:
    """A message with its options as keywords."""
    return _OPTION.sub(lambda found: f"{found[1]}{found[2] or ''}{_literal(found[3] or '')}", message)


def for_command_line(message: str) -> str:
    """A message with its options as they are typed."""

    def typed(found: re.Match[str]) -> str:
        value = "" if found[3] in (None, "True") else found[3].rstrip(",")
        return f"--{found[1].replace('_', '-')} {value}".rstrip()

    return _OPTION.sub(typed, message)


def _literal(value: str) -> str:
    if "," in value:
        return f"[{', '.join(_literal(one) for one in value.split(',') if one)}]"
    plain = not value or value in ("True", "False", "None", "…") or value.replace(".", "", 1).isdecimal()
    return value if plain else json.dumps(value, ensure_ascii=False)


class FairspanError(Exception):
    """Base of every error that fairspan raises on purpose."""

    def __str__(self) -> str:
        return for_python(super().__str__())

    @property
    def message(self) -> str:
        """The message as it was written, for another error that quotes it."""
        return super().__str__()

    @property
    def for_command_line(self) -> str:
        """The message for somebody who typed a command."""
        return for_command_line(super().__str__())


class CalibrationError(FairspanError, ValueError):
    """A calibration field has a value that it cannot have, alone or on this model."""


class UnsupportedModel(FairspanError):  # noqa: N818 - a public name that reads as a sentence when caught
    """The model's attention cannot be reached, so calibrating it would change nothing or the wrong thing."""


class SegmentError(FairspanError, ValueError):
    """A document given as segments cannot be turned into baskets."""


class LoadError(FairspanError):
    """A saved model would need something that fairspan does not do when it loads one."""


class ExportError(FairspanError):
    """A model cannot be exported, or the exported graph does not give the model's vectors."""


class MissingExtra(FairspanError):  # noqa: N818 - as above
    """Something needs a package that is not installed; the message holds the line that installs it."""


class CorpusError(FairspanError, ValueError):
    """A corpus cannot be read, or does not hold what was asked of it."""


class DesignError(FairspanError, ValueError):
    """The documents asked for cannot be built from this corpus for this model."""


class EncodingError(FairspanError):
    """A model did not turn texts into usable vectors."""


class StoreError(FairspanError):
    """The embedding store cannot be read or written."""


class StatisticsError(FairspanError, ValueError):
    """The rows do not determine what was asked of them."""


class LogError(FairspanError):
    """A run's folder cannot be read or written."""


class TaskError(FairspanError, ValueError):
    """A retrieval task cannot be read, or does not hold what was asked of it."""


def require_whole(name: str, value: object, *, least: int = 1, kind: type[FairspanError] = DesignError) -> None:
    """Raise unless an option's value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise kind(f"[[{name}]] must be a whole number of at least {least}, got {value!r}.")


def require_list(name: str, value: object, example: str, kind: type[FairspanError] = DesignError) -> None:
    """Raise if an option that takes a list was given one word, or something else."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise kind(f"[[{name}]] must be a list, such as {example}, got {value!r}.")
