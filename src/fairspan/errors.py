"""What a user can put right, one class for each kind of mistake."""


class FairspanError(Exception):
    """Base of every error that fairspan raises on purpose."""


class CalibrationError(FairspanError, ValueError):
    """A calibration field has a value that it cannot have, alone or on this model."""


class UnsupportedModel(FairspanError):  # noqa: N818 - a public name that reads as a sentence when caught
    """The model's attention cannot be reached, so calibrating it would change nothing or the wrong thing."""


class SegmentError(FairspanError, ValueError):
    """A document given as segments cannot be turned into baskets."""


class LoadError(FairspanError):
    """A saved model would need something that fairspan does not do when it loads one."""


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
