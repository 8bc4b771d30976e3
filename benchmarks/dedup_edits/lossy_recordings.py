"""Who stays of recordings that are MP3, Vorbis, AAC or Opus, and of edits of them that were saved without loss.

    python -m benchmarks.dedup_edits.lossy_recordings ../shared/data --families 14
    python -m benchmarks.dedup_edits.lossy_recordings ../shared/data --lossless
    python -m benchmarks.dedup_edits.lossy_recordings ../shared/data --pairs --families 8 --seed 63

With --lossless the other way round: the original is WAV or FLAC, and among its copies are lossy ones and files without
loss that were decoded from those. With --pairs each original is coded once more by each codec and rate, and asked is
which of the two stays, by whether the copy has clearly more bits a second, as many or fewer. A lecture,
meetings, sentences, a digit, generated music; 8 to 48 kHz.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
import soxr

from benchmarks.dedup_edits.audio import Samples, inspected, near_pairs, program, song
from mmlake.dedup import DedupSettings

_KINDS = {
    "MP3 128": ("mp3", "libmp3lame", "-b:a", "128k"),
    "Vorbis q4": ("ogg", "libvorbis", "-q:a", "4"),
    "AAC 96": ("m4a", "aac", "-b:a", "96k"),
    "Opus 48": ("opus", "libopus", "-b:a", "48k"),
    "MP3 64": ("mp3", "libmp3lame", "-b:a", "64k"),
    "AAC 160": ("m4a", "aac", "-b:a", "160k"),
    "MP3 192": ("mp3", "libmp3lame", "-b:a", "192k"),
    "Vorbis q1": ("ogg", "libvorbis", "-q:a", "1"),
    "Opus 24": ("opus", "libopus", "-b:a", "24k"),
    "MP3 320": ("mp3", "libmp3lame", "-b:a", "320k"),
    "Vorbis q7": ("ogg", "libvorbis", "-q:a", "7"),
    "Opus 96": ("opus", "libopus", "-b:a", "96k"),
    "MP3 96": ("mp3", "libmp3lame", "-b:a", "96k"),
    "AAC 64": ("m4a", "aac", "-b:a", "64k"),
}
_LOWER, _OTHERS = ("MP3 64", "Opus 24"), ("MP3 128", "Vorbis q4", "AAC 160", "Opus 96", "MP3 320")
_FILTERS = {
    "EQ +-8 dB": "equalizer=f=200:t=o:w=1.5:g=8,equalizer=f=1000:t=o:w=1.5:g=-8,volume=0.5",
    "low-pass 3.4 kHz": "lowpass=f=3400:p=2,lowpass=f=3400:p=2",
    "fades": "afade=t=in:d=1,areverse,afade=t=in:d=1,areverse",
    "tempo 5 %": "atempo=1.05",
}
_RESAMPLED = {"8 kHz": "8000", "22 kHz": "22050"}
_EXCERPT_S, _NUM_EXCERPTS = 15, 6
_SONG_RATES_HZ = (44_100, 48_000, 32_000, 22_050)
_DRAWS = (14, 14, 4, 4)  # copies, besides all
_CLEARLY = 1.44  # times the bits


def _run(*arguments: str | Path) -> None:
    subprocess.run([program(), "-v", "error", "-y", *map(str, arguments)], check=True)


def _sources(data: Path, folder: Path, rng: np.random.Generator, limit: int) -> Iterator[Path]:
    """Recordings as WAV, of which a half are music; no two share sound."""
    begins = 20 * rng.permutation(39)[:_NUM_EXCERPTS]
    spoken = [(data / "more/audio/lecture_802s.mp3", int(begin_s)) for begin_s in begins]
    spoken += [(path, 0) for path in sorted((data / "more/audio").glob("meeting*.wav"))]
    spoken += [(path, 0) for path in sorted((data / "landing/audio").glob("spk*_snt*.wav"))]
    digits = sorted((data / "landing/audio").glob("[0-9]_*_31.wav"))
    chosen = [spoken[at] for at in rng.permutation(len(spoken)).tolist()]
    chosen = [(digits[int(rng.integers(len(digits)))], 0), *chosen][: limit // 2]
    for at, (path, begin_s) in enumerate(chosen):
        target = folder / f"{path.stem}{at}.wav"
        _run("-ss", str(begin_s), "-i", path, "-vn", "-t", str(_EXCERPT_S), "-c:a", "pcm_s16le", target)
        yield target
    for at in range(limit - len(chosen)):
        rate_hz = _SONG_RATES_HZ[at % len(_SONG_RATES_HZ)]
        one = song(rng, rng.uniform(8, 20), rate_hz)
        both = np.stack([one, 0.8 * np.roll(one, 50) + rng.normal(0, 1e-3, len(one))], axis=1)
        target = folder / f"song{at}.wav"
        soundfile.write(target, both if at % 2 else one, rate_hz, subtype="PCM_16")
        yield target


def coded(source: Path, folder: Path, kind: str) -> Path:
    """The recording by that codec."""
    ending, codec, *options = _KINDS[kind]
    target = folder / f"{source.stem}-{kind.replace(' ', '')}.{ending}"
    _run("-i", source, "-c:a", codec, *options, target)
    return target


def decoded(source: Path, folder: Path, ending: str = "wav") -> Path:
    """The recording without further loss, in 16 bits as WAV, in as many as its decoder gives as FLAC."""
    target = folder / f"{source.stem}-{source.suffix[1:]}.{ending}"
    _run("-i", source, *(("-c:a", "pcm_s16le") if ending == "wav" else ()), target)
    return target


def copies(shown: Path, folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Path]]:
    """Edits of what is shown, a WAV; files as WAV and FLAC in turn."""
    endings = {name: ("wav", "flac")[at % 2] for at, name in enumerate((*_FILTERS, *_RESAMPLED))}
    for name, how in (_FILTERS | _RESAMPLED).items():
        target = folder / f"{shown.stem}-{name.replace(' ', '')}.{endings[name]}"
        _run("-i", shown, *(("-af", how) if name in _FILTERS else ("-ar", how)), "-sample_fmt", "s16", target)
        yield name, target
    target = folder / f"{shown.stem}-8bit.wav"
    _run("-i", shown, "-c:a", "pcm_u8", target)
    yield "8 bit", target
    samples, rate_hz = soundfile.read(shown, always_2d=True, dtype="float32")
    level = float(np.sqrt((samples**2).mean()))
    silence = np.zeros((rate_hz // 2, samples.shape[1]), np.float32)
    changed: dict[str, Samples] = {
        "gain -6 dB": 0.5 * samples,
        "gain +3 dB": 1.41 * samples,
        "noise at 20 dB": samples + rng.normal(0, level * 0.1, samples.shape),
        "trim 10 %": samples[len(samples) // 10 :],
        "padding": np.concatenate([silence, samples, silence]),
        "speed 1 %": soxr.resample(samples, rate_hz * 1.01, rate_hz),
    }
    if samples.shape[1] > 1:
        changed["mono"] = samples.mean(axis=1, keepdims=True)
    for at, (name, one) in enumerate(changed.items()):
        target = folder / f"{shown.stem}-{name.replace(' ', '')}.{('flac', 'wav')[at % 2]}"
        soundfile.write(target, np.clip(one, -1, 1), rate_hz, subtype="PCM_16")
        yield name, target


def family(
    source: Path, folder: Path, kind: str, rng: np.random.Generator, *, is_lossless: bool
) -> Iterator[tuple[str, Path]]:
    """The original, and its copies."""
    original = decoded(source, folder, ("wav", "flac")[rng.integers(2)]) if is_lossless else coded(source, folder, kind)
    shown = decoded(original, folder)
    yield "original", original
    if not is_lossless:
        yield "WAV", shown
        yield "FLAC", decoded(original, folder, "flac")
    yield from copies(shown, folder, rng)
    others = [name for name in _OTHERS if name[:3] != kind[:3]]
    recoded = kind if is_lossless else others[rng.integers(len(others))]
    for name in dict.fromkeys((*_LOWER, recoded)):
        lossy = coded(shown, folder, name)
        yield f"{'other codec' if name == recoded else name}", lossy
        if is_lossless or name == recoded:
            yield f"WAV of {'other codec' if name == recoded else name}", decoded(lossy, folder)


def print_pairs(data: Path, rng: np.random.Generator, limit: int) -> None:
    """Print how often a lossy original stays before one copy of it that was coded from it."""
    num, kept = Counter[str](), Counter[str]()
    kinds = rng.permutation(list(_KINDS))
    with tempfile.TemporaryDirectory() as place:
        for at, source in enumerate(_sources(data, Path(place), rng, limit)):
            original = coded(source, Path(place), str(kinds[at % len(kinds)]))
            shown, first = decoded(original, Path(place)), (at, "original", *inspected(original))
            for kind in _KINDS:
                copy = (at, kind, *inspected(coded(shown, Path(place), kind)))
                share = (copy[2]["coded_kbps"] or 0) / (first[2]["coded_kbps"] or 1)
                what = "more" if share > _CLEARLY else "fewer" if share < 1 / _CLEARLY else "as many"
                num[what] += 1
                orders = (["a" * 64, "b" * 64], ["b" * 64, "a" * 64])
                found = [near_pairs([first, copy], digests, DedupSettings()) for digests in orders]
                kept[what] += all(
                    not pair or pair[0][0] == digests[0] for pair, digests in zip(found, orders, strict=True)
                )
    for what in num:
        print(f"a copy with {what} bits a second: the original stays in {kept[what]} of {num[what]}")


def main() -> None:
    """Print how often the original stays, and what stays in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/")
    parser.add_argument("--families", type=int, default=len(_KINDS))
    parser.add_argument("--lossless", action="store_true", help="the originals are WAV and FLAC")
    parser.add_argument("--pairs", action="store_true", help="one lossy copy of each at a time")
    parser.add_argument("--seed", type=int, default=31)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    if given.pairs:
        print_pairs(given.data, rng, given.families)
        return
    kinds = rng.permutation(list(_KINDS))
    num, kept, beaten = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        for at, source in enumerate(_sources(given.data, Path(place), rng, given.families)):
            kind = str(kinds[at % len(kinds)])
            files = family(source, Path(place), kind, rng, is_lossless=given.lossless)
            rows = [(at, name, *inspected(path)) for name, path in files]
            for size in (len(rows) - 1, *_DRAWS):
                chosen = 1 + rng.choice(len(rows) - 1, size, replace=False)
                some = [rows[0], *(rows[row] for row in chosen.tolist())]
                digests = [f"{name:064x}" for name in rng.permutation(len(some)).tolist()]
                pairs = near_pairs(some, digests, DedupSettings())
                left_of = {right: left for left, right, relation in pairs if relation != "overlaps"}
                what = "all copies" if size == len(rows) - 1 else f"{size} copies"
                num[what] += 1
                kept[what] += digests[0] not in left_of
                if digests[0] in left_of:
                    stays = some[digests.index(left_of[digests[0]])][1]
                    beaten[f"{stays} ({kind}, {source.stem}, {what})"] += 1
    for what in num:
        print(f"{what}: the original stays in {kept[what]} of {num[what]}")
    print("stays in its place:", ", ".join(f"{name} {times}" for name, times in beaten.most_common()) or "nothing")


if __name__ == "__main__":
    main()
