"""Denoisers: the rows that take noise out of what a recognizer is given, and out of the sound of samples where the
settings of cuts say so. The sound that the lake keeps is never changed.

Enters: mono 16 kHz sound and where somebody speaks in it. Leaves: as many samples, or the same array where the sound is
clean enough. Add yours here: a row in DENOISERS whose `load` returns a function from samples and spans of speech to
as many samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmlake.border import Failure
from mmlake.environments import python_of
from mmlake.errors import ModelMissing, SettingsError, UnreadableItem
from mmlake.speech.wiener import wiener_filtered
from mmlake.workers.script import Request, Script, run_script

_RATE_HZ = 16_000
_MIN_NOISE_S = 0.3  # of sound without speech, below which its level is not known
_EDGE_S = 0.1  # around speech that counts for neither: breath and reverberation
_MUTED_DB = -100.0  # noise below it is digital silence
_BLOCK_S = 600  # of a file that is denoised at once: 40 MB, and some times as much on the way

Spans = Sequence[tuple[float, float]]
Clean = Callable[[np.ndarray, Spans], np.ndarray]
Denoise = Callable[[np.ndarray, Spans | None], np.ndarray]
FindSpeech = Callable[[Path], Spans]


@dataclass(frozen=True, kw_only=True, slots=True)
class Denoiser:
    """One row of DENOISERS."""

    name: str
    what: str
    licence: str  # SPDX id of the library
    load: Callable[[str, str], Clean] | None  # from a folder of weights and one of environments; None: nothing is done


def _load_spectral(model: str, environments: str) -> Clean:
    """The Wiener filter of `mmlake.speech.wiener`."""
    return wiener_filtered


def _load_demucs(model: str, environments: str) -> Clean:
    """The voices that Demucs separates from everything else. Raises MissingExtra, ModelMissing."""
    if not model or not sorted(Path(model).glob("*.safetensors")):
        raise ModelMissing(
            f"denoiser 'demucs': no .safetensors in denoiser_model={model!r}; download those of adefossez/HTDemucs "
            "there"
        )
    script = Script(
        what="denoiser 'demucs'",
        python=python_of("demucs", purpose="denoiser 'demucs'", folder=environments or None),
        path=Path(__file__).parent / "demucs_script.py",
        config={"model": str(Path(model).resolve())},
    )

    def clean(samples: np.ndarray, speech: Spans) -> np.ndarray:
        (answer,) = run_script(script, [Request({}, samples, len(samples) / _RATE_HZ)])
        if isinstance(answer, Failure):
            raise UnreadableItem(answer.code, answer.reason)
        return answer.data

    return clean


_ROWS = (
    Denoiser(name="none", what="the sound as it is", licence="NONE", load=None),
    Denoiser(name="spectral", what="Wiener filter over short spectra", licence="NONE", load=_load_spectral),
    Denoiser(
        name="demucs",
        what="voices separated by Demucs in its own environment, weights from a local folder",
        licence="MIT",
        load=_load_demucs,
    ),
)
DENOISERS: dict[str, Denoiser] = {row.name: row for row in _ROWS}


def denoiser_of(name: str, *, below_db: float, model: str = "", environments: str = "") -> Denoise:
    """A function from (samples, speech) to samples: the same array where the signal is at least so far above the noise,
    or where that cannot be known. Its library is loaded when first needed. Raises SettingsError."""
    if name not in DENOISERS:
        raise SettingsError(f"denoiser={name!r} is not one of {sorted(DENOISERS)}; choose one of them")
    row = DENOISERS[name]
    loaded: list[Clean] = []

    def denoise(samples: np.ndarray, speech: Spans | None) -> np.ndarray:
        if row.load is None:
            return samples
        ratio_db = signal_to_noise_db(samples, speech)
        if ratio_db is None or ratio_db >= below_db:
            return samples
        if not loaded:
            loaded.append(row.load(model, environments))
        found = loaded[0](samples, speech or ())
        if found.shape != samples.shape or not np.isfinite(found).all():
            raise UnreadableItem(3401, f"denoiser {name!r} gave {found.shape} samples for {samples.shape}")
        return found

    return denoise


def denoise_file(path: Path, *, denoise: Denoise, find_speech: FindSpeech) -> bool:
    """Take the noise out of a mono 16 kHz FLAC in place; it keeps its length, and its bytes where it is clean enough.
    Whether anything was done: sound that the denoiser cannot read stays as it is. Raises what is no fault of the
    sound."""
    import soundfile

    speech, is_changed = find_speech(path), False
    part = path.with_name(f"{path.name}.denoised")
    try:
        with soundfile.SoundFile(path) as source:
            kind = {"samplerate": source.samplerate, "channels": 1, "format": "FLAC", "subtype": source.subtype}
            with soundfile.SoundFile(part, "w", **kind) as sink:
                for number, block in enumerate(source.blocks(_BLOCK_S * _RATE_HZ, dtype="float32")):
                    found = _denoised(block, _within(speech, number * _BLOCK_S), denoise)
                    is_changed |= found is not block
                    sink.write(found)
        if is_changed:
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return is_changed


def _denoised(block: np.ndarray, speech: Spans, denoise: Denoise) -> np.ndarray:
    try:
        return denoise(block, speech)
    except UnreadableItem:
        return block


def _within(speech: Spans, start_s: float) -> Spans:
    """The spans within a block that begins there, on its own clock."""
    clipped = ((max(0.0, start - start_s), min(float(_BLOCK_S), end - start_s)) for start, end in speech)
    return [(start, end) for start, end in clipped if start < end]


def signal_to_noise_db(samples: np.ndarray, speech: Spans | None) -> float | None:
    """Power of the speech, less that of the noise next to it, over that of the noise; None where it cannot be known:
    no detector ran, nobody speaks, or there is no moment without speech."""
    if speech is None:
        return None
    spoken, around = np.zeros(len(samples), bool), np.zeros(len(samples), bool)
    for start_s, end_s in speech:
        spoken[round(start_s * _RATE_HZ) : round(end_s * _RATE_HZ)] = True
        around[max(0, round((start_s - _EDGE_S) * _RATE_HZ)) : round((end_s + _EDGE_S) * _RATE_HZ)] = True
    if not spoken.any() or np.count_nonzero(~around) < _MIN_NOISE_S * _RATE_HZ:
        return None
    loud = float(np.mean(np.square(samples[spoken], dtype=np.float64)))
    noise = max(float(np.mean(np.square(samples[~around], dtype=np.float64))), 10 ** (_MUTED_DB / 10))
    return 10 * float(np.log10(max(loud - noise, 1e-3 * noise) / noise))
