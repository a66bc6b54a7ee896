"""Hugging Face datasets, from clones of dataset repositories in a folder: nothing is fetched."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.hub import read_hub
from fairspan.corpus.rows import Reading
from fairspan.errors import CorpusError, MissingExtra
from tests.test_corpus import TEXTS, labelled, segments, write

Rows = Sequence[Mapping[str, object]]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def clone(folder: Path, configurations: Mapping[str, Mapping[str, Rows]], ending: str = ".parquet") -> str:
    """A dataset repository: configurations, their splits, and the header of README.md that describes them."""
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
    return [{"id": id, "title": id.upper(), "text": text, "url": "…"} for id, text in TEXTS[language].items()]


def check_two(reading: Reading) -> None:
    assert [(s.id, s.language, s.text) for s in reading.segments] == [
        (s.id, s.language, s.text) for language in reading.labels for s in segments({language: TEXTS[language]})
    ]
    assert set(reading.available) == {"en", "de"}
    assert reading.name == "wiki"


@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_one_split_a_language(tmp_path: Path, ending: str) -> None:
    name = clone(tmp_path / "wiki", {"default": {"en": rows("en"), "de": rows("de")}}, ending)
    reading = read_hub(name)
    check_two(reading)
    assert reading.segments[0].title == "A"
    assert {s.language for s in read_hub(name, ["de"]).segments} == {"de"}
    assert read_hub(name, ["de"]).available == ("en", "de")


def test_one_configuration_a_language(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"en": {"train": rows("en")}, "de": {"train": rows("de")}})
    check_two(read_hub(name))
    assert {s.language for s in read_hub(name, ["de"]).segments} == {"de"}


def test_a_language_column(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"train": labelled(TEXTS)}})
    check_two(read_hub(name))
    assert {s.language for s in read_hub(name, ["de"]).segments} == {"de"}


def test_one_split_that_does_not_name_its_language(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"train": rows("en")}})
    assert read_hub(name, ["en"]).available == ("en",)
    with pytest.raises(CorpusError, match=r"which language its rows are in \(its splits: train\)"):
        read_hub(name)


def test_splits_that_are_no_languages(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"train": rows("en"), "test": rows("de")}})
    with pytest.raises(
        CorpusError, match=r"\(its splits: train, test\)\. A corpus has one split or one configuration"
    ):
        read_hub(name, ["en"])
    name = clone(tmp_path / "two", {"en": {"train": rows("en"), "test": rows("en")}, "de": {"train": rows("de")}})
    with pytest.raises(
        CorpusError, match=r"the configuration 'en' of .*two has the splits train, test: a corpus needs"
    ):
        read_hub(name)
    assert read_hub(name, ["de"]).available == ("en", "de")


def without_ids(language: str) -> list[dict[str, object]]:
    return [{"text": row["text"]} for row in rows(language)]


def test_row_numbers_stand_in_for_ids_and_a_note_says_so(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"en": without_ids("en"), "de": without_ids("de")}})
    reading = read_hub(name)
    assert [s.id for s in reading.segments] == ["1", "2", "3"] * 2
    assert reading.notes == (
        f"{name} has no column 'id': row numbers serve as ids, so equal rows must be translations.",
    )


def test_row_numbers_cannot_align_languages_of_different_length(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"en": without_ids("en"), "de": without_ids("de")[:2]}})
    with pytest.raises(CorpusError, match=r"differ in length \(en 3, de 2\)\. Name the column that aligns them"):
        read_hub(name)
    assert [s.id for s in read_hub(name, ["de"]).segments] == ["1", "2"]


def test_another_column_can_be_the_id(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"en": [{"key": 5, "text": "x"}]}})
    assert read_hub(name, id_field="key").segments[0].id == "5"
    with pytest.raises(CorpusError, match=r"wiki \(en\) has no column 'wikidata'\. Columns there: key, text\."):
        read_hub(name, id_field="wikidata")


def test_faults_have_their_row(tmp_path: Path) -> None:
    bad = [
        *rows("de"),
        {"id": "b", "title": None, "text": "x", "url": ""},
        {"id": "e", "title": "", "text": "", "url": ""},
    ]
    name = clone(tmp_path / "wiki", {"default": {"en": rows("en"), "de": bad}})
    with pytest.raises(CorpusError) as caught:
        read_hub(name)
    assert str(caught.value) == f"{name} (de), row 4: the id 'b' was already used on row 2. (and 1 more)"


def test_a_broken_dataset_is_one_line(tmp_path: Path) -> None:
    name = clone(tmp_path / "wiki", {"default": {"en": rows("en")}})
    (tmp_path / "wiki" / "default" / "en.parquet").write_bytes(b"no parquet")
    with pytest.raises(CorpusError, match=r"^the dataset .*wiki could not be loaded: ") as caught:
        read_hub(name)
    assert "\n" not in str(caught.value)


def test_a_name_goes_to_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's two functions are replaced by ones that read the clone."""
    import datasets

    name = clone(tmp_path / "wiki", {"default": {"en": without_ids("en"), "de": without_ids("de")}})
    load, names = datasets.load_dataset, datasets.get_dataset_config_names
    monkeypatch.setattr(datasets, "load_dataset", lambda asked, *rest: load(name, *rest))
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda asked: names(name))
    corpus = Corpus.read("owner/wiki", ["de", "en"])
    assert corpus.name == "owner/wiki"
    assert corpus.languages == ("de", "en")
    assert corpus.notes[0].startswith("owner/wiki has no column 'id': row numbers serve as ids")


def test_the_hub_cannot_be_reached() -> None:
    with pytest.raises(CorpusError) as caught:
        Corpus.read("owner/nothing")
    assert str(caught.value) == (
        "there is no file or folder 'owner/nothing', and the Hugging Face hub could not be reached to look for a "
        "dataset of that name."
    )


def test_the_hub_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def nowhere(name: str) -> list[str]:
        raise datasets.exceptions.DatasetNotFoundError(f"Dataset '{name}' doesn't exist on the Hub\nor anywhere")

    monkeypatch.setattr(datasets, "get_dataset_config_names", nowhere)
    with pytest.raises(CorpusError, match="the Hugging Face hub has no dataset of that name that you may read"):
        Corpus.read("nothing")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[datasets\]'"):
        Corpus.read("owner/wiki")
