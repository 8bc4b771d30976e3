"""One row for each of mmlake's tables of parts. `mmlake_rows` is what the entry point names."""

from __future__ import annotations

from mmlake.plugins import Connector, Encoder, Measurement, Plugin, Rule, Scorer, Tier, own_blob
from mmlake_example import colour, hashes, ppm, reading, thumbnail

VERSION = "1.0"  # counted up whenever a row gives other results: its tables are made again then
RULE = Rule(
    name="example_reddish",
    error_code=9001,
    severity="P2",
    measure="example_red_fraction",
    high=0.5,
    what="Most of the picture is red.",
    fix="Look whether the white balance is right.",
)
MEASUREMENT = Measurement(
    name="example_colour",
    modalities=("image",),
    measures=("example_red_fraction",),
    columns=(),
    take=colour.measures,
    blobs=own_blob,
)
SCORER = Scorer(
    name="example_grade",
    modalities=("text",),
    revision="kincaid-1975",
    licence="LicenseRef-public-domain",
    columns=("text",),
    load=reading.load,
)
TIER = Tier(
    modality="image",
    method="example-average-hash",
    methods=("example-average-hash",),
    opened=hashes.opened,
    fingerprint=hashes.fingerprint,
    pairs=hashes.pairs,
    bound=hashes.bound,
    finds="pictures whose bright and dark parts lie alike",
    source="average hash; Krawetz 2011",
)
ENCODER = Encoder(
    name="example-thumbnail",
    modalities=("image",),
    space="example-thumbnail",
    revision="1",
    licence="Apache-2.0",
    dimension=thumbnail.DIMENSION,
    device="cpu",
    duplicate_cosine=0.995,
    loader=thumbnail.load,
    description="A picture as eight by eight cells of colour around its mean.",
)
CONNECTOR = Connector(
    name="example-ppm",
    names=(".ppm",),
    claims=ppm.claims,
    extensions=("ppm",),
    modalities=ppm.modalities,
    items=ppm.items,
)


def mmlake_rows() -> Plugin:
    """The rows. Functions in them stand at the top level of modules: worker processes import them by name."""
    return Plugin(
        name="example",
        version=VERSION,
        rules={"image": (RULE,)},
        measurements=(MEASUREMENT,),
        scorers=(SCORER,),
        tiers=(TIER,),
        encoders=(ENCODER,),
        connectors=(CONNECTOR,),
    )
