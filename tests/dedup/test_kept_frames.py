"""Small frames that are kept where a film is decoded give the prints that the film itself gives."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.video import fingerprints as video_fingerprints
from mmlake.film_frames import kept_frames
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.store import BlobStore
from tests import make
from tests.dedup.test_dedup_spans import film, fingerprints, of_film, scenes


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
