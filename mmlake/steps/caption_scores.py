"""The step that says how well captions say what their pictures, films and recordings show."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, embed, parts, preprocess, schemas
from mmlake.lake import Lake
from mmlake.records import LEADING_ROLES
from mmlake.schemas.caption_scores import CAPTION_SCORES
from mmlake.steps import standing
from mmlake.steps.step import Job, Step
from mmlake.tables import Slot

_KEY = ["digest", "caption"]
_MAX_MEDIA = 16  # of a sample: where more of them lead, a caption of it is about none of them


def scoring_encoder(lake: Lake, modality: str) -> embed.Encoder | None:
    """The encoder of the modality's vectors, where texts lie in its space too."""
    row = lake.parts.encoder(lake.encoder_of(modality), modality)
    return row if row.knows_texts_of(modality) else None


def _scores(job: Job) -> pa.Table:
    row = scoring_encoder(job.lake, job.modality)
    if row is None:
        return schemas.empty(CAPTION_SCORES)
    before, found = _before(job, row.name), [schemas.empty(CAPTION_SCORES)]
    for shard, pairs in _pairs(job):
        vectors = _vectors(job.lake, job.modality, shard, row.name, pairs)
        stand = _standing(before, pairs, vectors)
        found.append(stand)
        job.advance(stand.num_rows)
        left = pairs.join(stand.select(_KEY), _KEY, join_type="left anti")
        texts = job.lake.tables.read(Slot("tracks", "text", shard), columns=["digest", "text"])
        found.append(
            embed.caption_scores(
                left, texts, vectors, row=row, executor=job.lake.executor, settings=job.lake.settings.embed,
                advance=job.advance,
            )
        )  # fmt: skip
    # joins give their rows in any order
    return standing.first_per_key(pa.concat_tables(found), _KEY).sort_by([(name, "ascending") for name in _KEY])


def _pairs(job: Job) -> Iterator[tuple[str, pa.Table]]:
    """(shard, digest and caption of each pair) of every shard that has captions of units of the modality: a sample lies
    in one shard, and text and media that decoded are compared."""
    tables, modality = job.lake.tables, job.modality
    with_texts = set(tables.shards("items", "text")) & set(tables.shards("tracks", "text"))
    for shard in tables.shards("units", modality):
        if shard not in with_texts:
            continue
        captions = _items(job.lake, "text", shard, (job.row.described_by or "",))
        decoded = contracts.made(tables.read(Slot("tracks", "text", shard), columns=["digest", "status"]))
        captions = captions.filter(pc.is_in(captions["digest"], value_set=pc.unique(decoded["digest"])))
        if not captions.num_rows:
            continue
        media = _few(_items(job.lake, modality, shard, LEADING_ROLES))
        units = contracts.made(tables.read(Slot("units", modality, shard)))
        units = units.filter(pc.not_equal(units["kind"], preprocess.GAP)).select(["digest", "parent_digest"])
        of_units = media.rename_columns(["sample_id", "parent_digest"]).join(units, "parent_digest", join_type="inner")
        captions = captions.rename_columns(["sample_id", "caption"])
        pairs = of_units.join(captions, "sample_id", join_type="inner").select(_KEY)
        yield shard, pairs.group_by(_KEY).aggregate([])


def _items(lake: Lake, modality: str, shard: str, roles: tuple[str, ...]) -> pa.Table:
    """sample_id and digest of the items with one of the roles, each once."""
    items = lake.tables.read(Slot("items", modality, shard), columns=["sample_id", "digest", "role"])
    items = items.filter(pc.and_(pc.is_in(items["role"], value_set=pa.array(roles)), pc.is_valid(items["digest"])))
    return items.group_by(["sample_id", "digest"]).aggregate([])


def _few(media: pa.Table) -> pa.Table:
    """Those of samples with no more than _MAX_MEDIA of them."""
    counted = media.group_by("sample_id").aggregate([("digest", "count")])
    few = counted.filter(pc.less_equal(counted["digest_count"], _MAX_MEDIA))["sample_id"]
    return media.filter(pc.is_in(media["sample_id"], value_set=few))


def _vectors(lake: Lake, modality: str, shard: str, encoder: str, pairs: pa.Table) -> pa.Table:
    """EMBEDDINGS by the encoder of the units of pairs, failed ones included."""
    rows = lake.tables.read(Slot("embeddings", modality, shard))
    of_pairs = pc.is_in(rows["digest"], value_set=pc.unique(pairs["digest"]))
    return rows.filter(pc.and_(pc.equal(rows["encoder"], encoder), of_pairs))


def _before(job: Job, encoder: str) -> pa.Table:
    """What the table as it is says by the encoder; nothing where it is of another release."""
    slot = Slot(CAPTION_SCORES.name, job.modality)
    stamp = job.lake.tables.stamp(slot)
    made_by = (CAPTION_SCORES_STEP.code_version, CAPTION_SCORES.version)
    if stamp is None or (stamp.code_version, stamp.schema_version) != made_by:
        return schemas.empty(CAPTION_SCORES)
    rows = contracts.made(job.lake.tables.read(slot))
    return rows.filter(pc.equal(rows["encoder"], encoder))


def _standing(before: pa.Table, pairs: pa.Table, vectors: pa.Table) -> pa.Table:
    """What is known of the pairs already, by vectors of the same weights."""
    now = vectors.select(["digest", "revision"]).rename_columns(["digest", "now"])
    known = before.join(pairs, _KEY, join_type="inner").join(now, "digest", join_type="inner")
    return (
        known.filter(pc.equal(known["revision"], known["now"]))
        .select(CAPTION_SCORES.arrow.names)
        .cast(CAPTION_SCORES.arrow)
    )


def _check(job: Job, table: pa.Table) -> int:
    """Every caption next to a unit is accounted for."""
    border = f"{job.modality}: captions -> {CAPTION_SCORES.name}"
    contracts.failures_explained(border, table, key=_KEY)
    expected = set[str]()
    if scoring_encoder(job.lake, job.modality) is not None:
        expected = {name for _, pairs in _pairs(job) for name in _names(pairs)}
    return contracts.same_keys(border, expected, _names(table))


def _names(pairs: pa.Table) -> list[str]:
    names: list[str] = pc.binary_join_element_wise(pairs["digest"], pairs["caption"], "/").to_pylist()
    return names


def _encoding(lake: Lake, modality: str, shard: str) -> dict[str, str]:
    row = scoring_encoder(lake, modality)
    return {} if row is None else parts.steering([row])


CAPTION_SCORES_STEP = Step(
    name=CAPTION_SCORES.name,
    stage="embed",
    schema=CAPTION_SCORES,
    code_version="1",  # rows of another one are not taken over
    over_shards=True,
    make=_scores,
    check=_check,
    inputs=("items", "units", "embeddings", "text/items", "text/tracks"),
    column="described_by",
    settings=("embed",),
    parts=_encoding,
    kinds=("pytorch",),
    gpu=True,
    unit="pairs",
    description="How well each caption says what the unit next to it shows or sounds like: the cosine of both vectors. "
    "Empty where the encoder of the modality knows no texts, as clip, siglip and clap do.",
)
