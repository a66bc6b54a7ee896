"""IRF's corpus: Wikipedia's articles on the same topics in several languages, of similar length.

IRF is "Information Representation Fairness in Long-Document Embeddings" (arXiv 2601.16934), whose
Figure 9 shows one topic. Any languages that have a Wikipedia will do. As in the paper, English
articles have 1,000 to 2,000 tokens of XLM-R, and the others up to 70 % more or less than these. OUT
gets one file per language with the same ids in the same order, for `fairspan audit MODEL --corpus
OUT`, and corpus.json with the sources and the licence.

Data: one date of Wikimedia's CirrusSearch dumps, which have plain text and the Wikidata item of
each page, in parts (English: about 64 of 640 MB). A part is downloaded, read once and deleted;
OUT/.work keeps its articles. An interrupted command continues, also in the middle of a download.

Time: one CPU core reads about 1 MB of a compressed dump in a second (23 MB that were made for this
took 24 s), so a part of 640 MB takes 11 minutes and English half a day, besides the download.

    python papers/wikipedia.py https://dumps.wikimedia.org/other/cirrus_search_index/20261115 wiki
    python papers/wikipedia.py downloads wiki --languages gl,ca,es --length-ratio 0.5
"""

import hashlib
import json
import re
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin

import urllib3
from tokenizers import Tokenizer
from urllib3.exceptions import HTTPError

import fairspan
from fairspan.corpus.corpus import parse_languages
from fairspan.corpus.files import read_lines
from fairspan.errors import CorpusError, UnsupportedModel, first_line, require_whole
from scripting import Words, make_app, run, say

LICENCE = (
    "The texts are from Wikipedia, by its contributors, under CC BY-SA 4.0; markup, tables and "
    "references were removed. The field url of each text links to its page, whose history names "
    "its authors. If you share the texts, name this source and keep the licence."
)
ATTEMPTS = 5
TEXTS_AT_ONCE = 64
BLOCK = 1 << 16

app = make_app(__doc__)


@app.default
def main(
    dumps: str,
    out: Path,
    /,
    *,
    languages: Words = ("hi", "ko", "zh", "it", "de", "en"),
    model: str = "FacebookAI/xlm-roberta-base",
    min_tokens: int = 1000,
    max_tokens: int = 2000,
    length_ratio: float = 0.7,
) -> None:
    """Build the corpus.

    Args:
        dumps: Address of one date of the dumps, or a folder with downloaded ones.
        out: Folder to write.
        languages: As in the addresses of their Wikipedias, such as en or zh-yue. Name the smallest
            first: only topics of those before are kept. Lengths are relative to the last one.
        model: Whose tokens are counted: name on the Hugging Face hub, or folder.
        min_tokens: Fewest tokens of an article in the last language.
        max_tokens: Most tokens of an article in the last language.
        length_ratio: How much longer or shorter than this other languages' articles may be.
    """
    parse_languages(languages)
    require_whole("min_tokens", min_tokens, kind=CorpusError)
    require_whole("max_tokens", max_tokens, least=min_tokens, kind=CorpusError)
    if not 0 < length_ratio < 1:
        raise CorpusError(f"length_ratio must be above 0 and below 1, got {length_ratio:g}.")
    if (out / "corpus.json").exists():
        raise CorpusError(f"{out} holds a corpus already: choose another folder.")
    tokenizer = load_tokenizer(model)
    parts = {language: find_parts(dumps, language) for language in languages}
    lengths = {"min_tokens": min_tokens, "max_tokens": max_tokens, "length_ratio": length_ratio}
    made = {"languages": [*languages], "model": model, **lengths, "parts": parts}
    work = out / ".work" / hashlib.sha256(json.dumps(made).encode()).hexdigest()[:16]
    tokens: dict[str, dict[str, int]] = {}
    try:
        work.mkdir(parents=True, exist_ok=True)
        for language in languages:
            ratio = 0 if language == languages[-1] else length_ratio
            least, most = ((1 - ratio) * min_tokens, (1 + ratio) * max_tokens)
            topics = tokens[[*tokens][-1]] if tokens else None
            reader = Reader(language, topics, tokenizer, least, most)
            for number, part in enumerate(parts[language]):
                file = work / f"{language}.{number:04}.jsonl"
                if not file.exists():
                    say(f"{language}: part {number + 1} of {len(parts[language])} …")
                    reader.read(part, file)
            tokens[language] = {id: row["tokens"] for id, row, _ in articles(work, language)}
            say(f"{language}: {len(tokens[language]):,} articles")
        ids = similar([*tokens.values()], length_ratio)
        if not ids:
            raise CorpusError(f"no topic has articles of these lengths in {', '.join(languages)}.")
        wanted = {*ids}
        for language in languages:
            lines = {id: line for id, _, line in articles(work, language) if id in wanted}
            write(out / f"{language}.jsonl", (lines[id] for id in ids))
        facts = {"articles": len(ids), "licence": LICENCE, **made}
        write(out / "corpus.json", [json.dumps(facts, indent=2).encode()])
        shutil.rmtree(out / ".work")
    except OSError as error:
        reason = first_line(error)
        raise CorpusError(f"{out} cannot be written ({reason}). What was done is kept.") from None
    print(f"{out}: {len(ids):,} articles in each of {', '.join(languages)}. {LICENCE}")


def load_tokenizer(model: str) -> Tokenizer:
    """The tokenizer of a model, which counts the tokens of texts of any length."""
    try:
        if Path(model).is_dir():
            tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
        else:
            tokenizer = Tokenizer.from_pretrained(model)
    # tokenizers has no class of its own.
    except Exception as error:
        reason = first_line(error)
        raise UnsupportedModel(f"the tokenizer of {model} cannot be loaded: {reason}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def find_parts(dumps: str, language: str) -> list[str]:
    """The files or addresses of a language's dump; before 2026 it was one file."""
    wiki = wiki_of(language)
    names = [str(path) for path in Path(dumps).rglob("*")]
    if is_address(dumps):
        folder = f"{dumps.rstrip('/')}/index_name={wiki}_content/"
        page = get(folder).read().decode("utf-8", "replace")
        names = [urljoin(folder, unquote(name)) for name in re.findall(r'href="([^"]+)"', page)]
    form = rf".*/{re.escape(wiki)}(_content-\d+-\d+|-\d+-cirrussearch-content)\.json(\.gz|\.bz2)?"
    parts = sorted(name for name in names if re.fullmatch(form, name))
    if not parts:
        raise CorpusError(f"there is no CirrusSearch dump of {language!r} in {dumps}.")
    return parts


def wiki_of(language: str) -> str:
    """The name of a Wikipedia's database, such as zh_yuewiki for zh-yue."""
    return f"{language.replace('-', '_')}wiki"


def is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def get(address: str, start: int = 0) -> urllib3.BaseHTTPResponse:
    """What is at an address, from a byte on."""
    headers = {"User-Agent": f"fairspan/{fairspan.__version__}", "Range": f"bytes={start}-"}
    retries = urllib3.Retry(ATTEMPTS, backoff_factor=1, status_forcelist=(429, 500, 502, 503))
    try:
        answer = urllib3.request(
            "GET", address, headers=headers, retries=retries, timeout=60, preload_content=False
        )
    except HTTPError as error:
        raise CorpusError(f"{address} cannot be read: {first_line(error)}") from None
    # 416: there is nothing after that byte.
    if answer.status not in (200, 206, 416):
        raise CorpusError(f"{address} cannot be read: the server answered {answer.status}.")
    return answer


def download(address: str, folder: Path) -> Path:
    """The file at an address; what was downloaded before is not downloaded again."""
    file = folder / address.rpartition("/")[2]
    begun = folder / f"{file.name}.begun"
    reason = ""
    for _ in range(ATTEMPTS):
        if file.exists():
            return file
        answer = get(address, begun.stat().st_size if begun.exists() else 0)
        try:
            # 200: a server that sends all from the first byte.
            with begun.open("wb" if answer.status == 200 else "ab") as kept:
                kept.writelines(answer.stream(BLOCK) if answer.status != 416 else ())
            return begun.replace(file)
        except HTTPError as error:
            reason = first_line(error)
    raise CorpusError(f"{address} was cut off ({reason}). Run the same command again.")


@dataclass(frozen=True)
class Reader:
    """Reads one language's articles of `least` to `most` tokens; on any topics if that is None."""

    language: str
    topics: Container[str] | None
    tokenizer: Tokenizer
    least: float
    most: float

    def read(self, part: str, file: Path) -> None:
        """Write the articles of a part; what was downloaded is deleted."""
        path = download(part, file.parent) if is_address(part) else Path(part)
        try:
            write(file, self._lines(path))
        except CorpusError:
            # A damaged file has to be downloaded again.
            if is_address(part):
                path.unlink()
            raise
        if is_address(part):
            path.unlink()

    def _lines(self, path: Path) -> Iterator[bytes]:
        pages = self._pages(path)
        while batch := list(islice(pages, TEXTS_AT_ONCE)):
            texts = [" ".join((page.get("text") or "").split()) for page in batch]
            encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            for page, text, encoding in zip(batch, texts, encodings, strict=True):
                tokens = len(encoding.ids)
                if self.least <= tokens <= self.most:
                    title = quote(page["title"].replace(" ", "_"))
                    url = f"https://{self.language}.wikipedia.org/wiki/{title}"
                    row = {"id": page["wikibase_item"], "title": page["title"], "text": text}
                    row |= {"url": url, "revision": page.get("version"), "tokens": tokens}
                    yield json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _pages(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Articles on the topics that are no disambiguation pages."""
        wiki = wiki_of(self.language)
        for record in read_lines(path.name, path):
            if record.fault:
                raise CorpusError(f"{path.name} is no CirrusSearch dump: {record.fault}")
            page = record.fields
            # Before every page is a line with its number.
            if page.get("namespace") != 0 or "title" not in page:
                continue
            if page.get("wiki", wiki) != wiki:
                raise CorpusError(f"{path.name} is a dump of {page['wiki']}, not of {wiki}.")
            item = str(page.get("wikibase_item"))
            labels = [*(page.get("template") or ()), *(page.get("category") or ())]
            is_article = re.fullmatch(r"Q\d+", item) and (
                self.topics is None or item in self.topics
            )
            if is_article and not any("disambig" in label.lower() for label in labels):
                yield page


def articles(work: Path, language: str) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """What was kept of a language: ids, articles and their lines; the first one on each topic."""
    seen: set[str] = set()
    for file in sorted(work.glob(f"{language}.*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                if row["id"] not in seen:
                    seen.add(row["id"])
                    yield row["id"], row, line


def similar(tokens: list[dict[str, int]], ratio: float) -> list[str]:
    """The topics whose lengths are near those in the last language, by their numbers."""
    ids = []
    for id, base in tokens[-1].items():
        if all((1 - ratio) * base <= other[id] <= (1 + ratio) * base for other in tokens):
            ids.append(id)
    return sorted(ids, key=lambda id: int(id[1:]))


def write(file: Path, lines: Iterable[bytes]) -> None:
    """Write a file as a whole or not at all."""
    unfinished = file.with_name(f"{file.name}.part")
    with unfinished.open("wb") as written:
        written.writelines(lines)
    unfinished.replace(file)


if __name__ == "__main__":
    run(app)
