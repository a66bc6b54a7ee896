"""`LanguagePlan`: which language is used at which position."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairspan.corpus.corpus import Corpus
from fairspan.errors import DesignError


@dataclass(frozen=True, slots=True, order=True)
class LanguagePlan:
    """The language of the first segment, and that of all later ones."""

    lead: str
    later: str

    def __str__(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"


def language_plans(
    languages: Sequence[str], mixed: str | Iterable[str]
) -> tuple[LanguagePlan, ...]:
    """One plan per language, and the mixed ones: lead:later, or "all" for every ordered pair."""
    plans = [LanguagePlan(language, language) for language in languages]
    if mixed == "all":
        pairs = [(lead, later) for later in languages for lead in languages if lead != later]
        plans += [LanguagePlan(*pair) for pair in pairs]
    else:
        for plan in [mixed] if isinstance(mixed, str) else mixed:
            lead, _, later = plan.partition(":")
            if not lead.strip() or not later.strip():
                form = "lead:later, such as de:en, or 'all'"
                raise DesignError(f"a mixed plan is written {form}, got {plan!r}.")
            plans.append(LanguagePlan(lead.strip(), later.strip()))
    if not plans:
        raise DesignError("an audit needs at least one language, for example languages=en.")
    return tuple(dict.fromkeys(plans))


def languages_of(plans: Iterable[LanguagePlan]) -> tuple[str, ...]:
    """Every language of the plans, in order of appearance."""
    return tuple(dict.fromkeys(language for plan in plans for language in (plan.lead, plan.later)))


def choose_plans(
    corpus: str, languages: Sequence[str] | None, mixed: str | Sequence[str], *, partial: bool
) -> tuple[tuple[LanguagePlan, ...], Corpus]:
    """The language plans, and the corpus in their languages."""
    if languages is None and not mixed:
        first = Corpus.read_first(corpus)
        return language_plans(first.languages, ()), first
    if languages is None and mixed == "all":
        whole = Corpus.read(corpus, None, partial)
        return language_plans(whole.languages, "all"), whole
    plans = language_plans(languages or (), mixed)
    return plans, Corpus.read(corpus, languages_of(plans), partial)
