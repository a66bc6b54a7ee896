"""HTML and PDF as texts of a corpus, of `embed` and of `inspect`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.document_file import read_document
from fairspan.corpus.document_text import document_text
from fairspan.corpus.source import open_source
from fairspan.errors import CorpusError, MissingExtra
from tests.builders.saying import said_by

PAGE = """<!doctype html><html><head><title>Not text</title><style>p { color: red }</style></head>
<body><nav>Home <a href="/">Start</a></nav>
<h1>Bread &amp; butter</h1><p>Of <b>rye</b>
flour.<br>And water.</p><ul><li>salt</li><li>yeast</li></ul>
<table><tr><td>250</td><td>g</td></tr></table><script>var hidden;</script>
<footer>Imprint</footer></body></html>"""


def pdf(*pages: Sequence[str]) -> bytes:
    """A PDF with these lines on its pages, after ISO 32000-1, 7.5."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 72 720 Td 14 TL {shown} ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    content = b"%PDF-1.4\n"
    table = b"0000000000 65535 f \n"
    for number, body in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(content)
        content += f"{number} 0 obj\n{body}\nendobj\n".encode()
    size = len(objects) + 1
    end = f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 {size}\n".encode() + table + end.encode()


def test_a_page_is_its_blocks_without_navigation() -> None:
    pytest.importorskip("selectolax")
    blocks = ["Bread & butter", "Of rye flour.", "And water.", "salt", "yeast", "250 g"]
    assert document_text("page.HTML", PAGE.encode()) == "\n\n".join(blocks)
    main = PAGE.replace("<p>", "<main><p>").replace("</p>", "</p></main>")
    assert document_text("page.htm", main.encode()) == "Of rye flour.\n\nAnd water."
    declared = '<meta charset="iso-8859-1"><p>caf\xe9'
    assert document_text("page.html", declared.encode("latin-1")) == "caf\xe9"
    for wrong, charset in ((b"<p>caf\xe9", "UTF-8"), (b"<meta charset=x-none>", "X-NONE")):
        said = said_by(document_text, "page.html", wrong, kind=CorpusError)
        assert said == f"not {charset}. Save the file as UTF-8."


def test_a_pdf_is_the_text_of_its_pages() -> None:
    """A word that is divided at the end of a line is whole again."""
    pytest.importorskip("pypdfium2")
    content = pdf(["A short exam-", "ple of a text.", "Second line."], ["Next page."])
    text = document_text("some.pdf", content)
    assert text == "A short example of a text.\nSecond line.\n\nNext page."


def test_documents_of_all_kinds_are_one_corpus(tmp_path: Path) -> None:
    """A scan and a broken file are named; alone they are an error."""
    pytest.importorskip("selectolax")
    pytest.importorskip("pypdfium2")
    (tmp_path / "scan.pdf").write_bytes(pdf([], []))
    scan = "a PDF without text, as of a scan. Run text recognition (OCR) on it."
    assert said_by(Corpus.read, tmp_path, kind=CorpusError) == f"scan.pdf: {scan}"
    assert said_by(Corpus.read, tmp_path / "scan.pdf", kind=CorpusError) == f"scan.pdf: {scan}"
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\n")
    (tmp_path / "a.pdf").write_bytes(pdf(["From a PDF."]))
    (tmp_path / "b.html").write_text("<p>From a page.")
    (tmp_path / "c.txt").write_text("From a text.")
    corpus = Corpus.read(tmp_path)
    assert corpus.ids() == ("a.pdf", "b.html", "c.txt")
    assert corpus.text("a.pdf", "und") == "From a PDF."
    broken, left_out = corpus.notes
    assert broken.startswith("left out: broken.pdf: not a PDF that can be read: ")
    assert left_out == f"left out: scan.pdf: {scan}"
    records = {record.file: record for record in open_source(tmp_path).records()}
    assert records["b.html"].fields == {"id": "b.html", "text": "From a page."}
    assert records["scan.pdf"].fault == scan
    assert records["scan.pdf"].place == "scan.pdf"
    assert records["scan.pdf"].done == sum(file.stat().st_size for file in tmp_path.iterdir())
    assert read_document(tmp_path / "a.pdf").text == "From a PDF."


@pytest.mark.parametrize("name", ["page.html", "paper.pdf"])
def test_without_the_libraries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("selectolax", "selectolax.lexbor", "pypdfium2"):
        monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / name).write_text("x")
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[documents\]'"):
        Corpus.read(tmp_path)
