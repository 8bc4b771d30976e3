"""Tables of descriptions as shards of their own: a row for every record that no file took, since its file is missing,
it names none, or it is broken. What they say of files is joined where these are read
(`mmlake.sources.companions.descriptions`)."""

from __future__ import annotations

from collections.abc import Iterator

from mmlake.errors import Fault
from mmlake.records import SourceRef
from mmlake.sources.companions import descriptions
from mmlake.sources.companions.descriptions import DescriptionTable
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.rows import text_alone

claims = descriptions.claims
modalities = text_alone


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record that no file took."""
    table = DescriptionTable(reading, reading.path)
    for record, fault in table.left_over(is_any_needed=False):
        yield table.row(record, fault or Fault(1003, f"the record names no file in {descriptions.NAME!r}"))


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    return DescriptionTable(reading, reading.path).take(ref.member or "", is_text_alone=False)
