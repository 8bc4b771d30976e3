"""One sample as members of a tar: its parts, and the JSON that describes them."""

from __future__ import annotations

import json
from typing import Any

from mmlake.formats.tar_writer import Member
from mmlake.records import INTERLEAVED, LEADING_ROLES, canonical_json
from mmlake.shards.contents import Contents
from mmlake.shards.layout import CUT_TYPES, PART, part_members
from mmlake.shards.media import Media, Members
from mmlake.shards.samples import kind_of

# what the sample's JSON member repeats of its row
_REPEATED = ("sample", "modality", "sources", "licences", "sample_ids", "num_occurrences")
_PART_REPEATED = ("position", "role", "modality", "digest", "content_type", "size_bytes")


class SampleWriter:
    """Writes the members of samples: their parts, and the JSON that describes them."""

    def __init__(self, media: Media, contents: Contents) -> None:
        self._media, self._texts, self._recordings_sound = media, contents.texts, contents.recordings_sound
        self._unsaid = contents.unsaid

    def add(self, tar: Members, row: dict[str, Any]) -> list[Member]:
        """The members of one sample."""
        key, parts = row["sample"], row["parts"]
        kinds = tuple(
            kind_of(
                *(part[name] for name in ("role", "modality", "content_type", "digest", "start_us")),
                tracks=self._media.tracks,
                recordings_sound=self._recordings_sound,
            )
            for part in parts
        )
        is_interleaved = row["modality"] == INTERLEAVED
        planned = part_members(kinds, is_interleaved=is_interleaved, is_normalized=self._texts is not None)
        lead = next((part for part in parts if part["role"] in LEADING_ROLES), None)
        members: list[Member] = []
        endings: dict[int, str] = {}
        of_media: dict[int, dict[str, Any]] = {}
        for number, holds, ending in planned:
            part, name = parts[number], f"{key}.{ending}"
            if holds != PART:
                members.append(self._media.add_track(tar, name, part, holds))
            elif part["modality"] == "text":
                members.append(self._add_text(tar, name, part, lead))
            else:
                member, cut = self._media.add(tar, name, part)
                of_media[number] = self._media.described(part, cut, is_unsaid=key in self._unsaid)
                if part["start_us"] is not None:  # what the version knows is its share of the item
                    part |= {"size_bytes": member.size_bytes, "content_type": CUT_TYPES[part["modality"]]}
                members.append(member)
            if holds == PART:
                endings[number] = ending
        described = [self._described(part, endings.get(number), lead) for number, part in enumerate(parts)]
        facts: dict[str, Any] = {name: row[name] for name in _REPEATED}
        facts["fields"] = json.loads(row["fields_json"] or "{}")
        for role in ("caption", "transcript"):
            facts[f"{role}s"] = [part["text"] for part in described if part["role"] == role]
        for number, known in of_media.items():
            if is_interleaved and known:
                described[number]["tracks"] = known
            else:
                facts |= known
        facts["parts"] = described
        return [*members, tar.add(f"{key}.json", canonical_json(facts).encode("utf-8", "replace"))]

    def _described(self, part: dict[str, Any], ending: str | None, lead: dict[str, Any] | None) -> dict[str, Any]:
        """What the JSON member says of a part. The text of a leading part is in its member, and not a second time
        here."""
        is_repeated = part["modality"] == "text" and part["role"] not in LEADING_ROLES
        return {name: part[name] for name in _PART_REPEATED} | {
            "member": ending,
            "text": self._text_of(part, lead) if is_repeated else None,
            "fields": json.loads(part["fields_json"] or "null"),
        }

    def _add_text(self, tar: Members, name: str, part: dict[str, Any], lead: dict[str, Any] | None) -> Member:
        if part["start_us"] is None and self._normalized(part["digest"]) is None:
            return self._media.add(tar, name, part)[0]
        return tar.add(name, self._text_of(part, lead).encode("utf-8", "replace"))

    def _text_of(self, part: dict[str, Any], lead: dict[str, Any] | None) -> str:
        """The part's text; of the transcript of a span, what is said there."""
        if part["start_us"] is not None:
            facts = self._media.facts(lead) if lead is not None else None
            return facts.said if facts is not None else ""
        normalized = self._normalized(part["digest"])
        return self._media.store.read(part["digest"]).decode("utf-8", "replace") if normalized is None else normalized

    def _normalized(self, digest: str) -> str | None:
        return self._texts(digest) if self._texts is not None else None
