"""Whether a corpus has every segment in every language that is asked for."""

from collections.abc import Sequence

from fairspan.corpus.rows import Reading
from fairspan.errors import CorpusError

SHOWN = 3


def parse_languages(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The languages asked for, each once; None for all."""
    if languages is None:
        return None
    if isinstance(languages, str) or not all(isinstance(language, str) for language in languages):
        raise CorpusError(f"languages is a list such as ['en', 'de'], got {languages!r}.")
    if not languages:
        raise CorpusError("languages is empty: name at least one, or leave it out to take all.")
    twice = [language for language in languages if list(languages).count(language) > 1]
    if twice:
        raise CorpusError(f"languages names {twice[0]!r} twice.")
    return tuple(languages)


def require_there(name: str, languages: Sequence[str], there: Sequence[str]) -> None:
    missing = [language for language in languages if language not in there]
    if missing:
        raise CorpusError(
            f"{name} has no language {', '.join(map(repr, missing))}. Languages there: {', '.join(there)}."
        )


def require_aligned(reading: Reading, languages: Sequence[str]) -> None:
    """An error unless every id is there in all of the languages."""
    ids = {language: {s.id for s in reading.segments if s.language == language} for language in languages}
    union = dict.fromkeys(s.id for s in reading.segments if s.language in ids)
    lacking = {language: [id for id in union if id not in ids[language]] for language in languages}
    if not any(lacking.values()):
        return
    counts = ", ".join(f"{reading.labels[language]} {len(ids[language])}" for language in languages)
    gaps = "; ".join(f"{reading.labels[language]} lacks {_some(gone)}" for language, gone in lacking.items() if gone)
    raise CorpusError(
        f"the languages of {reading.name} do not have the same segments ({counts}): {gaps}. Complete them, or take "
        "only the ids that all of them share: [[partial=True]]."
    )


def require_common(name: str, languages: Sequence[str], ids: Sequence[str]) -> None:
    if not ids:
        raise CorpusError(f"{name} has no id that is in all of {', '.join(languages)}.")


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(map(repr, ids[:SHOWN])) + more
