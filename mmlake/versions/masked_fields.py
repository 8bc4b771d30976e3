"""What a version leaves out of a sample is not in its fields either: records repeat a caption under another name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.records import canonical_json, digest_of
from mmlake.versions.grouped_samples import Parts

_GONE = object()


class MaskedTexts:
    """The texts that are left out of samples that stay, by what they are hashed to."""

    def __init__(self, parts: Parts, kept_P: np.ndarray, in_S: np.ndarray) -> None:
        """kept_P: whether each part stays; in_S: whether each sample does."""
        texts_P = piece(pc.fill_null(pc.equal(parts.flat["modality"], "text"), False))
        texts_P = texts_P.to_numpy(zero_copy_only=False)[parts.at_P] & in_S[parts.owner_P]
        masked = np.flatnonzero(texts_P & ~kept_P)
        self._of: dict[int, set[str]] = {}
        for owner, digest in _held(parts, masked):
            self._of.setdefault(owner, set()).add(digest)
        if self._of:  # what another part of the sample says is no secret
            has_any = np.isin(parts.owner_P, parts.owner_P[masked])
            for owner, digest in _held(parts, np.flatnonzero(texts_P & kept_P & has_any)):
                self._of[owner].discard(digest)

    def without(self, fields: pa.Array, owners: np.ndarray) -> pa.Array:
        """These fields (JSON objects or null) without entries whose text, or whose text but for white space around it,
        is left out of the sample that they are of. owners: its number, of each. What holds no such text stays byte for
        byte."""
        changed: dict[int, str] = {}
        for at in np.flatnonzero(np.isin(owners, list(self._of))).tolist():
            text, masked = fields[at].as_py(), self._of[int(owners[at])]
            if masked and text and '"' in text:
                record = json.loads(text)
                if (left := _left(record, masked)) is not record:
                    changed[at] = canonical_json({} if left is _GONE else left)
        if not changed:
            return fields
        is_changed = np.zeros(len(fields), bool)
        is_changed[list(changed)] = True
        return pc.replace_with_mask(fields, pa.array(is_changed), pa.array(changed.values(), fields.type))


def _held(parts: Parts, numbers_P: np.ndarray) -> list[tuple[int, str]]:
    """(sample, digest of the whole text) of these parts; one whose bytes could not be had has none."""
    digests = parts.take("parent_digest", numbers_P).to_pylist()
    pairs = zip(parts.owner_P[numbers_P].tolist(), digests, strict=True)
    return [(owner, digest) for owner, digest in pairs if digest is not None]


def _left(value: Any, masked: set[str]) -> Any:
    """The value without these texts: itself where it holds none, _GONE where nothing is left of it."""
    if isinstance(value, str):
        spelled = (one.encode("utf-8", "surrogatepass") for one in (value, value.strip()))
        return _GONE if any(digest_of(one) in masked for one in spelled) else value
    if not isinstance(value, (dict, list)):
        return value
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(key, entry, _left(entry, masked)) for key, entry in entries]
    if all(left is entry for _, entry, left in found):
        return value
    stays = {key: left for key, _, left in found if left is not _GONE}
    if not stays:
        return _GONE
    return stays if isinstance(value, dict) else list(stays.values())
