"""What is large of an item goes from a decoder to the store through files: no process holds the sound of a film."""

from __future__ import annotations

import errno
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from preprocess_media import items, scene, tone, video, wav

from mmlake import preprocess, schemas
from mmlake.errors import UnreadableItem
from mmlake.film_decoders import DecodeSettings
from mmlake.media.film_frames import kept_frames
from mmlake.modalities import MODALITIES
from mmlake.preprocess import Encoded, PreprocessSettings
from mmlake.preprocess.outputs import FRAMES, KEYFRAMES, SOUND, OutputFile, Outputs, Written, opened_output
from mmlake.preprocess.sound import SoundWriter
from mmlake.preprocess.visual.signals import NAMES, SignalColumns
from mmlake.store import BlobStore
from mmlake.workers import wire

PLAIN = PreprocessSettings(voice_detector="none")


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    video(path, scene(3, 100), sound=[(0.0, np.random.default_rng(1).normal(0, 0.1, 64_000))])
    return path


def decoded(path, folder, modality="video"):
    decoder = MODALITIES[modality].decoder
    return decoder.kernel_with(PLAIN, DecodeSettings())(Encoded(f"{modality}/x", path=path, folder=folder))


def data_of(output, folder):
    with opened_output(output, folder) as stream:
        return stream.read()


def test_a_film_leaves_files_that_hold_what_it_would_return(film, tmp_path):
    held, found = decoded(film, None), decoded(film, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([SOUND, FRAMES, KEYFRAMES])
    assert data_of(found.flac, tmp_path) == held.flac
    assert data_of(found.frames, tmp_path) == held.frames
    assert [data_of(one.jpeg, tmp_path) for one in found.keyframes] == [one.jpeg for one in held.keyframes]
    assert [one.time_s for one in kept_frames(tmp_path / FRAMES)] == [one.time_s for one in kept_frames(held.frames)]


def test_what_a_worker_sends_of_a_film_holds_no_sound_and_no_picture(film, tmp_path):
    """4 s: 33 signals of 35 numbers and 100 frames of three are 6.2 kB."""
    assert len(wire.encode(decoded(film, tmp_path))) < 12_000 < len(decoded(film, None).flac)


def test_a_recording_leaves_its_sound(tmp_path):
    (tmp_path / "talk.wav").write_bytes(wav(tone(2.0)))
    folder = tmp_path / "folder"
    folder.mkdir()
    found = decoded(tmp_path / "talk.wav", folder, "audio")
    assert data_of(found.flac, folder) == decoded(tmp_path / "talk.wav", None, "audio").flac
    assert len(wire.encode(found)) < 2_000


@pytest.mark.parametrize("large_bytes", [0, 1 << 30])
def test_the_folders_of_items_are_gone_with_them_and_small_items_have_none(film, tmp_path, monkeypatch, large_bytes):
    monkeypatch.setattr(import_module("mmlake.preprocess.tracks"), "_LARGE_BYTES", large_bytes)
    store, scratch = BlobStore(tmp_path / "blobs"), tmp_path / "lake" / "scratch"
    rows = items(store, [film.read_bytes(), b"no film"], "video")
    table = preprocess.tracks(
        rows, "video", decoder=MODALITIES["video"].decoder, store=store, settings=PLAIN, scratch=scratch
    )
    assert sorted(table["status"].to_pylist()) == ["ok", "unreadable"]
    assert list(scratch.iterdir()) == [] if large_bytes == 0 else not scratch.exists()
    [row] = [row for row in table.to_pylist() if row["status"] == "ok"]
    assert store.read(row["audio_digest"]) == decoded(film, None).flac


def test_a_full_disk_is_no_fault_of_the_item(tmp_path, monkeypatch):
    """libsndfile hides what its file raises, and says in its own words that something went wrong."""

    class Full:
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def seek(self, offset, whence=0):
            return 0

        def tell(self):
            return 0

        def close(self):
            pass

    begun = OutputFile(None)
    begun.file = Full()
    monkeypatch.setattr(Outputs, "begin", lambda self, name: begun)
    writer = SoundWriter(origin_s=0.0, settings=PLAIN, outputs=Outputs(tmp_path))
    samples = np.random.default_rng(0).normal(0, 0.1, 200_000).astype(np.float32)
    with pytest.raises(OSError, match="No space left"):
        writer.add_samples(samples, 16_000, 1)


@pytest.mark.parametrize("name", ["../sound.flac", "/etc/hostname", "other"])
def test_a_file_that_decoding_does_not_write_is_not_opened(tmp_path, name):
    with pytest.raises(UnreadableItem) as caught, opened_output(Written(name, 0, 10), tmp_path):
        pass
    assert caught.value.code == 3101


def test_another_attempt_begins_with_empty_files(tmp_path):
    with Outputs(tmp_path) as outputs:
        outputs.begin(SOUND).append(b"of the first")
        again = outputs.begin(SOUND)
        assert again.append(b"second") == Written(SOUND, 0, 6)
        assert again.data_of(Written(SOUND, 0, 6)) == b"second"
        assert again.whole() == Written(SOUND, 0, 6)


def test_signals_are_the_rows_that_dictionaries_give_in_a_fifteenth_of_the_memory():
    rng, columns, rows = np.random.default_rng(2), SignalColumns(), []
    for at in range(1_000):
        row = {name: float(rng.normal()) for name in NAMES}
        row |= {"noise": None, "time_s": at / 8} if at % 3 else {"time_s": at / 8}
        columns.add(row)
        rows.append(row)
    found, kind = columns.finish(), schemas.TRACKS.arrow.field("signals").type
    assert pa.array([found.scalar(), []], kind).equals(pa.array([rows, []], kind))
    assert found[1]["noise"] is None and found[1]["time_s"] == 0.125 and len(list(found)) == 1_000
    again = wire.decode(wire.encode(found), packages=frozenset({"mmlake"}))
    assert again.scalar().equals(found.scalar())
    assert len(wire.encode(found)) < 1_000 * (len(NAMES) * 5 + 10)  # four bytes and whether there is one


def test_signals_of_keyframes_have_no_more_names_than_were_given():
    columns = SignalColumns()
    columns.add({"time_s": 0.5, "luma": 3.0})
    [row] = columns.finish()
    assert row == {"time_s": 0.5, "luma": 3.0}
