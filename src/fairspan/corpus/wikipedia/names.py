"""What Wikipedias call things: namespaces, disambiguation pages, lists, and the sections that end an article."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# Wikis whose database is not called like the language: the code that is asked for, and the name without "wiki".
DATABASES = {
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

# Prefixes of interlanguage links.
_CODES = (
    "aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban "
    "bar bat-smg bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca "
    "cbk-zam cdo ce ceb ch cho chr chy ckb classical co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp "
    "dty dv dz ee el eml en eo es et eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr "
    "gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia iba "
    "id ie ig igl ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kcg kg kge ki kj kk kl km kn knc "
    "ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg lv lzh mad "
    "mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos mr mrj ms mt mus mwl my myv mzn na nah nan nap "
    "nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm "
    "pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rki rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah "
    "sat sc scn sco sd se sg sgs sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl "
    "szl szy ta tay tcy tdd te tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur "
    "uz ve vec vep vi vls vo vro wa war wo wuu xal xh xmf yi yo yue za zea zgh zh zh- zh-min-nan zh-yue zu"
)
LANGUAGES = frozenset(_CODES.split())


def database(language: str) -> str:
    """The name of a Wikipedia's database: "enwiki" for en, "zh_yuewiki" for yue, zh-yue and zh_yue."""
    code = language.lower().replace("_", "-")
    return DATABASES.get(code, code.replace("-", "_")) + "wiki"


@dataclass(frozen=True, slots=True)
class Names:
    """The words of one Wikipedia, in lower case with spaces; English ones are understood everywhere.

    Attributes:
        files: prefixes of links that show a file.
        categories: prefixes of links that put the page in a category.
        disambiguation: templates of disambiguation pages.
        disambiguating: beginnings of such templates' names, and of categories that hold such pages.
        meanings: what stands in parentheses after the title of a disambiguation page.
        phrases: what a disambiguation page says in its first lines.
        list_starts: how titles of lists begin.
        list_ends: how titles of lists end.
        closing: headings of sections that hold no prose: references, links, literature.
    """

    files: frozenset[str]
    categories: frozenset[str]
    disambiguation: frozenset[str]
    disambiguating: tuple[str, ...]
    meanings: frozenset[str]
    phrases: tuple[str, ...]
    list_starts: tuple[str, ...]
    list_ends: tuple[str, ...]
    closing: frozenset[str]


@cache
def names_of(language: str) -> Names:
    """The words of a Wikipedia, with those of English."""
    words = _words()
    code = language.lower().replace("_", "-")
    own = words.get(code) or words.get(code.partition("-")[0]) or {}
    both = {key: (*words["en"].get(key, ()), *own.get(key, ())) for key in words["en"]}
    return Names(
        files=frozenset(both["file"]),
        categories=frozenset(both["category"]),
        disambiguation=frozenset(both["disambiguation"]),
        disambiguating=both["disambiguating"],
        meanings=frozenset(both["meanings"]),
        phrases=both["phrases"],
        list_starts=both["list_starts"],
        list_ends=both["list_ends"],
        closing=frozenset(both["closing"]),
    )


@cache
def _words() -> dict[str, dict[str, list[str]]]:
    """All in lower case and NFC, as MediaWiki stores titles; a space at either end belongs to the word."""
    text = files(__package__).joinpath("names.json").read_text("utf-8")
    found: dict[str, dict[str, list[str]]] = json.loads(text)
    return found
