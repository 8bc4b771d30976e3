"""Renditions of the films of a lake: one codec, height and rate, made once, each film a line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import pytest

from mmlake import schemas, transcoding
from mmlake.cuts import Rendition, cache
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.tables import Slot

FILM = ("-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=2", "-vf", "setsar=2")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two films of two seconds, one of them in MPEG-2 with a sound that begins late, and one that was never read."""
    lake = Lake(tmp_path / "lake")
    rows = []
    sound = ("-itsoffset", "0.5", "-f", "lavfi", "-i", "sine=sample_rate=48000:duration=1.5")
    for name, words in (
        ("a.mkv", [*FILM[:4], *sound, *FILM[4:], "-c:v", "mpeg2video", "-c:a", "pcm_s16le"]),
        ("b.mp4", [*FILM, "-c:v", "libx264"]),
    ):
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", *words, str(tmp_path / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        rows.append({"digest": lake.store.put((tmp_path / name).read_bytes()), "status": "ok"})
    rows.append({"digest": "0" * 64, "status": "unreadable", "error_code": 3001, "error": "no film"})
    rows.append({"digest": lake.store.put(b"a film no more"), "status": "ok"})
    plain = {"modality": "video", "role": "media", "size_bytes": 1, "transcript_source": "none"}
    table = schemas.from_rows(schemas.TRACKS, [row | plain for row in rows])
    lake.tables.write(
        Slot("tracks", "video", "s"), schemas.TRACKS, table, code_version="9", settings_digest="", inputs={}
    )
    return lake


def test_every_film_has_a_rendition_or_a_reason_and_none_is_made_twice(lake, tmp_path, monkeypatch):
    out, wanted = tmp_path / "out", Rendition(height_px=60, frame_rate=10, keyframe_every_frames=5)
    rows = transcoding.transcode_films(lake, out, wanted)
    assert [json.loads(line) for line in (out / transcoding.LINES).read_text().splitlines()] == rows
    good, bad = [row for row in rows if row["status"] == "ok"], [row for row in rows if row["status"] != "ok"]
    assert [(row["error_code"], bool(row["error"])) for row in bad] == [(3001, True)]
    assert len(good) == 2
    for row in good:
        # 160 x 90 of pixels twice as wide as high
        assert (row["num_frames"], row["height_px"], row["width_px"]) == (20, 60, 214)
        assert row["source_digest"] == row["digest"] and row["rendition"]["frame_rate"] == 10
        with av.open(str(out / row["path"])) as film:
            stream = film.streams.video[0]
            frames = list(film.decode(stream))
            assert stream.codec_context.name == "h264"
            assert [frame.time for frame in frames] == pytest.approx(np.arange(20) / 10, abs=1e-3)
            assert max(np.diff([at for at, frame in enumerate(frames) if frame.key_frame])) <= 5

    def never(*_, **__):
        raise AssertionError("made again")

    before = {row["path"]: (out / row["path"]).stat().st_mtime_ns for row in good}
    monkeypatch.setattr("mmlake.cuts.transcoding.run_ffmpeg", never)
    assert [row for row in transcoding.transcode_films(lake, out, wanted, limit=9) if row["status"] == "ok"] == good
    assert before == {row["path"]: (out / row["path"]).stat().st_mtime_ns for row in good}
    monkeypatch.undo()
    (out / good[0]["path"]).write_bytes(b"rot")
    again = transcoding.transcode_films(lake, out, wanted)
    assert [row for row in again if row["status"] == "ok"] == good
    assert cache.known(out / good[0]["path"]) is not None


def test_the_film_keeps_its_times_and_its_sound_its_place(lake, tmp_path):
    rows = transcoding.transcode_films(lake, tmp_path / "out", Rendition(codec="hevc", height_px=1080))
    made = {row["num_frames"]: row for row in rows if row["status"] == "ok"}
    assert set(made) == {50} and {row["height_px"] for row in made.values()} == {90}
    found = []
    for row in rows:
        if row["status"] == "ok":
            with av.open(str(tmp_path / "out" / row["path"])) as film:
                assert film.streams.video[0].codec_context.name == "hevc"
                for stream in film.streams.audio:
                    samples = np.concatenate([frame.to_ndarray()[0] for frame in film.decode(stream)])
                    found.append(np.flatnonzero(np.abs(samples) > 0.02)[0] / stream.rate)
    assert found == [pytest.approx(0.5, abs=0.05)]


def test_what_no_film_could_be_made_to_is_refused():
    for wrong in ({"codec": "theora"}, {"height_px": 2}, {"frame_rate": -1.0}, {"crf": 60}):
        with pytest.raises(SettingsError):
            Rendition(**wrong)
