"""Companions of Kaldi's `wav.scp` (`segments`, `text`, `utt2spk`), as shards without rows: what they say is in the
rows of `wav.scp` and of the recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mmlake.sources.companions import manifest_forms
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.rows import text_alone

modalities = text_alone


def claims(head: bytes, name: str) -> bool:
    """Whether the name is that of such a file."""
    return name in manifest_forms.COMPANIONS


def is_one(head: Callable[[int], bytes], name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is next to a `wav.scp`."""
    return siblings.have_scp()


def items(reading: Reading) -> Iterator[RawItem]:
    """Nothing."""
    return iter(())
