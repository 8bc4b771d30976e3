"""Zip archives as shards: members with one stem are one sample, as in a tar.

A member that is stored as it is has a byte range in its locator; a packed one is read by its name. The archive's
directory is walked once for the places of the members, of which 25 bytes each are noted; memory holds one sample. An
archive whose directory is lost or damaged is read header by header, and a row says so. COCO's annotations inside are
taken out of the samples; see `cocozips.py`.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from mmlake.errors import Fault, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats import zip as zip_format
from mmlake.formats.tar import CutMember, Window
from mmlake.formats.texts import printable
from mmlake.formats.zip import ZipMember
from mmlake.formats.zip_members import opened, unpacked
from mmlake.records import SourceRef
from mmlake.sources.companions import transcripts
from mmlake.sources.companions.coco_zip import PackedCoco
from mmlake.sources.companions.companion import Teller, Transcripts, speakers_among, tables_among, without
from mmlake.sources.companions.placement import MAX_SPEAKING, holds_images, may_be_annotations
from mmlake.sources.companions.zip_entries import packed
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.samples.member import Member, look
from mmlake.sources.samples.plain import Plain
from mmlake.sources.samples.shard_samples import Samples, record_endings
from mmlake.sources.samples.stems import by_first, by_sample, is_mixed, label_of, labels_of, stem_of
from mmlake.streams import read_up_to

_ONCE_BYTES = 1 << 16  # members up to here are expanded whole when they are looked at
_MAX_FOLDERS = 1000  # of an archive, that are looked at for annotations of their images
_LAPPED, _BEYOND = 1, 2  # marks: the member shares bytes with another; the archive grows past the limit

# What names and first members of files say that are zip archives inside, and one thing outside.
_DOCUMENTS = frozenset(
    (
        "docx docm dotx dotm xlsx xlsm xlsb xltx pptx pptm potx ppsx vsdx odt ods odp odg odf ott epub idml "
        "pages numbers key xps oxps kmz 3mf usdz cbz ora kra sketch "
        "jar war ear aar apk aab apks xapk ipa xpi crx nupkg vsix appx msix whl egg npz pt pth ckpt "
        "safetensors keras mlpackage onnx pk3 sb3 love swc"
    ).split()
)
_FIRST_MEMBERS = ("[Content_Types].xml", "META-INF/", "AndroidManifest.xml")
# arrays of NumPy, weights of PyTorch
_FIRST_ENDINGS = ("/data.pkl", ".npy", "/.data/serialization_id", "/.format_version")


def claims(head: bytes, name: str) -> bool:
    """Whether a file with these first bytes is a plain archive: not a document, a program or weights that are kept
    in one."""
    if head[:4] not in (zip_format.HEADER, zip_format.END):
        return False
    extension = sniff.extension_of(name)
    if extension != "zip" and (extension in _DOCUMENTS or sniff.kind_of(b"", name) is not None):
        return False
    first = (
        head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
        if head[:4] == zip_format.HEADER
        else ""
    )
    return (
        first != "mimetype"
        and not first.startswith(_FIRST_MEMBERS)
        and (extension == "zip" or not first.endswith(_FIRST_ENDINGS))
    )


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the shard's rows have, exactly: the first bytes of every member are read."""
    with _samples(reading) as samples:
        return samples.modalities


def items(reading: Reading) -> Iterator[RawItem | Plain]:
    """The shard's rows. Their bytes can be read until the next item is taken."""
    with _samples(reading) as samples:
        yield from samples.items()


def some(reading: Reading, members: Collection[str]) -> Iterator[RawItem | Plain]:
    """The rows whose locators name these members, and perhaps others, without reading samples that have none of
    them."""
    with reading.open() as file:
        archive = _Archive(file, reading)
        told, left = archive.told(), set(members)
        if told is not None:
            for item in told.named(members):
                left.discard(item.ref.member or "")
                yield item
        if left:
            yield from _grouped(archive, reading, told, wanted=left).items()


@contextmanager
def _samples(reading: Reading) -> Iterator[Samples]:
    with reading.open() as file:
        archive = _Archive(file, reading)
        yield _grouped(archive, reading, archive.told())


def _grouped(
    archive: _Archive, reading: Reading, told: PackedCoco | None, *, wanted: Collection[str] | None = None
) -> Samples:
    """wanted: labels of members, with what locators have behind them; only samples that they may be in, as far as
    these can be told apart."""
    tellers: list[Teller] = [told] if told is not None else []
    left_out = told.own if told is not None else ()
    mixed, order = archive.is_mixed(left_out), archive.order
    if not archive.may_hold_tables:
        if wanted is not None and not mixed:
            order = archive.holding(wanted)
        return Samples(
            lambda: by_sample(archive.members(order, left_out, is_listed=mixed)),
            reading,
            faults=archive.faults,
            tellers=tellers,
            is_mixed=mixed,
            is_archive=True,
        )
    # What a table says is looked up by stem, so that the stems of all samples must be known.
    members = list(archive.members(order, left_out, is_listed=True))
    tables = tables_among(members)
    groups: dict[str, list[Member]] = {}
    for member in without(members, tables):
        groups.setdefault(member.stem, []).append(member)
    if tables:
        tellers.insert(0, Transcripts(tables, reading, stems=frozenset(groups), speakers=speakers_among(members)))
    return Samples(
        lambda: iter(groups.values()), reading, faults=archive.faults, tellers=tellers, is_mixed=mixed, is_archive=True
    )


class _Archive:
    """The members of a zip by their places. faults: what is wrong with the archive as a whole."""

    def __init__(self, file: IO[bytes], reading: Reading) -> None:
        self._file, self._reading = file, reading
        self._window, self._entries = Window(file), Window(file)  # of the members' bytes, and of the directory
        self._directory: zip_format.Directory | None = None
        self._places, self._stops, self._marks = array("q"), array("q"), array("b")
        self.may_hold_tables, self.faults = False, list[RawItem]()
        self._speaking = list[int]()  # members that may be annotations
        self._folders: set[str] | None = set()  # those that hold images by their names; None: too many
        self._stems, names, self._records = array("q"), array("q"), array("b")
        if not self._window.size_bytes:
            self.faults.append(
                reading.fault(1006, "size_bytes=0 not in [1, inf)", modality="text", content=Content(reading.open))
            )
        else:
            self._list(names)
        self.order = by_first(np.frombuffer(self._stems, np.int64))
        self._labels = labels_of(np.frombuffer(names, np.int64), lambda at: self._entry(at).name)

    def is_mixed(self, left_out: Collection[int]) -> bool:
        """As for `Samples`, of the members that are not left out."""
        kept = np.ones(len(self._stems), bool)
        kept[list(left_out)] = False
        return is_mixed(np.frombuffer(self._stems, np.int64)[kept], np.frombuffer(self._records, np.int8)[kept])

    def _list(self, names: array[int]) -> None:
        """Note the places of all members: those of their entries in the directory, or of their headers where there
        is none."""
        try:
            self._directory = zip_format.directory_of(self._entries)
            if self._directory.fault is not None:
                self._fail(UnreadableItem(*self._directory.fault))
            self._note(zip_format.walk(self._entries, self._directory), names)
            if (
                not self._places
                and self._window.read(0, 4) == zip_format.HEADER
                and self._directory.stop == self._directory.start
            ):
                raise UnreadableItem(1001, "the archive's directory is empty, and members stand before it")
            return
        except UnreadableItem as error:
            self._fail(error)
        self._directory = None
        for column in (self._places, self._stops, self._marks, self._stems, self._records, names, self._speaking):
            del column[:]
        try:
            self._note(zip_format.walk_headers(self._entries), names)
        except UnreadableItem as error:
            # else the fault above says the same
            if isinstance(error, CutMember) or (self._places and error.code != 1002):
                self._fail(error)

    def _fail(self, error: UnreadableItem) -> None:
        member = printable(error.member) if isinstance(error, CutMember) else None
        self.faults.append(self._reading.fault(error.code, error.reason, modality="text", member=member))

    def _note(self, found: Iterable[tuple[int, ZipMember]], names: array[int]) -> None:
        endings, settings, growth = record_endings(self._reading.settings), self._reading.settings, 0
        headers, stops = array("q"), array("q")
        try:
            for place, member in found:
                name, lower = member.name, member.name.lower()
                if may_be_annotations(lower):
                    self._speaking.append(len(self._places))
                elif self._folders is not None and member.refused is None and holds_images((lower,)):
                    self._folders.add(name.removeprefix("./").rpartition("/")[0])
                    self._folders = None if len(self._folders) > _MAX_FOLDERS else self._folders
                self._places.append(place)
                self._stems.append(hash(stem_of(name)))
                self._records.append(lower.endswith(endings))
                names.append(hash(label_of(name)))
                headers.append(member.header)
                stops.append(
                    min(member.header + len(member.spelling) + member.packed_bytes + 30, self._window.size_bytes + 1)
                )
                if member.refused is None and member.size_bytes <= settings.max_item_bytes:
                    growth += max(0, member.size_bytes - member.packed_bytes)
                self._marks.append(_BEYOND if growth > settings.max_shard_bytes else 0)
                if transcripts.prefix_of(name) is not None:
                    self.may_hold_tables = True
        finally:
            self._bound(np.frombuffer(headers, np.int64), np.frombuffer(stops, np.int64))

    def _bound(self, headers: np.ndarray, stops: np.ndarray) -> None:
        """Note where the next thing behind each member begins, and which share bytes. stops: the least byte at which
        the members end."""
        end = self._directory.start if self._directory is not None else self._window.size_bytes
        bounds, lapped = _bounds(headers, stops, end)
        if lapped.any():
            # An entry that leads to no header of its own has no bytes to share: only its own row shall say so.
            headers = headers.copy()
            headers[[at for at in np.flatnonzero(lapped).tolist() if not self._has_header(at)]] = -1
            bounds, lapped = _bounds(headers, stops, end)
        self._stops = array("q", bounds.tobytes())
        self._marks = array(
            "b", np.where(lapped, _LAPPED, np.frombuffer(self._marks, np.int8)).astype(np.int8).tobytes()
        )

    def _has_header(self, at: int) -> bool:
        try:
            zip_format.data_of(self._window, self._entry(at), self._window.size_bytes)
        except UnreadableItem:
            return False
        return True

    def _entry(self, at: int) -> ZipMember:
        if self._directory is None:
            return zip_format.header_at(self._entries, self._places[at])[0]
        return zip_format.entry_at(self._entries, self._places[at], self._directory)

    def told(self) -> PackedCoco | None:
        """What annotations say of images in the archive, or images outside leave of annotations in it; None where
        there are no such."""
        archive = self._reading.landing.stat(self._reading.path)
        if archive is None or self._directory is None:
            return None
        speaking = self._speaking if len(self._speaking) <= MAX_SPEAKING else ()
        may_be = (
            (at, self._entry(at))
            for at in speaking
            if self._marks[at] != _LAPPED and not self._labels.get(at, ("", False))[1]
        )
        return PackedCoco.of(
            self._reading,
            {at: packed(archive, self._places[at], member) for at, member in may_be if member.refused is None},
            self._folders,
        )

    def holding(self, wanted: Collection[str]) -> list[int]:
        """The members of the samples that members with these labels may be in."""
        stems = {hash(stem_of(name)) for one in wanted for name in (one, one.partition("#")[0])}
        # Labels are names but for those that could meet or that tables cannot hold: where one of these is wanted, all
        # are looked through.
        odd = any("%" in one or "\\" in one or not one.isascii() for one in wanted)
        return [
            at
            for at in (range(len(self._stems)) if self.order is None else self.order)
            if odd or self._stems[at] in stems
        ]

    def members(self, order: Iterable[int] | None, left_out: Collection[int], *, is_listed: bool) -> Iterator[Member]:
        """The members in that order. is_listed: whether all are kept, so that none may hold its bytes."""
        for at in range(len(self._places)) if order is None else order:
            if at in left_out:
                continue
            entry = self._entry(at)
            label, is_repeated = self._labels[at] if at in self._labels else (label_of(entry.name), False)
            stored = _Stored(self._file, self._reading.path, label, entry)
            kind, content, fault, extension = None, None, self._refused(at, entry), sniff.extension_of(entry.name)
            if fault is None:
                try:
                    stored.find(self._window, self._stops[at])
                    kind, content, fault = look(
                        stored,
                        entry.name,
                        entry.size_bytes,
                        self._reading,
                        head=stored.first(sniff.HEAD_BYTES),
                        extension=extension,
                    )
                    stored.is_range = entry.method == zip_format.STORED and content is stored
                except UnreadableItem as error:
                    kind, content, fault = None, None, Fault.of(error)
            if content is None and fault is not None and fault.code not in (1005, 1007):
                kind = sniff.kind_of(b"", entry.name, extension=extension)
            if is_listed:
                stored.forget()
            yield Member(
                entry.name,
                stem_of(entry.name),
                size_bytes=entry.size_bytes,
                kind=kind,
                content=content,
                locate=stored.locate,
                fault=fault,
                duplicate=is_repeated,
                extension=extension,
            )

    def _refused(self, at: int, entry: ZipMember) -> Fault | None:
        limits = self._reading.settings
        if entry.refused is not None:
            return Fault(*entry.refused)
        if self._marks[at] == _LAPPED:
            return Fault(1007, "the member's bytes are also those of another member")
        if entry.size_bytes > limits.max_item_bytes:
            return Fault(1008, f"size_bytes={entry.size_bytes} not in [0, {limits.max_item_bytes}]")
        if self._marks[at] == _BEYOND:
            return Fault(
                1008, f"the archive's members expand by more than {limits.max_shard_bytes} bytes up to this one"
            )
        return None


def _bounds(headers: np.ndarray, stops: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """(where the next header behind that of each member stands, or the end; whether its bytes and another's are the
    same). Headers below 0 do not count."""
    bounds, lapped = np.full(len(headers), end, np.int64), np.zeros(len(headers), bool)
    order = np.argsort(headers, kind="stable")
    order = order[headers[order] >= 0]
    starts, ends = headers[order], stops[order]
    bounds[order[:-1]] = starts[1:]
    lapped[order[1:]] |= starts[1:] < np.maximum.accumulate(ends)[:-1]
    lapped[order[:-1]] |= ends[:-1] > starts[1:]
    return bounds, lapped


class _Stored(Content):
    """A member of the archive: its place and the way to its bytes in one object."""

    __slots__ = ("_data", "_entry", "_file", "_label", "_path", "_start", "is_range")
    raw = stored = text = None

    def __init__(self, file: IO[bytes], path: str, label: str, entry: ZipMember) -> None:
        self._file, self._path, self._label, self._entry = file, path, label, entry
        self._start, self._data = 0, b""
        self.is_range = False  # whether a range of the shard as it lies on disk is the item

    def find(self, window: Window, stop: int) -> None:
        """Look up where the bytes begin, and read the first ones. Raises UnreadableItem."""
        entry = self._entry
        self._start = zip_format.data_of(window, entry, stop)
        if entry.size_bytes <= _ONCE_BYTES and entry.packed_bytes <= _ONCE_BYTES:
            self._data = unpacked(window.read(self._start, entry.packed_bytes), entry)
        else:
            with self.open() as stream:
                self._data = read_up_to(stream, sniff.HEAD_BYTES)

    def forget(self) -> None:
        """Let the first bytes go."""
        self._data = b""

    def open(self) -> IO[bytes]:
        """The member's bytes."""
        if self._data and len(self._data) == self._entry.size_bytes:
            return io.BytesIO(self._data)
        return opened(self._file, self._entry, self._start)

    def first(self, size_bytes: int) -> bytes:
        """So many of its first bytes."""
        wanted = min(size_bytes, self._entry.size_bytes)
        if wanted <= len(self._data):
            return self._data if wanted == len(self._data) else self._data[:wanted]
        with self.open() as stream:
            return read_up_to(stream, wanted)

    def locate(self, pointer: str) -> SourceRef:
        """The locator of the member, or of a text inside it."""
        if self.is_range and not pointer:
            return SourceRef(self._path, self._label, self._start, self._entry.size_bytes)
        return SourceRef(self._path, f"{self._label}#{pointer}" if pointer else self._label)
