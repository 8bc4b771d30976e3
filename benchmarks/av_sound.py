"""CPU seconds from a file of sound to its mono 16 kHz track and its log-mel spectrogram, next to librosa's load and
melspectrogram; what fingerprints cost over a plain decode; and how many seconds of sound voice detection and alignment
do per CPU second.

    python -m venv benchmarks/peers/librosa && benchmarks/peers/librosa/bin/pip install librosa==0.11.0
    OMP_NUM_THREADS=1 python benchmarks/av_sound.py RECORDING [--seconds 120] [--rounds 3] [--limit 4]

RECORDING: speech, from which files of each format are made, with noise, at 44.1 and 48 kHz. Ours is all that a lake and
a trainer do: the file is decoded at its time stamps, checked, mixed to mono, resampled and kept as FLAC
(`audio_track`), and that is decoded again to a log-mel spectrogram (`mmlake.loader`, `log_mel`). librosa decodes,
mixes, resamples and takes the spectrogram, keeps nothing and checks nothing. `once` is its time over all of ours,
`later` over what is left when the track is there, as in every epoch but the first. Each runs alone on one thread, one
after the other in each round; times are the least of all rounds, those of librosa with the ffmpeg that it starts for
AAC.
Voices for the alignment are those of eSpeak NG.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import soundfile
import soxr

from mmlake.dedup.audio.fingerprints import fingerprint
from mmlake.loader import DECODERS
from mmlake.media.decoders import frames, open_media
from mmlake.preprocess import AlignSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.transcripts.align import Aligner
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.sample import voices
from mmlake.sample.sentences import spoken
from mmlake.speech.vad import silero

PEER = Path(__file__).parent / "peers" / "librosa" / "bin" / "python"
# the peer's program: one line per file and round, of CPU seconds to the samples, and to the spectrogram
PROGRAM = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
import librosa
def cpu_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
def mel(path):
    begin = cpu_s()
    samples, _ = librosa.load(path, sr=16000)
    loaded = cpu_s()
    power = librosa.feature.melspectrogram(y=samples, sr=16000, n_fft=400, hop_length=160, n_mels=80)
    librosa.power_to_db(power)
    return loaded - begin, cpu_s() - loaded
mel(sys.argv[1])  # what is compiled and loaded at first use
for path in sys.argv[1:]:
    print(json.dumps(mel(path)), flush=True)
"""
CODECS = {"mp3": ("libmp3lame", 128_000), "m4a": ("aac", 128_000), "opus": ("libopus", 64_000)}


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(function: Callable[[], object]) -> float:
    begin = cpu_s()
    function()
    return cpu_s() - begin


def encoded(samples: np.ndarray, rate_hz: int, path: Path) -> Path:
    """The samples, of shape (num_samples, num_channels), in the format that the name ends in."""
    if path.suffix in (".wav", ".flac"):
        soundfile.write(path, samples, rate_hz, subtype="PCM_16")
        return path
    codec, bit_rate = CODECS[path.suffix[1:]]
    layout = "stereo" if samples.shape[1] == 2 else "mono"
    with av.open(path, "w") as file:
        stream = file.add_stream(codec, rate=rate_hz, layout=layout)
        stream.bit_rate = bit_rate
        stream.open()
        shaped = av.AudioResampler(stream.format, layout, rate_hz, stream.codec_context.frame_size or 1024)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate_hz, 0
        for part in (*shaped.resample(frame), *shaped.resample(None), None):
            file.mux(stream.encode(part))
    return path


def files(recording: Path, seconds: float, folder: Path) -> list[Path]:
    """The recording in each format, in mono and in stereo."""
    with soundfile.SoundFile(recording) as sound:
        source = sound.read(round(seconds * sound.samplerate), dtype="float32", always_2d=True).mean(axis=1)
        source_hz = sound.samplerate
    rng, made = np.random.default_rng(7), []
    for ending, rates in (
        ("mp3", (44_100,)),
        ("flac", (44_100, 48_000)),
        ("opus", (48_000,)),
        ("m4a", (44_100,)),
        ("wav", (44_100, 48_000, 16_000)),
    ):
        for rate_hz in rates:
            loud = soxr.resample(source, source_hz, rate_hz)
            loud *= 0.5 / np.abs(loud).max()
            both = np.stack([loud, 0.8 * np.roll(loud, 11)], axis=1) + rng.normal(0, 0.004, (len(loud), 2))
            for num_channels in (2, 1):
                samples = both[:, :num_channels].astype(np.float32)
                name = f"{ending}-{rate_hz}-{'stereo' if num_channels == 2 else 'mono'}.{ending}"
                made.append(encoded(samples, rate_hz, folder / name))
    return made


def peer(paths: Sequence[Path], folder: Path) -> list[list[float]]:
    """(loading, spectrogram) of each file in CPU seconds, by librosa, with ffmpeg where it needs that."""
    (folder / "ffmpeg").unlink(missing_ok=True)
    (folder / "ffmpeg").symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": ""}
    command = [str(PEER), "-c", PROGRAM, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(path: Path) -> tuple[float, float]:
    """(file to track, track to spectrogram) in CPU seconds."""
    kept: list[bytes] = []
    track_s = timed(lambda: kept.append(audio_track(path, settings=PreprocessSettings())[1]))
    return track_s, timed(lambda: DECODERS["log_mel"](kept[0]))


def decoded(path: Path) -> None:
    """Plain decode, as a player does it: nothing is mixed, resampled or kept."""
    with open_media(path) as container:
        for _ in frames(container, container.streams.audio[0]):
            pass


def prints(recording: Path, seconds: float, rounds: int) -> None:
    """Fingerprints of the kept track, its decoding included, as a share of a plain decode of the file."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"\nCPU seconds of {seconds:g} s of sound, least of {rounds} rounds")
        print(f"{'file':<20}{'decode':>8}{'prints':>8}{'share':>8}")
        for path in files(recording, seconds, Path(folder)):
            track = audio_track(path, settings=PreprocessSettings())[1]
            fingerprint(track)
            plain_s = min(timed(lambda path=path: decoded(path)) for _ in range(rounds))
            print_s = min(timed(lambda track=track: fingerprint(track)) for _ in range(rounds))
            print(f"{path.stem:<20}{plain_s:8.3f}{print_s:8.3f}{print_s / plain_s:8.2f}")


def compare(recording: Path, seconds: float, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = files(recording, seconds, Path(folder))
        ours(made[0])
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append([ours(path) for path in made])
            theirs.append(peer(made, Path(folder)))
        print(f"CPU seconds of {seconds:g} s of sound, least of {rounds} rounds")
        print(f"{'file':<20}{'track':>8}{'log-mel':>9}{'load':>8}{'mel':>8}{'once':>7}{'later':>7}")
        once, later = [], []
        for at, path in enumerate(made):
            track_s, mel_s = (min(one[at][part] for one in mine) for part in (0, 1))
            load_s, peer_s = (min(one[at][part] for one in theirs) for part in (0, 1))
            once.append((load_s + peer_s) / (track_s + mel_s))
            later.append((load_s + peer_s) / mel_s)
            numbers = f"{track_s:8.3f}{mel_s:9.3f}{load_s:8.3f}{peer_s:8.3f}{once[-1]:7.2f}{later[-1]:7.2f}"
            print(f"{path.stem:<20}{numbers}")
        for name, ratios in (("once", once), ("later", later)):
            print(f"geometric mean, {name}: {np.exp(np.mean(np.log(ratios))):.2f}")


def speeds(recording: Path, seconds: float, limit: int) -> None:
    """Seconds of sound per CPU second."""
    _, flac = audio_track(recording, settings=PreprocessSettings())
    silero(io.BytesIO(flac))
    length_s = soundfile.info(io.BytesIO(flac)).duration
    print(f"voice detection: {length_s / timed(lambda: silero(io.BytesIO(flac))):.0f} x real time ({length_s:.0f} s)")
    if voices.engine() != "espeak-ng":
        sys.exit("alignment: espeakng-loader is not installed")
    aligner, rng = Aligner(AlignSettings()), np.random.default_rng(11)
    for name, ratio_db in (("in quiet", None), ("at 10 dB, denoised", 10.0)):
        total_s, used_s, num_words = 0.0, 0.0, 0
        for number in range(limit + 1):
            said = voices.utterance(spoken(31_000 + number, 5), number)
            sound = np.concatenate(*[list(parts) for parts in voices.speak_parts([said], seed=number)])
            sound = np.pad(sound, voices.RATE_HZ)
            if ratio_db is not None:
                sound += rng.normal(0, np.sqrt(np.mean(sound**2) / 10 ** (ratio_db / 10)), len(sound))
            soundfile.write(sink := io.BytesIO(), sound, voices.RATE_HZ, format="FLAC", subtype="PCM_16")
            speech = silero(sink)
            begin = cpu_s()
            found = aligner.align(sink.getvalue(), [Cue(said.text)], speech)
            took_s = cpu_s() - begin
            if number:  # the first one loads the model
                total_s, used_s = total_s + len(sound) / voices.RATE_HZ, used_s + took_s
                num_words += len(found.words)
        print(f"alignment {name}: {total_s / used_s:.0f} x real time ({total_s:.0f} s, {num_words} words)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=4, help="recordings to align")
    chosen = parser.parse_args()
    prints(chosen.recording, chosen.seconds, chosen.rounds)
    if PEER.exists():
        compare(chosen.recording, chosen.seconds, chosen.rounds)
    speeds(chosen.recording, chosen.seconds, chosen.limit)


if __name__ == "__main__":
    main()
