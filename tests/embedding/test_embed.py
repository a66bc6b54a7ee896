"""`embed`: every row of any input once, in its order, with the model's own vectors."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.embedding import run as job
from fairspan.embedding import unit
from fairspan.embedding.shards import shard_name
from fairspan.embedding.worker import UnitWorker
from fairspan.encoding.direct import DirectEncoder
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.model.build import copy_sharing_weights
from tests.builders.saying import said_by
from tests.builders.tiny import words
from tests.builders.verbs import Recorder

Model = SentenceTransformer
Patch = pytest.MonkeyPatch
MakeTiny = Callable[..., Model]
# Sums of a few hundred float32 products in another order; the vectors are of length 1 or a few.
ROUNDING = {"rtol": 1e-4, "atol": 2e-6}
TEXTS = {f"d{number}": words(2 + 7 * number % 50, number) for number in range(40)}
ROWS = [{"id": id, "text": text} for id, text in TEXTS.items()]
SECONDS = {"seconds": 0}
TOKENS = [2 + len(text.split()) for text in TEXTS.values()]


@pytest.fixture(scope="module")
def model(make_tiny: MakeTiny) -> Model:
    return make_tiny("bert", "mean")


@pytest.fixture(autouse=True)
def _general_texts(monkeypatch: Patch) -> None:
    """Few, and of words that the tiny model knows."""
    texts = [words(12, number) for number in range(30)]
    monkeypatch.setattr("fairspan.model.level.general_texts", lambda: texts)


def write(file: Path, rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
    """Rows as a file of the kind that its name says."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(file, row_group_size=7)
        return file
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file.write_bytes(gzip.compress(lines) if file.suffix == ".gz" else lines)
    return file


def embed(model: Any, given: Any, out: Path, **options: Any) -> fairspan.Embedding:
    """With the plain model, unless a test is about calibrations."""
    usual = {"progress": False, "rows_per_shard": 16, "calibration": "plain"}
    return fairspan.embed(model, given, out, **{**usual, **options})


def begin_again(out: Path, *missing: int) -> None:
    """As if the run had been killed before its end."""
    for number in missing:
        (out / shard_name(number)).unlink()
    change_manifest(out, status="incomplete", summary=None)


def change_manifest(out: Path, **changes: Any) -> None:
    file = out / "fairspan-embed.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def rejected(out: Path) -> list[tuple[str, int, str | None, str]]:
    lines = (out / "rejected.jsonl").read_text(encoding="utf-8").splitlines()
    return [tuple(json.loads(line).values()) for line in lines]  # type: ignore[misc]


def check_all(result: fairspan.Embedding, model: Model) -> None:
    """Every text once, in the order of the input, and its vector that of the model."""
    found = result.scan().collect()
    assert found["id"].to_list() == list(TEXTS)
    expected = model.encode_document(list(TEXTS.values()))
    np.testing.assert_allclose(found["vector"].to_numpy(), expected, **ROUNDING)
    assert found["tokens"].to_list() == TOKENS
    assert not found["truncated"].any()


def test_every_row_and_what_is_counted(model: Model, tmp_path: Path) -> None:
    result = embed(model, write(tmp_path / "a.ndjson.gz"), tmp_path / "out")
    check_all(result, model)
    names = sorted(file.name for file in (tmp_path / "out").glob("part-*"))
    assert names == [shard_name(number) for number in range(3)]
    done = result.summary
    assert (done["rows"], done["rejected"], done["truncated"], done["shards"]) == (40, 0, 0, 3)
    assert done["tokens"] == sum(TOKENS)
    assert (tmp_path / "out" / "rejected.jsonl").read_text() == ""


def test_a_folder_of_files_in_the_order_of_their_names(model: Model, tmp_path: Path) -> None:
    """Of every kind. One unit may hold rows of several files."""
    write(tmp_path / "in" / "b" / "0.parquet", ROWS[5:30])
    write(tmp_path / "in" / "a.jsonl", ROWS[:5])
    write(tmp_path / "in" / "c.jsonl.gz", ROWS[30:])
    write(tmp_path / "in" / ".hidden" / "c.jsonl", ROWS[30:])
    (tmp_path / "in" / "README.md").write_text("About these files.")
    check_all(embed(model, tmp_path / "in", tmp_path / "out"), model)


def test_bad_rows_are_listed_with_their_place(model: Model, tmp_path: Path) -> None:
    """In files of texts, and in lines, of which a row without an id is called by its place. Ids are
    not compared."""
    lines = [
        b'{"id": "a", "text": "w1"}',
        b"hello",
        b'{"id": "b", "text": 7}',
        b"",
        b'{"id": 1.5, "text": "w1"}',
    ]
    lines += [b'{"text": "w3"}', b'{"id": "a", "text": "w4"}', b'{"id": "g", "text": "\xff"}']
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    result = embed(model, tmp_path / "a.jsonl", tmp_path / "out", rows_per_shard=2)
    assert result.scan().collect()["id"].to_list() == ["a", "a.jsonl#6", "a"]
    found = rejected(tmp_path / "out")
    assert [row[:3] for row in found] == [
        *(("a.jsonl", 2, None), ("a.jsonl", 3, "b"), ("a.jsonl", 5, None), ("a.jsonl", 8, None))
    ]
    reasons = ("not JSON", "'text' must be text", "'id' must be text or a whole", "is not UTF-8")
    assert all(reason in said for (*_, said), reason in zip(found, reasons, strict=True))
    assert result.summary["rejected"] == 4

    for id, text in {"b/2.txt": b"w2", "a.md": b"w1", "bad.txt": b"\xff", "empty.txt": b""}.items():
        (tmp_path / "in" / id).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / id).write_bytes(text)
    texts = embed(model, tmp_path / "in", tmp_path / "texts").scan().collect()
    assert texts["id"].to_list() == ["a.md", "b/2.txt"]
    expected = model.encode_document(["w1", "w2"])
    np.testing.assert_allclose(texts["vector"].to_numpy(), expected, **ROUNDING)
    assert rejected(tmp_path / "texts") == [
        ("bad.txt", 1, "bad.txt", "not UTF-8. Save the file as UTF-8."),
        ("empty.txt", 1, "empty.txt", "'text' is empty."),
    ]


def test_a_dataset_is_streamed(model: Model, tmp_path: Path, monkeypatch: Patch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "wiki" / "train.parquet")
    write(tmp_path / "wiki" / "test.parquet", ROWS[:3])
    described = [{"split": name, "path": f"{name}.parquet"} for name in ("train", "test")]
    header = json.dumps([{"config_name": "default", "data_files": described}])
    (tmp_path / "wiki" / "README.md").write_text(f"---\nconfigs: {header}\n---\n")
    name = f"{tmp_path / 'wiki'}:train"
    check_all(embed(model, name, tmp_path / "out"), model)
    begin_again(tmp_path / "out", 1, 2)
    check_all(embed(model, name, tmp_path / "out"), model)
    write(tmp_path / "wiki" / "train.parquet", ROWS[::-1])  # a clone has no revision but its files
    said = said_by(embed, model, name, tmp_path / "out")
    assert f"row 1 to 16 are not those of {shard_name(0)}" in said


def test_records_in_python(model: Model, tmp_path: Path) -> None:
    """A list, and what can be read only once: a second call goes on behind what is written."""
    check_all(embed(model, ROWS, tmp_path / "list"), model)
    check_all(embed(model, iter(ROWS), tmp_path / "once"), model)
    begin_again(tmp_path / "once", 1)
    check_all(embed(model, iter(ROWS), tmp_path / "once"), model)
    result = embed(model, [{"text": "w1"}, "w2"], tmp_path / "bad")  # type: ignore[list-item]
    assert result.scan().collect()["id"].to_list() == ["records#1"]
    assert rejected(tmp_path / "bad") == [("records", 2, None, 'not an object but "w2".')]


def test_records_that_are_others_now_are_refused(model: Model, tmp_path: Path) -> None:
    """A text, an order or a record, of a complete folder or of one that lacks its second shard."""
    changed = [*ROWS[:35], ROWS[35] | ROWS[0], *ROWS[36:]]
    changes = {
        f"records, row 1 to 16 are not those of {shard_name(0)}": [ROWS[1], ROWS[0], *ROWS[2:]],
        f"records, row 33 to 40 are not those of {shard_name(2)}": changed,
        f"records has no rows for {shard_name(2)}": ROWS[:32],
    }
    for missing in ([], [1]):
        check_all(embed(model, ROWS, tmp_path), model)
        if missing:
            begin_again(tmp_path, *missing)
        before = {*tmp_path.glob("part-*")}
        for difference, rows in changes.items():
            said = said_by(embed, model, iter(rows), tmp_path, kind=CorpusError)
            assert f"was made from other texts: {difference}" in said
            assert {*tmp_path.glob("part-*")} == before, "nothing of other texts"
    check_all(embed(model, iter(ROWS), tmp_path), model)


def test_a_text_that_cannot_be_pooled_evenly_is_rejected(model: Model, tmp_path: Path) -> None:
    """Its tokens are not numbers; the others of its batch are embedded as without it."""
    model = copy.deepcopy(model)
    embeddings = model.transformers_model.get_input_embeddings()
    embeddings.weight.data[model.tokenizer("w5", add_special_tokens=False)["input_ids"]] = np.inf
    texts = zip("abcd", ("w1 w2", "w3 w5 w4", "w6", "w7 w8 w9"), strict=True)
    given = [{"id": id, "text": text} for id, text in texts]
    how = {"calibration": Calibration(strength=0, pooling="even")}
    result = embed(model, given, tmp_path / "out", **how)
    assert [line[2:] for line in rejected(tmp_path / "out")] == [
        ("b", "the model's vector contains NaN, infinity or values beyond float32.")
    ]
    others = embed(model, [given[0], *given[2:]], tmp_path / "others", **how).scan().collect()
    found = result.scan().collect()
    assert found["id"].to_list() == others["id"].to_list()
    np.testing.assert_allclose(found["vector"].to_numpy(), others["vector"].to_numpy(), **ROUNDING)


def test_a_run_goes_on_where_it_ended(model: Model, tmp_path: Path, monkeypatch: Patch) -> None:
    """Only missing units are embedded; the bits are the same."""
    rows = [{"id": "d0"}, *ROWS, {"id": "d9", "text": 2}]
    given = write(tmp_path / "a.jsonl", rows)
    whole = embed(model, given, tmp_path / "whole", rows_per_shard=8)
    begun = embed(model, given, tmp_path / "begun", rows_per_shard=8)
    (tmp_path / "begun" / f".{shard_name(1)}.99").write_bytes(b"half")
    begin_again(tmp_path / "begun", 1, 3, 5)
    again = embed(model, given, tmp_path / "begun", rows_per_shard=8)
    assert again.scan().collect().equals(whole.scan().collect())
    assert again.summary | SECONDS == whole.summary | SECONDS == begun.summary | SECONDS
    assert rejected(tmp_path / "whole") == rejected(tmp_path / "begun")
    assert not list((tmp_path / "begun").glob(".part*"))
    monkeypatch.setattr(UnitWorker, "_vectors", None)
    assert embed(model, given, tmp_path / "begun", rows_per_shard=8).summary == again.summary


def test_what_it_is_made_of(model: Model, tmp_path: Path) -> None:
    """Calibration, window, side, prompt, float16 and other fields; long texts are marked."""
    model = copy_sharing_weights(model)
    model.prompts = {"query": "w1 ", "document": "w2 w3 "}
    rows = [{"key": 7, "body": words(5)}, {"key": 8, "body": words(90, 1)}]
    how = {"calibration": "tiles-64", "max_seq_length": 64, "side": "query", "storage": "float16"}
    result = embed(model, rows, tmp_path, text_field="body", id_field="key", **how)
    found = result.scan().collect()
    kinds = [pl.String, pl.Array(pl.Float16, 32), pl.Int32, pl.Boolean]
    assert found.schema == dict(zip(("id", "vector", "tokens", "truncated"), kinds, strict=True))
    assert found["id"].to_list() == ["7", "8"]
    fair = fairspan.calibrate(model, "tiles-64", max_seq_length=64)
    expected = fair.encode_query([row["body"] for row in rows])
    # Half precision keeps 11 bits.
    vectors = found["vector"].to_numpy().astype(np.float32)
    np.testing.assert_allclose(vectors, expected, rtol=2**-10, atol=1e-5)
    assert found["tokens"].to_list() == [8, 93]
    assert found["truncated"].to_list() == [False, True]
    assert (result.summary["truncated"], result.summary["tokens"]) == (1, 8 + 64)
    encoder = result.manifest["encoder"]
    assert (encoder["window"], encoder["prompt"], encoder["dimension"]) == (64, "w1 ", 32)


def test_a_vector_that_is_no_number_is_rejected(
    model: Model, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Also where memory runs out, and a batch is halved."""
    computed = DirectEncoder.vectors

    def vectors(self: DirectEncoder, batch: Any) -> np.ndarray:
        if len(batch) > 1:
            raise MemoryError
        return computed(self, batch) * {"w5": np.nan, "w6": 0}.get(batch[0].text, 1)

    monkeypatch.setattr(DirectEncoder, "vectors", vectors)
    monkeypatch.setattr("gc.collect", lambda: 0)  # most of a second in a process full of models
    texts = zip("abca", ("w5", "w6", "w7", "w8"), strict=True)
    rows = [{"id": id, "text": text} for id, text in texts]
    result = embed(model, rows, tmp_path / "out", rows_per_shard=2)
    assert result.scan().collect()["id"].to_list() == ["c", "a"]
    assert [reason for *_, reason in rejected(tmp_path / "out")] == [
        "the model's vector contains NaN, infinity or values beyond float32.",
        "the model's vector is all zero.",
    ]
    said = said_by(embed, model, rows, tmp_path / "other", strict=True, kind=CorpusError)
    assert said.startswith("records, row 1: the model's vector contains NaN")


LEAVES = Calibration.preset("tiles-128").but(short_texts="leave")
SMALL_TILES = Calibration(strength=0, tile_size=8, short_texts="leave", pooling="even")


@pytest.mark.parametrize(("preset", "window"), [(SMALL_TILES, 24), (LEAVES, 40)])
def test_an_index_keeps_the_vectors_of_texts_that_fit(
    model: Model, tmp_path: Path, monkeypatch: Patch, preset: Calibration, window: int
) -> None:
    """Of 40 texts those above 24 tokens are embedded; in the plain index they make the calibrated
    one.

    So they are where the window is wider than tiles may be. Texts that fit have the plain model's
    bits in a batch of such texts, and are equal up to rounding in a mixed one.
    """
    monkeypatch.setattr("fairspan.model.probing.WIDEST_WINDOW", 24)
    short = copy_sharing_weights(model)
    short.max_seq_length = window
    fits = {id: 2 + len(text.split()) <= 24 for id, text in TEXTS.items()}
    given = write(tmp_path / "a.jsonl")
    plain = embed(short, given, tmp_path / "plain").scan().collect()
    every = embed(short, given, tmp_path / "every", calibration=preset).scan().collect()
    long: dict[str, Any] = {"calibration": preset, "only_longer_than_window": True}
    result = embed(short, given, tmp_path / "longer", **long)
    found, done = result.scan().collect(), result.summary
    longer = [id for id in TEXTS if not fits[id]]
    assert found["id"].to_list() == longer
    assert (done["rows"], done["skipped"], done["rejected"]) == (len(found), sum(fits.values()), 0)
    assert (done["truncated"], done["tokens"]) == (0, found["tokens"].sum())
    index = plain.update(found, on="id", how="left")
    np.testing.assert_allclose(index["vector"].to_numpy(), every["vector"].to_numpy(), **ROUNDING)
    kept = [row for row in ROWS if fits[row["id"]]]
    alone = [
        embed(short, kept, tmp_path / str(name == "plain"), calibration=name).scan().collect()
        for name in ("plain", preset)
    ]
    assert alone[0].equals(alone[1])

    begin_again(tmp_path / "longer", 2)
    again = embed(short, given, tmp_path / "longer", **long)
    assert again.scan().collect().equals(found)
    assert again.summary | SECONDS == done | SECONDS
    said = "another only_longer_than_window: false there, and true now"
    assert said in said_by(embed, short, given, tmp_path / "every", **long)
    with pytest.raises(DesignError, match="texts of up to 24 tokens keep their plain vectors"):
        embed(short, given, tmp_path / "other", **long, max_seq_length=24)


@pytest.mark.parametrize(
    "calibration",
    [
        *(None, "plain", "fair", "tiles-64", LEAVES.but(sides="query")),
        *(Calibration(tile_size="window"), Calibration(strength=0, level=True)),
    ],
)
def test_what_changes_texts_that_fit_keeps_no_index(
    model: Model, tmp_path: Path, calibration: Any
) -> None:
    said = r"needs short_texts=leave, as in fair\+short_texts=leave: other calibrations also"
    with pytest.raises(DesignError, match=said):
        embed(model, ROWS, tmp_path, calibration=calibration, only_longer_than_window=True)


def test_the_default_is_fair_and_a_calibrated_model_stays_as_it_is(
    model: Model, tmp_path: Path
) -> None:
    """Of a plain object, its folder, and a folder that was saved calibrated."""
    given = write(tmp_path / "a.jsonl")
    texts = list(TEXTS.values())
    plain, baskets = tmp_path / "plain", tmp_path / "baskets"
    model.save_pretrained(str(plain), create_model_card=False)
    calibrated = fairspan.calibrate(model, "paper", basket_size=4)
    calibrated.save_pretrained(str(baskets), create_model_card=False)
    fair = fairspan.calibrate(model).encode_document(texts)
    paper = calibrated.encode_document(texts)
    assert not np.allclose(fair, paper, atol=1e-3), "the premise"
    cases = ((model, fair), (str(plain), fair), (calibrated, paper), (str(baskets), paper))
    for number, (which, expected) in enumerate(cases):
        result = embed(which, given, tmp_path / str(number), calibration=None)
        vectors = result.scan().collect()["vector"].to_numpy()
        np.testing.assert_allclose(vectors, expected, **ROUNDING)
    assert result.calibration == "baskets of 4 tokens"


def test_what_another_process_finished_before_the_lock_is_kept(
    model: Model, tmp_path: Path, monkeypatch: Patch
) -> None:
    locked = job.locked
    finished = {}

    def late(folder: Path) -> Any:
        """The lock, which another process had until it had embedded everything."""
        if not finished:
            finished[0] = None
            embed(model, ROWS, folder)
            finished.update((file, file.stat().st_ino) for file in folder.glob("part-*"))
        return locked(folder)

    monkeypatch.setattr(job, "locked", late)
    result = embed(model, ROWS, tmp_path)
    assert {
        file: file.stat().st_ino for file in tmp_path.glob("part-*")
    }.items() <= finished.items()
    check_all(result, model)
    assert result.shards == 0


def test_names_keep_the_order_of_any_number_of_shards(model: Model, tmp_path: Path) -> None:
    numbers = [0, 9, 99_999, 100_000, 999_999, 1_000_000]
    names = [shard_name(number) for number in numbers]
    assert sorted(names) == names
    result = embed(model, ROWS, tmp_path)
    (tmp_path / shard_name(1)).rename(tmp_path / shard_name(9_999_999))
    (tmp_path / shard_name(2)).rename(tmp_path / shard_name(10_000_000))
    assert result.scan().collect()["id"].to_list() == list(TEXTS)


def test_the_folder_is_not_in_the_input_by_any_path(model: Model, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl")
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    outs = ("in/out", "other/../in/out", "link/out", "in")
    for out in outs:
        said = said_by(embed, model, tmp_path / "in", tmp_path / out, kind=DesignError)
        assert "is in the input" in said
    said = said_by(embed, model, tmp_path / "link", tmp_path / "in" / "out", kind=DesignError)
    assert "is in the input" in said


def test_long_texts_make_shorter_units(model: Model, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(unit, "_CHARACTERS", 300)
    result = embed(model, write(tmp_path / "a.jsonl"), tmp_path / "out", rows_per_shard=1000)
    check_all(result, model)
    sizes = [len(pl.read_parquet(file)) for file in sorted((tmp_path / "out").glob("part-*"))]
    assert len(sizes) > 5
    ends = np.cumsum(sizes)
    lengths = [len(text) for text in TEXTS.values()]
    for start, end in zip([0, *ends[:-2]], ends[:-1], strict=True):
        assert sum(lengths[start : end - 1]) < 300 <= sum(lengths[start:end])


def test_a_full_disk_is_one_line_and_the_same_call_goes_on(
    model: Model, tmp_path: Path, monkeypatch: Patch
) -> None:
    given, written = write(tmp_path / "a.jsonl"), pl.DataFrame.write_parquet

    def full(self: pl.DataFrame, file: Any, **options: Any) -> None:
        if shard_name(1) in str(file):
            Path(file).write_bytes(b"PAR1 and not much more")
            raise OSError(28, "No space left on device")
        written(self, file, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full)
        said = r"out cannot be written \(No space left on device\): make room"
        with pytest.raises(FairspanError, match=said):
            embed(model, given, tmp_path / "out")
    kept = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"fairspan-embed.json", shard_name(0)} <= kept
    assert shard_name(1) not in kept, "which the next call writes"
    check_all(embed(model, given, tmp_path / "out"), model)


def test_what_is_lost_is_embedded_again(model: Model, tmp_path: Path) -> None:
    """Of a complete folder: one shard is missing, one cut off, one changed in its middle."""
    out, shown = tmp_path / "out", Recorder()
    first, second, third = (out / shard_name(number) for number in range(3))
    before = embed(model, ROWS, out)
    whole = first.read_bytes()
    half = len(whole) // 2
    first.write_bytes(whole[:half] + b"!" + whole[half + 1 :])
    second.write_bytes(second.read_bytes()[:half])
    third.unlink()
    again = embed(model, ROWS, out, progress=shown)
    check_all(again, model)
    assert shown.stages[-1] == "embedding again what is missing or damaged"
    names = f"{first.name}, {second.name}, {third.name}"
    assert again.notes == [f"missing or damaged, and embedded again: {names}"]
    assert again.summary | SECONDS == before.summary | SECONDS
    # After a kill: the file can be read, and the manifest does not know it yet.
    footer = pl.read_parquet_metadata(second)
    footer.pop("ARROW:schema", None)
    changed = pl.read_parquet(second).with_columns(pl.col("vector").reverse())
    changed.write_parquet(second, metadata=footer)
    change_manifest(out, status="incomplete", summary=None, checksums={})
    again = embed(model, ROWS, out)
    check_all(again, model)
    assert again.notes == [f"missing or damaged, and embedded again: {second.name}"]
    assert again.summary | SECONDS == before.summary | SECONDS


def test_a_complete_folder_is_left_as_it_is(model: Model, tmp_path: Path) -> None:
    """But a wrong summary is written again."""
    before = embed(model, ROWS, tmp_path)
    states = {file: file.stat().st_mtime_ns for file in tmp_path.glob("[!.]*")}
    check_all(embed(model, ROWS, tmp_path), model)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("[!.]*")} == states
    for summary in ({"rows": 5}, {"shards": "3"}, "done"):
        change_manifest(tmp_path, summary=summary)
        assert embed(model, ROWS, tmp_path).summary == before.summary
    (tmp_path / "fairspan-embed.json").unlink()
    said = said_by(embed, model, ROWS, tmp_path)
    assert "holds vectors, but its fairspan-embed.json" in said
    assert said.endswith("is missing: put it back, or choose another folder.")


def test_a_model_that_cannot_be_calibrated(
    model: Model, tmp_path: Path, monkeypatch: Patch
) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise fairspan.UnsupportedModel("this cannot be calibrated.")

    monkeypatch.setattr("fairspan.model.build.calibrate", refuse)
    for calibration, said in (
        (None, 'use calibration="plain" to leave the model as it is.'),
        ("fair", "this cannot be calibrated."),
    ):
        assert said_by(embed, model, ROWS, tmp_path, calibration=calibration).endswith(said)
    check_all(embed(model, ROWS, tmp_path), model)


def test_a_folder_belongs_to_its_model_options_and_input(
    model: Model, make_tiny: MakeTiny, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The model is that of its weights, wherever it lies; unchanged, nothing is embedded."""
    given, out, folder = write(tmp_path / "a.jsonl"), tmp_path / "out", tmp_path / "model"
    model.save_pretrained(str(folder), create_model_card=False)
    embed(str(folder), given, out)
    for changes, said in (
        ({"storage": "float16"}, 'with another storage: "float32" there, and "float16" now'),
        ({"vectors": 4}, "with another vectors: null there, and 4 now"),
        ({"calibration": "paper"}, "another calibration: plain there, and paper now"),
        ({"calibration": None}, "plain there, and the default now. Repeat the command"),
        ({"rows_per_shard": 8}, "another rows_per_shard: 16 there, and 8 now"),
    ):
        assert said in said_by(embed, str(folder), given, out, **changes)
    options = json.loads((out / "fairspan-embed.json").read_text())["options"]
    change_manifest(out, options={**options, "calibration": None})  # from before it had a default
    said = said_by(embed, str(folder), given, out, calibration=None)
    assert "holds vectors of another model: its calibrations is plain there, fair" in said
    change_manifest(out, options=options)
    weights = (folder / "model.safetensors").read_bytes()
    changed_weights = make_tiny("bert", "mean", initializer_range=0.4)
    changed_weights.save_pretrained(str(folder), create_model_card=False)
    other = "out holds vectors of another model: its fingerprint is"
    assert other in said_by(embed, str(folder), given, out)
    assert other in said_by(embed, make_tiny("bert", "cls"), given, out)
    model.save_pretrained(str(folder), create_model_card=False)
    assert (folder / "model.safetensors").read_bytes() == weights
    with monkeypatch.context() as patch:
        patch.setattr(UnitWorker, "_vectors", None)
        assert embed(str(folder), given, out).manifest["status"] == "complete"
    write(given, ROWS[:-1])
    changed = f"a.jsonl, line 33 to 39 are not those of {shard_name(2)}"
    assert changed in said_by(embed, str(folder), given, out)
    (out / shard_name(1)).write_bytes(b"PAR1")
    begin_again(out)
    assert changed in said_by(embed, str(folder), given, out)
    assert not (out / shard_name(1)).exists(), "what was embedded before the difference is removed"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    said = "mine is not empty and was not made by embed (it holds notes.txt)"
    assert said in said_by(embed, model, given, tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]
