"""Plain text out of wikitext: nothing made up, no traces of templates, and broken markup that takes
little along.
"""

import pytest

from fairspan.corpus.wikipedia.plain_text import from_extract, from_index, from_wikitext

HIDDEN = frozenset({"file", "image", "category", "datei", "kategorie"})
BERLIN = """{{Short description|Capital of Germany}}
{{Infobox settlement
| name = Berlin
| population = {{formatnum:3677472}}<ref>{{cite web|url=http://example.org|title=A \
{{nowrap|title}}}}</ref>
}}
[[File:Berlin.jpg|thumb|right|The [[Brandenburg Gate|gate]] in [[Berlin]], [http://example.org \
seen] {{small|x}}.]]
'''Berlin''' ({{IPAc-en|b|ɜr|ˈ|l|ɪ|n}}; {{lang-de|Berlin|links=no}}) is the [[city|capital]]\
 of [[Germany]].<ref name="a" /> It covers {{convert|891|km2|sqmi}}<!-- 2020 -->, and ''[[Der \
Spiegel]]'' is there.
The city's [[museum]]s{{efn|Some.}} are well known.<ref group="n">See ''Museums'' \
<small>(2010)</small>.</ref>

{| class="wikitable" style="x"
! Name !! People
|-
| [[Mitte]] is a cell.
|
{| class="inner"
| Inside, too.
|}
|}

== History of the city. ==
{{Main|History of Berlin}}
[[Datei:Map.png|left|100px]]In the [[13th century]] the town was small. \
See [https://example.org the site] or [[:Category:Berlin|the category]].<br />A new line &amp; more.

=== Growth ===
* [[Neukölln]]
* Some districts grew in 1920.
# The first point is a sentence!
<gallery mode="packed">
File:One.jpg|A caption<ref>Ref</ref>.
</gallery>
Its shape <math>\\frac{1}{2}</math> is unknown. __NOTOC__ The rest is known.

== Literature ==
* Smith, J.: ''History''. Berlin 2010.

{{Navbox}}
[[Category:Berlin| ]]
[[de:Berlin]]
"""


def test_an_article() -> None:
    assert from_wikitext(BERLIN, HIDDEN).split("\n\n") == [
        (
            "Berlin is the capital of Germany. It covers, and Der Spiegel is there. "
            "The city's museums are well known."
        ),
        "In the 13th century the town was small. See the site or the category. A new line & more.",
        "Its shape is unknown. The rest is known.",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Of a template nothing is known: it leaves no text, and no parenthesis with a hole.
        ("{{HMS|Victory}} was a ship. She sank.", "was a ship. She sank."),
        ("The word is {{transl|ar|DIN|salām}}. It means peace.", "The word is. It means peace."),
        ("He (born {{birth|1900}}, from {{a}} until {{b}}) was here.", "He was here."),
        (
            "Name ({{lang|a|b}}; born {{x}}) , a poet (1900–1980; x) .",
            "Name, a poet (1900–1980; x).",
        ),
        (
            "Né ({{date|1}} ; mort) à Paris ; il dit : « {{x}} » ou « oui » !",
            "Né à Paris ; il dit : ou « oui » !",
        ),
        ("Known as {{a}}, {{b}}; {{c}}, and (in {{d}}, 1900) more.", "Known as, and more."),
        (
            "他（{{lang|en|X}}，1900年）是诗人（生于1900年），《{{x}}》的作者。",
            "他是诗人（生于1900年），的作者。",
        ),
        ("He (a man (of {{x}}) of note) was here.", "He (a man of note) was here."),
        (
            "Founded by St. Mary near {{x}} in 1900. It stands.",
            "Founded by St. Mary near in 1900. It stands.",
        ),
        (
            "A note{{sfn|a}} is none.{{efn|b}} Nor is this,{{r|c}} or that.",
            "A note is none. Nor is this, or that.",
        ),
        ("他是{{lang|en|X}}。这是第二句，{{efn|a}}完。", "他是。这是第二句，完。"),
        ("又称-{zh-hans:计算机; zh-hant:電腦;}-。第二句。", "又称计算机。第二句。"),
        ("यह {{x}} है। वह क़िला है।", "यह है। वह क़िला है।"),
        # Lines of a paragraph are joined with a space, in every language.
        ("One line\nand another.", "One line and another."),
        ("Before the list:\n* item\nAfter the list.", "After the list."),
        ("A [[link]]s, a<ref name=x>y</ref> b<ref name=x/>, c<!-- no -->d.", "A links, a b, cd."),
        ("又称-{A|zh-cn:软件;zh-tw:軟體}-和-{词}--{H|zh-cn:甲;zh-tw:乙}-。", "又称软件和词。"),
        (
            "It''''s bold''' and '''''both''''' and rock 'n' roll.",
            "It's bold and both and rock 'n' roll.",
        ),
        ("L'''Humanité'' est un journal.", "L'Humanité est un journal."),
        (
            "Python's __init__ stays, __NOTOC__ __KEIN_INHALTSVERZEICHNIS__goes.",
            "Python's __init__ stays, goes.",
        ),
        ("E&#769;t&eacute; &shy;and a&nbsp;b.", "Été and a b."),
        ("<div class='x'>One.</div><blockquote>Two.</blockquote>", "One.\n\nTwo."),
        ("a < b and c > d.", "a < b and c > d."),
        ("One.\r\n\r\nTwo.", "One.\n\nTwo."),
        ("#REDIRECT [[Foo]]", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_pieces(text: str, expected: str) -> None:
    assert from_wikitext(text, HIDDEN) == expected


BROKEN = [
    "{{Infobox\n| a = b\n| c = {{d}}\n",
    "{{unclosed|a|b",
    "}}",
    "{| class='wikitable'\n|-\n| a || b\n! c\n",
    "|-\n| a cell.\n",
    "|}",
    "[[File:a.jpg|thumb|A caption without an end.",
    "]]",
    "<ref name=a>{{cite web|title=b}}",
    "</ref>",
    "<table><tr><td>",
    "<!-- a comment without an end",
    "<gallery>",
    "'''bold",
    "-{zh-hans:a",
    "[http://example.org",
    "<nowiki>",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_markup_takes_no_other_paragraph_along(broken: str) -> None:
    text = from_wikitext(
        f"Before it.\n\n{broken}\n\nRight after it.\n\n== Section ==\nLast one.", HIDDEN
    )
    assert text == "Before it.\n\nRight after it.\n\nLast one."


def test_deep_nesting_ends() -> None:
    for piece in ("{{a|", "[[File:a|", "<div>", "{|\n", "(", "''"):
        from_wikitext(piece * 200, HIDDEN)


def test_text_that_others_extracted() -> None:
    long = "word " * 30
    text = f"History\n\nIt began in 1900.  \n\nSee also\nOther page\n{long}\n„Das Ende.“"
    assert from_extract(text) == f"It began in 1900.\n\n{long.strip()}\n\n„Das Ende.“"
    assert from_index("One. Two.\u00a0 Three", "One.") == "One.\n\nTwo. Three"
    assert from_index("One. Two.", "") == "One. Two."
