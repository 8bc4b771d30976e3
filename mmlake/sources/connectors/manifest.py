"""Manifests as shards of their own: a row for every record that no file took. Records that name no file are texts as in
any list of records, and a manifest none of whose files is there is such a list. What they say of media is joined where
these are read (`mmlake.sources.companions.manifests`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mmlake.records import SourceRef
from mmlake.sources.companions import manifest_forms
from mmlake.sources.companions.manifests import Manifest
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.names import SampleNames
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line
from mmlake.sources.records.rows import rows_of_line, text_alone

claims = manifest_forms.claims
modalities = text_alone


def is_one(head: Callable[[int], bytes], name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is a manifest by all of its first whole records. head: gives so many of its first
    bytes."""
    return manifest_forms.has_form(head, name)


def items(reading: Reading) -> Iterator[RawItem]:
    """A row for every record that no file took, and the texts of those that name none."""
    manifest, names = Manifest(reading, reading.path), SampleNames(reading.key)
    for record, fault in manifest.left_over(is_any_needed=True):
        if fault is None:
            number = int(record.label.rpartition(":")[2])
            yield from rows_of_line(Line(record.label, number, record.fields), reading, names)
        else:
            # A record that has words is itself at the pointer that names the whole of it: without one the locator is
            # that of its first text.
            yield manifest.row(record, fault, mark="#" if isinstance(record.body, str) and record.body else "")


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The UTF-8 of the text, or of the record, that the locator names. Raises UnreadableItem where the file no
    longer has it."""
    return Manifest(reading, reading.path).take(ref.member or "", is_text_alone=True)
