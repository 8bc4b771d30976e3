"""Lists of URLs: every address is a row, whether its content came or why it did not; its texts are rows
too.

A file is a list by its name: `*.urls`, `*.urls.txt`, `*.urls.jsonl`, `*.urls.csv`, `*.urls.tsv`, `*.urls.parquet`. Rows
come in the order of the lines, whatever the order of arrival. Nothing is fetched without the `downloads` of a lake,
which fetch each address once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple

from mmlake.download.results import DownloadResult, Downloads
from mmlake.errors import Fault, SettingsError, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.checksums import Checksum
from mmlake.formats.compression import compression_of
from mmlake.formats.urls import path_of, redacted
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading, become_text, role_of
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.column_rows import with_words
from mmlake.sources.records.fields import first_field, licence_field
from mmlake.sources.records.lines import ENDINGS, Line, lines
from mmlake.sources.settings import SourceSettings

_ALGORITHMS = ("sha256", "sha512", "sha384", "sha1", "md5")
_ADDRESSED = ("addressed",)  # stands for media whose modality is not known yet
_EITHER = ("video", "audio")  # an mp4 or webm without pictures is sound, which only its tracks show


class _Address(NamedTuple):
    """One address of a record."""

    column: str  # or, of an interleaved record, the place in it
    url: str
    expected: tuple[str, ...]  # modalities that its content may have; none where the record does not say


class _Record:
    """One record of the list, with its addresses and, where it is interleaved, its parts."""

    def __init__(self, line: Line, reading: Reading) -> None:
        self.name, self.number, self.fields, self.fault = line.name, line.number, line.fields, line.fault
        settings, is_listed = reading.settings, interleaved.is_listed(line.fields, settings=reading.settings)
        self.parts = interleaved.parts_of(line.fields, settings=settings) if is_listed else []
        self.addresses = (
            # of an interleaved record only its images: the address of the page is no content
            [_Address(part.pointer, part.address, ("image",)) for part in self.parts if part.address]
            if self.parts
            else list(_addresses(line.fields, reading))
        )

    def texts(self, media: Collection[str], blank: RawItem, reading: Reading) -> list[tuple[str, RawItem]]:
        """(field, row) of each text of the record. media: modalities that its addresses have."""

        def locate(pointer: str) -> SourceRef:
            return SourceRef(path=reading.path, member=f"{self.name}/{pointer}")

        found = []
        parts = [part for part in self.parts if not part.address]
        for part, item in interleaved.items_of_parts(parts, blank, locate=locate):
            found.append((part.pointer, item.replace(own=dict(part.own))))
        for field in record_fields.text_fields(self.fields, media, settings=reading.settings):
            item = blank.replace(ref=locate(field.pointer[1:]), own=dict(field.own))
            found.append((field.name, become_text(item, field.text, field.role)))
        return found


def _addresses(fields: dict[str, Any], reading: Reading) -> Iterator[_Address]:
    settings = reading.settings
    typed = (
        ("", settings.url_fields),
        ("image", settings.image_url_fields),
        ("video", settings.video_url_fields),
        ("audio", settings.audio_url_fields),
    )
    for modality, names in typed:
        column = first_field(fields, names)
        if column is not None and isinstance(fields[column], str) and fields[column].strip():
            url = fields[column].strip()
            yield _Address(column, url, (modality,) if modality else _expected(url, reading.hint))


def claims(head: bytes, name: str) -> bool:
    """Whether a file of this name is a list of URLs: its name says so, and its bytes are text or Parquet."""
    lower = name.lower()
    if lower.endswith(".urls.parquet"):
        return head.startswith(b"PAR1")
    return lower.endswith(ENDINGS) and (not head or sniff.is_textual(head)) and compression_of(head) is None


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that rows may have, by columns, extensions and the path; all where one address does not say its
    own. Nothing is fetched."""
    found: set[str] = set()
    for record in (_Record(line, reading) for line in lines(reading)):
        for address in record.addresses:
            found.update(address.expected or sniff.RECOGNISED)
        if (
            not record.addresses
            or any(part.text is not None for part in record.parts)
            or record_fields.text_fields(record.fields, _ADDRESSED, settings=reading.settings)
        ):
            found.add("text")
        if len(found) == len(sniff.RECOGNISED):
            break
    return shards.ordered(found) or (reading.home,)


def num_samples(reading: Reading) -> int:
    """The number of records of the list."""
    return sum(1 for _ in lines(reading))


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the records in order; within a record what was fetched, then texts."""
    downloads = reading.downloads
    if downloads is None:
        raise SettingsError(
            f"{reading.path} is a list of URLs, and nothing may be downloaded here; read it through a lake, or "
            "pass downloads=JournalledDownloads(...)"
        )
    pending: deque[_Record] = deque()

    def requested() -> Iterator[str | None]:
        for line in islice(lines(reading), reading.limit):
            record = _Record(line, reading)
            pending.append(record)
            # A record without an address has a place among the results too: what is pending stays bounded.
            yield from (address.url for address in record.addresses) if record.addresses else (None,)

    names, results, number = SampleNames(reading.key), list[DownloadResult](), 0
    for result in downloads.fetch(requested(), rules=reading.settings):
        if result is not None:
            results.append(result)
        if result is None or len(results) == len(pending[0].addresses):
            yield from _rows(pending.popleft(), results, reading, downloads, names)
            results, number = [], number + 1
    if not number:
        yield reading.empty(reading.home, what="num_records")


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The bytes of one item: a text from the list itself, what an address holds from the downloads. Raises
    UnreadableItem where it is gone."""
    name, _, member = (ref.member or "").partition("/")
    line = next((line for line in lines(reading) if line.name == name), None)
    if line is None:
        raise UnreadableItem(1001, f"{ref.path} no longer has the record {name!r}")
    record = _Record(line, reading)
    address = next((one for one in record.addresses if one.column == member), None)
    if address is not None:
        if reading.downloads is None:
            raise UnreadableItem(1001, "the bytes lie at an address of the web, and nothing may be downloaded here")
        (result,) = reading.downloads.fetch([address.url], rules=reading.settings)
        assert result is not None
        if result.digest is None:
            raise UnreadableItem(result.code or 1001, result.reason or "the address has no content")
        with reading.downloads.open(result) as stream:
            return stream.read()
    for _, item in record.texts((), RawItem(modality="text", ref=ref, sample_id=""), reading):
        if item.ref.member == ref.member and item.content is not None:
            return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _expected(url: str, hint: str | None) -> tuple[str, ...]:
    kind = sniff.kind_of(b"", path_of(url))
    if hint is not None:
        return (hint,)
    # a page may be at an address of any name, and ".txt" says little
    if kind is None or kind.modality in (None, "text"):
        return ()
    return _EITHER if kind.modality in _EITHER else (str(kind.modality),)


def _rows(
    record: _Record, results: list[DownloadResult], reading: Reading, downloads: Downloads, names: SampleNames
) -> Iterator[RawItem]:
    settings, fields, addresses, parts = reading.settings, record.fields, record.addresses, record.parts
    identity = first_field(fields, settings.id_fields)
    # the modality of the row where no content says another
    usual = (addresses[0].expected[:1] or (reading.home,))[0] if addresses else "text"
    blank = RawItem(
        modality=usual,
        role=role_of(usual),
        ref=SourceRef(path=reading.path, member=record.name),
        sample_id=names.of(fields[identity] if identity else record.name, record.number),
        licence=licence_field(fields, settings),
    )
    if record.fault is not None or not (addresses or parts):
        fault = record.fault or Fault(1003, f"none of the fields {sorted(fields)[:12]} is an address")
        yield blank.replace(metadata=_redacted(fields), fault=fault)
        return
    media = {result.modality for result in results if result.modality not in (None, "text")} or {
        name for address in addresses for name in address.expected[:1]
    }
    texts = record.texts({name for name in media if name} or _ADDRESSED, blank, reading)
    used = {field for field, _ in texts}
    used |= interleaved.used_lists(fields, settings=settings) if parts else set()
    metadata = _redacted({name: value for name, value in fields.items() if name not in used})
    rows = [
        _fetched(blank, address, result, {} if parts else fields, reading, downloads)
        for address, result in zip(addresses, results, strict=True)
    ]
    rows.extend(item for _, item in texts)
    if parts:
        yield from _in_order(parts, rows, metadata)
        return
    for position, item in enumerate(rows):
        item.position, item.metadata = position, metadata
    words = [(item.role, item.content.text or "") for _, item in texts if item.fault is None and item.content]
    yield from with_words(rows, words)


def _in_order(parts: list[interleaved.Part], rows: list[RawItem], metadata: dict[str, Any]) -> Iterator[RawItem]:
    """The rows of an interleaved record at their places, then what else it has."""
    by_pointer = {part.pointer: part for part in parts}
    behind, placed = parts[-1].position + 1, list[RawItem]()
    for item in rows:
        part = by_pointer.get((item.ref.member or "").partition("/")[2])
        placed.append(
            item.replace(position=behind, metadata=metadata)
            if part is None
            else item.replace(position=part.position, metadata=metadata, own={**part.own, **item.own})
        )
        behind += part is None
    yield from sorted(placed, key=lambda item: item.position)


def _redacted(value: Any) -> Any:
    """The value without credentials in its addresses, however deep they stand."""
    if isinstance(value, dict):
        return {name: _redacted(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_redacted(child) for child in value]
    return redacted(value) if isinstance(value, str) else value


def _fetched(
    blank: RawItem,
    address: _Address,
    result: DownloadResult,
    fields: dict[str, Any],
    reading: Reading,
    downloads: Downloads,
) -> RawItem:
    """The row of one address."""
    ref = SourceRef(path=reading.path, member=f"{blank.ref.member}/{address.column}")
    expected, modality = address.expected, address.expected[0] if address.expected else downloads.table_of(result)
    item = blank.replace(ref=ref, modality=modality, role=role_of(modality), own=_own_fields(result))
    if result.digest is None:
        return item.replace(fault=Fault(result.code or 1103, result.reason or "no answer"))
    content = Content(lambda: downloads.open(result), stored=(result.digest, result.size_bytes))
    item = item.replace(
        content=content, content_type=result.content_type, extension=result.extension, size_bytes=result.size_bytes
    )
    if result.modality is None:
        return item.replace(
            fault=Fault(1005, f"content is {result.content_type or 'of no known type'}, which no modality takes")
        )
    if expected and result.modality not in expected:
        return item.replace(
            fault=Fault(1003, f"the content is {result.content_type}, expected one of {list(expected)}")
        )
    if not expected and result.modality != modality:
        reason = f"the content is {result.content_type} now, and is {modality} in the other tables of the list"
        return item.replace(fault=Fault(1003, f"{reason}; try it again to move it"))
    item = item.replace(modality=result.modality, role=role_of(result.modality), charset=result.charset)
    return item.replace(fault=_mismatch(result, address.column, fields, content, reading.settings))


def _own_fields(result: DownloadResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "http_status": result.status,
        "http_headers": result.headers or None,
        "final_url": result.final_url and redacted(result.final_url),
    }
    return {name: value for name, value in found.items() if value is not None}


def _mismatch(
    result: DownloadResult, column: str, fields: dict[str, Any], content: Content, settings: SourceSettings
) -> Fault | None:
    """Why the content is not what its publisher hashed; `image_sha256` is the hash of `image_url`, `sha256` that of
    any."""
    stem = column.lower().removesuffix("url").removesuffix("_")
    for algorithm in _ALGORITHMS:
        name = first_field(fields, ((f"{stem}_{algorithm}",) if stem else ()) + (algorithm,))
        if name is None or not str(fields[name]).strip():
            continue
        stated = Checksum.of(algorithm, str(fields[name]).strip())
        if stated is None:
            return Fault(1003, f"{name}={str(fields[name])[:140]!r} is no {algorithm} hash")
        is_same = stated.value.hex() == result.digest if algorithm == "sha256" else stated.fits(content.open())
        if not is_same:
            return Fault(1010, f"the content does not have the {algorithm} {stated.value.hex()} that the list states")
    return None
