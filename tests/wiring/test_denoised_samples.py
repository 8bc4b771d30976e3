"""`[cuts] denoiser`: the 16 kHz sound of samples without its noise, whole or cut; everything else as it was."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mmlake import pipeline
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish import update_catalog, update_samples
from mmlake.publish.shard_clock import check_clock
from mmlake.sample import clips, voices
from mmlake.sample.sentences import spoken
from mmlake.settings import Settings
from tests.lakes import published

RATE_HZ = 16_000
UNITS = {"whole_up_to_s": 12.0, "min_span_s": 5.0, "target_span_s": 8.0, "max_span_s": 15.0}
RECIPE = 'name = "all"\nstatuses = ["ok", "flagged", "quarantined"]\ndrop_tiers = ["exact"]\n'


def speech(number: int, seconds: float) -> np.ndarray:
    """Sentences with pauses between them, of so many seconds."""
    said = [voices.utterance(spoken(number + at, 0), number) for at in range(8)]
    parts = [np.concatenate([np.zeros(RATE_HZ, np.float32), one.samples]) for one in voices.speak(said, 0)]
    return np.resize(np.concatenate(parts), round(seconds * RATE_HZ)).astype(np.float32)


def noisy(clean: np.ndarray, ratio_db: float) -> np.ndarray:
    power = float(np.mean(np.square(clean[np.abs(clean) > 0.01])))
    noise = np.random.default_rng(7).standard_normal(len(clean)) * np.sqrt(power / 10 ** (ratio_db / 10))
    return (0.5 * (clean + noise)).astype(np.float32)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short recording in noise, a long one in noise, a short clean one, and a film whose sound is in noise."""
    base = tmp_path_factory.mktemp("denoised")
    for folder in ("sounds", "films"):
        (base / "in" / folder).mkdir(parents=True)
    for name, sound in (
        ("short", noisy(speech(1, 9), 4.0)),
        ("long", noisy(speech(20, 24), 4.0)),
        ("clean", 0.5 * speech(40, 9)),
    ):
        soundfile.write(base / "in" / "sounds" / f"{name}.wav", sound, RATE_HZ)
    frames = [np.full((96, 128, 3), 40 + at % 150, np.uint8) for at in range(8 * clips.FRAME_RATE)]
    film = clips.encoded(frames, sound=noisy(speech(60, 8), 4.0))
    (base / "in" / "films" / "talk.mp4").write_bytes(film)
    return base


def opened(base: Path, **cuts: object) -> Lake:
    settings = Settings.of({"units": UNITS, "cuts": {"recordings_sound": True, **cuts}})
    return Lake(base / "lake", landing=base / "in", settings=settings)


def samples_of(lake: Lake) -> dict[str, dict[str, Any]]:
    """The samples of a version of everything, by the name of their file and where they begin in it."""
    name = published(lake, RECIPE)
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(name), decode={"json": "json"}, shuffle=False)
    found = {}
    for sample in stream:
        span = sample["json"]["span"] or {"start_s": 0.0}
        found[f"{Path(sample['json']['sample_ids'][0]).stem}@{span['start_s']:g}"] = sample
    stream.close()
    assert check_clock(lake, name).problems == []
    return found


@pytest.fixture(scope="module")
def both(landed: Path) -> Iterator[tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]]:
    """The samples as they are by default, and with the noise taken out."""
    with opened(landed) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        update_samples(lake)
        update_catalog(lake)
        plain = samples_of(lake)
    with opened(landed, denoiser="spectral") as lake:
        yield plain, samples_of(lake)


def sound_of(sample: dict[str, Any]) -> np.ndarray:
    found, rate_hz = soundfile.read(io.BytesIO(sample["sound.flac"]), dtype="float32")
    assert rate_hz == RATE_HZ
    return found


def floor_of(sound: np.ndarray) -> float:
    """The level of what is there between words, in dB: the tenth of the frames of 20 ms that are the quietest."""
    frames = sound[: len(sound) // 320 * 320].reshape(-1, 320)
    return 10 * float(np.log10(np.percentile(np.mean(np.square(frames), axis=1), 10) + 1e-12))


def test_noise_is_taken_out_of_whole_and_cut_sound_and_clean_sound_keeps_its_bytes(both) -> None:
    plain, cleaned = both
    assert plain.keys() == cleaned.keys()
    assert {name.partition("@")[0] for name in plain} == {"short", "long", "clean", "talk"}
    assert sum(name.startswith("long") for name in plain) > 1
    for name, sample in cleaned.items():
        before, after = sound_of(plain[name]), sound_of(sample)
        assert len(before) == len(after)
        if name.startswith("clean"):
            assert (sample["json"]["sound_denoised"], sample["sound.flac"]) == (False, plain[name]["sound.flac"])
        else:
            assert sample["json"]["sound_denoised"] is True
            assert floor_of(after) < floor_of(before) - 8, name


def test_nothing_else_of_the_samples_changes(both) -> None:
    plain, cleaned = both
    for name, sample in cleaned.items():
        assert "sound_denoised" not in plain[name]["json"]
        assert {key: value for key, value in sample["json"].items() if key != "sound_denoised"} == plain[name]["json"]
        for ending in sample.keys() - {"json", "sound.flac"}:
            assert sample[ending] == plain[name][ending]


def test_what_cannot_be_done_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cuts.denoiser='rnnoise' is not one of"):
        Settings.of({"cuts": {"denoiser": "rnnoise"}})
    settings = Settings.of({"cuts": {"denoiser": "spectral"}, "preprocess": {"voice_detector": "none"}})
    lake = Lake(tmp_path / "lake", landing=tmp_path, settings=settings)
    with lake, pytest.raises(SettingsError, match="has to know where somebody speaks"):
        _ = lake.cuts
