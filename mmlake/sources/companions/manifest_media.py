"""Media and what manifests say of them (`manifests.py`): LLaVA's instructions, NeMo's and other lists of recordings,
Kaldi's `wav.scp`.

The media are the rows of their own directories, which ask here what is said of them. A manifest is a shard of its own,
whose rows are what no file took: records of missing files (1011), broken ones, and those that name no file, which are
texts as in any list of records. A manifest none of whose files is there is such a list.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.texts import printable
from mmlake.landing import Entry
from mmlake.records import SourceRef, canonical_json
from mmlake.sources.companions import kaldi, manifest_forms
from mmlake.sources.companions.file_records import Index, Record, index_of, kept
from mmlake.sources.companions.placement import Around
from mmlake.sources.connectors.json_lines import rows_of_fields, stream_of
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Member, RawItem, Reading, become_text, licence_field
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import lines as record_lines
from mmlake.sources.records.dialogues import dialogue_of
from mmlake.sources.records.fields import TextField
from mmlake.sources.records.lines import Line
from mmlake.sources.samples.companion import Description

_BASES = (".", "images", "videos", "audio", "wavs")  # where the files of a manifest lie, as seen from it
_FURTHER = "further_records"  # in the metadata: records without words of a file of which others say something else
_FIRST_RECORDS = 100  # that tell whether a manifest has texts


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text: media are told of in their own directories."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record that no file took, and the texts of those that name none."""
    index, names = _index_of(reading), SampleNames(reading.key)
    index.tell_missing(_missing(index, reading))
    is_joined = index.is_any_there()
    for record in index.records():
        # A record that has words is itself at the pointer that names the whole of it: without one the locator is that
        # of its first text.
        ref = SourceRef(
            path=reading.path,
            member=f"{record.label}#" if isinstance(record.body, str) and record.body else record.label,
        )
        blank = RawItem(modality="text", ref=ref, sample_id=f"{reading.key}/{record.label}", role="document")
        if record.fault is not None:
            yield blank.replace(fault=record.fault, **kept(record.body))
        elif not record.paths or not is_joined:
            number = int(record.label.rpartition(":")[2])
            yield from rows_of_fields(json.loads(record.body), record.label, number, reading, names)
        elif record.missing is not None:
            yield blank.replace(fault=Fault(1011, record.missing), **kept(record.body))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    label, hash_mark, pointer = (ref.member or "").partition("#")
    body = _index_of(reading).body(label)
    if isinstance(body, str) and body and (pointer or not hash_mark):
        found = _texts(json.loads(body), set(), reading)
        if not hash_mark and found:
            return found[0].text.encode()
        for field in found if hash_mark else ():
            if field.pointer == pointer:
                return field.text.encode()
    if body and not pointer:
        return body if isinstance(body, bytes) else body.encode()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


class Manifested:
    """What manifests say of the files of one directory."""

    def __init__(self, reading: Reading, found: Sequence[_Manifest]) -> None:
        self._reading, self._manifests = reading, found
        self.has_texts = any(one.has_texts for one in found)

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The words of the records as texts, each with the fields of its record; other fields as metadata of the
        sample, those of the first record before all others."""
        texts, metadata, licence, before = list[RawItem](), dict[str, Any](), None, set[tuple[str, str, str]]()
        further: list[dict[str, Any]] = []
        present = {member.modality for member in members if member.is_media and member.modality}
        for manifest in self._manifests:
            said = set[tuple[str, str, str]]()
            for record in manifest.records_of(members):
                fields = json.loads(record.body)
                found = _texts(fields, present, self._reading) if manifest.has_texts else []
                # Which other files a record names is part of what it says.
                naming = manifest_forms.names_of(fields) if len(manifest_forms.paths_of(fields)) < 2 else []
                own = record_fields.without(fields, {*naming, *record_fields.taken(found)})
                as_text = canonical_json(own)
                if not found and any(name in metadata and metadata[name] != value for name, value in own.items()):
                    further.append(own)
                for field in found:
                    said.add((field.role, field.text, as_text))
                    if (field.role, field.text, as_text) not in before:
                        ref = SourceRef(path=manifest.entry.path, member=f"{record.label}#{field.pointer}")
                        texts.append(
                            become_text(
                                RawItem(modality="text", ref=ref, sample_id="", own=own), field.text, field.role
                            )
                        )
                metadata = {**record_fields.without(own, {field.name for field in found}), **metadata}
                licence = licence or licence_field(fields, self._reading.settings)
            before |= said
        return Description(
            texts=tuple(texts), metadata={**metadata, **({_FURTHER: further} if further else {})}, licence=licence
        )

    def rest(self) -> Iterator[RawItem]:
        """Nothing: what no file took is told by the manifest's own shard."""
        return iter(())


class _Manifest:
    """One manifest, as far as it speaks of the files of one directory."""

    def __init__(self, reading: Reading, entry: Entry) -> None:
        self.entry, self._reading = entry, replace(reading, path=entry.path)
        self._below = posixpath.relpath(reading.path, entry.path.rpartition("/")[0] or ".")
        # What lies in `images/coco` is `images/coco/a.jpg` to some manifests, and `coco/a.jpg` to others.
        self._places = [
            self._below,
            *(posixpath.relpath(self._below, base) for base in _BASES[1:] if f"{self._below}/".startswith(f"{base}/")),
        ]
        index = self._index()
        self.speaks = any(place == "." or index.names_below(place) for place in self._places)
        first = (
            record for _, record in zip(range(_FIRST_RECORDS), index.records(), strict=False) if record.fault is None
        )
        self.has_texts = self.speaks and any(_texts(json.loads(record.body), set(), reading) for record in first)

    def _index(self) -> Index:
        return _index_of(self._reading)

    def records_of(self, members: Sequence[Member]) -> Iterator[Record]:
        """The records that name these files, in whatever spelling."""
        index = self._index()
        for member in members:
            for place in self._places:
                yield from index.of(posixpath.normpath(posixpath.join(place, printable(member.name))))


def manifested(reading: Reading) -> Manifested | None:
    """What is said of the files that are read, or None where no manifest speaks of them."""
    found = [
        _Manifest(reading, entry)
        for entry in reading.around
        if manifest_forms.may_be(entry.name) and manifest_forms.is_manifest(reading.landing, entry)
    ]
    found = [one for one in found if one.speaks]
    return Manifested(reading, found) if found else None


def _texts(fields: dict[str, Any], present: set[str], reading: Reading) -> list[TextField]:
    """The texts of a record; where it has no other, its dialogue, also beside media: that is what it was written
    for."""
    found = record_fields.text_fields(fields, present, settings=reading.settings)
    if not found and (told := dialogue_of(fields, settings=reading.settings)) is not None:
        return [TextField(told[0], None, told[1], "document", is_kept=True)]
    return found


def _index_of(reading: Reading) -> Index:
    """The index of the manifest, made once for all directories that this process reads one after the other."""
    entry = reading.landing.stat(reading.path)
    companions = kaldi.companions_of(reading) if reading.path.rpartition("/")[2] == manifest_forms.SCP else []
    return index_of(
        ("manifest", entry, *companions), reading, lambda: Index((line, _paths(line)) for line in _lines(reading))
    )


def _lines(reading: Reading) -> Iterator[Line]:
    if reading.path.rpartition("/")[2] == manifest_forms.SCP:
        return kaldi.lines(reading)
    return record_lines.json_records(reading, is_list=manifest_forms.is_list(_head(reading)))


def _head(reading: Reading) -> bytes:
    with stream_of(reading) as stream:
        return stream.read(sniff.HEAD_BYTES)


def _paths(line: Line) -> list[str]:
    """The files that a record names, as paths from the manifest's directory."""
    if line.fault is not None:
        return []
    paths = [posixpath.normpath(path.replace("\\", "/")) for path in _named(line)]
    return list(dict.fromkeys(path.encode("utf-8", "backslashreplace").decode() for path in paths))


def _named(line: Line) -> list[str]:
    if (
        "audio" in line.fields
        and ("utterance_id" in line.fields or "recording_id" in line.fields)
        and isinstance(line.fields["audio"], str)
    ):
        return [line.fields["audio"]]  # of Kaldi, whose files may have any name
    return manifest_forms.paths_of(line.fields)


def _missing(index: Index, reading: Reading) -> Iterator[tuple[str, str]]:
    """(path in the manifest, why it is none of the files that it speaks of)."""
    home, entry, around = (
        reading.path.rpartition("/")[0] or ".",
        reading.landing.stat(reading.path),
        Around(reading.landing),
    )
    names: dict[str, frozenset[str]] = {}
    bases = list(_BASES)
    for path in index.paths():
        if path.startswith(("/", "../")) or path in (".", "..") or (len(path) > 1 and path[1] == ":"):
            yield path, f"the file {path[:200]} is outside of the directory of the manifest"
            continue
        found = None
        for base in bases:
            directory = posixpath.normpath(posixpath.join(home, base, posixpath.dirname(path)))
            if directory not in names:
                if len(names) > 2 * len(_BASES):
                    names.clear()
                names[directory] = frozenset(printable(one.name) for one in around.files(directory))
                if entry not in around.of(directory):
                    names[directory] = frozenset()
            if path.rpartition("/")[2] in names[directory]:
                found = base
                break
        if found is None:
            yield path, f"the file {path[:200]} is missing, or lies where no file is a medium by its name"
        elif bases[0] != found:
            bases.remove(found)
            bases.insert(0, found)
