"""How good the transcripts of a lake are, against gold texts of a folder: by source, before and after correction.

Gold is a text per recording or film, named as it: `talk.txt`, `talk.srt` or `talk.vtt` for talk.flac, or LibriSpeech's
`*.trans.txt`, whose lines begin with the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.compute as pc

from mmlake import preprocess
from mmlake.captions.error_rates import ErrorRates, error_rates
from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats.texts import decode_text
from mmlake.lake import Lake
from mmlake.preprocess.transcripts.subtitles import parse_cues
from mmlake.schemas.captions import CAPTIONS, CORRECTION
from mmlake.tables import Slot

TRANSCRIBED = ("audio", "video")
AS_IT_CAME, CORRECTED = "transcript", "corrected"
_MAX_GOLD_BYTES = 50_000_000  # of one file
_ENDINGS = (".txt", ".srt", ".vtt")


@dataclass(frozen=True, slots=True)
class SourceRates:
    """The rates of the transcripts of one source."""

    source: str
    transcript: str  # as it came from the source or a recognizer, or corrected
    written_by: str  # source, or the recognizer
    rates: ErrorRates

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"source": self.source, "transcript": self.transcript, "written_by": self.written_by} | asdict(
            self.rates
        )


def word_errors(lake: Lake, gold: Path) -> list[SourceRates]:
    """The rates of every source that has items with gold texts; items that were corrected are there twice, as their
    transcript came and as it is now. Raises SettingsError where the folder holds no gold, or two texts of one name."""
    texts, found = read_gold(gold), dict[tuple[str, str, str], list[tuple[str, str]]]()
    for source, name, written_by, said, corrected in _transcripts(lake):
        if name in texts:
            found.setdefault((source, AS_IT_CAME, written_by), []).append((texts[name], said))
            if corrected is not None:
                # of the same items, so that the difference is the correction's
                found.setdefault((source, f"{AS_IT_CAME} of those {CORRECTED}", written_by), []).append(
                    (texts[name], said)
                )
                found.setdefault((source, CORRECTED, written_by), []).append((texts[name], corrected))
    return [
        SourceRates(*key, error_rates([right for right, _ in pairs], [text for _, text in pairs]))
        for key, pairs in sorted(found.items())
    ]


def read_gold(folder: Path) -> dict[str, str]:
    """Name of each recording -> what is said in it. Raises SettingsError."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in _ENDINGS or not path.is_file():
            continue
        if path.stat().st_size > _MAX_GOLD_BYTES:
            raise SettingsError(f"{path} is larger than {_MAX_GOLD_BYTES} bytes; gold is a text per recording")
        for name, said in _named(path, _text_of(path)):
            if name in found:
                raise SettingsError(f"{folder} holds two gold texts for {name!r}, the second in {path}; keep one")
            found[name] = said
    if not found:
        raise SettingsError(f"{folder} holds no gold texts (NAME.txt, .srt, .vtt or *.trans.txt); name their folder")
    return found


def _text_of(path: Path) -> str:
    """The text in whatever encoding transcripts of items are read in. Raises SettingsError."""
    try:
        return decode_text(path.read_bytes())[0]
    except UnreadableItem as error:
        raise SettingsError(f"{path} is no text: {error.reason}; save it as UTF-8, or take it away") from error


def _named(path: Path, text: str) -> Iterator[tuple[str, str]]:
    if not path.name.lower().endswith(".trans.txt"):
        yield path.stem, " ".join(cue.text for cue in parse_cues(text))
        return
    for line in filter(str.strip, text.splitlines()):
        name, *said = line.split(maxsplit=1)  # behind a space or a tab
        yield name, said[0].rstrip() if said else ""


def _transcripts(lake: Lake) -> Iterator[tuple[str, str, str, str, str | None]]:
    """(source, name, who wrote it, transcript, as it is corrected or None) of every item that has a transcript; one
    that several sources hold comes once for each."""
    for modality in TRANSCRIBED:
        for shard in lake.tables.shards("tracks", modality):
            tracks = lake.tables.read(Slot("tracks", modality, shard))
            said = {
                row["digest"]: row
                for row in tracks.filter(pc.is_valid(tracks["transcript"]))
                .select(["digest", "transcript", "transcript_source"])
                .to_pylist()
            }
            corrected = _corrected(lake, modality, shard)
            columns = ["digest", "source", "source_ref", "sample_id"]
            seen: set[tuple[str, str]] = set()
            for item in lake.tables.read(Slot("items", modality, shard), columns=columns).to_pylist():
                row, key = said.get(item["digest"]), (item["source"], item["digest"])
                if row is not None and key not in seen:
                    seen.add(key)
                    yield (
                        item["source"],
                        _name(item),
                        row["transcript_source"],
                        row["transcript"],
                        corrected.get(item["digest"]),
                    )


def _name(item: dict[str, Any]) -> str:
    """The name of the item's file without its ending; the sample's where the source has no file for it."""
    try:
        ref = json.loads(item["source_ref"])
    except ValueError:
        ref = {}
    path = ref.get("member") or ref.get("path") or "" if isinstance(ref, dict) else ""
    return PurePosixPath(str(path)).stem or str(item["sample_id"])


def _corrected(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    """Item -> its transcript with the corrected lines of its units, of those that have some."""
    slot = Slot(CAPTIONS.name, modality, shard)
    if lake.tables.stamp(slot) is None:
        return {}
    rows = lake.tables.read(slot)
    rows = rows.filter(pc.and_(pc.equal(rows["kind"], CORRECTION), pc.not_equal(rows["status"], "unreadable")))
    lines = {row["digest"]: row["lines"] for row in rows.select(["digest", "lines"]).to_pylist()}
    if not lines:
        return {}
    tracks, units = (lake.tables.read(Slot(table, modality, shard)) for table in ("tracks", "units"))
    of_units = preprocess.unit_tracks(tracks, units).select(["digest", "parent_digest", "transcript"])
    texts: dict[str, list[str]] = {}
    for unit in of_units.to_pylist():
        final = [
            line["text"] if line["corrected"] is None else line["corrected"] for line in lines.get(unit["digest"], ())
        ]
        texts.setdefault(unit["parent_digest"], []).append(" ".join(final) or unit["transcript"] or "")
    wanted = {unit["parent_digest"] for unit in of_units.to_pylist() if unit["digest"] in lines}
    return {digest: " ".join(parts) for digest, parts in texts.items() if digest in wanted}
