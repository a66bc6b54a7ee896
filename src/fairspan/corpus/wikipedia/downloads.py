"""What the Wikipedia of a language is called, and its files in a folder of downloads."""

import re
from pathlib import Path

from fairspan.corpus.rows import unreadable

# Wikis whose database has another name than the language: the code, and the name without "wiki".
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
    """The name of a Wikipedia's database, such as "enwiki", or "zh_yuewiki" for "yue"."""
    code = language.lower().replace("_", "-")
    return _DATABASES.get(code, code.replace("-", "_")) + "wiki"


def prefix_of(language: str) -> str:
    """The language in addresses, such as "zh-yue" for "yue"."""
    name = database(language).removesuffix("wiki")
    return name.replace("be_x_old", "be-tarask").replace("_", "-")


def dump_files(path: Path, language: str) -> tuple[Path, ...]:
    """A file itself, or the newest of the language in a folder, in the first format there."""
    if not path.is_dir():
        return (path,)
    names = _names(path)
    for pattern in _ARTICLES:
        wanted = re.compile(pattern.format(wiki=re.escape(database(language))))
        dates = {name: match["date"] for name in names if (match := wanted.fullmatch(name))}
        if dates:
            newest = [name for name in dates if dates[name] == max(dates.values())]
            # Large dumps are published in parts and, for some wikis, also whole.
            whole = [name for name in newest if not re.search(r"articles(-multistream)?\d", name)]
            return tuple(path / name for name in whole or newest)
    parquet = tuple(path / name for name in names if name.endswith(".parquet"))
    dated = re.compile(rf"\d+\.{re.escape(prefix_of(language))}")
    folders = [path / name for name in names if dated.fullmatch(name)]
    if parquet or not folders:
        return parquet
    return dump_files(folders[-1], language)


def find_sitelinks(folder: Path) -> Path | None:
    """The newest file of Wikidata's links in a folder."""
    names = [name for name in _names(folder) if _SITELINKS.fullmatch(name)]
    return folder / names[-1] if names else None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise unreadable(f"the folder {folder}", error) from None
