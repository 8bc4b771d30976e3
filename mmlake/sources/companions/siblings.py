"""What the other files of a directory make of one that may be a list of records: `a.json` next to `a.jpg` annotates
that image, whatever is in it.

By names alone, so that it changes with the listing and with nothing else.
"""

from __future__ import annotations

from functools import cached_property

from mmlake.formats import sniff
from mmlake.landing import Landing
from mmlake.sources.companions import manifest_forms, places
from mmlake.sources.names import file_stem_of
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.settings import SourceSettings

# files; a directory with more has one per image or recording of another directory, and a shard for each would be a lake
# of shards
_MAX_JSON = 256


class Siblings:
    """The files of one directory. It is listed when they are first asked for, which most directories never are."""

    def __init__(self, landing: Landing, directory: str, settings: SourceSettings, parsed: ParsedFiles) -> None:
        self.settings = settings
        self._landing, self._directory, self._parsed = landing, directory, parsed

    @cached_property
    def _names(self) -> tuple[frozenset[str], int]:
        """(stems of files that are media by their names, or have no extension; number of JSON files)."""
        names = [entry.name for entry in self._landing.files(self._directory)]
        num_json = sum(sniff.extension_of(name) == "json" for name in names)
        return frozenset(file_stem_of(name) for name in names if _may_be_medium(name)), num_json

    def have_no_medium_of(self, name: str) -> bool:
        """Whether no medium is called like the file, nor are there so many like it that each is of one medium
        elsewhere."""
        stems, num_json = self._names
        stem = file_stem_of(name)
        if {stem, stem.rpartition(".")[0]} & stems:  # "talk.en.json" belongs to "talk.mp4"
            return False
        return num_json <= _MAX_JSON or sniff.extension_of(name) != "json"

    def have_scp(self) -> bool:
        """Whether a `wav.scp` of Kaldi is among them, whose companions other files may be."""
        entry = self._landing.stat(places.join(self._directory, manifest_forms.SCP))
        return entry is not None and manifest_forms.is_manifest(self._landing, entry, self._parsed)


def _may_be_medium(name: str) -> bool:
    kind = sniff.kind_of(b"", name)
    return kind.modality != "text" if kind is not None else not sniff.extension_of(name)
