"""Texts in a directory of their own, a file for each medium: `txt/p225/p225_001.txt` says what is said in
`wav48/p225/p225_001.wav` (VCTK), `captions/1.txt` or `labels/1.txt` what is seen in `videos/1.mp4`.

Enters: names of two directories of which one has the other's word in its path. Leaves: a text for each medium whose
stem a text has. What no medium has the stem of stays the document that it is, in the shard of its directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from mmlake.landing import Entry
from mmlake.media_names import is_media_name
from mmlake.records import SourceRef
from mmlake.sources.companions.places import renamed
from mmlake.sources.parsed_files import Kind
from mmlake.sources.raw_items import Content, Member, RawItem, Reading
from mmlake.sources.records.fields import text_role
from mmlake.sources.samples.companion import Companion, Description

ENDING = ".txt"  # of the texts
_SEEN = ("captions", "caption", "prompts")  # directories of texts that say what is seen
_SAID = ("txt", "text", "texts", "transcripts", "transcript")  # of those that say what their media make them say
_DIRECTORIES = {  # of media -> of their texts
    **dict.fromkeys(("images", "imgs", "img"), (*_SEEN, *_SAID)),
    **dict.fromkeys(("videos", "video", "clips"), (*_SEEN, *_SAID, "labels")),  # labels: CogVideoX
    **dict.fromkeys(("wavs", "wav", "audio", "audios", "wav48", "wav48_silence_trimmed"), (*_SEEN, *_SAID)),
}
# one of which the path of such a text has
FOLDERS = tuple(sorted({f"{text}/" for texts in _DIRECTORIES.values() for text in texts}))
_MICROPHONE = re.compile(r"_mic[12]\Z")  # VCTK has two recordings of one text
_SIZES: Kind[Mapping[str, int]] = Kind(max_size=1 << 20, size_of=len)


def text_directories(directory: str) -> list[str]:
    """Where the texts of media in the directory may lie."""
    found = (renamed(directory, media, text) for media, texts in _DIRECTORIES.items() for text in texts)
    return list(dict.fromkeys(filter(None, found)))


def media_directories(directory: str) -> list[str]:
    """Where the media may lie that texts in the directory are of."""
    found = (renamed(directory, text, media) for media, texts in _DIRECTORIES.items() for text in texts)
    return list(dict.fromkeys(filter(None, found)))


def may_be_of_others(name: str) -> bool:
    """Whether a member of an archive may be a text of a medium in another folder, by its name."""
    return name.endswith(ENDING) and bool(_media_directories(name.removeprefix("./").rpartition("/")[0]))


_media_directories = lru_cache(256)(media_directories)


class ParallelTexts(Companion):
    """The texts of the media of one directory."""

    has_texts = True

    def __init__(self, reading: Reading, found: Sequence[tuple[str, Mapping[str, int]]]) -> None:
        """found: directories of texts, with the names and sizes of these."""
        self._reading, self._found = reading, found

    def describe(self, stem: str, members: Sequence[Member]) -> Description:
        """The texts that have the name of a medium of the sample."""
        present = {member.modality for member in members if member.is_media and member.modality}
        stems = dict.fromkeys(text_stem_of(member.name) for member in members if member.is_media)
        texts = [
            self._item(f"{directory}/{name}{ENDING}", sizes[f"{name}{ENDING}"], present)
            for directory, sizes in self._found
            for name in stems
            if f"{name}{ENDING}" in sizes
        ]
        return Description(texts=tuple(texts))

    def _item(self, path: str, size_bytes: int, present: set[str]) -> RawItem:
        item = RawItem("text", SourceRef(path), "", role=role_in(path, present))
        item.content_type, item.extension, item.size_bytes = "text/plain", "txt", size_bytes
        item.content = Content(partial(self._reading.landing.open, path))
        return item


def role_in(path: str, present: set[str]) -> str:
    """The role of a text at the path. present: modalities of the media that it is of."""
    return "caption" if any(part in (*_SEEN, "labels") for part in path.split("/")[:-1]) else text_role(present)


def texts_of(reading: Reading) -> ParallelTexts | None:
    """The texts of the media that are read, or None where no directory has any."""
    found = [(one, _sizes(reading, one, ENDING)) for one in _around(reading, text_directories(reading.path))]
    found = [(directory, sizes) for directory, sizes in found if sizes]
    return ParallelTexts(reading, found) if found else None


def without_taken(entries: Sequence[Entry], reading: Reading) -> list[Entry]:
    """The files that are no texts of media elsewhere: those are in the shards of their media."""
    stems = set[str]()
    for directory in _around(reading, media_directories(reading.path)):
        stems.update(map(text_stem_of, _sizes(reading, directory, "")))
    return [entry for entry in entries if not _is_of(entry, stems)] if stems else [*entries]


def _is_of(entry: Entry, stems: set[str]) -> bool:
    """Whether the file is a text that has one of the stems."""
    return entry.refused is None and entry.name.endswith(ENDING) and entry.name[: -len(ENDING)] in stems


def _around(reading: Reading, directories: list[str]) -> list[str]:
    """Those of the directories that the scan found to belong to the one that is read."""
    companions = {entry.path for entry in reading.around} if directories else ()
    return [directory for directory in directories if f"{directory}/*" in companions]


def _sizes(reading: Reading, directory: str, ending: str) -> Mapping[str, int]:
    """Size by name of the texts in a directory around, or where there is no ending, of its media. Every part of a
    directory asks, and what is around says whether the other directory is what it was."""

    def listed() -> Mapping[str, int]:
        good = [one for one in reading.landing.files(directory) if one.refused is None]
        return {
            one.name: one.size_bytes
            for one in good
            if (one.name.endswith(ending) if ending else is_media_name(one.name))
        }

    as_scanned = tuple(entry for entry in reading.around if entry.path == f"{directory}/*")
    return reading.parsed.get(_SIZES, (reading.landing.location, as_scanned, ending), listed)


def text_stem_of(name: str) -> str:
    """What the text of a medium is called, without its ending."""
    return _MICROPHONE.sub("", name.rpartition("/")[2].rpartition(".")[0])
