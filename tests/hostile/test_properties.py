"""What must hold for every archive, directory and name, on examples that hypothesis makes."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tarfile
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import sources
from mmlake.landing.zone import portable
from mmlake.records import SourceRef
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import compress, media, tar

_QUICK = settings(max_examples=60)
_LETTERS = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
_EXTENSIONS = st.sampled_from(["", ".txt", ".json", ".png", ".jpg", ".wav", ".cls", ".txt.gz", ".bin", ".srt"])
_BODIES = st.one_of(
    st.binary(max_size=700),
    st.sampled_from(sorted(media().values())),
    st.text(max_size=60).map(str.encode),
    st.sampled_from([b"{}", b'{"text":"a"}', b"", b"null"]),
)
_NAMES = st.builds(
    lambda folders, stem, extension: "/".join([*folders, stem + extension]),
    st.lists(_LETTERS, max_size=2),
    _LETTERS,
    _EXTENSIONS,
)


@_QUICK
@given(
    st.lists(st.tuples(_NAMES, _BODIES), max_size=8),
    st.sampled_from(["", "gz", "zst"]),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
def test_whatever_is_put_into_a_tar_comes_out_of_its_rows_again(members, packing, dialect):
    """Names may repeat. Every row with a digest can be fetched again; every member is a row, or metadata of one."""
    with tempfile.TemporaryDirectory() as folder:
        landing = Path(folder) / "in"
        landing.mkdir()
        (landing / f"s.tar{'.' + packing if packing else ''}").write_bytes(
            compress(tar(tuple(members), dialect), packing)
        )
        rows = rows_of(landing)
        assert rows == rows_of(landing)
        for row in rows:
            if row["digest"] is not None:
                assert (
                    hashlib.sha256(sources.fetch(SourceRef.from_json(row["source_ref"]), landing=landing)).hexdigest()
                    == row["digest"]
                )
        found = {row["digest"] for row in rows}
        for name, data in members:
            plain = not name.lower().endswith((".json", ".cls", ".gz", ".id", ".index")) and not data.startswith(
                (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
            )
            assert hashlib.sha256(data).hexdigest() in found or not plain, name


@_QUICK
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,4}\.(txt|png|json|wav|bin|srt)", fullmatch=True), _BODIES, min_size=1, max_size=6
    )
)
def test_a_tar_of_a_directory_has_the_rows_of_the_directory(files):
    """The same samples with the same content, roles and faults; only keys and locators differ."""
    with tempfile.TemporaryDirectory() as folder:
        loose, packed = Path(folder) / "loose" / "in", Path(folder) / "packed" / "in"
        loose.mkdir(parents=True)
        packed.mkdir(parents=True)
        for name, data in files.items():
            (loose / name).write_bytes(data)
        (packed / "in.tar").write_bytes(tar(tuple(sorted(files.items()))))
        kept = (
            "digest",
            "modality",
            "role",
            "content_type",
            "text_content",
            "sample_text",
            "position",
            "error_code",
            "size_bytes",
            "metadata_json",
        )
        claimed = {shard.format for shard in sources.scan(loose, settings=SETTINGS)}
        if claimed == {"folder"}:  # a file that holds JSON lines or a tar is a shard of its own
            assert [[row[name] for name in kept] for row in rows_of(loose)] == [
                [row[name] for name in kept] for row in rows_of(packed)
            ]


_SEGMENTS = st.one_of(st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=300))
_NAMED = _SEGMENTS.map(lambda name: name.replace(b"/", b"").replace(b"\0", b"")).filter(
    lambda name: name not in (b"", b".", b"..")
)
# as a landing zone spells them
_PATHS = st.lists(_NAMED, min_size=1, max_size=3).map(lambda names: portable(os.fsdecode(b"/".join(names))))


@settings(max_examples=400)
@given(_PATHS, _PATHS)
def test_shard_keys_are_reversible_and_so_no_two_paths_share_one(one, other):
    assert sources.path_of_key(sources.shard_key(one)) == one
    assert (sources.shard_key(one) == sources.shard_key(other)) == (one == other)


@settings(max_examples=300)
@given(_PATHS)
def test_shard_keys_are_names_that_files_and_partitions_can_have(path):
    key = sources.shard_key(path)
    assert key.isascii() and key.isprintable() and "..." not in key and "\\" not in key and key not in ("ALL", "")
    assert all(len(part) <= 220 for part in key.split("/"))


@settings(max_examples=300)
@given(
    st.text(min_size=1, max_size=50),
    st.none() | st.text(max_size=50),
    st.none() | st.integers(0, 1 << 62),
    st.none() | st.integers(0, 1 << 62),
    st.none() | st.integers(0, 1 << 30),
)
def test_locators_survive_their_column(path, member, offset, size, frame):
    ref = SourceRef(path, member, offset, size, frame)
    assert SourceRef.from_json(ref.to_json()) == ref
    ref.to_json().encode()


def test_an_item_can_be_changed_in_every_field_and_keeps_the_others():
    """`replace` is spelled out for speed: a new field must not be forgotten there."""
    names = [field.name for field in dataclasses.fields(sources.RawItem)]
    item = sources.RawItem(modality="text", ref=SourceRef("a"), sample_id="a/0")
    for name in names:
        changed = item.replace(**{name: "other"})
        assert [getattr(changed, other) for other in names] == [
            "other" if other == name else getattr(item, other) for other in names
        ]
