"""Lists of URLs: every address is a row, whether its content came or why it did not; texts that stand beside it are
rows too.

A file is a list by its name: `*.urls`, `*.urls.txt`, `*.urls.jsonl`, `*.urls.csv`, `*.urls.tsv`, `*.urls.parquet`. Rows
come in the order of the lines, whatever the order of arrival. Nothing is fetched without the `downloads` of a lake,
which fetch each address once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from mmlake.download.results import DownloadResult, Downloads
from mmlake.errors import Fault, SettingsError, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.checksums import Checksum
from mmlake.formats.urls import path_of, redacted
from mmlake.records import MODALITIES, SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.connectors.json_lines import SampleNames
from mmlake.sources.raw_items import Content, RawItem, Reading, first_field, licence_field, reader_of, text_item
from mmlake.sources.records import fields as record_fields
from mmlake.sources.records import interleaved
from mmlake.sources.records.lines import Line, lines
from mmlake.sources.settings import SourceSettings

_ALGORITHMS = ("sha256", "sha512", "sha384", "sha1", "md5")
_ADDRESSED = ("addressed",)  # stands for media of which nobody knows yet what they are
_EITHER = ("video", "audio")  # an mp4 or webm without pictures is sound, which only its tracks tell


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that rows may have, as columns, extensions and the path tell; all where one address tells none.
    Nothing is fetched."""
    found: set[str] = set()
    for line in lines(reading):
        urls = _urls(line.fields, reading)
        texts = record_fields.text_fields(line.fields, _ADDRESSED, settings=reading.settings) or any(
            part.text is not None for part in _parts(line.fields, reading)
        )
        found.update(*(expected or MODALITIES for _, _, expected in urls), ("text",) if texts or not urls else ())
        if len(found) == len(MODALITIES):
            break
    return shards.ordered(found) or (reading.hint or "text",)


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
    pending: deque[Line] = deque()

    def asked() -> Iterator[str | None]:
        for line in islice(lines(reading), reading.limit):
            pending.append(line)
            # A record without an address takes its place in the row of answers too: what is pending stays bounded.
            yield from (url for _, url, _ in _urls(line.fields, reading)) if _urls(line.fields, reading) else (None,)

    names, answers, number = SampleNames(reading.key), list[DownloadResult](), 0
    for answer in downloads.fetch(asked(), rules=reading.settings):
        line = pending[0]
        if answer is not None:
            answers.append(answer)
        if answer is None or len(answers) == len(_urls(line.fields, reading)):
            yield from _rows(line, answers, reading, downloads, names)
            pending.popleft()
            answers, number = [], number + 1
    if not number:
        yield reading.fault(
            1006, "num_records=0 not in [1, inf)", modality=reading.hint or "text", content=Content(reading.open)
        )


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The bytes of one item: a text from the list itself, what an address holds from the downloads. Raises
    UnreadableItem where it is gone."""
    name, _, _ = (ref.member or "").partition("/")
    line = next((line for line in lines(reading) if line.name == name), None)
    if line is None:
        raise UnreadableItem(1001, f"{ref.path} no longer has the record {name!r}")
    wanted = [(column, url) for column, url, _ in _urls(line.fields, reading) if ref.member == f"{name}/{column}"]
    if wanted:
        if reading.downloads is None:
            raise UnreadableItem(1001, "the bytes lie at an address of the web, and nothing may be downloaded here")
        (answer,) = reading.downloads.fetch([wanted[0][1]], rules=reading.settings)
        assert answer is not None
        if answer.digest is None:
            raise UnreadableItem(answer.code or 1001, answer.reason or "the address has no content")
        with reading.downloads.open(answer) as stream:
            return stream.read()
    for item in _texts(line, (), RawItem(modality="text", ref=ref, sample_id=""), reading):
        if item.ref.member == ref.member and item.content is not None:
            return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


def _urls(fields: dict[str, Any], reading: Reading) -> list[tuple[str, str, tuple[str, ...]]]:
    """(column, address, modalities that its content may have) of a record; no modalities where nothing tells. Of an
    interleaved one only its images: where the page lay is no content."""
    settings, found = reading.settings, []
    if parts := _parts(fields, reading):
        return [(part.pointer, part.address, ("image",)) for part in parts if part.address]
    typed = (
        ("image", settings.image_url_fields),
        ("video", settings.video_url_fields),
        ("audio", settings.audio_url_fields),
    )
    for modality, names in (("", settings.url_fields), *typed):
        column = first_field(fields, names)
        if column is not None and isinstance(fields[column], str) and fields[column].strip():
            url = fields[column].strip()
            found.append((column, url, (modality,) if modality else _expected(url, reading.hint)))
    return found


def _parts(fields: dict[str, Any], reading: Reading) -> list[interleaved.Part]:
    """The texts and images of a record that lists both."""
    return (
        interleaved.parts_of(fields, settings=reading.settings)
        if interleaved.is_listed(fields, settings=reading.settings)
        else []
    )


def _expected(url: str, hint: str | None) -> tuple[str, ...]:
    kind = sniff.kind_of(b"", path_of(url))
    if hint is not None:
        return (hint,)
    # a page may be at an address of any name, and ".txt" says little
    if kind is None or kind.modality in (None, "text"):
        return ()
    return _EITHER if kind.modality in _EITHER else (str(kind.modality),)


def _rows(
    line: Line, answers: list[DownloadResult], reading: Reading, downloads: Downloads, names: SampleNames
) -> Iterator[RawItem]:
    settings, fields = reading.settings, line.fields
    urls = _urls(fields, reading)
    identity = first_field(fields, settings.id_fields)
    sample_id = names.of(fields[identity] if identity else line.name, line.number)
    home = urls[0][2][0] if urls and urls[0][2] else reading.hint if reading.hint and urls else "text"
    blank = RawItem(
        modality=home,
        role="document" if home == "text" else "media",
        ref=SourceRef(path=reading.path, member=line.name),
        sample_id=sample_id,
        licence=licence_field(fields, settings),
    )
    parts = _parts(fields, reading)
    if line.fault is not None or not (urls or parts):
        fault = line.fault or Fault(1003, f"none of the fields {sorted(fields)[:12]} is an address")
        yield blank.but(metadata=_shown(fields), fault=fault)
        return
    media = {answer.modality for answer in answers if answer.modality not in (None, "text")} or {
        name for _, _, expected in urls for name in expected[:1]
    }
    found = _texts(line, media or _ADDRESSED, blank, reading)
    used = {item.own["field"] for item in found}
    used |= interleaved.used_lists(fields, settings=settings) if parts else set()
    metadata = _shown({name: value for name, value in fields.items() if name not in used})
    rows = [
        _fetched(blank, column, expected, answer, {} if parts else fields, reading, downloads)
        for (column, _, expected), answer in zip(urls, answers, strict=True)
    ]
    rows.extend(item.but(own={name: value for name, value in item.own.items() if name != "field"}) for item in found)
    if parts:
        yield from _in_order(parts, rows, metadata)
        return
    captions = [item for item in found if item.fault is None]
    for position, item in enumerate(rows):
        role = "caption" if item.modality == "image" else "transcript"
        chosen = [one for one in captions if one.role == role] or captions
        beside = (
            tuple(reader_of(one.content.read().decode()) for one in chosen if one.content)
            if item.role == "media" and item.fault is None
            else ()
        )
        yield item.but(position=position, metadata=metadata, beside=beside)


def _in_order(parts: list[interleaved.Part], rows: list[RawItem], metadata: dict[str, Any]) -> Iterator[RawItem]:
    """The rows of an interleaved record at their places, then what else it has."""
    by_pointer = {part.pointer: part for part in parts}
    behind, placed = parts[-1].position + 1, list[RawItem]()
    for item in rows:
        part = by_pointer.get((item.ref.member or "").partition("/")[2])
        placed.append(
            item.but(position=behind, metadata=metadata)
            if part is None
            else item.but(position=part.position, metadata=metadata, own={**part.own, **item.own})
        )
        behind += part is None
    yield from sorted(placed, key=lambda item: item.position)


def _shown(value: Any) -> Any:
    """The value without credentials in its addresses, however deep they stand."""
    if isinstance(value, dict):
        return {name: _shown(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_shown(child) for child in value]
    return redacted(value) if isinstance(value, str) else value


def _texts(line: Line, media: Any, blank: RawItem, reading: Reading) -> list[RawItem]:
    """The text rows of a record; `own` names the field of each."""
    found = []
    parts = [part for part in _parts(line.fields, reading) if not part.address]
    for part, item in interleaved.items_of_parts(
        parts, blank, locate=lambda pointer: SourceRef(path=reading.path, member=f"{line.name}/{pointer}")
    ):
        found.append(item.but(own={**part.own, "field": part.pointer}))
    for field in record_fields.text_fields(line.fields, media, settings=reading.settings):
        item = blank.but(
            ref=SourceRef(path=reading.path, member=f"{line.name}/{field.pointer[1:]}"),
            own={**field.own, "field": field.name},
        )
        found.append(text_item(item, field.text, field.role))
    return found


def _fetched(
    blank: RawItem,
    column: str,
    expected: tuple[str, ...],
    answer: DownloadResult,
    fields: dict[str, Any],
    reading: Reading,
    downloads: Downloads,
) -> RawItem:
    """The row of one address."""
    ref = SourceRef(path=reading.path, member=f"{blank.ref.member}/{column}")
    home = expected[0] if expected else downloads.table_of(answer)
    item = blank.but(ref=ref, modality=home, role="document" if home == "text" else "media", own=_about(answer))
    if answer.digest is None:
        return item.but(fault=Fault(answer.code or 1103, answer.reason or "no answer"))
    content = Content(lambda: downloads.open(answer), stored=(answer.digest, answer.size_bytes))
    item = item.but(
        content=content, content_type=answer.content_type, extension=answer.extension, size_bytes=answer.size_bytes
    )
    if answer.modality is None:
        return item.but(
            fault=Fault(1005, f"content is {answer.content_type or 'of no known type'}, which no modality takes")
        )
    if expected and answer.modality not in expected:
        return item.but(fault=Fault(1003, f"the content is {answer.content_type}, expected one of {list(expected)}"))
    if not expected and answer.modality != home:
        return item.but(
            fault=Fault(
                1003,
                f"the content is {answer.content_type} now, and was told as {home} in the other tables of the list; "
                "try it again to move it",
            )
        )
    item = item.but(
        modality=answer.modality, role="document" if answer.modality == "text" else "media", charset=answer.charset
    )
    return item.but(fault=_mismatch(answer, column, fields, content, reading.settings))


def _about(answer: DownloadResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "http_status": answer.status,
        "http_headers": answer.headers or None,
        "final_url": answer.final_url and redacted(answer.final_url),
    }
    return {name: value for name, value in found.items() if value is not None}


def _mismatch(
    answer: DownloadResult, column: str, fields: dict[str, Any], content: Content, settings: SourceSettings
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
        is_same = stated.value.hex() == answer.digest if algorithm == "sha256" else stated.fits(content.open())
        if not is_same:
            return Fault(1010, f"the content does not have the {algorithm} {stated.value.hex()} that the list states")
    return None
