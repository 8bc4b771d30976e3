"""The story of one digest, and the exported provenance of one version."""

from __future__ import annotations

from mmlake.provenance.chain import chain, export_chain, read_chain
from mmlake.provenance.evidence import AmbiguousDigest
from mmlake.provenance.story import Membership, Occurrence, Step, Story
from mmlake.provenance.why import why

__all__ = ["AmbiguousDigest", "Membership", "Occurrence", "Step", "Story", "chain", "export_chain", "read_chain", "why"]
