"""The corpus as a whole: the same bytes on every run, and a truth that covers every file."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmlake import sample
from mmlake.error_codes import CODES
from mmlake.errors import SettingsError
from mmlake.records import is_digest
from mmlake.sample.generate import _clear
from mmlake.sample.ledger import Ledger
from mmlake.sample.text_shards import lay_text
from tests import make

TINY = sample.SampleSettings(scale=0.01)


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def texts_of(record: dict) -> list[tuple[str, str]]:
    """(JSON pointer, text) of the texts in a record that are items of their own."""
    lists = [(f"/{name}/{at}", text) for name in ("captions", "texts") for at, text in enumerate(record.get(name, ()))]
    found = [("/caption", record.get("caption")), *lists]
    return [(pointer, text) for pointer, text in found if text is not None]


def member_bytes(landing: Path) -> dict[tuple[str, str], bytes]:
    """(shard, member) -> bytes of every item in the whole shards, read with the standard library."""
    found: dict[tuple[str, str], bytes] = {}
    for path in sorted(landing.rglob("*")):
        shard, name = path.relative_to(landing).as_posix(), path.name
        if (
            path.is_dir()
            or name == "_source.json"
            or shard in ("broken/half.tar", "broken/damaged.jsonl.gz", "broken/lines.jsonl")
        ):
            continue
        if name.endswith(".tar"):
            with tarfile.open(path) as archive:
                for member in archive.getmembers():
                    data = archive.extractfile(member).read()
                    found[shard, member.name] = data
                    if member.name.endswith(".json"):
                        found |= {
                            (shard, f"{member.name}#{pointer}"): text.encode()
                            for pointer, text in texts_of(json.loads(data))
                        }
        elif ".jsonl" in name:
            raw = path.read_bytes()
            lines = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode().splitlines()
            found |= {
                (shard, f"line:{number}"): json.loads(line)["text"].encode() for number, line in enumerate(lines, 1)
            }
        elif name.endswith(".parquet"):
            found |= {
                (shard, f"row:{number}"): text.encode()
                for number, text in enumerate(pq.read_table(path)["text"].to_pylist(), 1)
            }
        else:
            found[path.parent.relative_to(landing).as_posix(), name] = path.read_bytes()
    return found


def test_two_runs_give_the_same_bytes(small, tmp_path):
    """Whatever memory held before: encoders that read what nobody wrote showed only over a used heap."""
    rng = np.random.default_rng()
    sample.generate(
        tmp_path,
        settings=sample.SampleSettings(**make.SMALL),
        advance=lambda count: [rng.bytes(int(size)) for size in rng.integers(16, 400_000, 20)] and None,
    )
    assert files(tmp_path) == files(small[0])


def test_the_truth_file_reads_back_as_it_was_returned(small):
    out, truth = small
    assert sample.Truth.read(out / "truth.json") == truth


def test_the_truth_names_every_member_of_every_whole_shard_and_nothing_else(small):
    out, truth = small
    named = {
        (item.shard, item.member)
        for item in truth.items
        if item.shard not in ("broken/half.tar", "broken/damaged.jsonl.gz", "broken/lines.jsonl")
    }
    assert named | set(truth.companions) == set(member_bytes(out / "landing"))


def test_every_digest_is_the_hash_of_the_bytes_that_lie_there(small):
    out, truth = small
    found = member_bytes(out / "landing")
    wrong = [
        (item.shard, item.member)
        for item in truth.items
        if (data := found.get((item.shard, item.member))) is not None and sha256(data).hexdigest() != item.digest
    ]
    assert wrong == []


def test_a_malformed_line_is_known_by_its_raw_bytes(small):
    out, truth = small
    lines = (out / "landing/broken/lines.jsonl").read_bytes().split(b"\n")[:-1]
    digests_of_lines = {
        item.member: item.digest
        for item in truth.items
        if item.shard == "broken/lines.jsonl" and item.status == "unreadable"
    }
    assert digests_of_lines == {f"line:{number}": sha256(lines[number - 1]).hexdigest() for number in (2, 5)}


def test_the_smallest_corpus_still_has_every_defect_of_every_modality(small):
    _, truth = small
    planted = {(item.modality, item.rule) for item in truth.items if item.rule is not None}
    assert planted >= {
        *(
            ("text", rule)
            for rule in (
                "text_empty",
                "text_too_short",
                "boilerplate",
                "repeated_lines",
                "not_prose",
                "garbled",
                "word_length",
                "record_malformed",
                "not_text",
                "shard_unreadable",
            )
        ),
        *(
            ("image", rule)
            for rule in (
                "too_small",
                "blank",
                "blurred",
                "extreme_aspect",
                "media_truncated",
                "undecodable",
                "empty_file",
                "unknown_content",
                "shard_truncated",
            )
        ),
        *(
            ("audio", rule)
            for rule in ("silent", "clipped", "noisy", "too_short_audio", "media_truncated", "undecodable")
        ),
        *(
            ("video", rule)
            for rule in (
                "black",
                "static",
                "too_short",
                "blurred_video",
                "too_small_video",
                "media_truncated",
                "undecodable",
            )
        ),
    }


def test_the_smallest_corpus_still_has_every_kind_of_duplicate(small):
    _, truth = small
    kinds = {(row.tier, row.modality, row.kind) for row in truth.duplicates}
    assert kinds >= {
        *(("near", "text", kind) for kind in ("word", "dateline", "cut", "typography", "credit", "markup")),
        *(
            ("near", "image", kind)
            for kind in ("reencode", "webp", "resize", "brightness", "blur", "flip", "resize_reencode")
        ),
        *(("near", "audio", kind) for kind in ("transcode", "gain", "noise", "trim")),
        *(("near", "video", kind) for kind in ("reencode", "resize", "trim", "container")),
        *(("exact", modality, "copy") for modality in ("text", "image", "audio", "video")),
        ("semantic", "text", "paraphrase"),
    }


def test_the_full_corpus_has_the_promised_number_of_documents(tmp_path):
    ledger = Ledger(tmp_path)
    lay_text(ledger, sample.SampleSettings())
    assert 380 <= sum(item.role == "document" for item in ledger.items) <= 420


def test_items_without_bytes_are_the_rest_of_broken_shards_only(small):
    _, truth = small
    assert {item.rule for item in truth.items if item.digest is None} == {"shard_truncated", "shard_unreadable"}


def test_every_duplicate_probe_and_cut_names_digests_of_items(small):
    _, truth = small
    known = {item.digest for item in truth.items if item.digest is not None}
    named = (
        {digest for row in (*truth.duplicates, *truth.lookalikes) for digest in row.digests}
        | {digest for probe in truth.probes for digest in probe.relevant}
        | set(truth.shots)
        | set(truth.sentences)
        | set(truth.long_items)
        | {digest for one in truth.excerpts for digest in (one.digest, one.parent)}
    )
    assert all(is_digest(digest) for digest in named)
    assert named <= known


def test_planted_duplicates_are_made_of_items_that_pass_quality(small):
    _, truth = small
    admitted = {digest for modality in ("text", "image", "video", "audio") for digest in truth.admitted(modality)}
    assert {digest for row in truth.duplicates if row.tier != "exact" for digest in row.digests} <= admitted


def test_statuses_follow_the_severity_of_the_error(small):
    _, truth = small
    names = {entry.name for entry in CODES.values() if entry.code < 4000}
    assert {item.rule for item in truth.items if item.status == "unreadable"} <= names
    assert {item.rule for item in truth.items if item.status == "flagged"} == {
        "word_length",
        "extreme_aspect",
        "static",
        "noisy",
    }


def test_rows_have_several_licences_and_the_broken_folder_none(small):
    _, truth = small
    assert {item.licence for item in truth.items} >= {
        "CC-BY-4.0",
        "CC0-1.0",
        "CC-BY-NC-4.0",
        "MIT",
        "CC-BY-SA-4.0",
        "NOASSERTION",
    }
    assert {item.licence for item in truth.items if item.shard.startswith("broken")} == {"NOASSERTION"}


def test_the_truncated_tar_gives_four_members_before_it_ends(small):
    out, _ = small
    data = (out / "landing/broken/half.tar").read_bytes()
    whole = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive, pytest.raises(tarfile.ReadError):
        whole.extend(info.name for info in archive if info.offset_data + info.size <= len(data))
    assert whole == ["000000.jpg", "000001.jpg", "000002.jpg", "000003.jpg"]


def test_picture_probes_lie_next_to_the_truth(small):
    out, truth = small
    assert all((out / probe.query).is_file() for probe in truth.probes if probe.kind == "image")
    assert sum(probe.kind == "text" for probe in truth.probes) >= 20


def test_a_corpus_replaces_the_one_before_it(tmp_path):
    _clear(tmp_path / "lake")
    stale = tmp_path / "lake/landing/text/old.txt"
    stale.parent.mkdir(parents=True)
    stale.write_text("left over")
    _clear(tmp_path / "lake")
    assert not stale.exists()


@pytest.mark.parametrize(
    "names", [["notes.txt"], ["landing/photo.jpg"], ["truth.json"], ["landing/a.jpg", "truth.json"]]
)
def test_a_folder_with_somebody_elses_files_is_left_alone(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(SettingsError, match="empty directory"):
        sample.generate(tmp_path, settings=TINY)
    assert all((tmp_path / name).read_text() == "{}" for name in names)


def test_a_corpus_that_was_interrupted_is_refused(tmp_path):
    _clear(tmp_path / "lake")
    with pytest.raises(SettingsError, match="no finished truth file"):
        sample.Truth.read(tmp_path / "lake/truth.json")


@pytest.mark.parametrize("scale", [0, -1, 21, float("nan")])
def test_a_scale_that_makes_no_corpus_is_refused(scale):
    with pytest.raises(SettingsError, match="scale"):
        sample.SampleSettings(scale=scale)
