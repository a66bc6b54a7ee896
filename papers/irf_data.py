"""IRF's own data: its corpus of Wikipedia articles, and the newspaper page of Figure 2.

IRF is "Information Representation Fairness in Long-Document Embeddings" (arXiv 2601.16934). Its
corpus is on the Hugging Face hub, one split per language; translations share the aligned_id. OUT
gets one file per language: topics whose English article has 1,000 to 2,000 tokens of XLM-R and
whose other articles are at most 70 % longer or shorter.

The page is in the authors' repository, github.com/impresso/fair-sentence-transformers, in
notebooks/impresso_img, as words with their places on the scan. OUT gets one line per article.

    pip install datasets
    python papers/irf_data.py wiki
    python papers/irf_data.py page.jsonl --page NZG-1881-10-01-a-p0001.json
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripting import make_app, run

CORPUS = "impresso-project/wiki_comparable_corpus_en_de_hi_it_ko_zh"
LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")

app = make_app(__doc__)


@app.default
def main(out: Path, /, *, page: Path | None = None) -> None:
    """Write the corpus, or the articles of a page.

    Args:
        out: Folder for the corpus, or with a page the file for its articles.
        page: File of a newspaper page.
    """
    if page is None:
        write_corpus(out)
    else:
        write_lines(out, articles_of(json.loads(page.read_text("utf-8"))))


def write_corpus(folder: Path) -> None:
    """A file per language with the topics that fit in all languages."""
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("FacebookAI/xlm-roberta-base")
    texts = {}
    for language in LANGUAGES:
        rows = load_dataset(CORPUS, split=language)
        texts[language] = {row["aligned_id"]: row["text"] for row in rows}

    def fits(topic: Any) -> bool:
        if not all(topic in articles for articles in texts.values()):
            return False
        lengths = [len(tokenizer.tokenize(articles[topic])) for articles in texts.values()]
        english = lengths[0]
        return 1000 <= english <= 2000 and all(abs(n - english) <= 0.7 * english for n in lengths)

    topics = list(filter(fits, texts["en"]))
    folder.mkdir(parents=True)
    for language, articles in texts.items():
        rows = [{"id": topic, "text": articles[topic]} for topic in topics]
        write_lines(folder / f"{language}.jsonl", rows)


def articles_of(page: Mapping[str, Any]) -> list[dict[str, str]]:
    """The text of every article of a page."""
    articles: dict[str, list[str]] = {}
    for region in page["r"]:
        words = articles.setdefault(region["pOf"], [])
        for line in (line for paragraph in region["p"] for line in paragraph["l"]):
            # Of a word over two lines, the second half has the whole word.
            words += [token.get("nf", token["tx"]) for token in line["t"] if "hy" not in token]
    return [{"text": " ".join(words)} for words in articles.values()]


def write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")


if __name__ == "__main__":
    run(app)
