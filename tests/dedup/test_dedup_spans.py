"""Fingerprints of spans: those of a film or recording that holds nothing else, from one decode of the item."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from mmlake import contracts, dedup, schemas
from mmlake.border import Failure
from mmlake.dedup import DedupSettings
from mmlake.dedup.video import fingerprints as video_fingerprints
from mmlake.store import BlobStore
from tests import make

SETTINGS = DedupSettings()
RATE_HZ, FPS = 16_000, 20
SPANS_S = ((0.0, 2.0), (2.0, 5.0), (5.0, 6.5), (6.5, 9.0), (9.0, 11.0), (11.0, 12.0))


def shot(seed: int, num_frames: int, *, side: int = 96) -> list[np.ndarray]:
    """A bright square that wanders over a background."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 255, (7, 7, 3), dtype=np.uint8))
    ground, corners = np.asarray(small.resize((side, side), 3)) // 2, rng.uniform(5, side - 31, (6, 2))
    frames = []
    for at in range(num_frames):
        x, y = (int(np.interp(at / num_frames * 5, range(6), corners[:, axis])) for axis in (0, 1))
        frames.append(ground.copy())
        frames[-1][y : y + 24, x : x + 24] = 250
    return frames


def film(frames: list[np.ndarray], *, quality: int = 0, kind: str = "mp4") -> bytes:
    """The frames as a film; without loss at quality 0."""
    import av

    sink = io.BytesIO()
    with av.open(sink, "w", format=kind) as container:
        stream = container.add_stream("libx264", rate=FPS, options={"qp": str(quality), "threads": "1", "g": "20"})
        stream.width, stream.height, stream.pix_fmt = 96, 96, "yuv420p"
        for at, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def scenes() -> list[np.ndarray]:
    """Twelve seconds: each span of SPANS_S is a shot of its own."""
    return [frame for at, (start_s, end_s) in enumerate(SPANS_S) for frame in shot(at, round((end_s - start_s) * FPS))]


def voice(seconds: float, seed: int = 0) -> np.ndarray:
    """Sound with changing pitch and formants, as speech has."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    knots = np.linspace(0, seconds, 4 + int(8 * seconds))
    phase = 2 * np.pi * np.cumsum(np.interp(time_s, knots, rng.uniform(90, 260, len(knots)))) / RATE_HZ
    parts = [
        np.interp(time_s, knots, rng.uniform(0, 1, len(knots)) ** 3) * np.sin(k * phase) / k**0.5 for k in range(1, 14)
    ]
    out = np.sum(parts, axis=0)
    return (0.2 * out / np.abs(out).max()).astype(np.float32)


def flac(samples: np.ndarray) -> bytes:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, samples, RATE_HZ, format="FLAC")
    return sink.getvalue()


def tracks(modality: str, *rows: dict[str, object]) -> pa.Table:
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    base |= {"duration_s": 12.0, "shots": [], "keyframes": [], "signals": [], "cues": []}
    return schemas.from_rows(schemas.TRACKS, [base | row for row in rows])


def of_film(store: BlobStore, data: bytes) -> pa.Table:
    return tracks("video", {"digest": store.put(data, extension="mp4")})


def of_sound(store: BlobStore, samples: np.ndarray) -> pa.Table:
    digest = store.put(flac(samples), extension="flac")
    return tracks("audio", {"digest": digest, "audio_digest": digest})


def fingerprints(units: pa.Table, store: BlobStore, **options) -> pa.Table:
    tiers = dedup.tiers_of(units["modality"][0].as_py())
    return dedup.fingerprint(units, tiers, store=store, settings=SETTINGS, **options)


def hashes(table: pa.Table) -> list[tuple[object, ...]]:
    """What the fingerprints hold but for whose they are, in the order of digests; keyframes are where an encoder put
    them, and another file has others."""
    rows = (row for row in table.to_pylist() if row["method"] != "frame-blocks")
    return [(row["method"], row["hashes"], row["times_s"]) for row in rows]


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "store")


@pytest.mark.parametrize("kind", ["mp4", "matroska", "mpegts"])
def test_a_clip_has_the_hashes_of_the_same_clip_that_landed_alone(store, kind):
    frames = scenes()
    clips = fingerprints(make.cut(of_film(store, film(frames, kind=kind)), *SPANS_S), store)
    for at, (start_s, end_s) in enumerate(SPANS_S):
        part = frames[round(start_s * FPS) : round(end_s * FPS)]
        alone = fingerprints(make.as_units(of_film(store, film(part, kind=kind))), store)
        mine = clips.filter(pa.compute.ends_with(clips["digest"], f"/{at}"))
        assert hashes(mine) == hashes(alone), f"clip {at}"
        sampled = mine.filter(pa.compute.equal(mine["method"], "frame-phash"))
        assert len(sampled["hashes"][0]) == (end_s - start_s) * 8


def test_a_stretch_has_the_hashes_of_the_same_sound_that_landed_alone(store):
    samples = voice(12)
    parts = fingerprints(make.cut(of_sound(store, samples), *SPANS_S), store)
    for at, (start_s, end_s) in enumerate(SPANS_S):
        part = samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)]
        alone = fingerprints(make.as_units(of_sound(store, part)), store)
        assert hashes(parts.filter(pa.compute.ends_with(parts["digest"], f"/{at}"))) == hashes(alone)


def test_one_decode_of_a_film_serves_all_of_its_clips(store, monkeypatch):
    opened, local = [], []
    films, kept = video_fingerprints.open_media, BlobStore.local
    monkeypatch.setattr(video_fingerprints, "open_media", lambda path: opened.append(path) or films(path))
    monkeypatch.setattr(BlobStore, "local", lambda self, digest: local.append(digest) or kept(self, digest))
    units = make.cut(of_film(store, film(scenes())), *SPANS_S)
    assert contracts.made(fingerprints(units, store)).num_rows == 36
    assert (len(opened), len(local)) == (1, 1)


def test_one_local_file_serves_all_stretches_of_a_recording(store, monkeypatch):
    local, kept = [], BlobStore.local
    monkeypatch.setattr(BlobStore, "local", lambda self, digest: local.append(digest) or kept(self, digest))
    monkeypatch.setattr(BlobStore, "read", lambda self, digest: pytest.fail("the whole sound was read as bytes"))
    assert fingerprints(make.cut(of_sound(store, voice(12)), *SPANS_S), store).num_rows == 18
    assert len(local) == 1


def test_clips_before_the_damage_have_fingerprints_and_the_others_a_reason(store):
    data = film(scenes(), kind="mpegts")
    table = fingerprints(make.cut(of_film(store, data[: round(0.5 * len(data))]), *SPANS_S), store)
    failed = {row["digest"][-1]: (row["error_code"], row["error"]) for row in table.to_pylist() if row["error"]}
    good = {row["digest"][-1] for row in table.to_pylist()} - failed.keys()
    assert {"0", "1"} <= good and {"4", "5"} <= failed.keys() and len(good | failed.keys()) == 6
    assert set(failed.values()) == {(3001, "num_decoded_frames=0 not in [1, inf)")}


def test_clips_of_what_is_no_film_each_say_so(store):
    table = fingerprints(make.cut(of_film(store, b"no film"), *SPANS_S), store)
    assert [row["error_code"] for row in table.to_pylist()] == [3001] * 6
    missing = fingerprints(make.cut(tracks("video", {"digest": "0" * 64}), *SPANS_S), store)
    assert [row["error_code"] for row in missing.to_pylist()] == [2001] * 6


class Crashing:
    """A runner whose worker ends when it is given several units."""

    def map(self, kernel, items, *, code, what, advance=None):
        """See `mmlake.border.Runner`."""
        for item in items:
            yield Failure(3101, "the worker ended") if len(item) > 1 else kernel(item)


@pytest.mark.parametrize("seek_from_s", [1.0, 60.0])
@pytest.mark.parametrize("kind", ["mp4", "matroska", "mpegts"])
def test_clips_tried_alone_are_as_those_tried_together(store, monkeypatch, kind, seek_from_s):
    """Alone, a clip is sought: the film is not decoded from its beginning each time."""
    monkeypatch.setattr(video_fingerprints, "_SEEK_FROM_S", seek_from_s)
    monkeypatch.setattr(video_fingerprints, "_SEEK_MARGIN_S", 0.5)
    units = make.cut(of_film(store, film(scenes(), kind=kind)), *SPANS_S)
    together = fingerprints(units, store)
    assert contracts.made(together).num_rows == 36
    assert fingerprints(units, store, runner=Crashing()).equals(together)


def test_a_clip_tried_alone_costs_its_own_frames(store, monkeypatch):
    monkeypatch.setattr(video_fingerprints, "_SEEK_FROM_S", 1.0)
    monkeypatch.setattr(video_fingerprints, "_SEEK_MARGIN_S", 0.5)
    path = store._large(store.put(film(scenes()), extension="mp4"))
    counted, decoded = [0], video_fingerprints.frames

    def counting(container, stream):
        for frame in decoded(container, stream):
            counted[0] += 1
            yield frame

    monkeypatch.setattr(video_fingerprints, "frames", counting)
    (planes,) = video_fingerprints.span_planes(path, [(9.0, 10.0)], step_s=0.125)
    assert len(planes) == 8
    assert (
        counted[0] <= FPS * (1 + 0.5 + 1) + video_fingerprints._NUM_BEHIND + 1
    )  # the clip, the margin, a group of pictures


def test_each_clip_may_have_as_many_frames_as_a_film(store, monkeypatch):
    monkeypatch.setattr(video_fingerprints, "_MAX_FRAMES", 20)
    table = fingerprints(make.cut(of_film(store, film(scenes())), (0.0, 6.0), (6.0, 12.0)), store)
    assert [len(row["hashes"]) for row in table.to_pylist() if row["method"] == "frame-phash"] == [20, 20]


def test_one_wild_time_stamp_costs_no_clip(store, monkeypatch):
    """A frame that claims to be shown years later neither ends its clip nor those after it."""
    path, decoded = store._large(store.put(film(scenes()), extension="mp4")), video_fingerprints.frames

    def wild(container, stream):
        for at, frame in enumerate(decoded(container, stream)):
            frame.pts = 10**12 if at == 70 else frame.pts
            yield frame

    monkeypatch.setattr(video_fingerprints, "frames", wild)
    assert [len(planes) for planes in video_fingerprints.span_planes(path, SPANS_S, step_s=0.125)] == [
        16,
        24,
        12,
        20,
        16,
        8,
    ]


def near(units: list[pa.Table], store: BlobStore) -> set[tuple[str, str]]:
    """The near pairs among all units."""
    table = fingerprints(pa.concat_tables(units), store)
    pairs = dedup.near_pairs(table, dedup.tiers_of(units[0]["modality"][0].as_py()), settings=SETTINGS)
    return {(row["left"], row["right"]) for row in pairs.to_pylist() if row["relation"] in ("same", "inside")}


def test_a_clip_of_a_film_that_also_landed_alone_is_found(store):
    frames = [frame for seed in range(3) for frame in shot(seed, 10 * FPS)]
    whole = make.cut(of_film(store, film(frames)), (0.0, 10.0), (10.0, 20.0), (20.0, 30.0))
    alone = make.as_units(of_film(store, film(frames[10 * FPS : 20 * FPS], quality=30)))
    other = make.as_units(of_film(store, film(shot(9, 10 * FPS))))
    parent = whole["parent_digest"][0].as_py()
    expected = tuple(sorted((f"{parent}/1", alone["digest"][0].as_py())))
    assert near([whole, alone, other], store) == {expected}


def test_a_stretch_of_a_recording_that_also_landed_alone_is_found(store):
    samples = voice(30)
    noise = np.random.default_rng(1).normal(0, 0.002, 10 * RATE_HZ).astype(np.float32)
    whole = make.cut(of_sound(store, samples), (0.0, 10.0), (10.0, 20.0), (20.0, 30.0))
    alone = make.as_units(of_sound(store, 0.5 * samples[10 * RATE_HZ : 20 * RATE_HZ] + noise))
    other = make.as_units(of_sound(store, voice(10, seed=5)))
    parent = whole["parent_digest"][0].as_py()
    expected = tuple(sorted((f"{parent}/1", alone["digest"][0].as_py())))
    assert near([whole, alone, other], store) == {expected}


def _lengths(texts, settings):
    return [{"length": np.array([len(text)], np.uint64)} for text in texts]


def _named(row, store):
    from contextlib import nullcontext

    return nullcontext(f"{row['parent_digest']} {row['span_start_s']}")


def test_a_tier_that_knows_no_spans_is_asked_for_each(store):
    tier = dedup.Tier(
        modality="audio", method="length", methods=("length",), opened=_named, fingerprint=_lengths,
        pairs=lambda prints, *, settings, advance: [], bound=lambda settings: 1.0, finds="", source="",
    )  # fmt: skip
    units = make.cut(tracks("audio", {"digest": "ab"}), (0.0, 1.0), (10.0, 12.0))
    table = dedup.fingerprint(units, [tier], store=store, settings=SETTINGS)
    assert [row["hashes"] for row in table.to_pylist()] == [[len("ab 0.0")], [len("ab 10.0")]]
