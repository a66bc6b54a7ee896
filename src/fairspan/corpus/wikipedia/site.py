"""What the Wikipedia of a language is called in addresses and in links between languages."""

import re

from fairspan.corpus.wikipedia.names import database
from fairspan.errors import CorpusError

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Wikis whose address is not made from the name of their database.
_PREFIXES = {"be_x_oldwiki": "be-tarask"}


def prefix_of(language: str) -> str:
    """As in addresses and in links between languages.

    >>> prefix_of("nb"), prefix_of("de"), prefix_of("yue")
    ('no', 'de', 'zh-yue')
    """
    name = database(language)
    return _PREFIXES.get(name, name.removesuffix("wiki").replace("_", "-"))


def require_code(language: str) -> None:
    if not _CODE.fullmatch(language):
        raise CorpusError(f"{language!r} is no language code of a Wikipedia, such as en, de or zh-yue.")
