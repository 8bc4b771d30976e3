"""The story of a digest and the exported chain of a version."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mmlake import schemas
from mmlake.errors import BlobMissing, SettingsError, TableCorrupt
from mmlake.provenance import AmbiguousDigest, chain, export_chain, read_chain, why
from mmlake.records import SourceRef, digest_of
from mmlake.tables import Slot, Stamp, Tables

KEPT, TWIN, BLURRED = (digest_of(name) for name in (b"kept", b"twin", b"blurred"))
FRAME, SOUND = digest_of(b"frame"), digest_of(b"sound")


def put(tables: Tables, slot: Slot, rows: list[dict[str, Any]], **stamp: Any) -> Stamp:
    made = {
        "code_version": "3",
        "settings_digest": "5e77",
        "inputs": {},
        "run_id": "run-1",
        "written_at": "2026-01-02T03:04:05+00:00",
        **stamp,
    }
    schema = (
        schemas.PAIRS
        if slot.table.startswith(("near", "semantic"))
        else schemas.CLUSTERS
        if slot.table == "duplicate_clusters"
        else schemas.TABLES[slot.table]
    )
    return tables.write(slot, schema, schemas.from_rows(schema, rows), **made)


def item(digest: str | None, ordinal: int, *, member: str = "a/b.jpg", **fields: Any) -> dict[str, Any]:
    ref = SourceRef(path="s1.tar", member=member, byte_offset=512, byte_size=99).to_json()
    common = {
        "item_id": f"s1#{ordinal:06d}",
        "sample_id": f"s1/{ordinal}",
        "position": 0,
        "modality": "image",
        "role": "media",
        "source": "coco",
        "licence": "CC-BY-4.0",
        "size_bytes": 99,
    }
    return {**common, "digest": digest, "source_ref": ref, "status": "ok", **fields}


def lake(root: Path) -> Tables:
    """Three pictures in one shard: one kept, one its near duplicate, one blurred; the first landed twice."""
    tables = Tables(root / "tables")
    put(
        tables,
        Slot("items", "image", "s1"),
        [item(KEPT, 0), item(KEPT, 1), item(TWIN, 2), item(BLURRED, 3)],
        inputs={"landing/s1": "rev1"},
    )
    put(tables, Slot("items", "text", "s1"), [])
    tracks = [
        {
            "digest": digest,
            "modality": "image",
            "role": "media",
            "status": "ok",
            "size_bytes": 99,
            "width_px": 640,
            "height_px": 480,
            "transcript_source": "none",
        }
        for digest in (KEPT, TWIN)
    ]
    frames = {"keyframes": [{"time_s": 1.5, "digest": FRAME, "shot": 0}], "audio_digest": SOUND}
    put(
        tables,
        Slot("tracks", "image", "s1"),
        [*tracks, {**tracks[0], "digest": BLURRED, **frames}],
        inputs={"image/items": "v"},
    )
    put(
        tables,
        Slot("measures", "image", "s1"),
        [
            {"digest": BLURRED, "measure": "sharpness", "value": 3.0, "status": "ok", "producer": "p", "revision": "1"},
            {
                "digest": BLURRED,
                "measure": "entropy_bits",
                "value": None,
                "status": "ok",
                "producer": "p",
                "revision": "1",
            },
        ],
    )
    finding = {"rule": "blurred", "severity": "P1", "error_code": 4203, "reason": "sharpness=3 not in [20, inf)"}
    verdicts = [{"digest": digest, "status": "ok", "weight": 1.0} for digest in (KEPT, TWIN)]
    put(
        tables,
        Slot("verdicts", "image", "s1"),
        [*verdicts, {"digest": BLURRED, "status": "quarantined", "weight": 0.0, "findings": [finding], **finding}],
        run_id="run-2",
    )
    put(
        tables,
        Slot("embeddings", "image", "s1"),
        [{"digest": KEPT, "encoder": "clip", "revision": "r7", "dimension": 2, "vector": [1.0, 0.0], "status": "ok"}],
    )
    left, right = sorted((KEPT, TWIN))
    put(
        tables,
        Slot("near_duplicates", "image"),
        [
            {"left": left, "right": right, "tier": "near", "method": "phash", "relation": "same"}
            | {"score": 0.97, "bound": 0.875}
        ],
    )
    common = {"survivor": KEPT, "cluster_size": 2, "num_occurrences": 1, "radius": 0.03}
    twin = {**common, "digest": TWIN, "is_survivor": False, "tier": "near", "method": "phash", "score": 0.97}
    put(
        tables,
        Slot("duplicate_clusters", "image"),
        [{**common, "digest": KEPT, "is_survivor": True}, twin],
        inputs={"image/near_duplicates": "v", "image/verdicts": "w"},
    )
    return tables


def test_a_story_of_a_kept_item_has_every_occurrence_stage_and_version(tmp_path):
    manifests = [{"version": "v1", "names": ["main"], "digests": {KEPT}}, {"version": "v0", "digests": set()}]
    story = why(KEPT, tables=lake(tmp_path), manifests=manifests)
    assert [each.item_id for each in story.occurrences] == ["s1#000000", "s1#000001"]
    assert story.occurrences[0].source_ref["byte_offset"] == 512
    assert [step.table for step in story.steps] == [
        "items",
        "tracks",
        "verdicts",
        "embeddings",
        "near_duplicates",
        "duplicate_clusters",
    ]
    assert {(step.code_version, step.settings_digest) for step in story.steps} == {("3", "5e77")}
    assert [(each.version, each.names, each.held) for each in story.versions] == [
        ("v1", ("main",), True),
        ("v0", (), False),
    ]
    assert story.conclusion == "Ok; landed 2 times; held by 1 of 2 versions."


def test_a_duplicate_names_its_tier_score_and_survivor(tmp_path):
    story = why(TWIN, tables=lake(tmp_path), manifests=[{"version": "v1", "digests": {KEPT}}])
    assert story.survivor == KEPT
    (found,) = story.duplicates
    assert found == {"other": KEPT, "tier": "near", "method": "phash", "score": 0.97, "bound": 0.875} | {
        "relation": "same"
    }
    assert story.versions[0].cause == f"near duplicate of {KEPT[:16]} by phash with score 0.9700"


def test_a_quarantined_item_gives_measured_value_and_bound(tmp_path):
    story = why(BLURRED, tables=lake(tmp_path), manifests=[{"version": "v1", "digests": set()}])
    assert (story.status, story.findings[0]["error_code"], story.measures["sharpness"]) == ("quarantined", 4203, 3.0)
    assert story.versions[0].cause == "quarantined by blurred (sharpness=3 not in [20, inf))"


def test_a_cause_that_the_version_gives_goes_first_and_an_absent_one_is_said_to_be_unselected(tmp_path):
    tables = lake(tmp_path)
    rows = [
        {"version": "v1", "held": False, "cause": "licence CC-BY-4.0 is not allowed"},
        {"version": "v2", "held": False},
    ]
    licence, unknown = (version.cause for version in why(KEPT, tables=tables, manifests=lambda digest: rows).versions)
    assert licence == "licence CC-BY-4.0 is not allowed"
    assert unknown.startswith("not selected")


@pytest.mark.parametrize(("digest", "kind", "time_s"), [(FRAME, "keyframe", 1.5), (SOUND, "audio track", None)])
def test_what_was_derived_is_answered_with_its_parents_stages(tmp_path, digest, kind, time_s):
    story = why(digest[:20], tables=lake(tmp_path))
    assert (story.kind, story.digest, story.derived_from["digest"], story.derived_from.get("time_s")) == (
        kind,
        digest,
        BLURRED,
        time_s,
    )
    assert "verdicts" in {step.table for step in story.steps}


def test_the_answer_is_the_same_from_a_reopened_lake_and_survives_json(tmp_path):
    first = why(TWIN, tables=lake(tmp_path)).to_dict()
    assert json.loads(json.dumps(why(TWIN, tables=Tables(tmp_path / "tables")).to_dict())) == json.loads(
        json.dumps(first)
    )


def test_run_events_stand_next_to_the_stage_of_their_run(tmp_path):
    story = why(BLURRED, tables=lake(tmp_path), run_events={"run-2": {"job": "backfill"}})
    assert {step.table: step.run for step in story.steps}["verdicts"] == {"job": "backfill"}
    assert {step.table: step.run for step in story.steps}["tracks"] is None


def test_an_unknown_digest_says_so(tmp_path):
    with pytest.raises(BlobMissing, match="ingest its shard"):
        why("0" * 64, tables=lake(tmp_path))


def test_an_ambiguous_prefix_lists_the_digests(tmp_path):
    tables = Tables(tmp_path / "tables")
    one, two = "abcd" + "0" * 60, "abcd" + "1" * 60
    put(tables, Slot("items", "image", "s1"), [item(one, 0), item(two, 1), item(None, 2, status="unreadable")])
    with pytest.raises(AmbiguousDigest) as caught:
        why("ABCD", tables=tables)
    assert caught.value.digests == (one, two)


@pytest.mark.parametrize("prefix", ["", "abc", "xyz12", "a" * 65, "../../etc"])
def test_what_is_no_prefix_is_refused(tmp_path, prefix):
    with pytest.raises(SettingsError, match="hexadecimal"):
        why(prefix, tables=lake(tmp_path))


def test_a_table_that_was_changed_on_disk_is_not_believed(tmp_path):
    tables = lake(tmp_path)
    path = tables.path(Slot("verdicts", "image", "s1"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(TableCorrupt):
        why(KEPT, tables=tables)


def test_the_text_names_everything_and_cannot_steer_the_terminal(tmp_path):
    tables = lake(tmp_path)
    put(
        tables, Slot("items", "image", "s2"), [{**item(BLURRED, 9, member="\x1b[2Jevil\nname"), "item_id": "s2#000009"}]
    )
    text = why(BLURRED, tables=tables, manifests=[{"version": "v1", "digests": ()}]).to_text()
    for expected in (
        "P1 4203 blurred: sharpness=3 not in [20, inf)",
        "licence CC-BY-4.0",
        "[bytes 512 + 99]",
        "entropy_bits = none",
        "run run-2",
    ):
        assert expected in text
    assert "\x1b" not in text
    assert "\nname" not in text


def test_the_answer_comes_in_under_a_second_with_forty_shards(tmp_path):
    tables = Tables(tmp_path / "tables")
    for shard in range(40):
        put(
            tables,
            Slot("items", "image", f"s{shard}"),
            [{**item(digest_of(b"%d-%d" % (shard, i)), i), "item_id": f"s{shard}#{i}"} for i in range(50)],
        )
    start_s = time.process_time()  # other processes may run next to it
    why(digest_of(b"39-49"), tables=tables)
    assert time.process_time() - start_s < 1


def test_the_chain_reaches_every_table_that_contributed(tmp_path):
    tables = lake(tmp_path)
    clusters = tables.stamp(Slot("duplicate_clusters", "image"))
    rows = {row["slot"]: row for row in chain({"image/duplicate_clusters": clusters.data_version}, tables=tables)}
    assert sorted(rows) == ["image/duplicate_clusters", "image/near_duplicates", "image/verdicts[s1]"]
    assert rows["image/duplicate_clusters"]["current"]
    assert not rows["image/verdicts[s1]"]["current"]  # its reader used version "w", which is no longer there


def test_the_tables_of_all_shards_are_one_input_by_their_joint_version(tmp_path):
    tables = Tables(tmp_path / "tables")
    stamps = [put(tables, Slot("items", "text", shard), [], inputs={f"landing/{shard}": "r"}) for shard in ("a", "b")]
    joint = digest_of(
        "\n".join(f"{shard}={stamp.data_version}" for shard, stamp in zip("ab", stamps, strict=True)).encode()
    )
    rows = chain({"text/items": joint}, tables=tables)
    assert [(row["slot"], row["kind"], row.get("current")) for row in rows] == [
        ("landing/a", "external", None),
        ("landing/b", "external", None),
        ("text/items[a]", "table", True),
        ("text/items[b]", "table", True),
    ]


def test_the_exported_chain_reads_back_and_is_named_by_its_bytes(tmp_path):
    tables = lake(tmp_path)
    digest = export_chain(tmp_path / "chain.jsonl", version="v1", inputs={"image/tracks[s1]": "x"}, tables=tables)
    head, rows = read_chain(tmp_path / "chain.jsonl")
    assert digest == digest_of((tmp_path / "chain.jsonl").read_bytes())
    assert (head["version"], head["num_rows"]) == ("v1", len(rows))
    assert [row["slot"] for row in rows] == ["image/items[s1]", "image/tracks[s1]", "landing/s1"]
