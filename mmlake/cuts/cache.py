"""Cuts on disk: made when they are needed, once, and shared by all that need them: versions, and the report's player.

    <directory>/<ab>/<unit digest>-<settings and program, 16 hex>.<ext>        the medium
    <directory>/<ab>/<unit digest>-<settings and program, 16 hex>.<ext>.json   what it is, with its SHA-256; last
    <directory>/uncut.json                                                     the units that could not be cut

A cut whose bytes do not hash to what was written down is made again. Two processes never make the same one at once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.cuts.runner import program_digest
from mmlake.cuts.settings import OF_CLIPS, CutSettings
from mmlake.cuts.sound import Cleaner, cut_recording, cut_sound
from mmlake.cuts.uncut import UncutUnits
from mmlake.cuts.video import Span, cut_film
from mmlake.durable import make_directory, put_in_place
from mmlake.locks import waiting_lock
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically

_FORMAT = 2  # counted up when the code cuts other bytes with the same settings and program
_CLIPS = 2  # the same, of clips alone
_CLIP, _SOUND, _SEGMENT = "mp4", "sound.flac", "flac"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """One cut on disk."""

    path: Path
    sha256: str
    size_bytes: int
    facts: dict[str, Any]  # the fields of a Clip or a Segment


class CutCache:
    """The cuts of one directory."""

    def __init__(self, directory: Path, settings: CutSettings, cleaner: Cleaner | None = None) -> None:
        """cleaner: for the 16 kHz sound; the settings name it, and whoever knows denoisers gives it."""
        self.directory, self.settings, self.cleaner = directory, settings, cleaner
        self.uncut = UncutUnits(directory, self._tried_with)

    def clip(self, span: Span, film: Callable[[], Path] | None = None) -> Cut | None:
        """The clip of a film; None where it is not there and no film is given. film: the local file, when it is
        needed. Raises what `cut_film` raises."""

        def make(out: Path) -> Any:
            assert film is not None
            return cut_film(film(), out, span, settings=self.settings)

        return self._cut(span.digest, _CLIP, make if film is not None else None)

    def sound(self, span: Span, track: Callable[[], Path] | None = None) -> Cut | None:
        """The span of an item's 16 kHz mono track, as `clip`."""
        return self._sound(span.digest, span, track)

    def whole_sound(self, digest: str, track: Callable[[], Path]) -> Cut | None:
        """The same of a unit that is a whole item; needed where a cleaner leaves it no longer what the track is."""
        return self._sound(digest, None, track)

    def segment(self, span: Span) -> Cut | None:
        """The segment of a recording; None where it is not there."""
        return self._cut(span.digest, _SEGMENT, None)

    def add_segments(self, spans: Sequence[Span], recording: Callable[[], Path]) -> None:
        """Make those segments of one recording that are not there, all from one decode. Raises what `cut_recording`
        raises."""
        missing = [span for span in spans if self.segment(span) is None]
        if not missing:
            return
        parts = [(span, self._part(span.digest, _SEGMENT)) for span in missing]
        try:
            made = cut_recording(recording(), parts)
            for (span, part), segment in zip(parts, made, strict=True):
                path = self._path(span.digest, _SEGMENT)
                with waiting_lock(path.parent / "lock"):
                    if known(path) is None:
                        commit(part, path, dataclasses.asdict(segment))
        finally:
            for _, part in parts:
                part.unlink(missing_ok=True)

    def keys(self, modality: str) -> dict[str, str]:
        """What the bytes of each kind of cut from items of the modality depend on, besides the unit: settings, program
        and our own code."""
        return {kind: self._key(kind) for kind in (_CLIP if modality == "video" else _SEGMENT, _SOUND)}

    def size_bytes(self) -> int:
        """Bytes of everything in the directory."""
        return sum(path.stat().st_size for path in self._files())

    def remove_others(self, wanted: Collection[str]) -> int:
        """Bytes freed by removing the cuts of other units than these, and those of other settings or another program.

        Not while shards are written: a cut that is about to be read may go.
        """
        keys = {f"-{self._key(kind)}.{kind}" for kind in (_CLIP, _SOUND, _SEGMENT)}
        freed = 0
        for path in self._files():
            unit, name = path.name[:64], path.name[64:].removesuffix(".json")
            if unit not in wanted or name not in keys:
                freed += path.stat().st_size
                path.unlink(missing_ok=True)
        self.uncut.forget_others(wanted)
        return freed

    def is_sound(self, path: Path) -> bool:
        """Whether the file of a cut is what was written, and what was said of it too."""
        return known(path) is not None

    def _files(self) -> Iterator[Path]:
        return (path for path in sorted(self.directory.glob("??/*")) if path.name != "lock")

    def _sound(self, digest: str, span: Span | None, track: Callable[[], Path] | None) -> Cut | None:
        def make(out: Path) -> Any:
            assert track is not None
            return cut_sound(track(), out, span, cleaner=self.cleaner)

        return self._cut(digest, _SOUND, make if track is not None else None)

    def _cut(self, digest: str, kind: str, make: Callable[[Path], Any] | None) -> Cut | None:
        path = self._path(digest, kind)
        if make is None:
            return known(path)
        make_directory(path.parent)
        with waiting_lock(path.parent / "lock"):
            if (there := known(path)) is not None:
                return there
            part = self._part(digest, kind)
            try:
                return commit(part, path, dataclasses.asdict(make(part)))
            finally:
                part.unlink(missing_ok=True)

    def _path(self, digest: str, kind: str) -> Path:
        return self.directory / digest[:2] / f"{digest}-{self._key(kind)}.{kind}"

    def _part(self, digest: str, kind: str) -> Path:
        folder = self._path(digest, kind).parent
        make_directory(folder)
        return folder / f"{secrets.token_hex(8)}.part"

    def _tried_with(self, modality: str) -> str:
        limits = {"timeout_s": self.settings.timeout_s, "memory_bytes": self.settings.memory_bytes}
        return digest_of(canonical_json(self.keys(modality) | limits).encode())

    def _key(self, kind: str) -> str:
        """16 hex characters of what a cut of that kind depends on, besides its unit."""
        facts: dict[str, Any] = {"format": _FORMAT, "kind": kind}
        if kind == _CLIP:
            facts |= {"program": program_digest(), "clips": _CLIPS}
            facts |= {name: getattr(self.settings, name) for name in OF_CLIPS}
        if kind == _SOUND and self.cleaner is not None:
            facts |= self.cleaner.facts
        return digest_of(canonical_json(facts).encode())[:16]


def known(path: Path) -> Cut | None:
    """The cut, where it is there and sound."""
    try:
        said = checked_json.loads(_said(path).read_bytes())
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if said["sha256"] == sha256:
            return Cut(path=path, sha256=sha256, size_bytes=path.stat().st_size, facts=dict(said["facts"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        pass
    return None


def commit(part: Path, path: Path, facts: dict[str, Any]) -> Cut:
    """The finished file put in its place, what it is after it."""
    with part.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    size_bytes = part.stat().st_size
    put_in_place(part, path)
    write_atomically(_said(path), checked_json.dumps({"sha256": sha256, "size_bytes": size_bytes, "facts": facts}))
    return Cut(path=path, sha256=sha256, size_bytes=size_bytes, facts=facts)


def _said(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
