"""Hugging Face datasets, from clones of dataset repositories in a folder: nothing is fetched."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairspan.corpus import hub
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.source import open_source
from fairspan.design.plan import choose_plans
from fairspan.errors import CorpusError, MissingExtra
from tests.builders.saying import said_by
from tests.corpus.test_corpus import TEXTS, labelled, segments, write

Rows = Sequence[Mapping[str, object]]
NAME = "owner/wiki"
Put = Callable[..., str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a dataset on a hub that answers from a clone; returns its name."""
    import datasets

    def on_hub(configurations: Mapping[str, Mapping[str, Rows]], ending: str = ".parquet") -> str:
        clone(tmp_path / "wiki", configurations, ending)
        for name in ("load_dataset", "get_dataset_config_names", "get_dataset_split_names"):
            monkeypatch.setattr(
                datasets, name, _instead(getattr(datasets, name), str(tmp_path / "wiki"))
            )
        monkeypatch.setattr(hub, "_revision", lambda name: None)
        return NAME

    return on_hub


def _instead(function: Callable[..., Any], place: str) -> Callable[..., Any]:
    return lambda asked, *rest, **options: function(place, *rest, **options)


def clone(
    folder: Path, configurations: Mapping[str, Mapping[str, Rows]], ending: str = ".parquet"
) -> str:
    """A dataset repository: configurations, their splits, and the header of README.md that
    describes them.
    """
    described = []
    for configuration, splits in configurations.items():
        (folder / configuration).mkdir(parents=True)
        for split, rows in splits.items():
            write(folder / configuration / f"{split}{ending}", rows)
        files = [{"split": split, "path": f"{configuration}/{split}{ending}"} for split in splits]
        described.append({"config_name": configuration, "data_files": files})
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(described)}\n---\n")
    return str(folder)


def rows(language: str) -> list[dict[str, object]]:
    return [
        {"id": id, "title": id.upper(), "text": text, "url": "…"}
        for id, text in TEXTS[language].items()
    ]


@pytest.mark.parametrize(
    "configurations",
    [
        {"default": {"en": rows("en"), "de": rows("de")}},
        {"en": {"train": rows("en")}, "de": {"train": rows("de")}},
        {"default": {"train": labelled(TEXTS)}},
    ],
    ids=["splits", "configurations", "a column"],
)
def test_where_languages_are(put: Put, configurations: Mapping[str, Mapping[str, Rows]]) -> None:
    name = put(configurations)
    corpus = Corpus.read(name, ["en", "de"])
    assert (corpus.name, corpus.languages) == (NAME, ("en", "de"))
    assert corpus.fingerprint == Corpus.from_segments("x", segments(TEXTS)).fingerprint
    assert Corpus.read(name, ["de"]).languages == ("de",)
    with pytest.raises(
        CorpusError, match=r"has no language 'fr'\. Languages there: (en, de|de, en)\."
    ):
        Corpus.read(name, ["fr"])


def test_a_split_that_does_not_name_its_language(put: Put) -> None:
    name = put({"default": {"train": rows("en"), "test": rows("de")}})
    with pytest.raises(
        CorpusError,
        match=r"wiki has several splits: name one of train, test, as in owner/wiki:train",
    ):
        Corpus.read(name, ["en"])
    assert Corpus.read(f"{name}:train").languages == ("und",)
    assert Corpus.read(f"{name}:default:test", ["de"]).text("a", "de") == TEXTS["de"]["a"]
    with pytest.raises(CorpusError, match=r"has no configuration 'other': name one of default"):
        Corpus.read(f"{name}:other:test")


def _configurations(*names: str) -> dict[str, dict[str, Rows]]:
    return {name: {"train": [{"id": "a", "text": f"In {name}."}]} for name in names}


def test_only_the_first_language_is_opened(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    name, opened = put(_configurations("de", "en", "fr")), []
    load = datasets.load_dataset
    monkeypatch.setattr(
        datasets,
        "load_dataset",
        lambda place, configuration, **more: (
            opened.append(configuration) or load(place, configuration, **more)
        ),
    )
    plans, corpus = choose_plans(name, None, (), partial=True)
    assert ([*map(str, plans)], corpus.text("a", "en")) == (["en"], "In en.")
    assert opened == ["en"]
    assert corpus.notes == ("not read: texts in de, fr; name a language to use it",)
    Corpus.read(name, ["fr", "de"])
    assert opened[1:] == ["de", "fr"]


def test_configurations_with_other_names_are_no_languages(put: Put) -> None:
    """As those of wikimedia/wikipedia."""
    name = put(_configurations("20231101.de", "20231101.en"))
    for languages in (None, ["en"]):
        assert said_by(Corpus.read, name, languages, kind=CorpusError) == (
            "owner/wiki has several configurations: name one of 20231101.de, 20231101.en, as in "
            "owner/wiki:20231101.de."
        )
    english = Corpus.read(f"{name}:20231101.en", ["en"])
    assert english.text(*english.segments[0].id, "en") == "In 20231101.en."


def test_faults_have_their_row(put: Put) -> None:
    bad = [{"id": "b", "title": None, "text": "x"}, {"id": "e", "title": "", "text": ""}]
    name = put({"default": {"en": rows("en"), "de": [*rows("de"), *bad]}})
    place = f"{NAME}:default:de, row"
    said = said_by(Corpus.read, name, kind=CorpusError)
    assert said == f"{place} 4: the id 'b' was already used at {place} 2. (and 1 more)"


def test_records_are_read_from_the_beginning_every_time(put: Put) -> None:
    source = open_source(f"{put({'default': {'en': rows('en')}})}:en", columns=["id"])
    for _ in range(2):
        records = [(record.fields["id"], record.number) for record in source.records()]
        assert records == [("a", 1), ("b", 2), ("c", 3)]


def test_a_broken_dataset_is_one_line(put: Put, tmp_path: Path) -> None:
    name = put({"default": {"en": rows("en")}})
    (tmp_path / "wiki" / "default" / "en.parquet").write_bytes(b"no parquet")
    said = said_by(Corpus.read, name, kind=CorpusError)
    assert re.search(r"^the dataset owner/wiki.* could not be (loaded|read): ", said)


def test_the_hub_cannot_be_reached() -> None:
    assert said_by(Corpus.read, "owner/nothing", kind=CorpusError) == (
        "there is no file or folder 'owner/nothing', and the Hugging Face hub could not be reached "
        "to look for a dataset of that name."
    )


def test_the_revision_is_pinned(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run that is continued skips into the same rows."""
    import datasets

    name, asked = put({"default": {"en": rows("en")}}), []
    load = datasets.load_dataset
    monkeypatch.setattr(hub, "_revision", lambda name: "abc")
    monkeypatch.setattr(
        datasets,
        "load_dataset",
        lambda *given, revision, **more: asked.append(revision) or load(*given, **more),
    )
    for function in ("get_dataset_config_names", "get_dataset_split_names"):
        real = getattr(datasets, function)
        monkeypatch.setattr(datasets, function, lambda *given, revision, real=real: real(*given))
    assert open_source(f"{name}:en").identity["revision"] == "abc"
    assert asked == ["abc"]


def test_the_hub_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def nowhere(name: str) -> list[str]:
        raise datasets.exceptions.DatasetNotFoundError(
            f"Dataset '{name}' doesn't exist on the Hub\nor anywhere"
        )

    monkeypatch.setattr(datasets, "get_dataset_config_names", nowhere)
    monkeypatch.setattr(hub, "_revision", lambda name: None)
    with pytest.raises(
        CorpusError, match="the Hugging Face hub has no dataset of that name that you may read"
    ):
        Corpus.read("nothing")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[datasets\]'"):
        Corpus.read("owner/wiki")
