"""Cuts are made once, and again only where they are lost, damaged, or made by other settings."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake.cuts import CutCache, CutSettings, Span, cache
from tests.cuts.counted_films import counted_film, span_of

UNIT = "c" * 64


@pytest.fixture
def film(tmp_path) -> Path:
    return counted_film(tmp_path / "film.mp4", 60)


@pytest.fixture
def made(monkeypatch) -> list[Span]:
    """The spans that were cut, by whatever cache."""
    spans: list[Span] = []

    def counted(film: Path, out: Path, span: Span, **settings: CutSettings):
        spans.append(span)
        return cut_film(film, out, span, **settings)

    cut_film = cache.cut_film
    monkeypatch.setattr(cache, "cut_film", counted)
    return spans


def opened(folder: Path, **settings: object) -> CutCache:
    return CutCache(folder / "cuts", CutSettings(**settings))


def test_a_clip_is_cut_once(tmp_path, film, made) -> None:
    span = replace(span_of(film, 10, 30), digest=UNIT)
    assert opened(tmp_path).clip(span) is None
    first, second = (opened(tmp_path).clip(span, lambda: film) for _ in range(2))
    assert first == second == opened(tmp_path).clip(span)
    assert (len(made), first.facts["num_frames"], first.size_bytes) == (1, 20, first.path.stat().st_size)
    assert first.path.parent == tmp_path / "cuts" / "cc"


def test_threads_that_want_one_clip_cut_it_once(tmp_path, film, made) -> None:
    span = replace(span_of(film, 10, 30), digest=UNIT)
    threads = [threading.Thread(target=opened(tmp_path).clip, args=(span, lambda: film)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_damaged_clip_is_cut_again(tmp_path, film, made) -> None:
    span = replace(span_of(film, 10, 30), digest=UNIT)
    first = opened(tmp_path).clip(span, lambda: film)
    sound = first.path.read_bytes()
    first.path.write_bytes(sound[:-1] + b"x")
    assert opened(tmp_path).clip(span) is None
    assert opened(tmp_path).clip(span, lambda: film) == first
    assert (len(made), first.path.read_bytes()) == (2, sound)


def test_other_settings_are_other_cuts_and_workers_are_not(tmp_path, film, made) -> None:
    span = replace(span_of(film, 10, 30), digest=UNIT)
    paths = {opened(tmp_path, **one).clip(span, lambda: film).path for one in ({}, {"crf": 30}, {"workers": 7})}
    assert (len(paths), len(made)) == (2, 2)


def test_a_failed_cut_leaves_nothing(tmp_path) -> None:
    span = Span(digest=UNIT, parent_digest="b" * 64, start_us=0, end_us=1_000_000)
    (tmp_path / "junk.mp4").write_bytes(b"junk")
    with pytest.raises(Exception, match="3001"):
        opened(tmp_path).clip(span, lambda: tmp_path / "junk.mp4")
    assert opened(tmp_path).size_bytes() == 0


def test_others_are_removed(tmp_path, film) -> None:
    spans = [replace(span_of(film, 10, 30), digest=letter * 64) for letter in "ab"]
    kept, gone = (opened(tmp_path).clip(span, lambda: film) for span in spans)
    old = opened(tmp_path, crf=30).clip(spans[0], lambda: film)
    before = opened(tmp_path).size_bytes()
    freed = opened(tmp_path).remove_others({spans[0].digest})
    assert [one.path.exists() for one in (kept, gone, old)] == [True, False, False]
    assert opened(tmp_path).size_bytes() == before - freed
    assert freed >= gone.size_bytes + old.size_bytes
    assert opened(tmp_path).clip(spans[0]) == kept


def test_segments_of_a_recording_come_from_one_decode(tmp_path, monkeypatch) -> None:
    samples = np.random.default_rng(7).integers(-9000, 9000, 48000, dtype=np.int16)
    soundfile.write(tmp_path / "x.wav", samples, 8000)
    spans = [
        Span(digest=str(n) * 64, parent_digest="b" * 64, start_us=n * 10**6, end_us=(n + 1) * 10**6) for n in range(6)
    ]
    decodes = []

    def recording() -> Path:
        decodes.append(1)
        return tmp_path / "x.wav"

    opened(tmp_path).add_segments(spans[:4], recording)
    opened(tmp_path).add_segments(spans[:4], recording)
    assert len(decodes) == 1
    opened(tmp_path).add_segments(spans, recording)
    parts = [soundfile.read(opened(tmp_path).segment(span).path, dtype="int16")[0] for span in spans]
    np.testing.assert_array_equal(np.concatenate(parts), samples)
    assert len(decodes) == 2
