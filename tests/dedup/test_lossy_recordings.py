"""Of a recording that is lossy and files without loss that were saved of it the recording stays, and the other way
round where it was coded from one of them."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import soundfile
from imageio_ffmpeg import get_ffmpeg_exe

from benchmarks.dedup_edits.audio import inspected, near_pairs, song
from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import anchors, fingerprints
from mmlake.dedup.matching import DECODERS_DB, UNLOST_DB
from mmlake.dedup.stars.saved import Files, by_codecs
from mmlake.dedup.stars.survivors import Standing

RATE_HZ = 44_100
CODECS = {
    "mp3": ("libmp3lame", "-b:a", "128k"),
    "ogg": ("libvorbis", "-q:a", "4"),
    "m4a": ("aac", "-b:a", "128k"),
}


def ffmpeg(*arguments):
    subprocess.run([get_ffmpeg_exe(), "-v", "fatal", "-y", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A song as WAV, coded by each codec, and what was decoded from these and edited."""
    folder, rng = tmp_path_factory.mktemp("lossy"), np.random.default_rng(8)
    source = folder / "source.wav"
    soundfile.write(source, song(rng, 6.0, RATE_HZ), RATE_HZ, subtype="PCM_16")
    paths = {"source": source}
    for kind, (codec, *options) in CODECS.items():
        paths[kind] = folder / f"song.{kind}"
        ffmpeg("-i", source, "-c:a", codec, *options, paths[kind])
        for ending, how in (("wav", ("-c:a", "pcm_s16le")), ("flac", ())):
            paths[f"{ending} of {kind}"] = folder / f"{kind}.{ending}"
            ffmpeg("-i", paths[kind], *how, paths[f"{ending} of {kind}"])
        samples, rate_hz = soundfile.read(paths[f"wav of {kind}"], dtype="float32")
        edits = {"quieter": 0.5 * samples, "shorter": samples[len(samples) // 12 :]}
        for name, one in edits.items():
            paths[f"{name} {kind}"] = folder / f"{name}-{kind}.wav"
            soundfile.write(paths[f"{name} {kind}"], one, rate_hz, subtype="PCM_16")
    return {name: inspected(path) for name, path in paths.items()}


def survivors(files, *names):
    """Those that stay, whatever their digests are."""
    found = []
    for digests in (
        [f"{at:064x}" for at in range(len(names))],
        [f"{len(names) - at:064x}" for at in range(len(names))],
    ):
        pairs = near_pairs([(0, name, *files[name]) for name in names], digests, DedupSettings())
        gone = {right for _, right, relation in pairs if relation != "overlaps"}
        found.append({name for name, digest in zip(names, digests, strict=True) if digest not in gone})
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("copy", ["wav of", "flac of", "quieter", "shorter"])
def test_what_was_saved_of_a_lossy_file_goes_for_it(files, kind, copy):
    assert survivors(files, kind, f"{copy} {kind}") == {kind}


@pytest.mark.parametrize("kind", CODECS)
def test_a_file_without_loss_stays_before_what_was_coded_from_it_and_saved_again(files, kind):
    assert survivors(files, "source", kind) == {"source"}
    assert survivors(files, "source", kind, f"wav of {kind}") == {"source"}
    assert survivors(files, "source", "mp3", "ogg", "m4a", "wav of mp3", "flac of ogg") == {"source"}


@pytest.mark.parametrize("kind", CODECS)
def test_a_lossy_file_stays_before_its_edits_and_what_was_coded_from_these(files, kind):
    edits = [f"{edit} {kind}" for edit in ("wav of", "flac of", "quieter", "shorter")]
    assert survivors(files, kind, *edits) == {kind}


def test_faint_even_noise_makes_no_mp3_of_a_recording_its_original(tmp_path):
    """The codec cuts the noise off, and where it codes it at times it seems to be contents."""
    rng = np.random.default_rng(3)
    sound = song(rng, 5.0, 16_000)
    upper = np.interp(np.arange(5 * RATE_HZ) / RATE_HZ, np.arange(len(sound)) / 16_000, sound)
    soundfile.write(tmp_path / "a.wav", upper + rng.normal(0, 1e-3, len(upper)), RATE_HZ, subtype="PCM_16")
    ffmpeg("-i", tmp_path / "a.wav", "-b:a", "128k", tmp_path / "a.mp3")
    ffmpeg("-i", tmp_path / "a.mp3", tmp_path / "b.wav")
    files = {name: inspected(tmp_path / name) for name in ("a.wav", "a.mp3", "b.wav")}
    assert survivors(files, "a.wav", "a.mp3") == {"a.wav"}
    assert survivors(files, "a.wav", "a.mp3", "b.wav") == {"a.wav"}


def test_a_codec_moves_levels_and_edits_do_not(files):
    prints = {name: anchors.unpacked(anchors.words(samples)) for name, (_, samples) in files.items()}
    for kind in CODECS:
        assert anchors.coded_db(prints[f"quieter {kind}"], prints[kind]) <= UNLOST_DB
        assert anchors.coded_db(prints[f"shorter {kind}"], prints[kind]) <= UNLOST_DB
        assert anchors.coded_db(prints[kind], prints["source"]) > DECODERS_DB
    assert np.isnan(anchors.coded_db(prints["mp3"], prints["quieter ogg"]))  # no codec makes it so much louder


def test_silence_and_what_is_shorter_than_a_moment_have_no_anchors():
    assert not len(anchors.words(np.zeros(16_000, np.float32)))
    assert not len(anchors.words(np.ones(2_000, np.float32)))
    empty = anchors.unpacked(np.empty(0, np.uint64))
    assert np.isnan(anchors.coded_db(empty, empty))


def stay(apart, is_lossless, kbps=None):
    """Positions that stay. apart: (copy, original) -> dB. kbps: of one channel that reaches to 16 kHz."""
    num = len(is_lossless)
    rates = np.full(num, 128.0) if kbps is None else np.array(kbps, np.float64)
    files = Files(np.array(is_lossless, np.float64), rates, np.ones(num), np.full((num, 2), 16_000.0))

    def made_of(copies, originals):
        pairs = zip(copies.tolist(), originals.tolist(), strict=True)
        return np.array([apart.get(pair, apart.get(pair[::-1], np.nan)) for pair in pairs])

    return np.flatnonzero(by_codecs(np.arange(num), made_of, files)).tolist()


def test_what_several_were_saved_of_stays_before_what_a_copy_was_saved_as():
    """0 is lossy, 1 to 3 were saved of it; 4 was coded anew and saved, so 0 is as far from it as from an original."""
    apart = {(0, 1): 0.0, (0, 2): 0.0, (0, 3): 0.01, (0, 4): 0.5}
    assert stay(apart, [0, 1, 1, 1, 1]) == [0]
    assert stay({(0, 1): 0.0, (0, 4): 0.5}, [0, 1, 1, 1, 1]) == [2, 3, 4]  # with one copy it may have been decoded
    assert stay({}, [0, 1]) == [0, 1]
    assert stay({}, [0, 0]) == [0, 1]


@pytest.mark.parametrize("rms_db", [-45, -52])
def test_rounding_of_a_faint_recording_is_no_codec(tmp_path, rms_db):
    """16 bits move the valleys of its spectrum as a codec does, and once more where it was made quieter."""
    sound = song(np.random.default_rng(4), 6.0, 16_000)
    sound *= 10 ** (rms_db / 20) / np.sqrt((sound**2).mean())
    soundfile.write(tmp_path / "a.wav", sound, 16_000, subtype="PCM_16")
    ffmpeg("-i", tmp_path / "a.wav", "-b:a", "64k", tmp_path / "a.mp3")
    ffmpeg("-i", tmp_path / "a.mp3", "-c:a", "pcm_s16le", tmp_path / "b.wav")
    samples, rate_hz = soundfile.read(tmp_path / "b.wav")
    soundfile.write(tmp_path / "c.wav", 0.7 * samples, rate_hz, subtype="PCM_16")
    files = {name: inspected(tmp_path / name) for name in ("a.wav", "a.mp3", "b.wav", "c.wav")}
    assert survivors(files, "a.mp3", "b.wav") == {"a.mp3"}
    assert survivors(files, "a.mp3", "c.wav") == {"a.mp3"}
    assert survivors(files, "a.mp3", "a.wav") == {"a.wav"}


def test_a_lossy_file_stays_before_what_was_coded_from_it_with_more_bits(tmp_path):
    """No encoder leaves so little of what 64 kbit/s take away, so the one with fewer bits came first; of two that were
    coded from one source that with more bits stays."""
    soundfile.write(tmp_path / "a.wav", song(np.random.default_rng(8), 6.0, RATE_HZ), RATE_HZ, subtype="PCM_16")
    ffmpeg("-i", tmp_path / "a.wav", "-b:a", "64k", tmp_path / "a.mp3")
    ffmpeg("-i", tmp_path / "a.wav", "-b:a", "320k", tmp_path / "b.mp3")
    ffmpeg("-i", tmp_path / "a.mp3", "-b:a", "320k", tmp_path / "c.mp3")
    files = {name: inspected(tmp_path / name) for name in ("a.mp3", "b.mp3", "c.mp3")}
    assert survivors(files, "a.mp3", "c.mp3") == {"a.mp3"}
    assert survivors(files, "a.mp3", "b.mp3") == {"b.mp3"}


@pytest.mark.parametrize(("kbps", "least_db"), [(100, 0.4), (150, 0.12), (170, UNLOST_DB)])
def test_what_an_encoder_leaves_at_the_least_depends_on_its_bits(kbps, least_db):
    """0 has fewer bits than 1; where 1 is nearer than the encoder of 0 leaves its source, it was coded from 0. 2 has no
    loss, and less lies between it and 0 than that."""
    assert stay({(0, 1): least_db - 0.002}, [0, 0], [kbps, 320]) == [0]
    assert stay({(0, 1): least_db + 0.002}, [0, 0], [kbps, 320]) == [0, 1]
    assert stay({(0, 1): least_db - 0.002}, [0, 0], [kbps, kbps]) == [0, 1]
    apart = {(0, 1): least_db - 0.002, (0, 2): least_db - 0.002, (1, 2): 0.02}
    assert stay(apart, [0, 0, 1], [kbps, 320, np.nan]) == [0]


def test_the_reason_says_that_the_other_one_was_coded_from_it():
    known = {"rate": (64.0, 320.0), "lossless": (0.0, 0.0)}
    values = np.array([known.get(one.name, (np.nan, np.nan)) for one in fingerprints.FIDELITY]).T
    nothing = np.zeros(2, np.int64)
    standing = Standing(np.arange(2), nothing, nothing == 0, fingerprints.FIDELITY, values)
    assert "the other one was coded from, with more bits" in standing.reason(0, 1)
    assert "more bits a second for its codec" in standing.reason(1, 0)
