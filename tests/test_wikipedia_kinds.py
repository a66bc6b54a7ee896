"""Which pages are articles, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairspan.corpus.wikipedia.dump import read_pages
from fairspan.corpus.wikipedia.kinds import kind_of_record, kind_of_text, kind_of_title, kind_of_wikitext
from tests.wikipedia_dumps import Source, write_cirrus, write_enterprise, write_parquet, write_xml

DISAMBIGUATION_TEMPLATES = {
    "en": "Disambiguation",
    "de": "Begriffsklärung",
    "fr": "Homonymie",
    "es": "Desambiguación",
    "it": "Disambigua",
    "pt": "Desambiguação",
    "nl": "Dp",
    "pl": "Ujednoznacznienie",
    "ru": "Неоднозначность",
    "uk": "Неоднозначність",
    "sv": "Förgrening",
    "ja": "Aimai",
    "zh": "消歧义",
    "ko": "동음이의",
    "hi": "बहुविकल्पी",
    "ar": "توضيح",
    "fa": "ابهام‌زدایی",
    "tr": "Anlam ayrımı",
    "vi": "Trang định hướng",
    "id": "Disambig",
    "cs": "Rozcestník",
    "fi": "Täsmennyssivu",
    "he": "פירושונים",
}
LISTS = {
    "en": "List of rivers",
    "de": "Liste der Flüsse",
    "fr": "Liste de rivières",
    "es": "Anexo:Ríos",
    "it": "Lista di fiumi",
    "pt": "Lista de rios",
    "nl": "Lijst van rivieren",
    "pl": "Lista rzek",
    "ru": "Список рек",
    "uk": "Список річок",
    "sv": "Lista över floder",
    "ja": "川の一覧",
    "zh": "河流列表",
    "ko": "강 목록",
    "hi": "नदियों की सूची",
    "ar": "قائمة الأنهار",
    "fa": "فهرست رودها",
    "tr": "Nehirler listesi",
    "vi": "Danh sách sông",
    "id": "Daftar sungai",
    "cs": "Seznam řek",
    "fi": "Luettelo joista",
    "he": "רשימת נהרות",
}


@pytest.mark.parametrize("language", DISAMBIGUATION_TEMPLATES)
def test_disambiguation_and_lists_by_language(language: str) -> None:
    template = DISAMBIGUATION_TEMPLATES[language]
    assert kind_of_wikitext("Mercury", f"* [[A]]\n{{{{{template}}}}}", language) == "disambiguation"
    assert kind_of_wikitext("Mercury", f"{{{{ {template.lower()} |x}}}}", language) == "disambiguation"
    assert kind_of_record("Mercury", [f"Template:{template}"], [], language) == "disambiguation"
    assert kind_of_title(LISTS[language], language) == "list"
    assert kind_of_wikitext("Mercury", "Mercury is a {{convert|5|km}} planet.", language) == "article"
    assert kind_of_record("Mercury", ["Template:Cite web"], ["Category:Planets"], language) == "article"


@pytest.mark.parametrize(
    ("title", "text", "language", "kind"),
    [
        ("A", "#REDIRECT [[B]]", "en", "redirect"),
        ("A", "#redirect: [[B]]", "en", "redirect"),
        ("A", "#WEITERLEITUNG [[B]]", "de", "redirect"),
        ("A", "#перенаправление [[B]]", "ru", "redirect"),
        ("A", "#重定向 [[B]]", "zh", "redirect"),
        ("A", "#पुनर्प्रेषित [[B]]", "hi", "redirect"),
        ("A", "#تغییر_مسیر [[B]]", "fa", "redirect"),
        ("A", "", "en", "other"),
        ("A", " \n", "en", "other"),
        ("A (disambiguation)", "Text.", "en", "disambiguation"),
        ("A (Begriffsklärung)", "Text.", "de", "disambiguation"),
        ("A（曖昧さ回避）", "Text.", "ja", "disambiguation"),
        ("A", "Text. __DISAMBIG__", "xx", "disambiguation"),
        ("A", "{{Surname}}", "en", "disambiguation"),
        ("A", "{{Disambiguation needed|date=May}} Text. {{Begriffsklärungshinweis}}", "de", "article"),
        ("Listening", "Text.", "en", "article"),
        ("A (planet)", "# One [[B]].", "en", "article"),
    ],
)
def test_kinds_by_wikitext(title: str, text: str, language: str, kind: str) -> None:
    assert kind_of_wikitext(title, text, language) == kind


@pytest.mark.parametrize(
    ("text", "language", "kind"),
    [
        ("Mercury may refer to:\n\nMercury (planet)\nMercury (element)", "en", "disambiguation"),
        ("Mercury most commonly refers to:\n\nA planet", "en", "disambiguation"),
        ("Merkur steht für:\n\nMerkur (Planet)", "de", "disambiguation"),
        ("水星可以指：\n\n水星 (行星)", "zh", "disambiguation"),
        ("Mercury is a planet. The word may refer to a god.", "en", "article"),
        ("", "en", "other"),
    ],
)
def test_kinds_by_text(text: str, language: str, kind: str) -> None:
    assert kind_of_text("Mercury", text, language) == kind


PAGES = [
    Source("Earth", "'''Earth''' is a planet.", 1, html="<p>Earth is a planet.</p>"),
    Source("Template:Earth", "A template.", 2, namespace=10, html="<p>x</p>"),
    Source(
        "Mercury",
        "Mercury may refer to:\n* [[A]]\n{{Disambiguation}}",
        3,
        html="<p>x</p>",
        templates=["Template:Dab"],
    ),
    Source("Venus", "Venus may refer to:\n* B", 4, html="<p>x</p>", categories=["Category:Disambiguation pages"]),
    Source("List of planets", "A list.", 5, html="<p>x</p>"),
    Source("Mars", "'''Mars''' is a planet.", 6, html="<p>Mars is a planet.</p>", categories=["Category:Planets"]),
]
KINDS = [(1, "article"), (3, "disambiguation"), (4, "disambiguation"), (5, "list"), (6, "article")]


def kinds(path: Path) -> list[tuple[int, str]]:
    return [(page.page_id, page.kind) for page, _ in read_pages(path, "en")]


def test_kinds_in_every_format(tmp_path: Path) -> None:
    """Pages of other namespaces are left out; a Parquet file holds none."""
    assert kinds(write_enterprise(tmp_path / "a.ndjson", "en", PAGES)) == KINDS
    assert kinds(write_cirrus(tmp_path / "a.json.gz", "en", PAGES)) == KINDS
    assert kinds(write_parquet(tmp_path / "a.parquet", "en", [PAGES[0], *PAGES[2:]])) == KINDS
    in_text = [Source(page.title, page.text, page.page_id, page.namespace) for page in PAGES]
    assert [kind for kind in kinds(write_xml(tmp_path / "a.xml", "en", in_text)) if kind[0] != 4] == [
        kind for kind in KINDS if kind[0] != 4
    ]


def test_redirects_and_texts_that_are_not_there(tmp_path: Path) -> None:
    pages = [Source("A", "#REDIRECT [[B]]", 1, redirect="B"), Source("B", "Some text.", 2)]
    path = write_xml(tmp_path / "a.xml", "en", pages)
    text = path.read_text("utf-8")
    start, end = text.rindex("<text "), text.rindex("</text>") + len("</text>")
    path.write_text(f'{text[:start]}<text bytes="10" deleted="deleted" />{text[end:]}', "utf-8")
    assert kinds(path) == [(1, "redirect"), (2, "other")]
