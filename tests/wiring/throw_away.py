"""A modality with a part of each kind: meshes in Geomview's OFF format, whose first line is OFF and whose second says
how many vertices follow. Everything that the lake learns of them stands in this file, and no table was changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from mmlake.dedup import length_of
from mmlake.errors import UnreadableItem
from mmlake.modalities import Modality
from mmlake.parts import BUILT_IN, Parts
from mmlake.plugins import (
    Classical,
    Connector,
    Content,
    Encoder,
    Measurement,
    RawItem,
    Rule,
    Scorer,
    SourceRef,
    Tier,
    own_blob,
)
from mmlake.preprocess import Decoded, Decoder
from mmlake.quality import unmeasured
from mmlake.sources import Connectors


def items(reading) -> Iterator[RawItem]:
    """One mesh per file."""
    with reading.open() as file:
        data = file.read()
    ref = SourceRef(path=reading.path, byte_offset=0, byte_size=len(data))
    yield RawItem(
        modality="mesh",
        ref=ref,
        sample_id=reading.key,
        extension="off",
        content=Content.of_bytes(data),
        content_type="model/off",
        size_bytes=len(data),
    )


def vertices(data: bytes) -> np.ndarray:
    """float64 (N, 3)."""
    lines = data.decode().splitlines()
    count = int(lines[1].split()[0])
    return np.array([[float(one) for one in line.split()] for line in lines[2 : 2 + count]])


def decode(item, *, settings) -> Decoded:
    """The number of vertices, in the column that has room for a count."""
    if not item.data.startswith(b"OFF\n"):
        raise UnreadableItem(3001, "first line is not OFF")
    return Decoded({"num_words": len(vertices(item.data))})


def measures(subject) -> dict[str, float | None]:
    """The largest distance of a vertex from the origin."""
    found = vertices(subject.blobs[0])
    return {"mesh_radius": float(np.linalg.norm(found, axis=1).max())}


def load_flatness():
    """A scorer: 0 for a mesh in a plane."""
    return lambda subject: float(vertices(subject.blobs[0]).std(axis=0).min())


def opened(row, store):
    """The bytes of the mesh."""
    return nullcontext(store.read(row["digest"]))


def fingerprint(meshes, settings):
    """The rounded sum of the coordinates."""
    return [{"coordinate-sum": np.array([round(abs(vertices(data).sum()))], np.uint64)} for data in meshes]


def pairs(prints, *, settings, advance):
    """Those with equal sums."""
    sums = [int(one["coordinate-sum"][0]) for one in prints]
    return [(i, j, "coordinate-sum", 1.0) for i in range(len(sums)) for j in range(i) if sums[i] == sums[j]]


def describe(media):
    """The size of the mesh along each axis."""
    return np.ptp(vertices(media.data()), axis=0) + 0.1


MESH = Modality(
    name="mesh",
    description="triangles",
    decoder=Decoder(kernel=decode, in_memory=True),
    measurements=(
        Measurement(
            name="mesh", modalities=("mesh",), measures=("mesh_radius",), columns=(), take=measures, blobs=own_blob
        ),
    ),
    rules=(
        unmeasured("mesh"),
        Rule(name="too_far", error_code=4501, severity="P1", measure="mesh_radius", high=100, what="Far.", fix="Move."),
        Rule(name="flat", error_code=4502, severity="P2", measure="flatness", low=0.01, what="Flat.", fix="Extrude."),
    ),
    scorers=(
        Scorer(
            name="flatness",
            modalities=("mesh",),
            revision="1",
            licence="CC0-1.0",
            columns=(),
            load=load_flatness,
            blobs=own_blob,
        ),
    ),
    tiers=(
        Tier(
            modality="mesh",
            method="coordinate-sum",
            methods=("coordinate-sum",),
            opened=opened,
            fingerprint=fingerprint,
            pairs=pairs,
            bound=lambda settings: 1.0,
            finds="the same mesh written otherwise",
            source="none",
        ),
    ),
    survivors=(length_of("num_words"),),
    encoder="extent",
)
EXTENT = Encoder(
    name="extent",
    modalities=("mesh",),
    space="extent",
    revision="1",
    licence="CC0-1.0",
    dimension=3,
    device="cpu",
    duplicate_cosine=0.9999,
    loader=lambda settings, device: Classical(describe, "bytes"),
    description="Length, width, height.",
)
OFF = Connector(
    name="off",
    names=(".off",),
    claims=lambda head, name: head.startswith(b"OFF"),
    extensions=("off",),
    modalities=lambda reading: ("mesh",),
    items=items,
)


def parts() -> Parts:
    """The built-in tables with one row more in each."""
    return replace(
        BUILT_IN,
        modalities={**BUILT_IN.modalities, "mesh": MESH},
        encoders={**BUILT_IN.encoders, "extent": EXTENT},
        connectors=Connectors([OFF, *BUILT_IN.connectors.values()]),
    )
