"""What the Wikipedia of a language is called, and its files in a folder of downloads."""

import re
from pathlib import Path

from fairspan.errors import CorpusError

# Wikis whose database is not called like the language: the code that is asked for, and the name without "wiki".
_DATABASES = {
    "be-tarask": "be_x_old",
    "gsw": "als",
    "lzh": "zh_classical",
    "nan": "zh_min_nan",
    "nb": "no",
    "rup": "roa_rup",
    "sgs": "bat_smg",
    "vro": "fiu_vro",
    "yue": "zh_yue",
}
_ARTICLES = (
    r"{wiki}-(?P<date>\d+)-cirrussearch-content\.json\.(gz|bz2)",
    r"{wiki}_content-(?P<date>\d+)-\d+\.json\.(gz|bz2)",
    r"{wiki}-(?P<date>\d+|latest)-pages-articles-multistream\d*\.xml(-p\d+p\d+)?\.bz2",
    r"{wiki}-(?P<date>\d+|latest)-pages-articles\d*\.xml(-p\d+p\d+)?(\.bz2)?",
)
_SITELINKS = re.compile(r"wikidatawiki-(\d+|latest)-wb_items_per_site\.sql(\.gz)?")


def database(language: str) -> str:
    """The name of a Wikipedia's database.

    >>> database("en"), database("yue"), database("zh_yue")
    ('enwiki', 'zh_yuewiki', 'zh_yuewiki')
    """
    code = language.lower().replace("_", "-")
    return _DATABASES.get(code, code.replace("-", "_")) + "wiki"


def prefix_of(language: str) -> str:
    """As in addresses.

    >>> prefix_of("nb"), prefix_of("be-tarask"), prefix_of("yue")
    ('no', 'be-tarask', 'zh-yue')
    """
    return (
        database(language).removesuffix("wiki").replace("be_x_old", "be-tarask").replace("_", "-")
    )


def dump_files(path: Path, language: str) -> tuple[Path, ...]:
    """The files of a dump: a file, or those of the language in a folder.

    Of several dates the newest is taken, and of several formats the first: CirrusSearch, XML, Parquet. An empty
    folder gives nothing.
    """
    if not path.is_dir():
        return (path,)
    names = _names(path)
    for pattern in _ARTICLES:
        wanted = re.compile(pattern.format(wiki=re.escape(database(language))))
        known = {name: found["date"] for name in names if (found := wanted.fullmatch(name))}
        if known:
            newest = [name for name in known if known[name] == max(known.values())]
            # Large dumps are published in parts and, for some wikis, also whole.
            whole = [name for name in newest if not re.search(r"articles(-multistream)?\d", name)]
            return tuple(path / name for name in whole or newest)
    parquet = [path / name for name in names if name.endswith(".parquet")]
    folders = [
        name for name in names if re.fullmatch(rf"\d+\.{re.escape(prefix_of(language))}", name)
    ]
    return tuple(parquet) or (dump_files(path / folders[-1], language) if folders else ())


def find_sitelinks(folder: Path) -> Path | None:
    """The newest file of Wikidata's links in a folder."""
    found = [name for name in _names(folder) if _SITELINKS.fullmatch(name)]
    return folder / found[-1] if found else None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
    except OSError as error:
        raise CorpusError(
            f"the folder {folder} cannot be read: {error.strerror or error}."
        ) from None
