"""The whole corpus in one call."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent
from mmlake.sample import voices
from mmlake.sample.albums import lay_albums
from mmlake.sample.audio_shards import lay_audio
from mmlake.sample.broken import lay_broken
from mmlake.sample.chance import scaled
from mmlake.sample.image_shards import lay_image
from mmlake.sample.ledger import Ledger
from mmlake.sample.long_films import lay_films
from mmlake.sample.long_recordings import lay_readings
from mmlake.sample.pictures import Gallery
from mmlake.sample.sentences import spoken
from mmlake.sample.settings import SampleSettings
from mmlake.sample.text_shards import lay_text
from mmlake.sample.truth import KIND, Truth
from mmlake.sample.video_shards import lay_video


def generate(out: Path, *, settings: SampleSettings | None = None, advance: Advance = silent) -> Truth:
    """The truth about the corpus that now lies in out/landing, out/probes and out/truth.json; the same bytes for the
    same settings.

    An earlier corpus in `out` is replaced. Raises SettingsError where `out` holds anything else. advance: counts items.
    """
    settings = settings or SampleSettings()
    out = Path(out)
    _clear(out)
    ledger = Ledger(out, advance)
    gallery = Gallery(settings.seed)
    num_read, num_talks = scaled(38, settings.scale), max(3, scaled(5, settings.scale))
    said = [voices.utterance(spoken(number, settings.seed), number) for number in range(num_read + num_talks)]
    speeches = voices.speak(said, settings.seed)
    lay_text(ledger, settings)
    lay_image(ledger, settings, gallery)
    lay_audio(ledger, settings, said=said[:num_read], speeches=speeches[:num_read])
    lay_video(ledger, settings, gallery, said=said[num_read:], speeches=speeches[num_read:])
    lay_broken(ledger, settings, gallery)
    lay_albums(ledger, settings, gallery)  # from here on: after the others, so that their pictures stay what they are
    lay_films(ledger, settings, gallery)
    lay_readings(ledger, settings)
    truth = ledger.truth(seed=settings.seed, scale=settings.scale, speech=voices.engine())
    # Last: a corpus without its truth file is one that was not finished.
    truth.write(out / "truth.json")
    return truth


def _clear(out: Path) -> None:
    """An empty `out` with a mark that what comes is ours. Nothing is removed that a finished or interrupted call did
    not write."""
    if out.exists() and not out.is_dir():
        raise SettingsError(f"{out} is a file; name a directory for the sample corpus")
    mark = out / "truth.json"
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if names and (set(names) - {"landing", "probes", "truth.json"} or not _is_ours(mark)):
        raise SettingsError(f"{out} already holds {names[:3]}, which are no sample corpus; name an empty directory")
    out.mkdir(parents=True, exist_ok=True)
    # The mark first: a call that is interrupted leaves a corpus that the next one may replace, and that Truth.read
    # refuses.
    mark.write_text(json.dumps({"kind": KIND}) + "\n", encoding="utf-8")
    for name in ("landing", "probes"):
        if (out / name).is_dir():
            shutil.rmtree(out / name)


def _is_ours(mark: Path) -> bool:
    try:
        value = json.loads(mark.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and value.get("kind") == KIND
