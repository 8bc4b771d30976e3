"""Edits of recordings: read sentences, a lecture, meetings, spoken digits and generated music.

    python -m benchmarks.dedup_edits.audio ../shared/data

The peer is plain Chromaprint: FFmpeg's muxer, which equals fpcalc, and the least share of different bits over 60 words
(bound .33 from 10 s, .15 to 7 s, a line between them).
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import soundfile
import soxr
from numpy.typing import NDArray

from benchmarks.dedup_edits import Edit, Report
from mmlake import dedup, schemas
from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import fingerprints
from mmlake.dedup.criteria import CLOSENESS
from mmlake.media.decoders import placed_sound
from mmlake.quality.audio import _Source
from mmlake.quality.audio_fidelity import coded_kbps, is_lossless

Samples = NDArray[np.float32]
_ORIGINAL = "original"
_CODED = {
    "MP3 64k": ("mp3", ("-c:a", "libmp3lame", "-b:a", "64k")),
    "MP3 128k": ("mp3", ("-c:a", "libmp3lame", "-b:a", "128k")),
    "Opus 8k": ("opus", ("-c:a", "libopus", "-b:a", "8k")),
    "Opus 24k": ("opus", ("-c:a", "libopus", "-b:a", "24k")),
    "telephone (AMR 12.2k)": ("amr", ("-ar", "8000", "-ac", "1", "-c:a", "libopencore_amrnb", "-b:a", "12.2k")),
    "8 kHz": ("wav", ("-ar", "8000", "-c:a", "pcm_s16le")),
    "8 bit": ("wav", ("-c:a", "pcm_u8")),
    "EQ +-8 dB": (
        "wav",
        ("-af", "equalizer=f=200:t=o:w=1.5:g=8,equalizer=f=1000:t=o:w=1.5:g=-8,volume=0.5", "-c:a", "pcm_s16le"),
    ),
    "tempo 5 %": ("wav", ("-af", "atempo=1.05", "-c:a", "pcm_s16le")),
}


def program() -> str:
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def song(rng: np.random.Generator, seconds: float, rate_hz: int) -> Samples:
    """Chords, a melody and drums over faint noise."""
    out, beat_s = rng.normal(0, 1e-3, int((seconds + 4) * rate_hz)), rng.uniform(0.3, 0.7)
    weights, root = rng.random(6) / np.arange(1, 7), rng.integers(12)
    for beat in range(int(seconds / beat_s)):
        at, time = int(beat * beat_s * rate_hz), np.arange(int(beat_s * 1.6 * rate_hz)) / rate_hz
        for step in rng.choice([0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 19], 3, replace=False):
            hertz = 110 * 2 ** ((root + step) / 12)
            tone = sum(w * np.sin(2 * np.pi * k * hertz * time) for k, w in enumerate(weights, 1))
            out[at : at + len(time)] += tone * np.exp(-3 * time)
        hit = int(0.06 * rate_hz)
        out[at : at + hit] += rng.normal(0, 1.5, hit) * np.exp(-np.arange(hit) / hit * 6)
    out = out[: int(seconds * rate_hz)]
    return (0.4 * out / np.abs(out).max()).astype(np.float32)


def _originals(data: Path, folder: Path, rng: np.random.Generator, limit: int) -> Iterator[Path]:
    """Recordings of which none shares sound with another."""
    found = [
        *sorted((data / "landing/audio").glob("spk*_snt*.wav")),
        *sorted((data / "more/audio").glob("meeting*.wav")),
    ]
    digits = sorted((data / "landing/audio").glob("[0-9]_*_0.wav"))
    found += [digits[at] for at in rng.permutation(len(digits))[: limit // 8]]
    yield from found[: limit // 2]
    for at in range(limit - min(len(found), limit // 2)):
        path, rate_hz = folder / f"song{at}.wav", (44_100, 48_000)[at % 2]
        one = song(rng, rng.uniform(10, 25), rate_hz)
        both = np.stack([one, 0.8 * np.roll(one, 50) + rng.normal(0, 1e-3, len(one))], axis=1)
        soundfile.write(path, both if at % 3 == 0 else one, rate_hz, subtype="PCM_24" if at % 2 else "PCM_16")
        yield path


def _copies(original: Path, folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Path]]:
    yield _ORIGINAL, original
    stem = f"{original.stem}-{rng.integers(1 << 40)}"
    for name, (kind, arguments) in _CODED.items():
        path = folder / f"{stem}-{name.replace(' ', '')}.{kind}"
        subprocess.run([program(), "-v", "error", "-y", "-i", original, *arguments, path], check=True)
        yield name, path
    samples, rate_hz = soundfile.read(original, always_2d=True, dtype="float32")
    level = float(np.sqrt((samples**2).mean()))
    under = song(rng, len(samples) / rate_hz + 1, rate_hz)[: len(samples), None]
    silence = np.zeros((rate_hz // 2, samples.shape[1]), np.float32)
    changed: dict[str, Samples] = {
        "gain -6 dB": 0.5 * samples,
        "gain +6 dB": 1.995 * samples,
        "noise at 20 dB": samples + rng.normal(0, level * 0.1, samples.shape),
        "noise at 10 dB": samples + rng.normal(0, level * 10**-0.5, samples.shape),
        "music underneath": samples + under * 0.5 * level / float(np.sqrt((under**2).mean())),
        "trim 10 %": samples[len(samples) // 10 :],
        "padding": np.concatenate([silence, samples, silence]),
        "speed 1 %": soxr.resample(samples, rate_hz * 1.01, rate_hz),
        "16 bit": samples if soundfile.info(original).subtype == "PCM_24" else np.empty((0, 1), np.float32),
        "mono": samples.mean(axis=1, keepdims=True) if samples.shape[1] > 1 else np.empty((0, 1), np.float32),
    }
    for name, one in changed.items():
        if len(one):
            path = folder / f"{stem}-{name.replace(' ', '')}.wav"
            soundfile.write(path, np.clip(one, -1, 1), rate_hz, subtype="PCM_16")
            yield name, path


def inspected(path: Path) -> tuple[dict[str, float | None], Samples]:
    """(the measures that decide who stays, mono samples at 16 kHz)."""
    source, parts, rate = _Source(), [], 16_000
    for rate_hz, _, block in placed_sound(path):
        source.add(block, rate_hz)
        parts.append(block.mean(axis=1))
        rate = rate_hz
    mono = soxr.resample(np.concatenate(parts), rate, fingerprints.RATE_HZ)
    measures = source.found(is_lossless(path), coded_kbps(path)) | {"duration_s": len(mono) / fingerprints.RATE_HZ}
    return measures, mono.astype(np.float32)


def _plain(samples: Samples) -> NDArray[np.uint32]:
    pcm = np.clip(np.rint(samples * 32_767), -32_768, 32_767).astype("<i2")
    given = [program(), "-v", "error", "-f", "s16le", "-ar", "16000", "-ac", "1", "-i", "-"]
    run = subprocess.run([*given, "-f", "chromaprint", "-fp_format", "raw", "-"], input=pcm.tobytes(), stdout=-1)
    return np.frombuffer(run.stdout, "<u4")


def _is_plain_match(one: NDArray[np.uint32], other: NDArray[np.uint32], duration_s: float) -> bool:
    bound = float(np.interp(duration_s, [7.0, 10.0], [0.15, 0.33]))
    num = min(len(one), len(other), 60)
    for shift in range(-len(other) + num, len(one) - num + 1) if num else ():
        left, right = one[max(0, shift) :], other[max(0, -shift) :]
        both = min(len(left), len(right))
        wrong = np.cumsum(np.concatenate(([0], np.bitwise_count(left[:both] ^ right[:both]).astype(np.int64))))
        if both >= num and (wrong[num:] - wrong[:-num]).min() / (32 * num) < bound:
            return True
    return False


def edits(data: Path, *, seed: int, limit: int) -> Report:
    """Which edits of `limit` recordings are found, and who stays."""
    rng, settings = np.random.default_rng(seed), DedupSettings()
    rows: list[tuple[int, str, dict[str, float | None], Samples]] = []
    with tempfile.TemporaryDirectory() as place:
        for family, original in enumerate(_originals(data, Path(place), rng, limit)):
            rows += [(family, name, *inspected(path)) for name, path in _copies(original, Path(place), rng)]
    names = [f"{at:064x}" for at in rng.permutation(len(rows)).tolist()]
    near = near_pairs(rows, names, settings)
    gone = {right for left, right, relation in near if relation != "overlaps"}
    family_of = {name: row[0] for name, row in zip(names, rows, strict=True)}
    false = sum(family_of[left] != family_of[right] for left, right, relation in near)
    cluster = clusters(names, near)
    firsts = {row[0]: (name, row) for name, row in zip(names, rows, strict=True) if row[1] == _ORIGINAL}
    plain: dict[int, Callable[[Samples], bool]] = {}
    for family, (_, row) in firsts.items():
        print_ = _plain(row[3])
        plain[family] = lambda samples, mine=print_: _is_plain_match(_plain(samples), mine, len(samples) / 16_000)
    table = []
    for edit in dict.fromkeys(row[1] for row in rows if row[1] != _ORIGINAL):
        mine = [(name, row) for name, row in zip(names, rows, strict=True) if row[1] == edit]
        ours = np.mean([cluster[name] == cluster[firsts[row[0]][0]] for name, row in mine])
        theirs = np.mean([plain[row[0]](row[3]) for _, row in mine])
        table.append(Edit(edit, len(mine), float(ours), "chromaprint", float(theirs)))
    left_of = {right: left for left, right, relation in near if relation != "overlaps"}
    edit_of = {name: row[1] for name, row in zip(names, rows, strict=True)}
    beaten = [edit_of[left_of[name]] for name, _ in firsts.values() if name in left_of]
    stay = float(np.mean([name not in gone for name, _ in firsts.values()]))
    missed = ["below 2 s noise at 10 dB, music underneath and Opus 8k leave too few bits that are firm"]
    num_pairs = len(firsts) * (len(firsts) - 1) // 2
    return Report("audio", table, num_pairs, false, stay, len(firsts), missed, beaten)


def near_pairs(
    rows: list[tuple[int, str, dict[str, float | None], Samples]], names: list[str], settings: DedupSettings
) -> list[tuple[str, str, str]]:
    prints = [fingerprints.fingerprint_samples(row[3]) for row in rows]
    table = schemas.from_columns(
        schemas.FINGERPRINTS,
        {
            "digest": [name for name in names for _ in fingerprints.METHODS],
            "method": [method for _ in names for method in fingerprints.METHODS],
            "hashes": [one[method] for one in prints for method in fingerprints.METHODS],
            "times_s": [np.empty(0, np.float32) for _ in names for _ in fingerprints.METHODS],
            "status": ["ok"] * (len(names) * len(fingerprints.METHODS)),
            "error_code": pa.nulls(len(names) * len(fingerprints.METHODS), pa.int32()),
            "error": pa.nulls(len(names) * len(fingerprints.METHODS), pa.string()),
        },
    )
    criteria = {one.name: one.column for one in fingerprints.FIDELITY if one is not CLOSENESS}
    nodes = pa.table(
        {"digest": names, "priority": [0] * len(names), "is_clean": [True] * len(names)}
        | {name: pa.array([row[2].get(column) for row in rows], pa.float64()) for name, column in criteria.items()}
    )
    pairs = dedup.near_pairs(
        table, dedup.tiers_of("audio"), nodes=nodes, criteria=fingerprints.FIDELITY, settings=settings
    ).to_pylist()
    return [(row["left"], row["right"], row["relation"]) for row in pairs if row["relation"] != "apart"]


def clusters(names: list[str], near: list[tuple[str, str, str]]) -> dict[str, str]:
    """The survivor of each recording; stars are one edge deep."""
    root = {name: name for name in names}
    root |= {right: left for left, right, relation in near if relation != "overlaps"}
    return {name: root[root[name]] for name in names}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/")
    parser.add_argument("--limit", type=int, default=24, help="families")
    parser.add_argument("--seed", type=int, default=12)
    arguments = parser.parse_args()
    print(edits(arguments.data, seed=arguments.seed, limit=arguments.limit).table())
