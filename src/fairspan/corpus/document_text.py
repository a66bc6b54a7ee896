"""The text of one document: plain text, Markdown, HTML or PDF."""

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fairspan.corpus.formats import HTML, PDF, ends_in
from fairspan.errors import CorpusError, MissingExtra, first_line

_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([\w.:-]+)")
_BORDER = "\x1e"
# Elements of a page whose words are not its text.
_ASIDE = ["script", "style", "noscript", "template", "svg", "head", "nav", "footer", "aside"]
_BLOCKS = (
    "address, article, blockquote, br, dd, details, div, dl, dt, fieldset, figcaption, figure, "
    "form, h1, h2, h3, h4, h5, h6, header, hr, li, main, ol, p, pre, section, summary, table, tr, "
    "ul"
)


def document_text(name: str, content: bytes) -> str:
    """The text of a file, whose ending says its format."""
    return _extractor(name)(content)


def _extractor(name: str) -> Callable[[bytes], str]:
    if ends_in(name, HTML):
        return _html_text
    return _pdf_text if ends_in(name, PDF) else _plain_text


def _plain_text(content: bytes, encoding: str = "utf-8") -> str:
    try:
        return content.removeprefix(BOM_UTF8).decode(encoding)
    except (LookupError, UnicodeDecodeError):
        raise CorpusError(f"not {encoding.upper():.40}. Save the file as UTF-8.") from None


def _html_text(content: bytes) -> str:
    """The text of a page, or of its only <main>; a paragraph for each block, without navigation."""
    lexbor = _library("selectolax.lexbor")
    declared = _CHARSET.search(content[:1024])
    encoding = declared[1].decode("ascii", "replace") if declared else "utf-8"
    page = lexbor.LexborHTMLParser(_plain_text(content, encoding))
    page.strip_tags(_ASIDE)
    for block in page.css(_BLOCKS):
        block.insert_before(_BORDER)
        block.insert_after(_BORDER)
    for cell in page.css("td, th"):
        cell.insert_after(" ")
    mains = page.css("main")
    text = (mains[0] if len(mains) == 1 else page.body).text()
    blocks = (" ".join(block.split()) for block in text.split(_BORDER))
    return "\n\n".join(block for block in blocks if block)


def _pdf_text(content: bytes) -> str:
    """The text of all pages; an error if there is none, as in scans."""
    pdfium = _library("pypdfium2")
    try:
        with pdfium.PdfDocument(content) as document:
            pages = [page.get_textpage().get_text_range() for page in document]
    except pdfium.PdfiumError as error:
        raise CorpusError(f"not a PDF that can be read: {first_line(error).rstrip('.')}.") from None
    # U+FFFE stands for a hyphen at the end of a line, which is removed.
    text = "\n\n".join(pages).replace("\ufffe", "").replace("\r\n", "\n")
    if not text.strip():
        raise CorpusError("a PDF without text, as of a scan. Run text recognition (OCR) on it.")
    return text


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(
            "reading HTML and PDF needs libraries that are not installed: "
            "pip install 'fairspan[documents]'."
        ) from None
