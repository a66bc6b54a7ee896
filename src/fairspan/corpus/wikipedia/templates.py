"""Templates whose text belongs to the sentence: {{lang|de|Wort}}, {{nowrap|10 km}}, {{convert|5|km}}."""

import re
from collections.abc import Callable

_SPLIT = re.compile(r"\[\[|\]\]|\{\{|\}\}|\|")
_NAMED = re.compile(r"\s*([^\s=|\[\]{}<>][^=|\[\]{}<>]*?)\s*=(?!=)")
# {{name|text}}
_FIRST_NAMES = (
    "abbr|allowbreak|bibleverse|big|block quote|blockquote|bquote|chem2|cita|code|cquote|em|flag|flagcountry|"
    "ill|interlanguage link|interlanguage link multi|kbd|keypress|large|larger|le|lien|link-en|link-interwiki|"
    "math|mvar|nihongo|nobold|nobr|nobreak|noitalic|not a typo|nowrap|nts|overline|quote|ruby|samp|sic|small|"
    "small caps|smallcaps|smaller|strike|strong|tooltip|tq|underline|vanchor|var|visible anchor|zitat|ルビ|仮リンク|"
    "読み仮名"
)
_FIRST = frozenset(_FIRST_NAMES.split("|"))
# {{lang|de|text}}
_SECOND_NAMES = "color|lang|lang2|langue|langx|llang|transl|translit|transliteration|tsl"
_SECOND = frozenset(_SECOND_NAMES.split("|"))
_SIGNS = {
    "nbsp": " ",
    "spaces": " ",
    "space": " ",
    "thinsp": " ",
    "snd": " – ",
    "spnd": " – ",
    "spaced ndash": " – ",
    "spaced en dash": " – ",
    "ndash": "–",
    "endash": "–",
    "mdash": "—",
    "emdash": "—",
    "spaced mdash": " — ",
    "spaced em dash": " — ",
    "'": "'",
    "'s": "'s",
    "!": "|",
    "=": "=",
    "·": "·",
    "•": "•",
    "pi": "π",
    "%": "%",
    "circa": "c.",
    "c.": "c.",
    "ca.": "c.",
}
_RANGES = {
    "to": " to ",
    "-": "–",
    "–": "–",
    "and": " and ",
    "or": " or ",
    "x": " × ",
    "by": " × ",
    "×": " × ",
    "to(-)": " to ",
}
_SHIPS_NAMES = "hmas|hmcs|hms|hnlms|ins|ms|mv|rms|rv|sms|ss|uscgc|usns|uss"
_SHIPS = frozenset(_SHIPS_NAMES.split("|"))


def text_of(source: str, inner: Callable[[str], str]) -> str:
    """The text that a template puts into the sentence; "" where that is not known.

    Args:
        source: what stands between {{ and }}.
        inner: makes text of an argument that is kept.
    """
    name, *arguments = _split(source)
    name = name.strip().replace("_", " ").lower()
    if name.startswith("formatnum:"):
        return inner(name.partition(":")[2])
    if not arguments or name in _SIGNS:
        return _SIGNS.get(name, "") + (f" {inner(arguments[0]).strip()}" if arguments and name[0] == "c" else "")
    numbered, named = _sorted(arguments)
    found = _chosen(name, numbered, named)
    return inner(found).strip() if found else ""


def _chosen(name: str, numbered: dict[str, str], named: dict[str, str]) -> str:
    one, two, three = (numbered.get(key, "").strip() for key in "123")
    if name in _SECOND:
        return (three if name == "tsl" else two) or named.get("texte", named.get("text", ""))
    if name in _FIRST:
        return one or named.get("text", named.get("texte", ""))
    if name.startswith("lang-") or (len(name) == 3 and name.endswith("s") and name[:2].isalpha() and not two):
        return one  # {{lang-de|Wort}}, in German {{enS|word}}
    if name in ("convert", "cvt", "umrechnen"):
        return _measure([numbered[key].strip() for key in sorted(numbered, key=_place)])
    if name in ("val", "unité", "nombre", "unitat", "quantité", "num"):
        return f"{one} {named.get('u', two if name != 'val' else '').strip()}"
    if name in ("frac", "fraction", "sfrac"):
        return " ".join(
            filter(None, [one if three else "", "/".join(filter(None, [two, three] if three else [one, two]))])
        )
    if name == "chem":
        return "".join(numbered[key].strip() for key in sorted(numbered, key=_place))
    if name in ("date", "date-"):
        return " ".join(filter(None, (one, two, three))) if two and not two.isdecimal() else ""
    if name == "as of":
        return f"{'as' if 'lc' in named else 'As'} of {one}"
    if name in ("us$", "usd"):
        return f"US${one}"
    if name in ("£", "gbp"):
        return f"£{one}"
    if name in ("€", "eur", "euro"):
        return f"€{one}"
    if name in _SHIPS:
        return f"{name.upper()} {one}"
    if name == "ship":
        return f"{one} {two}".strip()
    if name == "sclass":
        return f"{one}-class {two}".strip()
    return ""


def _measure(arguments: list[str]) -> str:
    """ "5 km" of 5|km|mi, "5 to 10 km" of 5|to|10|km."""
    said = arguments[0]
    rest = arguments[1:]
    while len(rest) > 1 and rest[0] in _RANGES:
        said += _RANGES[rest[0]] + rest[1]
        rest = rest[2:]
    return f"{said} {rest[0]}" if rest else said


def _place(key: str) -> int:
    return int(key)


def _split(source: str) -> list[str]:
    """At the bars that stand in no inner link or template."""
    if "[[" not in source and "{{" not in source:
        return source.split("|")
    found, depth, start = [], 0, 0
    for token in _SPLIT.finditer(source):
        sign = token[0]
        if sign == "|":
            if depth == 0:
                found.append(source[start : token.start()])
                start = token.end()
        else:
            depth = max(0, depth + (1 if sign in ("[[", "{{") else -1))
    found.append(source[start:])
    return found


def _sorted(arguments: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Arguments by number from "1", and by name."""
    numbered: dict[str, str] = {}
    named: dict[str, str] = {}
    count = 0
    for argument in arguments:
        match = _NAMED.match(argument)
        if match is None:
            count += 1
            numbered[str(count)] = argument
        elif match[1].isdecimal():
            numbered[match[1]] = argument[match.end() :]
        else:
            named[match[1].strip().lower()] = argument[match.end() :].strip()
    return numbered, named
