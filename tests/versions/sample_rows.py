"""Catalog rows and samples by number, for the tests of versions."""

from __future__ import annotations

import pyarrow as pa

from mmlake.records import digest_of
from mmlake.versions import RECIPES, Recipe, Selection, VersionStore, select

CURATED = RECIPES["curated"]
_STRINGS = pa.list_(pa.string())
_CATALOG = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("digest", "modality", "status", "severity", "rule", "reason", "tier", "survivor")
        ),
        ("weight", pa.float32()),
        ("licences", _STRINGS),
        ("sources", _STRINGS),
    ]
)
_PART = pa.struct(
    [
        ("position", pa.int32()),
        *((name, pa.string()) for name in ("role", "modality", "digest", "item_id", "content_type")),
        ("size_bytes", pa.int64()),
        ("licence", pa.string()),
        ("fields_json", pa.string()),
        ("parent_digest", pa.string()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
    ]
)
_SAMPLES = pa.schema(
    [
        ("sample", pa.string()),
        ("modality", pa.string()),
        ("sample_ids", _STRINGS),
        ("num_occurrences", pa.int32()),
        ("shard", pa.string()),
        ("source", pa.string()),
        ("licences", _STRINGS),
        ("fields_json", pa.large_string()),
        ("parts", pa.list_(_PART)),
    ]
)
_SHARED = ("digest", "modality")  # by a catalog row and its part


def name(number: int) -> str:
    """A digest."""
    return digest_of(str(number).encode())


def catalog_row(number: int, **fields) -> dict:
    """What the catalog says of a clean item: of a text, where no sample has it as something else."""
    base = {"digest": name(number), "weight": 1.0, "status": "ok", "licences": ["MIT"]}
    return base | {"sources": ["news"]} | fields


def part(number: int, **fields) -> dict:
    """A part: a document unless the fields say otherwise."""
    base = {"role": "document", "modality": "text", "digest": name(number), "content_type": "text/plain"}
    return base | {"item_id": f"s#{number:06d}", "size_bytes": number, "licence": "MIT"} | fields


def picture(number: int, **fields) -> dict:
    """A part that is a picture."""
    return part(number, **({"role": "media", "modality": "image", "content_type": "image/png"} | fields))


def caption(number: int, **fields) -> dict:
    """A part that is a caption."""
    return part(number, **({"role": "caption"} | fields))


def sample(*parts: dict, **fields) -> dict:
    """A sample of these parts, in their order."""
    ordered = [{"parent_digest": one["digest"]} | one | {"position": at} for at, one in enumerate(parts)]
    key = name(int.from_bytes(digest_of(repr((ordered, sorted(fields.items()))).encode())[:8].encode(), "big"))
    base = {"sample": key, "sample_ids": [f"s/{key[:8]}"], "num_occurrences": 1, "source": "news", "licences": ["MIT"]}
    base["shard"] = "news/0"
    return base | {"modality": None, "parts": ordered} | fields


def catalog_of(rows: list[dict], samples: list[dict]) -> pa.Table:
    """The catalog of these rows, which are of the modality that the samples have them as."""
    modalities = {one["digest"]: one["modality"] for each in samples for one in each["parts"]}
    rows = [{"modality": modalities.get(row["digest"], "text")} | row for row in rows]
    return pa.Table.from_pylist(rows, schema=_CATALOG)


def chosen(rows: list[dict], samples: list[dict] | None = None, recipe: Recipe = CURATED, **more) -> Selection:
    """What the recipe selects; without samples each catalog row is a document of its own."""
    if samples is None:
        samples = [sample(part(0) | {n: row[n] for n in _SHARED if n in row}) for row in rows]
    return select(catalog_of(rows, samples), pa.Table.from_pylist(samples, schema=_SAMPLES), recipe, **more)


def build(store: VersionStore, rows: list[dict], samples: list[dict] | None = None, recipe: Recipe = CURATED, **fields):
    """The version of what the recipe selects."""
    selection = chosen(rows, samples, recipe)
    facts = {"settings_digest": "s", "encoders": {"words": "1"}, "diversity": {"vendi": 3.5}}
    return store.build(selection.samples, recipe=recipe, excluded=selection.excluded, **(facts | fields))


def many(count: int, **fields) -> list[dict]:
    """Catalog rows 0 to count - 1."""
    return [catalog_row(number, **fields) for number in range(count)]


def of_shards(*counts: int, start: int = 0) -> tuple[list[dict], list[dict]]:
    """(catalog rows, samples) of so many documents in each of these shards."""
    rows, samples = [], []
    for shard, count in enumerate(counts, start):
        for number in range(count):
            digest = digest_of(f"{shard}/{number}".encode())
            rows.append(catalog_row(0, digest=digest))
            samples.append(sample(part(0, digest=digest), shard=f"news/{shard:04d}"))
    return rows, samples
