"""Where long recordings and films are cut: how many borders fall into a word or a shot, how long spans are, what it
costs; against windows of 20 s, cuts at shots alone, and pauses of ffmpeg's silencedetect.

    python benchmarks/units.py                      # speech of eSpeak NG with known words, films with known shots
    python benchmarks/units.py --lecture FILE       # pauses against those of silencedetect

Peers: the ffmpeg program of the package imageio-ffmpeg.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import soundfile
from alignment import RATE_HZ, synthesized

from mmlake.preprocess.settings import PreprocessSettings, UnitSettings
from mmlake.preprocess.tiling.places import Spoken
from mmlake.preprocess.tiling.silences import read_levels
from mmlake.preprocess.tiling.units import LongItem, split_film, split_recording
from mmlake.preprocess.transcripts.utterances import of_words
from mmlake.preprocess.video import video_track
from mmlake.sample.sentences import SENTENCES

SETTINGS = UnitSettings()
EDGE_S = 0.02  # so far into a word a border does not count
FRAME_RATE = 12


@dataclass(frozen=True)
class Reading:
    """Sentences read one after the other, with pauses."""

    samples: np.ndarray
    words: list[dict[str, object]]
    sentence_ends: tuple[tuple[float, float], ...]  # each pause after a sentence
    text: str


def reading(first: int, *, snr_db: float | None) -> Reading:
    """About two and a half minutes of one order of the sentences."""
    rng = np.random.default_rng(first)
    texts = [SENTENCES[at] for at in rng.permutation(len(SENTENCES))[:40]]
    parts, words, ends, at_s = [], [], [], 0.0
    for text, one in zip(texts, synthesized(texts, first), strict=True):
        loud = np.flatnonzero(np.abs(one.samples) > 0.003)
        first_at, last_at = loud[0], loud[-1] + 1
        starts = [start - first_at / RATE_HZ + at_s for start in one.starts_s]
        stop = at_s + (last_at - first_at) / RATE_HZ
        spoken = text.split()[: len(starts)]
        words += [
            {"word": word.strip(".,"), "start_s": max(start, at_s), "end_s": end, "score": 1.0}
            for word, start, end in zip(spoken, starts, [*starts[1:], stop], strict=True)
        ]
        pause_s = float(rng.uniform(0.1, 1.2))
        ends.append((stop, stop + pause_s))
        parts += [one.samples[first_at:last_at], np.zeros(round(pause_s * RATE_HZ), np.float32)]
        at_s += (last_at - first_at) / RATE_HZ + round(pause_s * RATE_HZ) / RATE_HZ
    samples = np.concatenate(parts)
    level = 2e-4 if snr_db is None else float(np.sqrt(np.mean(samples**2))) * 10 ** (-snr_db / 20)
    noise = rng.normal(0, level, len(samples))
    return Reading((samples + noise).astype(np.float32), words, tuple(ends), " ".join(texts))


def write(samples: np.ndarray, path: Path) -> Path:
    soundfile.write(path, np.clip(samples, -1, 1), RATE_HZ, format="FLAC", subtype="PCM_16")
    return path


def detected(path: Path, bound_db: float, least_s: float) -> np.ndarray:
    """The silences that ffmpeg finds."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-af", f"silencedetect=n={bound_db}dB:d={least_s}"]
    said = subprocess.run([*command, "-f", "null", "-"], capture_output=True, text=True, check=True).stderr
    starts = [float(value) for value in re.findall(r"silence_start: (-?[\d.]+)", said)]
    ends = [float(value) for value in re.findall(r"silence_end: ([\d.]+)", said)]
    ends += [soundfile.info(path).duration] * (len(starts) - len(ends))
    return np.array([*zip(starts, ends, strict=True)]).reshape(-1, 2)


def windows(length_s: float) -> list[float]:
    return [float(at) for at in np.arange(20, length_s, 20)]


def packed(pauses: np.ndarray, length_s: float) -> list[float]:
    """The last pause that makes a span of 10 to 30 s, else 30 s: how a list of silences is used."""
    borders, at = [], 0.0
    while length_s - at > 30:
        middles = [float(start + end) / 2 for start, end in pauses if 10 < (start + end) / 2 - at <= 30]
        at = middles[-1] if middles else at + 30
        borders.append(at)
    return borders


def scores(borders: Sequence[float], one: Reading, length_s: float) -> np.ndarray:
    """[borders, in a word, at the end of a sentence, spans, of 10 to 30 s]."""
    cut = sum(any(word["start_s"] + EDGE_S < at < word["end_s"] - EDGE_S for word in one.words) for at in borders)
    ended = sum(any(start - EDGE_S <= at <= end + EDGE_S for start, end in one.sentence_ends) for at in borders)
    lengths = np.diff([0.0, *borders, length_s])
    return np.array([len(borders), cut, ended, len(lengths), ((lengths >= 9.99) & (lengths <= 30.01)).sum()])


def recordings(folder: Path) -> None:
    print("recordings: borders, in a word, at the end of a sentence, spans of 10 to 30 s")
    for name, snr_db in (("clean", None), ("20 dB", 20.0), ("10 dB", 10.0)):
        sums: dict[str, np.ndarray] = {}
        for first in range(6):
            one = reading(first, snr_db=snr_db)
            path, length_s = write(one.samples, folder / "a.flac"), len(one.samples) / RATE_HZ
            length_us = round(length_s * 1e6)
            known = Spoken(words=of_words(one.words, one.text, duration_us=length_us))
            found = {
                "ours": split_recording(LongItem(duration_us=length_us, sound=path), settings=SETTINGS),
                "ours, words": split_recording(
                    LongItem(duration_us=length_us, sound=path, spoken=known), settings=SETTINGS
                ),
            }
            borders = {kind: [piece.end / 1e6 for piece in pieces[:-1]] for kind, pieces in found.items()}
            borders["windows"] = windows(length_s)
            for bound_db in (-30, -40):
                borders[f"silencedetect {bound_db} dB"] = packed(detected(path, bound_db, 0.2), length_s)
            for kind, at in borders.items():
                sums[kind] = sums.get(kind, np.zeros(5)) + scores(at, one, length_s)
        for kind, (num, cut, ended, spans, fit) in sums.items():
            print(f"  {name:6} {kind:22} {num:4.0f} {cut / num:6.3f} {ended / num:6.3f} {fit / spans:6.3f}")


def pauses(folder: Path) -> None:
    print("pauses of 0.2 s and more: precision and recall by time")
    for name, snr_db in (("clean", None), ("20 dB", 20.0), ("10 dB", 10.0)):
        one = reading(7, snr_db=snr_db)
        path, length_us = write(one.samples, folder / "a.flac"), round(len(one.samples) / RATE_HZ * 1e6)
        truth = mask([span for span in one.sentence_ends if span[1] - span[0] >= 0.2], length_us)
        runs = read_levels(path, length_us, settings=SETTINGS).runs_us() / 1e6
        found = {"ours": runs[np.diff(runs, axis=1)[:, 0] >= 0.2]}
        found |= {f"silencedetect {db} dB": detected(path, db, 0.2) for db in (-30, -40, -50)}
        for kind, spans in found.items():
            held = mask(spans, length_us)
            both = (held & truth).sum()
            print(f"  {name:6} {kind:22} {both / max(1, held.sum()):6.3f} {both / truth.sum():6.3f}")


def mask(spans: Sequence[tuple[float, float]] | np.ndarray, length_us: int) -> np.ndarray:
    """Which hundredths of a second the spans hold."""
    held = np.zeros(length_us // 10_000 + 1, bool)
    for start, end in spans:
        held[round(max(start, 0) * 100) : round(end * 100)] = True
    return held


def film(path: Path, seed: int, sound: np.ndarray) -> list[float]:
    """A film of this sound's length; the times of its cuts."""
    rng = np.random.default_rng(seed)
    cuts, at, num_frames = [], 0, round(len(sound) / RATE_HZ * FRAME_RATE)
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=FRAME_RATE, options={"preset": "veryfast", "crf": "23", "bf": "2"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        track = sink.add_stream("aac", rate=RATE_HZ, layout="mono")
        while at < num_frames:
            coarse = rng.integers(0, 256, (9, 22, 3), dtype=np.uint8).repeat(40, 0).repeat(40, 1)
            ground = coarse // 2 + rng.integers(0, 128, (90, 220, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
            length = round(float(rng.choice([rng.uniform(2, 8), rng.uniform(8, 45)])) * FRAME_RATE)
            for step in range(min(length, num_frames - at)):
                view = ground[60:300, step : step + 320] if step < 550 else ground[60:300, 550:870]
                picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(view), format="rgb24")
                picture.pts, picture.time_base = at + step, Fraction(1, FRAME_RATE)
                sink.mux(stream.encode(picture))
            at += length
            cuts.append(at / FRAME_RATE)
        sink.mux(stream.encode())
        for offset in range(0, len(sound), 1024):
            piece = av.AudioFrame.from_ndarray(
                (np.clip(sound[offset : offset + 1024], -1, 1) * 32767).astype(np.int16)[None],
                format="s16",
                layout="mono",
            )
            piece.sample_rate, piece.pts, piece.time_base = RATE_HZ, offset, Fraction(1, RATE_HZ)
            sink.mux(track.encode(piece))
        sink.mux(track.encode())
    return cuts[:-1]


def films(folder: Path) -> None:
    print("films: borders, inside of a shot, in a word, spans of 10 to 30 s; shots shorter than 30 s throughout: same")
    sums: dict[str, np.ndarray] = {}
    for seed in range(4):
        one = reading(10 + seed, snr_db=30.0)
        cuts = film(folder / "a.mp4", seed, one.samples)
        made = video_track(folder / "a.mp4", settings=PreprocessSettings())
        columns, length_us = made.columns, round(made.columns["duration_s"] * 1e6)
        (folder / "b.flac").write_bytes(made.flac or b"")
        item = {
            "duration_us": length_us,
            "sound": folder / "b.flac",
            "film": folder / "a.mp4",
            "num_frames": columns["num_frames"],
            "shots": columns["shots"],
            "signals": {
                name: np.array([row[name] for row in columns["signals"]])
                for name in ("time_s", "luma", "luma_std", "change")
            },
        }
        known = Spoken(words=of_words(one.words, one.text, duration_us=length_us))
        borders = {
            "ours": [piece.end / 1e6 for piece in split_film(LongItem(**item), settings=SETTINGS)[:-1]],
            "ours, words": [
                piece.end / 1e6 for piece in split_film(LongItem(**item, spoken=known), settings=SETTINGS)[:-1]
            ],
            "windows": windows(length_us / 1e6),
            "shots alone": [shot["start_s"] for shot in columns["shots"][1:]],
        }
        for kind, at in borders.items():
            inside = sum(min(abs(border - cut) for cut in cuts) > 0.5 / FRAME_RATE for border in at)
            num, cut, _, spans, fit = scores(at, one, length_us / 1e6)
            sums[kind] = sums.get(kind, np.zeros(5)) + [num, inside, cut, spans, fit]
    for kind, (num, inside, cut, spans, fit) in sums.items():
        print(f"  {kind:22} {num:4.0f} {inside / num:6.3f} {cut / num:6.3f} {fit / spans:6.3f}")


def costs(folder: Path) -> None:
    one = reading(0, snr_db=30.0)
    repeats = 8 * 3600 * RATE_HZ // len(one.samples) + 1
    with soundfile.SoundFile(folder / "a.flac", "w", RATE_HZ, 1, "PCM_16", format="FLAC") as sink:
        for _ in range(repeats):
            sink.write(np.clip(one.samples, -1, 1))
    length_us = round(repeats * len(one.samples) / RATE_HZ * 1e6)
    started = time.process_time()
    pieces = split_recording(LongItem(duration_us=length_us, sound=folder / "a.flac"), settings=SETTINGS)
    print(f"8 hours: {len(pieces)} pieces in {time.process_time() - started:.1f} CPU s")


def lecture(source: Path, folder: Path) -> None:
    """Agreement of pauses with silencedetect on a recording whose truth nobody knows."""
    with av.open(str(source)) as container:
        resampler = av.AudioResampler("s16", "mono", RATE_HZ)
        blocks = [made.to_ndarray()[0] for frame in container.decode(audio=0) for made in resampler.resample(frame)]
    samples = np.concatenate(blocks).astype(np.float32) / 32768
    path, length_us = write(samples, folder / "a.flac"), round(len(samples) / RATE_HZ * 1e6)
    ours = read_levels(path, length_us, settings=SETTINGS).runs_us() / 1e6
    held = mask(ours[np.diff(ours, axis=1)[:, 0] >= 0.2], length_us)
    for db in (-30, -35, -40, -50):
        other = mask(detected(path, db, 0.2), length_us)
        both = (held & other).sum()
        print(
            f"  {source.name} {db} dB: {both / max(1, held.sum()):.3f} of ours, {both / max(1, other.sum()):.3f} of it"
        )


def main() -> None:
    """Prints the tables of benchmarks/README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lecture", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for source in arguments.lecture:
            lecture(source, Path(name))
        if not arguments.lecture:
            for part in (recordings, pauses, films, costs):
                part(Path(name))


if __name__ == "__main__":
    main()
