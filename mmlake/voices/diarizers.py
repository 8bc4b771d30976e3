"""Diarizers: the rows that can find who speaks when, each a script in a process of its own.

Add yours here: a row in DIARIZERS whose `script` answers {"speech": [[start_s, end_s], ...]} and mono 16 kHz samples
with {"turns": [[start_s, end_s, speaker, confidence or null], ...]}.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mmlake
from mmlake.environments import python_of
from mmlake.errors import ModelMissing, SettingsError
from mmlake.voices import ge2e
from mmlake.voices.settings import SpeakerSettings
from mmlake.workers.script import Limits, Script

_SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Diarizer:
    """One row of DIARIZERS."""

    name: str
    what: str
    revision: str  # counted up when the same sound would give other turns
    licence: str  # SPDX id of the library
    script: Callable[[SpeakerSettings], Script] | None  # None: nobody is found


def _resemblyzer(settings: SpeakerSettings) -> Script:
    """Our own front end and clustering around the encoder of Resemblyzer. Raises MissingExtra."""
    weights = ge2e.weights_path(settings.environments or None)
    return Script(
        what="diarizer 'resemblyzer'",
        python=Path(sys.executable),
        path=_SCRIPTS / "resemblyzer.py",
        config={"weights": str(weights), "max_speakers": settings.max_speakers},
        # the child is isolated: it is given what this process can import
        paths=(str(Path(mmlake.__file__).parents[1]), *(path for path in sys.path if path)),
    )


def _pyannote(settings: SpeakerSettings) -> Script:
    """A pipeline of pyannote.audio from a local folder. Raises MissingExtra, ModelMissing."""
    folder = Path(settings.diarizer_model)
    if not settings.diarizer_model or not (folder / "config.yaml").is_file():
        raise ModelMissing(
            f"diarizer 'pyannote': no config.yaml in speakers.diarizer_model={settings.diarizer_model!r}; accept its "
            "terms on huggingface.co and clone pyannote/speaker-diarization-community-1 there"
        )
    return Script(
        what="diarizer 'pyannote'",
        python=python_of("pyannote", purpose="diarizer 'pyannote'", folder=settings.environments or None),
        path=_SCRIPTS / "pyannote_audio.py",
        config={
            "model": str(folder.resolve()),
            "device": settings.diarizer_device,
            "max_speakers": settings.max_speakers,
        },
    )


_ROWS = (
    Diarizer(name="none", what="nobody is found", revision="1", licence="NONE", script=None),
    Diarizer(
        name="resemblyzer",
        what="speaker vectors of Resemblyzer, clustered; for clean talk of two",
        revision="1",
        licence="Apache-2.0",
        script=_resemblyzer,
    ),
    Diarizer(
        name="pyannote",
        what="pyannote.audio in its own environment, weights from a local folder; for meetings",
        revision="1",
        licence="MIT",
        script=_pyannote,
    ),
)
DIARIZERS: dict[str, Diarizer] = {row.name: row for row in _ROWS}


def diarizer_of(settings: SpeakerSettings) -> Diarizer:
    """The row that the settings choose. Raises SettingsError."""
    if settings.diarizer not in DIARIZERS:
        raise SettingsError(
            f"speakers.diarizer={settings.diarizer!r} is not one of {sorted(DIARIZERS)}; choose one of them"
        )
    return DIARIZERS[settings.diarizer]


def limits_of(settings: SpeakerSettings) -> Limits:
    """What a process may take."""
    return Limits(
        memory_bytes=settings.memory_bytes,
        item_s=settings.item_s,
        item_s_per_s=settings.item_s_per_s,
        batch_s=settings.batch_s,
    )
