"""The schemas of duplicates across modalities: prints of what films and recordings carry, and what of it lies in the
lake by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mmlake.schemas.table import TableSchema, optional, required

KEYFRAME, SOUND, TRANSCRIPT = "keyframe", "sound", "transcript"
COMPONENTS = (KEYFRAME, SOUND, TRANSCRIPT)
ALIKE = ("same", "inside")  # relations of a unit that says no more than the component does
_NOUNS = {"text": "text", "image": "picture", "video": "film", "audio": "recording"}

COMPONENT_FINGERPRINTS = TableSchema(
    name="component_fingerprints",
    version=1,
    key=("digest", "component", "component_digest", "method"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "the unit that carries the component"),
            required("component", pa.string(), "keyframe, sound or transcript"),
            required("component_digest", pa.string(), "blob of keyframe or sound; SHA-256 of a transcript in UTF-8"),
            optional("time_s", pa.float64(), "of a keyframe, on the clock of the unit; the first where it comes again"),
            required("method", pa.string(), "of the tier of the component's own modality"),
            required("hashes", pa.list_(pa.uint64()), "none where it says nothing: black, silent, few words"),
            required("status", pa.string(), "ok, or unreadable where no fingerprint could be made"),
            optional("error_code", pa.int32(), "key of the error catalogue, where status is unreadable"),
            optional("error", pa.string(), "reason, where status is unreadable"),
        ]
    ),
)

CROSS_PAIRS = TableSchema(
    name="cross_pairs",
    version=1,
    key=("digest", "carrier", "component"),
    arrow=pa.schema(
        [
            required("digest", pa.string(), "unit of this modality that lies in the lake by itself"),
            required("carrier", pa.string(), "unit of the other modality that carries the component"),
            required("carrier_modality", pa.string()),
            required("component", pa.string(), "keyframe, sound or transcript of the carrier"),
            required("component_digest", pa.string(), "the one that is most alike, of several of the carrier"),
            optional("time_s", pa.float64(), "of a keyframe, on the clock of the carrier"),
            required("method", pa.string()),
            required("relation", pa.string(), "of the unit to the component: same, inside, holds or overlaps"),
            required("score", pa.float64(), "similarity 0..1, verified by the exact measure"),
            required("bound", pa.float64(), "smallest score that counts by the tier's first method"),
            *(
                optional(f"{side}{end}_s", pa.float64(), "of the common part; null where whole meets whole")
                for side in ("", "carrier_")
                for end in ("start", "end")
            ),
            required(
                "num_more", pa.int32(), "components that it meets, or may meet, and that have no row of their own"
            ),
        ]
    ),
)


def cross_said(row: Mapping[str, Any], *, modality: str, digest: str) -> str:
    """What a row of CROSS_PAIRS says of one of its two units, in words. modality: of the table."""
    own, carrier = _NOUNS.get(modality, modality), _NOUNS.get(row["carrier_modality"], row["carrier_modality"])
    component = row["component"] + (f" at {row['time_s']:.1f} s" if row["time_s"] is not None else "")
    more = f", and {row['num_more']} more" if row["num_more"] else ""
    measured = f"({row['method']} {row['score']:.2f}{more})"
    is_mirrored = digest == row["carrier"]
    sides = ("carrier_", "") if is_mirrored else ("", "carrier_")
    where, there = (_stretch(row, side) for side in sides)
    if is_mirrored:
        meets = {"same": "is", "inside": "holds", "holds": "lies in", "overlaps": "shares a part with"}
        said = f"its {component} {meets[row['relation']]} the {own} {row['digest'][:16]}"
    else:
        meets = {"same": "the same as", "inside": "inside", "holds": "a holder of", "overlaps": "in part"}
        said = f"{meets[row['relation']]} the {component} of the {carrier} {row['carrier'][:16]}"
    spans = f": {where} here, {there} there" if where else ""
    return f"{said}{spans} {measured}"


def _stretch(row: Mapping[str, Any], side: str) -> str:
    if row[f"{side}start_s"] is None:
        return ""
    return f"{row[f'{side}start_s']:.1f}-{row[f'{side}end_s']:.1f} s"
