"""Zip archives as shards: members with one stem are one sample, as in a tar.

A member that is stored as it is has a byte range in its locator; a packed one is read by its name. Of each member 25
bytes are noted (`archive`). An archive whose directory is lost or damaged is read header by header, and a row says so.
COCO's annotations inside are taken out of the samples; see `companions/coco.py`.
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
from mmlake.formats.tar import CutMember
from mmlake.formats.zip import ZipMember
from mmlake.formats.zip_members import opened, unpacked
from mmlake.sources.companions.archives import member_of
from mmlake.sources.companions.coco import ZipAnnotations
from mmlake.sources.companions.listed_names import MAX_ANNOTATIONS
from mmlake.sources.companions.places import holds_images, may_be_annotations
from mmlake.sources.connectors.archive import Archive, connector
from mmlake.sources.names import label_of, stem_of
from mmlake.sources.raw_items import Member, RawItem, Reading
from mmlake.sources.samples.shard_samples import Samples
from mmlake.streams import Window, read_up_to

_ONCE_BYTES = 1 << 16  # members up to here are expanded whole when they are classified
_NOTED_NAMES = 512  # names that are noted together
_MAX_FOLDERS = 1000  # of an archive, that are looked up for annotations of their images
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


def some(reading: Reading, members: Collection[str]) -> Iterator[RawItem]:
    """The rows whose locators name these members, and perhaps others, without reading samples that have none of
    them."""
    with reading.open() as file:
        archive, left = _Zip(file, reading), set(members)
        coco = archive.coco()
        for item in coco.named(members) if coco is not None else ():
            left.discard(item.ref.member or "")
            yield item
        if left:
            yield from _with_coco(archive, coco, wanted=left).items()


@contextmanager
def _samples(reading: Reading) -> Iterator[Samples]:
    with reading.open() as file:
        archive = _Zip(file, reading)
        yield _with_coco(archive, archive.coco())


modalities, items = connector(_samples)


def _with_coco(archive: _Zip, coco: ZipAnnotations | None, *, wanted: Collection[str] | None = None) -> Samples:
    """The archive's samples without the annotations that describe their images. wanted: as for `Archive.samples`."""
    if coco is None:
        return archive.samples(wanted=wanted)
    return archive.samples([coco], left_out=coco.own, wanted=wanted)


class _Zip(Archive):
    """The members of a zip by their places."""

    def __init__(self, file: IO[bytes], reading: Reading) -> None:
        super().__init__(reading)
        self._file = file
        self._window, self._entries = Window(file), Window(file)  # of the members' bytes, and of the directory
        self._directory: zip_format.Directory | None = None
        self._places, self._stops, self._marks = array("q"), array("q"), array("b")
        self._speaking = list[int]()  # members that may be annotations
        self._folders: set[str] | None = set()  # those that hold images by their names; None: too many
        if self._window.size_bytes:
            self._list()
        else:
            self.faults = [reading.empty()]
        self.settle()

    def name_at(self, at: int) -> str:
        return self._entry(at).name

    def _list(self) -> None:
        """Note the places of all members: those of their entries in the directory, or of their headers where there
        is none."""
        try:
            self._directory = zip_format.directory_of(self._entries)
            if self._directory.fault is not None:
                self.fail(UnreadableItem(*self._directory.fault))
            self._note_all(zip_format.walk(self._entries, self._directory))
            if (
                not self._places
                and self._window.read(0, 4) == zip_format.HEADER
                and self._directory.stop == self._directory.start
            ):
                raise UnreadableItem(1001, "the archive's directory is empty, and members stand before it")
            return
        except UnreadableItem as error:
            self.fail(error)
        self._directory = None
        self.forget()
        for column in (self._places, self._stops, self._marks, self._speaking):
            del column[:]
        try:
            self._note_all(zip_format.walk_headers(self._entries))
        except UnreadableItem as error:
            # else the fault above says the same
            if isinstance(error, CutMember) or (self._places and error.code != 1002):
                self.fail(error)

    def _note_all(self, found: Iterable[tuple[int, ZipMember]]) -> None:
        settings, growth = self.reading.settings, 0
        headers, stops, names = array("q"), array("q"), list[str]()
        try:
            for place, member in found:
                lower = member.name.lower()
                if may_be_annotations(lower):
                    self._speaking.append(len(self._places))
                elif self._folders is not None and holds_images((lower,)):
                    self._folders.add(member.name.removeprefix("./").rpartition("/")[0])
                    self._folders = None if len(self._folders) > _MAX_FOLDERS else self._folders
                self._places.append(place)
                names.append(member.name)
                if len(names) == _NOTED_NAMES:
                    self.note(names, "\0".join(names))
                    names.clear()
                headers.append(member.header)
                stop = member.header + len(member.spelling) + member.packed_bytes + 30
                stops.append(min(stop, self._window.size_bytes + 1))
                if member.refused is None and member.size_bytes <= settings.max_item_bytes:
                    growth += max(0, member.size_bytes - member.packed_bytes)
                self._marks.append(_BEYOND if growth > settings.max_shard_bytes else 0)
        finally:
            self.note(names, "\0".join(names))
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

    def coco(self) -> ZipAnnotations | None:
        """What annotations say of images in the archive, or images outside leave of annotations in it; None where
        there are no such."""
        archive = self.reading.landing.stat(self.reading.path)
        if archive is None or self._directory is None:
            return None
        speaking = self._speaking if len(self._speaking) <= MAX_ANNOTATIONS else ()
        may_be = (
            (at, self._entry(at))
            for at in speaking
            if self._marks[at] != _LAPPED and not self.repeated.get(at, ("", False))[1]
        )
        own = {at: member_of(archive, self._places[at], member) for at, member in may_be if member.refused is None}
        return ZipAnnotations.of(self.reading, own, self._folders)

    def members(self, order: Iterable[int] | None, *, is_listed: bool) -> Iterator[Member]:
        for at in range(len(self._places)) if order is None else order:
            entry = self._entry(at)
            name, path = entry.name, self.reading.path
            member = _ZipMember(name, stem_of(name), entry.size_bytes, path, label_of(name), (self._file, entry))
            self.mark(at, member)
            yield self._classified(at, member, entry)
            if is_listed:
                member.forget()

    def _classified(self, at: int, member: _ZipMember, entry: ZipMember) -> Member:
        fault = self._refused(at, entry)
        if fault is None:
            try:
                member.find(self._window, self._stops[at])
                member.is_range = entry.method == zip_format.STORED
                return member.classify_by(member.first(sniff.HEAD_BYTES), self.reading.settings)
            except UnreadableItem as error:
                fault = Fault.of(error)
        kind = sniff.kind_of(b"", entry.name, extension=member.extension) if fault.code not in (1005, 1007) else None
        return member.classify(kind, fault, is_readable=False)

    def _refused(self, at: int, entry: ZipMember) -> Fault | None:
        limits = self.reading.settings
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


class _ZipMember(Member):
    """A member of the archive, packed or as it is. file: the archive, and what it says of the member."""

    __slots__ = ()

    def find(self, window: Window, stop: int) -> None:
        """Look up where the bytes begin, and read the first ones. Raises UnreadableItem."""
        _, entry = self.file
        self.start = zip_format.data_of(window, entry, stop)
        if entry.size_bytes <= _ONCE_BYTES and entry.packed_bytes <= _ONCE_BYTES:
            self.known = unpacked(window.read(self.start, entry.packed_bytes), entry)
        else:
            self.known = self.fetch(sniff.HEAD_BYTES)
        self.is_whole = bool(self.known) and len(self.known) == self.size_bytes

    def open(self) -> IO[bytes]:
        file, entry = self.file
        return io.BytesIO(self.known) if self.is_whole else opened(file, entry, self.start)

    def fetch(self, size_bytes: int) -> bytes:
        with self.open() as stream:
            return read_up_to(stream, min(size_bytes, self.size_bytes))
