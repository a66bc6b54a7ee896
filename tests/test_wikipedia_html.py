"""Plain text out of Parsoid's HTML."""

from __future__ import annotations

from fairspan.corpus.wikipedia.html import clean

ARTICLE = """<!DOCTYPE html>
<html prefix="dc: http://purl.org/dc/terms/" about="https://en.wikipedia.org/wiki/Special:Redirect/revision/1">
<head prefix="mwr: https://en.wikipedia.org/wiki/Special:Redirect/"><title>Berlin</title></head>
<body id="mwAA" lang="en" class="mw-content-ltr sitedir-ltr ltr mw-body-content parsoid-body mediawiki">
<section data-mw-section-id="0" id="mwAQ">
<div class="shortdescription nomobile noexcerpt noprint searchaux" style="display:none">Capital</div>
<div role="note" class="hatnote navigation-not-searchable">For other uses, see <a href="./X">X</a>.</div>
<style data-mw-deduplicate="TemplateStyles:r1">.x{color:red}</style>
<table class="infobox vcard" about="#mwt1" typeof="mw:Transclusion"><tbody><tr><td>People</td></tr></tbody></table>
<figure class="mw-default-size" typeof="mw:File/Thumb"><a href="./File:A.jpg"><img src="a.jpg"/></a>
<figcaption>A <a href="./Gate">gate</a> at night.</figcaption></figure>
<p id="mwAg"><b id="mwAw">Berlin</b> (<span class="nowrap"><span class="IPA nopopups">/x/</span></span>;
<span title="German-language text"><i lang="de">Berlin</i></span>) is the
<a rel="mw:WikiLink" href="./Capital">capital</a> of Germany.\
<sup about="#mwt2" class="mw-ref reference" typeof="mw:Extension/ref"><a href="./B#cite">[1]</a></sup>
It covers 891&nbsp;km<sup>2</sup> &amp; more, and a &lt; b.</p>
<span id="coordinates"><a href="./Geo">52°N 13°E</a></span>
</section>
<section data-mw-section-id="1" id="mwBA"><h2 id="History">History<span class="mw-editsection">[edit]</span></h2>
<p>The area <span class="mwe-math-element"><math alttext="{\\displaystyle A}"><semantics><mi>A</mi>
<annotation encoding="application/x-tex">{\\displaystyle A}</annotation></semantics></math><img alt="x"/></span>
is large, and
<math alttext="{\\displaystyle \\frac{1}{2}}"><mfrac></mfrac></math> is small.<br/>A line.</p>
<ul><li>Mitte</li><li>Some districts grew in 1920.</li></ul>
<blockquote><p>Quoted words.</p></blockquote>
<table class="wikitable"><tbody><tr><td><p>A cell.</p></td></tr></tbody></table>
<section data-mw-section-id="2"><h3 id="L">Literature</h3><p>Poets wrote.</p></section>
</section>
<section data-mw-section-id="3"><h2 id="See_also">See also</h2><ul><li>Potsdam is near.</li></ul></section>
<section data-mw-section-id="4"><h2 id="References">References</h2>
<div class="mw-references-wrap" typeof="mw:Extension/references"><ol class="references"><li>Smith.</li></ol></div>
</section>
<div role="navigation" class="navbox"><p>Navigation.</p></div>
<link rel="mw:PageProp/Category" href="./Category:Berlin"/>
</body></html>"""


def test_an_article() -> None:
    assert clean(ARTICLE, "en") == (
        "Berlin (Berlin) is the capital of Germany. It covers 891 km2 & more, and a < b.\n\n"
        "The area A is large, and is small. A line.\n\nSome districts grew in 1920.\n\nQuoted words.\n\nPoets wrote."
    )


def test_other_scripts_and_broken_html() -> None:
    html = "<body><section><p>서울은 <b>수도</b>이다.</p></section>"
    assert clean(f"{html}<section><h2>같이 보기</h2><p>부산.</p></section></body>", "ko") == "서울은 수도이다."
    assert clean("<p>दिल्ली <b>राजधानी है।<p>दूसरा <table><tr><td>x", "hi") == "दिल्ली राजधानी है।\n\nदूसरा"
    assert clean("", "en") == ""
    assert clean("<div>" * 5000 + "<p>Deep.</p>", "en") == "Deep."
