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
