"""What manifests say of media (`manifest_forms.py`): LLaVA's instructions, lists of recordings as NeMo and
Lhotse have them, Kaldi's `wav.scp`.

A manifest is a shard of its own, too: of every record that no file took. Records that name no file are texts as in any
list of records, and a manifest none of whose files is there is such a list.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from mmlake.errors import Fault
from mmlake.formats.texts import printable
from mmlake.media_names import is_media_name
from mmlake.records import SourceRef
from mmlake.sources.companions import file_lists, json_objects, kaldi, manifest_forms, utterances
from mmlake.sources.companions.file_records import FileRecords
from mmlake.sources.companions.file_tables import FileTable, FileTables
from mmlake.sources.companions.placement import Placement
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.names import MemberNames, SampleNames, composed, file_stem_of, label_of, uncompressed_stem_of
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.records.fields import TextField
from mmlake.sources.records.lines import (
    Line,
    cut_lines,
    json_records,
    rows_of_line,
    separated_lines,
    stream_of,
    text_alone,
)
from mmlake.sources.settings import SourceSettings

FIRST_RECORDS = 100  # of which one must have a text, where a manifest has texts
EXTENSIONS = (*manifest_forms.EXTENSIONS, "scp")
claims = manifest_forms.claims
modalities = text_alone


def holds_records(head: Callable[[int], bytes], name: str, settings: SourceSettings) -> bool:
    """Whether a file that is claimed is a manifest by all of its first whole records. head: gives so many of its first
    bytes."""
    return manifest_forms.form_of(head, name) is not None


def is_kept(name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is one by what lies next to it; asked of lists alone."""
    return not file_lists.is_list(name) or siblings.have_list(name)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record of the shard's manifest that no file took, and the texts of those that name none."""
    manifest = Manifest(reading, reading.path)
    is_alone = (file_lists.is_list(reading.path) or manifest.is_object) and not manifest.is_any_there()
    if is_alone:
        yield _object(reading) if manifest.is_object else _document(reading)
        return
    yield from manifest.rest()


def _document(reading: Reading) -> RawItem:
    """The row of a list none of whose files is there: the text that it was, until they come."""
    content = Content(lambda: stream_of(reading))
    return RawItem(
        modality="text",
        ref=SourceRef(reading.path),
        sample_id=f"{reading.key}/{printable(file_stem_of(reading.path.rpartition('/')[2]))}",
        role="document",
        content_type="text/plain",
        extension="txt",
        content=content,
    )


def _object(reading: Reading) -> RawItem:
    """The row of a JSON object none of whose media is there, which is no text."""
    fault = Fault(1003, "the JSON object names media of which none is there, and has no text of its own")
    return _document(reading).replace(fault=fault, content_type="application/json", extension="json")


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names; of a locator without a member all bytes. Raises
    UnreadableItem where the file no longer has it."""
    if ref.member is None:
        with stream_of(reading) as stream:
            return stream.read()
    return Manifest(reading, reading.path).take(ref.member or "", is_text_alone=True)


def manifests_of(reading: Reading) -> FileTables | None:
    """What is said of the files that are read, or None where no manifest describes them."""
    found = [
        Manifest(reading, entry.path)
        for entry in reading.around
        if manifest_forms.is_manifest(reading.landing, entry, reading.parsed)
    ]
    found = [one for one in found if one.names_files_in(reading.path)]
    return FileTables(reading.path, found, with_texts=[one.speaks() for one in found]) if found else None


class Manifest(FileTable):
    """One manifest."""

    noun = "manifest"
    has_own_fields = True
    absent = "is missing, or lies where no file is a medium by its name"

    def __init__(self, reading: Reading, path: str) -> None:
        super().__init__(reading, path)
        self.bases = file_lists.bases_of(path)
        if (home := file_lists.home_of(path)) != self.home:  # a list in a directory of lists
            self.home, self.bases = home, (*self.bases, self.home.rpartition("/")[2])

    def key(self) -> tuple[Hashable, ...]:
        """The file, and its companions in Kaldi's directory."""
        return (self.entry, *(kaldi.companions_of(self.reading) if self._is_scp else ()))

    @property
    def _is_scp(self) -> bool:
        return self.reading.path.rpartition("/")[2] == manifest_forms.SCP

    @cached_property
    def _form(self) -> manifest_forms.Form:
        """How it is read."""
        landing, parsed = self.reading.landing, self.reading.parsed
        return (self.entry and manifest_forms.form_in(landing, self.entry, parsed)) or manifest_forms.Form()

    def lines(self) -> Iterator[Line]:
        """Its records; of Kaldi those of all its files."""
        if self._is_scp:
            return kaldi.lines(self.reading)
        if self._form.columns is not None:
            delimiter, _, names = self._form.columns
            if file_lists.is_id_alone(delimiter):
                return cut_lines(self.reading, names, lambda line: file_lists.cells_of(line, delimiter))
            has_quotes = delimiter == "," if names else delimiter != "\t"
            return separated_lines(self.reading, delimiter, names, has_quotes=has_quotes)
        if self.is_object:
            return json_objects.lines(self.reading)
        return utterances.gathered(json_records(self.reading, is_list=self._form.is_list))

    def names_in(self, fields: dict[str, Any]) -> list[str]:
        """The fields that name the one file of a record. Which other files a record names is part of what it says."""
        paths = manifest_forms.paths_of(fields, self._form.columns)
        own = [file_lists.FILE] if self.is_object else []
        return [*own, *manifest_forms.names_of(fields, self._form.columns)] if len(paths) < 2 else own

    def paths_in(self, line: Line) -> Iterable[str]:
        """Names of media; of Kaldi's recordings, which may have any name."""
        fields = line.fields
        if line.fault is not None:
            return []
        is_kaldi = "utterance_id" in fields or "recording_id" in fields
        if is_kaldi and isinstance(fields.get("audio"), str):
            return [fields["audio"]]
        return manifest_forms.paths_of(fields, self._form.columns, has_ids=self.is_object)

    def keys_of(self, name: str, places: Sequence[str]) -> list[str]:
        """As for every such file; where records have ids, also the name of a medium without its extension, where it
        lies and, unless it is very short, anywhere below."""
        found = super().keys_of(name, places)
        if not self._may_have_ids or not is_media_name(name):
            return found
        stem = uncompressed_stem_of(name)
        found += super().keys_of(stem, places)
        return [*found, stem, name] if len(stem) >= file_lists.LEAST_CHARS else found

    @property
    def _may_have_ids(self) -> bool:
        """Whether its records may name media by ids; not those of tables with names of files, or of Kaldi."""
        if self._is_scp or self._form.columns is not None:
            return self._form.columns is not None and self._form.columns.has_ids
        return self.is_object or self.records.have_ids

    @property
    def is_object(self) -> bool:
        """Whether it is one JSON object."""
        return self._form.is_object

    @cached_property
    def _known(self) -> MemberNames:
        """What all media below its directory may be called."""
        hashes = array("q")
        for directory, entries in self.directories():
            places = self.places(directory)
            for entry in filter(lambda entry: is_media_name(entry.name), entries):
                keys = self.keys_of(composed(printable(entry.name)), places)
                hashes.extend(hash(label_of(key)) for key in keys)
        return MemberNames(np.array(hashes, np.int64))

    def _missing(self, index: FileRecords) -> Iterator[tuple[str, str]]:
        if not self._may_have_ids:
            yield from super()._missing(index)
            return
        for path in index.paths():
            if path not in self._known:
                yield path, f"the file {path[:200]} {self.absent}"

    def speaks(self) -> bool:
        """Whether one of its first records has a text."""
        return self.have_texts(islice(self.records.records(), FIRST_RECORDS))

    def rest(self) -> Iterator[RawItem]:
        """A row for every record that no file took, and the texts of those that name none."""
        names = SampleNames(self.reading.key)
        for record, fault in self.left_over(is_any_needed=True):
            if fault is None:
                number = int(record.label.rpartition(":")[2])
                yield from rows_of_line(Line(record.label, number, record.fields), self.reading, names)
            else:
                # A record that has words is itself at the pointer that names the whole of it: without one the locator
                # is that of its first text.
                yield self.row(record, fault, mark="#" if isinstance(record.body, str) and record.body else "")

    def describes(self, directory: str, placement: Placement) -> bool:
        """Whether the directory holds media, and is that of the manifest, or below it."""
        return self.entry in placement.companions_of(directory)

    def texts(self, fields: dict[str, Any], present: set[str]) -> list[TextField]:
        """The texts of a record; where it has no other, its dialogue: next to media it says something of them, as a
        caption does, and is a document else."""
        found = super().texts(fields, present)
        dialogue = self._dialogue(fields) if not found else None
        role = "caption" if present else "document"
        return [TextField(dialogue[0], None, dialogue[1], role, is_kept=True)] if dialogue is not None else found

    def is_outside(self, path: str) -> bool:
        """As for every such file; besides, paths with the letter of a drive."""
        return super().is_outside(path) or path[1:2] == ":"

    def may_name_in(self, places: Sequence[str]) -> bool:
        """As for every such file; ids name media anywhere."""
        return self._may_have_ids or super().may_name_in(places)

    def names_files_in(self, directory: str) -> bool:
        """Whether it names files of the directory, or may do so by lying in it."""
        places = self.places(directory)
        if not self._may_have_ids:
            return self.may_name_in(places)
        names = (composed(printable(entry.name)) for entry in self.reading.entries)
        return any(self.records.of(key) for name in names for key in self.keys_of(name, places))
