"""Hugging Face datasets, from clones of dataset repositories in a folder: nothing is fetched."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

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


def clone(folder: Path, configurations: Mapping[str, Mapping[str, Rows]]) -> None:
    """A dataset repository: configurations, their splits, and the header of README.md that
    describes them."""
    described = []
    for configuration, splits in configurations.items():
        (folder / configuration).mkdir(parents=True)
        files = [{"split": split, "path": f"{configuration}/{split}.parquet"} for split in splits]
        for file, rows in zip(files, splits.values(), strict=True):
            write(folder / file["path"], rows)
        described.append({"config_name": configuration, "data_files": files})
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(described)}\n---\n")


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a dataset on a hub that answers from a clone; returns its name."""
    import datasets

    place = str(tmp_path / "wiki")

    def on_hub(configurations: Mapping[str, Mapping[str, Rows]]) -> str:
        clone(tmp_path / "wiki", configurations)
        for name in ("load_dataset", "get_dataset_config_names", "get_dataset_split_names"):
            function = getattr(datasets, name)
            instead = lambda asked, *rest, function=function, **more: function(place, *rest, **more)  # noqa: E731
            monkeypatch.setattr(datasets, name, instead)
        monkeypatch.setattr(hub, "_revision", lambda name: None)
        return NAME

    return on_hub


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
    said = said_by(Corpus.read, name, ["fr"], kind=CorpusError)
    assert "has no language 'fr'. Languages there: " in said


def test_a_split_that_does_not_name_its_language(put: Put, tmp_path: Path) -> None:
    name = put({"default": {"train": rows("en"), "test": rows("de")}})
    said = said_by(Corpus.read, name, ["en"], kind=CorpusError)
    assert said.endswith("several splits: name one of train, test, as in owner/wiki:train.")
    assert Corpus.read(f"{name}:train").languages == ("und",)
    assert Corpus.read(f"{name}:default:test", ["de"]).text("a", "de") == TEXTS["de"]["a"]
    said = said_by(Corpus.read, f"{name}:other:test", kind=CorpusError)
    assert "has no configuration 'other': name one of default" in said
    (tmp_path / "wiki" / "default" / "train.parquet").write_bytes(b"no parquet")
    said = said_by(Corpus.read, f"{name}:train", kind=CorpusError)
    assert re.search(r"^the dataset owner/wiki.* could not be (loaded|read): ", said)


def test_configurations_with_other_names_are_no_languages(put: Put) -> None:
    """As those of wikimedia/wikipedia."""
    name = put(_configurations("20231101.de", "20231101.en"))
    listed = "several configurations: name one of 20231101.de, 20231101.en, as in owner/wiki:2023"
    for languages in (None, ["en"]):
        assert listed in said_by(Corpus.read, name, languages, kind=CorpusError)
    english = Corpus.read(f"{name}:20231101.en", ["en"])
    assert english.text(*english.segments[0].id, "en") == "In 20231101.en."


def test_what_the_hub_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be reached, does not know the dataset, or its library is missing."""
    import datasets

    name = "owner/nothing"
    unreached = (
        f"there is no file or folder '{name}', and the Hugging Face hub could not be reached"
    )
    assert said_by(Corpus.read, name, kind=CorpusError).startswith(unreached)

    def nowhere(name: str) -> list[str]:
        raise datasets.exceptions.DatasetNotFoundError(f"No '{name}' on the Hub\nor anywhere")

    monkeypatch.setattr(datasets, "get_dataset_config_names", nowhere)
    monkeypatch.setattr(hub, "_revision", lambda name: None)
    said = said_by(Corpus.read, "nothing", kind=CorpusError)
    assert "the Hugging Face hub has no dataset of that name that you may read" in said
    monkeypatch.setitem(sys.modules, "datasets", None)
    said = said_by(Corpus.read, name, kind=MissingExtra)
    assert "pip install 'fairspan[datasets]'" in said


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
