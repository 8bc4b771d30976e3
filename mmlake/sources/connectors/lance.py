"""Lance datasets: a directory `name.lance` with manifests in `_versions` is one shard, read one fragment and one batch
of rows at a time.

Rows that cannot be read are one row that says so, and those behind them are read. Lance runs in another process
(`formats/columnar`), since damage may end the one that it runs in. It keeps no checksums: wrong bits that still decode
are not noticed here. The rows are those of one version, which their locators name. From a remote landing zone the
manifests are copied first and then one fragment at a time, so that no more than one lies on the local disk.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from mmlake.errors import Fault, SettingsError, UnreadableItem
from mmlake.formats.columnar.readers import Fragment, LanceReader, Step, Unread
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.cells import cells_of
from mmlake.sources.records.column_rows import record_items
from mmlake.sources.records.columns import Columns, columns_of, schema_faults
from mmlake.sources.settings import SourceSettings

SUFFIX = ".lance"

# the extension type of blobs that may name an address in place of bytes; blobs without it are bytes
_ADDRESSED = "lance.blob"
_MANIFESTS = "_versions"
_OLD_MANIFEST = "_latest.manifest"  # a copy of the newest manifest next to its directory, written by Lance before 0.10
_BATCH_ROWS = 1024
# of a fragment, or of an item as large as may be, that may be in memory at once besides batches and buffers
_COPIES = 4
_MAX_FAILURES = 64  # readings in a row: what a manifest says of a file may be rows without end
_MAX_ENDS = 2  # processes that a fragment may cost, half a second each
_OURS = ("_rowid", "_rowaddr")
_MEMBER = re.compile(r"version:(\d+)/row:(\d+)(?:/(.*))?", re.DOTALL)


def root_of(directory: str) -> str | None:
    """The dataset that the directory is, or is a part of, going by names alone: its outermost part that ends in
    `.lance`."""
    parts = directory.split("/")
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part.lower().endswith(SUFFIX)), None)


def is_dataset(landing: Landing, path: str) -> bool:
    """Whether the directory holds the manifests or the data of a dataset."""
    return path.lower().endswith(SUFFIX) and any(landing.files(f"{path}/{part}") for part in (_MANIFESTS, "data"))


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the dataset does not open. Only manifests
    are read."""
    with _opened(reading) as dataset:
        return dataset.columns.modalities or (reading.home,)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the version, fragment by fragment; within a row media in the order of the columns, then texts."""
    home = reading.home
    for entry in reading.landing.files(reading.path):
        if entry.name != _OLD_MANIFEST:
            reason = "the file lies inside a Lance dataset but is no part of it"
            yield reading.fault(1005, reason, modality=home, member=entry.name)
    with _opened(reading) as dataset:
        if dataset.unread:
            reason = (
                f"the columns {dataset.unread[:12]} are of a type whose values may be addresses outside of the "
                "dataset, and are not read; write them as plain bytes"
            )
            first_home, member = (*dataset.columns.modalities, home)[0], f"version:{dataset.version}/columns"
            yield reading.fault(1007, reason, modality=first_home, member=member)
        yield from schema_faults(dataset.schema, dataset.columns, reading)
        if not dataset.columns.modalities:
            return
        names, first = SampleNames(reading.key), 0
        for fragment in dataset.fragments():
            counted = dataset.count(fragment)
            yield from _fragment(dataset, fragment, first, counted, names)
            first += counted[0] if counted is not None else 0


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The bytes of the item that the locator names, by a random take from its version. Raises UnreadableItem where
    it is gone."""
    parts = _MEMBER.fullmatch(ref.member or "")
    if parts is None:
        raise UnreadableItem(1001, f"the locator {ref.member!r} names no version and row of a Lance dataset")
    number = int(parts[2])
    with _opened(reading, version=int(parts[1])) as dataset:
        batch = dataset.row(number)
        for item in _rows(dataset, batch, number, SampleNames(reading.key)):
            if item.ref == ref and item.content is not None:
                return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


class _Dataset:
    """One version of a dataset and the directory where its files lie."""

    def __init__(
        self, reader: LanceReader, reading: Reading, fetch: Callable[[str], None], forget: Callable[[str], None]
    ) -> None:
        self.reader, self.reading = reader, reading
        self.version: int = reader.head["version"]
        self.schema: pa.Schema = pa.schema([field for field in reader.schema if not _may_lead_outside(field)])
        self.unread = [field.name for field in reader.schema if _may_lead_outside(field)]
        self.columns: Columns = columns_of(_unblobbed(self.schema), reading.settings)
        self._fetch, self._forget = fetch, forget

    def fragments(self) -> Iterator[Fragment]:
        """The fragments in their order, each with its files on the local disk until the next one is taken."""
        for at in range(self.reader.head["num_fragments"]):
            fragment = self.fragment(at)
            with suppress(UnreadableItem):  # the fragment then fails to be read, which becomes its row
                self.fetch(fragment)
            yield fragment
            for path in fragment.paths:
                self._forget(path)

    def fragment(self, at: int) -> Fragment:
        """The fragment at that place, without files where it does not name them. Raises UnreadableItem 1007 where
        one lies outside of the dataset."""
        try:
            fragment = self.reader.fragment(at)
        except Unread:
            return Fragment(at, at, [])
        size_bytes = 0
        for path in fragment.paths:
            if path.startswith("/") or ".." in path.split("/") or "\0" in path:
                reason = f"names the file {path[:200]!r}, which lies outside of the dataset"
                raise UnreadableItem(1007, f"fragment {fragment.number} {reason}")
            _check_refused(entry := self.reading.landing.stat(f"{self.reading.path}/{path}"))
            size_bytes += entry.size_bytes if entry is not None else 0
        return fragment._replace(size_bytes=size_bytes)

    def fetch(self, fragment: Fragment) -> None:
        """Have the fragment's files on the local disk. Raises UnreadableItem."""
        for path in fragment.paths:
            self._fetch(path)

    def count(self, fragment: Fragment) -> tuple[int, int] | None:
        """(rows, rows before some were deleted); None where they cannot be counted: rows behind it are numbered as
        if it had none."""
        try:
            return self.reader.count(fragment)
        except Unread:
            return None

    def step(self, fragment: Fragment, offset: int, step_rows: int, num_rows: int) -> Step:
        """So many rows of the fragment, to be read. The last ones of all its rows with one more, to see that there
        is none."""
        step_rows = min(step_rows, num_rows - offset) + (offset + step_rows >= num_rows)
        settings = self.reading.settings
        memory_bytes = _memory_bytes(settings) + _COPIES * min(fragment.size_bytes, settings.max_item_bytes)
        return Step(fragment, self.schema.names, offset, step_rows, 2 * settings.batch_bytes, memory_bytes)

    def row(self, number: int) -> pa.RecordBatch:
        """The row with this number, counted from 1, as a batch of one."""
        first = 0
        for at in range(self.reader.head["num_fragments"]):
            fragment = self.fragment(at)
            counted = self.count(fragment)
            if counted is None:  # from a remote landing zone, where the count may need what was not fetched yet
                with suppress(UnreadableItem):
                    self.fetch(fragment)
                counted = self.count(fragment)
            num_rows, _ = counted or (0, 0)
            if first < number <= first + num_rows:
                self.fetch(fragment)
                with _reading_lance(f"row {number} of version {self.version}"):
                    for batch in self.reader.rows(self.step(fragment, number - first - 1, 1, num_rows)):
                        if batch.num_rows:
                            return batch.slice(0, 1)
            first += num_rows
        raise UnreadableItem(1001, f"version {self.version} of the dataset has no row {number}")


def _memory_bytes(settings: SourceSettings) -> int:
    """What Lance may take for itself, besides the bytes of items: buffers and pages on their way."""
    return 2 * settings.max_decoded_bytes


def _may_lead_outside(field: pa.Field) -> bool:
    """Whether values of the column may be addresses that Lance itself would open: any file of this machine, any
    host, with our credentials."""
    storage, name = field.type, (field.metadata or {}).get(b"ARROW:extension:name", b"").decode("ascii", "replace")
    if isinstance(storage, pa.BaseExtensionType):
        storage, name = storage.storage_type, storage.extension_name
    return name.startswith(_ADDRESSED) or any(_may_lead_outside(storage.field(at)) for at in range(storage.num_fields))


def _unblobbed(schema: pa.Schema) -> pa.Schema:
    """The schema with blob columns as the bytes that are read from them, not as Lance keeps them."""
    blobs = [(field.metadata or {}).get(b"lance-encoding:blob") == b"true" for field in schema]
    fields = zip(schema, blobs, strict=True)
    return pa.schema([field.with_type(pa.large_binary()) if is_blob else field for field, is_blob in fields])


@contextmanager
def _reading_lance(what: str) -> Iterator[None]:
    """Turns what Lance could not read into UnreadableItem 1001."""
    try:
        yield
    except Unread as error:
        raise UnreadableItem(1001, f"{what} cannot be read") from error


@contextmanager
def _opened(reading: Reading, *, version: int | None = None) -> Iterator[_Dataset]:
    wanted = version or pinned(reading.path, reading.settings)
    with _on_disk(reading) as (root, fetch, forget), ExitStack() as stack:
        what = f"version {wanted} of the dataset" if wanted else "the dataset's latest manifest"
        with _reading_lance(what):
            reader = stack.enter_context(LanceReader(root, wanted, memory_bytes=_memory_bytes(reading.settings)))
        if reader.head["version"] < 1:  # a manifest of zeros opens as an empty version 0
            raise UnreadableItem(1001, f"{what} has version={reader.head['version']} not in [1, inf)")
        if reader.head["is_elsewhere"]:
            raise UnreadableItem(1007, "the dataset keeps files outside of its directory")
        yield _Dataset(reader, reading, fetch, forget)


def pinned(path: str, settings: SourceSettings) -> int | None:
    """The version that the settings pin this dataset to; None: its latest."""
    for pin in settings.lance_versions:
        name, _, number = pin.rpartition("@")
        if not name or not number.isdigit() or not int(number):
            raise SettingsError(
                f"sources.lance_versions holds {pin!r}; write the dataset's path in the landing zone and its "
                "version, such as 'images/pets.lance@7'"
            )
        if name == path:
            return int(number)
    return None


@contextmanager
def _on_disk(reading: Reading) -> Iterator[tuple[Path, Callable[[str], None], Callable[[str], None]]]:
    """(local directory of the dataset, what brings one of its files there, what takes it away)."""
    landing = reading.landing
    manifests = landing.files(f"{reading.path}/{_MANIFESTS}")
    for entry in manifests:
        _check_refused(entry)
    if (local := landing.local_path(reading.path)) is not None:
        yield local, lambda path: None, lambda path: None
        return
    with tempfile.TemporaryDirectory(prefix="mmlake-lance-") as name:
        root = Path(name)

        def fetch(path: str) -> None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with landing.open(f"{reading.path}/{path}") as source, (root / path).open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)

        for entry in manifests:
            fetch(f"{_MANIFESTS}/{entry.name}")
        yield root, fetch, lambda path: (root / path).unlink(missing_ok=True)


def _check_refused(entry: Entry | None) -> None:
    if entry is not None and entry.refused is not None:
        raise UnreadableItem(1007, f"{entry.name[:200]!r} inside the dataset is {entry.refused}")


def _fragment(
    dataset: _Dataset, fragment: Fragment, first: int, counted: tuple[int, int] | None, names: SampleNames
) -> Iterator[RawItem]:
    """The rows of a fragment, so many at a time, each time alone: what cannot be read costs no others, and the same
    ones whenever it is read."""
    member = f"version:{dataset.version}/fragment:{fragment.number}"
    if counted is None:
        yield _broken(dataset, f"fragment {fragment.number}: its rows cannot be counted", member)
        return
    num_rows, physical_rows = counted
    fitting_rows = dataset.reading.settings.batch_bytes * physical_rows // max(1, fragment.size_bytes)
    step_rows = max(1, min(_BATCH_ROWS, fitting_rows))  # so many are read at a time
    # (before the first, last, whether it ended the process) of rows that were not read
    missing, failures, ends, num_found = list[tuple[int, int, bool]](), 0, 0, 0
    step = dataset.step(fragment, 0, step_rows, num_rows) if num_rows else None
    while step is not None:
        start, stop = step.offset, min(step.offset + step_rows, num_rows)
        following = dataset.step(fragment, stop, step_rows, num_rows) if stop < num_rows else None
        try:
            batches = dataset.reader.rows(step)
        except Unread as error:
            failures, ends, has_ended = failures + 1, ends + error.has_ended, error.has_ended
            if ends >= _MAX_ENDS or failures >= _MAX_FAILURES:
                stop, following = num_rows, None
            if missing and missing[-1][1] == start:
                start, _, was_ended = missing.pop()
                has_ended = has_ended or was_ended
            missing.append((start, stop, has_ended))
            step = following
            continue
        if not any(batch.num_rows for batch in batches):
            break  # a manifest may say anything: its next rows are not there either
        if following is not None:
            dataset.reader.ask(following)
        number, failures, step = first + start, 0, following
        for batch in batches:
            num_found += batch.num_rows
            batch = batch.slice(0, max(0, first + stop - number))
            if batch.num_rows:
                yield from _rows(dataset, batch, number + 1, names)
            number += batch.num_rows
    for start, stop, has_ended in missing:
        reason = f"fragment {fragment.number}: rows {first + start + 1} to {first + stop} cannot be read"
        reason += f" (num_rows={stop - start}): the process that reads Lance did not survive them" if has_ended else ""
        rows = "" if (start, stop) == (0, num_rows) else f"/rows:{first + start + 1}-{first + stop}"
        yield _broken(dataset, reason, f"{member}{rows}")
    if num_found != num_rows - sum(stop - start for start, stop, _ in missing):
        found = f"num_rows{'=' if num_found < num_rows else '>='}{num_found}"
        reason = f"fragment {fragment.number} has {found} not in [{num_rows}, {num_rows}], as its manifest says"
        yield _broken(dataset, reason, f"{member}/rows")


def _broken(dataset: _Dataset, reason: str, member: str) -> RawItem:
    return dataset.reading.fault(1001, reason, modality=dataset.columns.modalities[0], member=member)


def _rows(dataset: _Dataset, batch: pa.RecordBatch, number: int, names: SampleNames) -> Iterator[RawItem]:
    """The items of a batch whose first row has this number."""
    reading, columns, version = dataset.reading, dataset.columns, dataset.version
    for at, fields in enumerate(cells_of(batch, columns.media, settings=reading.settings), number):
        if not isinstance(fields, Fault):
            row_id, address = (fields.pop(name) for name in _OURS)
            place = {"version": version, "fragment": address >> 32, "row_id": row_id, "row_address": address}
            fields.setdefault("lance", place)
        yield from record_items(fields, at, reading, columns, names, version=f"version:{version}/")
