"""Plain text out of wikitext: exact texts, languages, broken markup, and the parser as a reference."""

from __future__ import annotations

import time

import pytest

from fairspan.corpus.wikipedia.markup import Prefixes
from fairspan.corpus.wikipedia.names import names_of
from fairspan.corpus.wikipedia.prose import prose
from fairspan.corpus.wikipedia.wikitext import by_tree, clean


def cleaned(text: str, language: str = "en") -> str:
    names = names_of(language)
    return clean(text, language, names.files, names.categories)


BERLIN = """{{Short description|Capital of Germany}}
{{Infobox settlement
| name = Berlin
| image = {{multiple image|image1=A.jpg|caption1=The [[gate]]}}
| population = {{formatnum:3677472}}<ref>{{cite web|url=http://example.org|title=A {{nowrap|title}}}}</ref>
}}
[[File:Berlin.jpg|thumb|right|The [[Brandenburg Gate|gate]] in [[Berlin]], [http://example.org seen] {{small|x}}]]
'''Berlin''' ({{IPAc-en|b|ɜr|ˈ|l|ɪ|n}}; {{lang-de|Berlin|links=no}} {{IPA-de|bɛʁˈliːn|}}) is the [[city|capital]]\
 of [[Germany]].<ref name="a" /> It covers {{convert|891|km2|sqmi}}<!-- 2020 -->, and ''[[Der Spiegel]]'' is there.
The city's [[museum]]s are well known.<ref group="n">See ''Museums'' <small>(2010)</small>.</ref>

{| class="wikitable" style="x"
|+ Districts
! Name !! People
|-
| [[Mitte]] || {| class="inner"
| {{formatnum:380000}}
|}
|}

== History ==
{{Main|History of Berlin}}
[[Image:Map.png|left|100px]]In the [[13th century]] the town was small<sup>[''[[Wikipedia:Doubt|doubtful]]'']</sup>. \
See [https://example.org the site] or [[:Category:Berlin|the category]].<br />A new line &amp; more.

=== Growth ===
:Quoted words end like this.
* [[Neukölln]]
* [[Mitte]], the middle
* Some districts grew in 1920.
# The first point is a sentence!
; Term
<gallery mode="packed">
File:One.jpg|A caption<ref>Ref</ref>
File:Two.jpg|Another
</gallery>
Its area is <math>A</math>, and its shape <math>\\frac{1}{2}</math> is unknown. __NOTOC__

== See also ==
* [[Potsdam]] is near.

== References ==
{{Reflist}}

== External links ==
* {{Official website}}

{{Navbox}}
[[Category:Berlin| ]]
[[de:Berlin]]
"""
BERLIN_TEXT = """Berlin (Berlin) is the capital of Germany. It covers 891 km2, and Der Spiegel is there. \
The city's museums are well known.

In the 13th century the town was small[doubtful]. See the site or the category. A new line & more.

Quoted words end like this.
Some districts grew in 1920.
The first point is a sentence!

Its area is A, and its shape is unknown."""


def test_an_article() -> None:
    assert cleaned(BERLIN) == BERLIN_TEXT


ARTICLES = {
    "de": """{{Infobox Ort|Name=Köln}}
[[Datei:Dom.jpg|mini|Der [[Kölner Dom|Dom]]]]
'''Köln''' ({{IPA|kœln}}, {{laS|Colonia}}) ist eine [[Stadt]] am [[Rhein]].<ref>Quelle.</ref>

[[Bild:Alt.png|mini|Alt]]
== Geschichte ==
Die Stadt wurde „{{lang|la|Colonia}}“ genannt.

== Weblinks ==
* [http://koeln.de Stadt.]

== Einzelnachweise ==
<references />

[[Kategorie:Ort]]""",
    "hi": """{{ज्ञानसन्दूक|नाम=दिल्ली}}
[[चित्र:Delhi.jpg|अंगूठाकार|[[लाल किला]] का दृश्य]]
'''दिल्ली''' [[भारत]] की [[राजधानी]] है।<ref>स्रोत</ref> यहाँ क़िला है।

== सन्दर्भ ==
{{टिप्पणीसूची}}
[[श्रेणी:नगर]]""",
    "ko": """{{도시 정보}}
[[파일:Seoul.jpg|섬네일|[[서울]]의 모습]]
'''서울'''({{llang|en|Seoul}})은 [[대한민국]]의 [[수도]]이다.
인구가 많다.

== 같이 보기 ==
* [[부산]]

[[분류:서울]]""",
    "zh": """{{NoteTA|G1=IT}}
[[File:A.jpg|thumb|图]]
[[文件:B.jpg|thumb|[[图]]]]
'''计算机'''（{{lang-en|computer}}），又称-{zh-hans:计算机; zh-hant:電腦;}-，
是-{A|zh-cn:信息;zh-tw:資訊}-设备-{H|zh-cn:a;zh-tw:b}-。
第二行-{不转换}-。

== 参考文献 ==
{{reflist}}
[[Category:计算机]]""",
    "ar": """{{معلومات مدينة}}
[[ملف:Cairo.jpg|تصغير|مدينة [[القاهرة]]]]
'''القاهرة''' هي [[عاصمة]] [[مصر]]،<ref>مصدر</ref> وهي مدينة كبيرة.

== مراجع ==
{{مراجع}}
[[تصنيف:مدن]]""",
    "fr": """L'''Humanité'' est un journal de {{unité|5|pages}} du {{date|1|mai|1904}}.
Il paraît à ''[[Paris]]''  ; il est {{nombre|20|km}} loin.

== Notes et références ==
{{Références}}""",
}
TEXTS = {
    "de": "Köln (Colonia) ist eine Stadt am Rhein.\n\nDie Stadt wurde „Colonia“ genannt.",
    "hi": "दिल्ली भारत की राजधानी है। यहाँ क़िला है।",
    "ko": "서울(Seoul)은 대한민국의 수도이다. 인구가 많다.",
    "zh": "计算机（computer），又称计算机，是信息设备。第二行不转换。",
    "ar": "القاهرة هي عاصمة مصر، وهي مدينة كبيرة.",
    "fr": "L'Humanité est un journal de 5 pages du 1 mai 1904. Il paraît à Paris ; il est 20 km loin.",
}


@pytest.mark.parametrize("language", ARTICLES)
def test_other_languages(language: str) -> None:
    assert cleaned(ARTICLES[language], language) == TEXTS[language]


@pytest.mark.parametrize("language", ["en", *ARTICLES])
def test_the_fast_passes_agree_with_the_parser(language: str) -> None:
    text = BERLIN if language == "en" else ARTICLES[language]
    names = names_of(language)
    parsed = prose(by_tree(text, Prefixes(names.files, names.categories)), language)
    assert parsed.split() == cleaned(text, language).split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A {{nowrap|10 {{nbsp}}km}} walk.", "A 10 km walk."),
        ("{{convert|5|to|10|km|mi}} or {{cvt|3|m}}.", "5 to 10 km or 3 m."),
        (
            "In {{circa|1900}}, {{USS|Enterprise|CV-6}} and {{ill|Name|de|Anders}}.",
            "In c. 1900, USS Enterprise and Name.",
        ),
        ("Two{{snd}}three {{frac|1|2}} {{val|5.2|u=km}} {{chem|H|2|O}}", "Two – three 1/2 5.2 km H2O"),
        ("{{tsl|en|Word|词}} {{lang|de|Wort}} {{le|词|Word}}", "词 Wort 词"),
        ("Unknown {{made up|text}} templates go.", "Unknown templates go."),
        ("Text ({{IPA|x}}; {{lang|fr|mot}}; {{x}}) ends ({{x}}).", "Text (mot) ends."),
        ("Call main() or f(x, ) or (-5).", "Call main() or f(x) or (-5)."),
        ("<nowiki>[[no link]] ''quotes''</nowiki> and &lt;tag&gt;.", "[[no link]] ''quotes'' and <tag>."),
        ("It''''s bold''' and '''''both''''' and rock 'n' roll.", "It's bold and both and rock 'n' roll."),
        (
            "A [[Star Trek: Voyager]] and [[wikt:word]] and [[Foo (bar)|Foo]]s.",
            "A Star Trek: Voyager and word and Foos.",
        ),
        ("Python's __init__ stays, __NOTOC__ __KEIN_INHALTSVERZEICHNIS__goes.", "Python's __init__ stays, goes."),
        ("E&#769;t&eacute; &shy;and a&nbsp;b.", "Été and a b."),
        ("<div class='x'>One.</div><blockquote>Two.</blockquote>", "One.\n\nTwo."),
        ("a < b and c > d.", "a < b and c > d."),
        ("<poem>One.\nTwo.</poem><ref name=x>y</ref>", "One. Two."),
        ("#REDIRECT [[Foo]]", ""),
        ("", ""),
        ("One.\r\n\r\nTwo.", "One.\n\nTwo."),
    ],
)
def test_inline_markup(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize(
    "broken",
    [
        "{{Infobox\n| a = b\n| c = {{d}}\n",
        "{{unclosed",
        "{{unclosed|a|b",
        "}}",
        "{| class='wikitable'\n|-\n| a || b\n! c\n",
        "|}",
        "|-\n| a cell\n",
        "[[File:a.jpg|thumb|A caption without an end",
        "[[Kategorie",
        "[[",
        "]]",
        "<ref>",
        "<ref name=a>{{cite web|title=b}}",
        "</ref>",
        "<table><tr><td>",
        "</div>",
        "<!-- a comment without an end",
        "<gallery>",
        "<math>x",
        "'''bold",
        "-{zh-hans:a",
        "[http://example.org",
        "<nowiki>",
    ],
)
def test_broken_markup_takes_no_other_paragraph_along(broken: str) -> None:
    text = cleaned(f"Before it.\n\n{broken}\n\nRight after it.\n\n== Section ==\nLast one.")
    assert text.startswith("Before it.\n\n")
    assert text.endswith("Right after it.\n\nLast one.")
    assert not [sign for sign in ("{{", "}}", "[[", "]]", "{|", "|}", "<ref", "<table", "<!--") if sign in text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A sentence {{lang|de|Wort goes on.\n\nNext.", "A sentence goes on.\n\nNext."),
        ("A [[link|text without an end. More.", "A text without an end. More."),
        ("A <ref>reference without an end. More.", "A reference without an end. More."),
        ("{{Infobox\n| a = b\nThe article begins.", "The article begins."),
        ("Text {{a\n\n== Heading ==\nMore }} text.", "Text\n\nMore text."),
        ("Text <!-- hidden\n\nShown.", "Text\n\nShown."),
    ],
)
def test_broken_markup_in_a_sentence(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize(
    "piece",
    [
        "{{",
        "}}",
        "[[",
        "]]",
        "[[File:a|",
        "{|\n",
        "\n|}",
        "<ref>",
        "<!--",
        "''",
        "-{",
        "<div>",
        "{{a|",
        "[[a|[[b]]",
        "(",
        "<",
    ],
)
def test_time_grows_with_length_and_not_with_nesting(piece: str) -> None:
    """200,000 characters of one opening after the other: linear passes take well under a second each."""
    text = piece * (200_000 // len(piece)) + " The end."
    start = time.process_time()
    cleaned(text)
    assert time.process_time() - start < 4


def test_deep_nesting() -> None:
    depth = 20_000
    assert cleaned("Before {{a|" * depth + "x" + "}}" * depth + " after.").endswith("after.")
    assert cleaned("A. " + "[[File:x|" * 500 + "y" + "]]" * 500 + "\n\nAfter.").endswith("After.")
    assert cleaned("{{nowrap|" * 100 + "x" + "}}" * 100 + " after.") == "after."


def test_a_section_like_references_inside_an_article_stays() -> None:
    """Only the last sections are left out, and no subsections of others."""
    text = "Start.\n\n== Culture ==\n=== Literature ===\nPoets wrote.\n\n== Literature ==\n* Book.\n\n== Notes ==\nN."
    assert cleaned(text) == "Start.\n\nPoets wrote."
