"""A retry gives what a whole ingest would give now, however much of the shard the failure had hidden."""

from __future__ import annotations

from typing import IO

import pyarrow as pa
import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.pipeline import refresh
from mmlake.steps import ROW_STEPS, run_step
from mmlake.store import BlobStore
from mmlake.upkeep import failed_rows, request_retries
from tests.sources.source_builders import SETTINGS, jsonl, land, png, tar

MEMBERS = {"a.png": png(1), "a.txt": b"a caption", "b.png": png(2), "c.png": png(3)}


class Failing(LocalLanding):
    """A landing zone whose files cannot be opened while it is set so."""

    fails = True

    def open(self, path: str) -> IO[bytes]:
        if self.fails:
            raise UnreadableItem(1001, "the storage refuses to give the object (status=403)")
        return super().open(path)


def ingested(shard, modality, landing, store):
    return sources.ingest(shard, modality, landing=landing, store=store, settings=SETTINGS)


def read_again(shard, modality, items, **given):
    """The rows of the table with those read again, in order."""
    found = sources.reingested(shard, modality, lambda columns: [items.select(columns or items.column_names)], **given)
    return pa.concat_tables(found).sort_by("item_id")


@pytest.mark.parametrize("modality", ["image", "text"])
def test_a_shard_that_did_not_open_gives_all_its_rows_when_it_does(tmp_path, modality):
    """The row that said so was the only one that was asked for: of four items one was read."""
    landing, store = Failing(land(tmp_path / "in", {"a.tar": tar(MEMBERS)})), BlobStore(tmp_path / "store")
    (shard,) = sources.scan(LocalLanding(landing.root), settings=SETTINGS)
    before = {kind: ingested(shard, kind, landing, store) for kind in shard.modalities}
    (failed,) = (row["item_id"] for table in before.values() for row in table.to_pylist())
    landing.fails = False
    after = read_again(
        shard, modality, before[modality], wanted=[failed], landing=landing, store=store, settings=SETTINGS
    )
    assert (
        after.equals(ingested(shard, modality, landing, store)) and after.num_rows == {"image": 3, "text": 1}[modality]
    )


def test_a_caption_that_is_read_at_last_stands_next_to_its_image(tmp_path):
    """The image itself had not failed."""
    root, store = land(tmp_path / "in", {"a.tar": tar(MEMBERS)}), BlobStore(tmp_path / "store")
    (shard,) = sources.scan(root, settings=SETTINGS)
    images, texts = (ingested(shard, kind, root, store) for kind in ("image", "text"))
    field = images.schema.field("sample_text")
    bare = images.set_column(images.schema.get_field_index("sample_text"), field, pa.nulls(3, field.type))
    after = read_again(
        shard, "image", bare, wanted=texts.column("item_id").to_pylist(), landing=root, store=store, settings=SETTINGS
    )
    assert after.equals(images)


def test_a_shard_that_was_scanned_while_it_did_not_open_is_scanned_again_on_retry(tmp_path):
    """It was registered for texts alone, and its images could never have come."""
    landing = Failing(land(tmp_path / "in", {"a.tar": tar(MEMBERS)}))
    lake = Lake(tmp_path / "lake", landing=landing)
    refresh(lake)
    run_step(ROW_STEPS["items"], lake, "text", "a.tar")
    landing.fails = False
    assert request_retries(lake, failed_rows(lake)) == 1
    refresh(lake)
    made = {
        kind: run_step(ROW_STEPS["items"], lake, kind, "a.tar").stamp.num_rows
        for kind in lake.registry.get("a.tar").modalities
    }
    assert made == {"text": 1, "image": 3}


def test_rows_that_stand_are_taken_some_at_a_time(tmp_path):
    root, store = (
        land(tmp_path / "in", {"a.jsonl": jsonl(*({"text": f"Words {at}"} for at in range(9)))}),
        tmp_path / "s",
    )
    (shard,) = sources.scan(root, settings=SETTINGS)
    items = ingested(shard, "text", LocalLanding(root), BlobStore(store))
    taken = []

    def parts(columns):
        for at in range(0, 9, 3):
            taken.append((columns, at))
            yield items.slice(at, 3).select(columns or items.column_names)

    given = {"landing": root, "store": BlobStore(store), "settings": SETTINGS}
    found = sources.reingested(shard, "text", parts, wanted=["a.jsonl#000004"], **given)
    assert next(found)["item_id"].to_pylist() == items["item_id"].to_pylist()[:3]
    assert [at for columns, at in taken if columns is None] == [0], "no part is read before its turn"
    rest = pa.concat_tables(found)
    assert sorted(rest["item_id"].to_pylist()) == items["item_id"].to_pylist()[3:]
