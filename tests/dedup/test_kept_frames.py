"""Small frames that are kept where a film is decoded give the prints that the film itself gives."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.video import fingerprints as video_fingerprints
from mmlake.media.film_frames import kept_frames
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.store import BlobStore
from tests import make
from tests.dedup.test_dedup_spans import SPANS_S, film, fingerprints, of_film, scenes


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


def test_prints_of_kept_frames_are_those_of_the_film(store):
    path = store._large(store.put(film(scenes()), extension="mp4"))
    kept = video_track(path, settings=PreprocessSettings()).frames
    assert kept is not None
    whole = video_fingerprints.fingerprint(path, settings=DedupSettings())
    again = video_fingerprints.fingerprint(video_fingerprints.KeptFilm(kept), settings=DedupSettings())
    assert whole.keys() == again.keys() and len(whole["frame-phash"]) == 96
    assert all(np.array_equal(whole[name], again[name]) for name in whole)
    # spans that begin on the grid, from the first second on, are those of the decoded film as well
    spans = [(0.0, 2.0), (2.0, 5.0), (5.0, 12.0)]
    pairs = zip(
        video_fingerprints.span_fingerprints(path, spans, settings=DedupSettings()),
        video_fingerprints.span_fingerprints(video_fingerprints.KeptFilm(kept), spans, settings=DedupSettings()),
        strict=True,
    )
    assert all(np.array_equal(left["frame-windows"], right["frame-windows"]) for left, right in pairs)
    assert [one.position for one in kept_frames(kept)] == list(range(96))


def test_the_step_reads_kept_frames_and_no_film_unless_the_grid_is_another(store, monkeypatch):
    path = store._large(store.put(film(scenes()), extension="mp4"))
    digest = store.put(video_track(path, settings=PreprocessSettings()).frames, extension="arrow")
    row = of_film(store, film(scenes()))
    with_frames = row.set_column(row.column_names.index("frames_digest"), "frames_digest", [[digest]])
    units = make.as_units(with_frames)
    expected = fingerprints(make.as_units(row), store)
    opened = []
    decoded = video_fingerprints.open_media
    monkeypatch.setattr(video_fingerprints, "open_media", lambda path: opened.append(path) or decoded(path))
    assert fingerprints(units, store).equals(expected)
    assert not opened


def test_kept_frames_of_a_film_that_is_cut_go_to_its_worker_as_a_file(store, monkeypatch):
    """Of three noisy hours they are 300 MB, which were read, pickled and unpickled."""
    path = store._large(store.put(film(scenes()), extension="mp4"))
    digest = store.put(video_track(path, settings=PreprocessSettings()).frames, extension="arrow")
    rows = of_film(store, film(scenes()))
    rows = rows.set_column(rows.column_names.index("frames_digest"), "frames_digest", [[digest]])
    units = make.cut(rows, *SPANS_S)
    expected, read = fingerprints(units, store), []
    monkeypatch.setattr(store, "read", lambda digest: read.append(digest) or b"")
    assert units.num_rows > 1 and fingerprints(units, store).equals(expected) and read == []


def test_kept_frames_are_packed_as_lists_of_them_would_be_and_no_worker_imports_pandas_for_it():
    """The bytes are blobs, named by their digest: other bytes of equal frames would be another blob."""
    done = subprocess.run([sys.executable, "-c", _PACKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False", "True"]


_PACKED = """
import io, sys
import numpy as np, pyarrow as pa
from mmlake.media import film_frames as kept
rng = np.random.default_rng(1)
for has_all in (False, True):  # the last one's bytes are compared
    keeper = kept.FrameKeeper()
    for at in range(20):
        plane = rng.integers(0, 256, (kept.SIDE, kept.SIDE), np.uint8)
        moment = rng.integers(0, 256, kept._MOMENT_BYTES, np.uint8) if has_all or at % 8 == 0 else None
        blocks = rng.bytes(kept.NUM_BYTES) if has_all or at == 3 else None
        keeper._waiting.append(kept.GridFrame(at / 8, at, plane, moment, blocks))
    keeper._num, frames = 20, [*keeper._waiting]
    packed = keeper.packed()
    again = list(kept.kept_frames(packed))
    print(all(np.array_equal(x, y) for one, two in zip(frames, again, strict=True) for x, y in zip(one, two)))
    if not has_all:
        is_imported = "pandas" in sys.modules
planes = np.stack([one.plane for one in frames])
planes[1:] -= planes[:-1].copy()
columns = [[one.time_s for one in frames], [one.position for one in frames], [one.tobytes() for one in planes],
           [one.moment.tobytes() for one in frames], [one.blocks for one in frames]]
sink = io.BytesIO()
with pa.ipc.new_stream(sink, kept._SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)) as to:
    to.write_batch(pa.record_batch([pa.array(one, field.type) for one, field in zip(columns, kept._SCHEMA)],
                                   schema=kept._SCHEMA))
print(is_imported, sink.getvalue() == packed)
"""
