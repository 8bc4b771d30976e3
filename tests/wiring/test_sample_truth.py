"""The whole sample corpus through the plain pipeline, held against what was planted in it, border by border.

`make demo` holds it against the same truth; what needs no truth is asked of the small lake of all tests as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mmlake import pipeline, publish, sample
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish.version import publish_version
from mmlake.records import ADMITTED
from mmlake.samples import bind_units
from mmlake.summary import summarize
from mmlake.truth import compare_with_truth, pin_sample_probes
from mmlake.truth.samples import compare_samples
from mmlake.truth.units import compare_units
from tests.thorough import takes_minutes

RECIPES = ("everything", "curated")


@pytest.fixture(scope="module")
def whole(small, tmp_path_factory) -> tuple[Lake, sample.Truth]:
    """(lake, truth) of the smallest useful corpus, published under both recipes."""
    corpus, truth = small
    lake = Lake(tmp_path_factory.mktemp("whole") / "lake", landing=corpus / "landing")
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    pin_sample_probes(lake, truth)
    for recipe in RECIPES:
        publish_version(lake, publish.needs_version(lake, recipe)[0])
    return lake, truth


def column(lake: Lake, table: str, modality: str, name: str = "digest") -> list:
    return lake.tables.concat(table, modality, columns=[name]).column(name).to_pylist()


@takes_minutes
def test_the_sample_corpus_meets_its_truth(whole) -> None:
    lake, truth = whole
    compared = compare_with_truth(lake, truth)
    unmet = [tier for tier in compared.tiers if not tier.is_met]
    assert compared.is_met, (
        f"missing {compared.missing}; unexpected {compared.unexpected}; wrong {compared.wrong}; tiers {unmet}"
    )


def units_of(lake: Lake, modality: str, digest: str) -> list[str]:
    """The names of what is judged of this item: its own, or those of its spans."""
    units = lake.tables.concat("units", modality, columns=["digest", "parent_digest", "kind"]).to_pylist()
    return sorted({row["digest"] for row in units if row["parent_digest"] == digest and row["kind"] != "gap"})


def bound_samples(lake: Lake) -> list[dict]:
    """The samples of all shards, those that something cut leads as one for each of its units."""
    units = pa.concat_tables([lake.tables.concat("units", modality) for modality in MODALITIES])
    spans = units.filter(pc.invert(pc.is_in(units["kind"], value_set=pa.array(["whole", "gap"]))))
    samples = pa.concat_tables([table for _, table in publish.scan_samples(lake)])
    return bind_units(samples, spans).to_pylist()


def per_decoded(lake, modality) -> set[str]:
    tracks = lake.tables.concat("tracks", modality, columns=["digest", "status"]).to_pylist()
    return {row["digest"] for row in tracks if row["status"] == "ok"}


@takes_minutes
@pytest.mark.parametrize("modality", MODALITIES)
def test_every_item_is_accounted_for_once_at_each_border(whole, modality) -> None:
    """truth -> items -> blobs -> tracks -> units -> verdicts -> clusters, by the digests that the generator wrote
    down; of what is cut, by its units."""
    lake, truth = whole
    planted = truth.of(modality)
    occurrences = Counter(item.digest for item in planted)
    assert Counter(column(lake, "items", modality)) == occurrences

    per_shard = {(item.shard, item.digest) for item in planted if item.digest}
    units = {digest: units_of(lake, modality, digest) for digest in {digest for _, digest in per_shard}}
    assert {digest for digest, found in units.items() if found != [digest]} == {
        digest for digest, one in truth.long_items.items() if one.modality == modality
    }
    per_unit = {(shard, unit) for shard, digest in per_shard for unit in units[digest]}
    for table, expected in (("blobs", per_shard), ("tracks", per_shard), ("verdicts", per_unit)):
        rows = [
            (shard, digest)
            for shard, part in lake.tables.scan(table, modality, columns=["digest"])
            for digest in part.column("digest").to_pylist()
        ]
        assert Counter(rows) == Counter(expected), table

    counted = Counter[str]()
    for _, blobs in lake.tables.scan("blobs", modality, columns=["digest", "num_occurrences"]):
        counted.update({row["digest"]: row["num_occurrences"] for row in blobs.to_pylist()})
    assert dict(counted) == {digest: count for digest, count in occurrences.items() if digest}

    said_of_others = {
        row["digest"]
        for row in lake.tables.concat("tracks", modality).to_pylist()
        if row["role"] in ("caption", "transcript")
    }
    compared = [unit for digest in truth.admitted(modality) if digest not in said_of_others for unit in units[digest]]
    assert Counter(column(lake, "duplicate_clusters", modality)) == Counter(compared)
    for table, expected in (
        ("fingerprints", per_decoded(lake, modality) - said_of_others),
        ("embeddings", per_decoded(lake, modality)),
    ):
        made = {unit for digest in expected for unit in units[digest]}
        assert set(column(lake, table, modality)) == made, table


@pytest.fixture(scope="module", params=["small", pytest.param("sample", marks=takes_minutes)])
def lake(request) -> Lake:
    """Two lakes that were published under both recipes."""
    return request.getfixturevalue("done").lake if request.param == "small" else request.getfixturevalue("whole")[0]


@takes_minutes
def test_the_catalog_holds_every_distinct_digest_once(whole) -> None:
    lake, truth = whole
    expected = {unit for item in truth.items if item.digest for unit in units_of(lake, item.modality, item.digest)}
    assert Counter(lake.catalog.read(["digest"]).column("digest").to_pylist()) == Counter(expected)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_version_holds_or_excludes_every_catalog_row_once(lake, recipe) -> None:
    name = publish.needs_version(lake, recipe)[0]
    held, left_out = lake.versions.items(name), lake.versions.excluded(name)
    digests = {*held.column("digest").to_pylist(), *left_out.column("digest").to_pylist()} - {None}
    assert digests == set(lake.catalog.read(["digest"]).column("digest").to_pylist())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_version_holds_or_excludes_every_part_of_every_sample_once(lake, recipe) -> None:
    name = publish.needs_version(lake, recipe)[0]
    held = Counter(
        (row["sample"], part["position"], part["digest"])
        for row in lake.versions.samples(name).to_pylist()
        for part in row["parts"]
    )
    planted = Counter(
        (row["sample"], part["digest"])
        for row in {row["sample"]: row for row in bound_samples(lake)}.values()
        for part in row["parts"]
    )
    left_out = Counter((row["sample"], row["digest"]) for row in lake.versions.excluded(name).to_pylist())
    assert Counter((sample, digest) for sample, _, digest in held.elements()) + left_out == planted


@takes_minutes
def test_every_planted_sample_reaches_a_batch_whole(whole) -> None:
    lake, truth = whole
    found = compare_samples(lake, truth, publish.needs_version(lake, "curated")[0])
    assert (found.lost, found.num_in_batches) == ([], len(truth.samples))
    damaged = replace(truth, samples=(replace(truth.samples[0], parts=truth.samples[0].parts[::-1]),))
    lost = compare_samples(lake, damaged, publish.needs_version(lake, "curated")[0]).lost
    assert [one["lost"].partition(":")[0] for one in lost] == ["the table of samples"]


@takes_minutes
def test_every_second_of_the_planted_films_and_recordings_is_accounted_for(whole) -> None:
    lake, truth = whole
    version = publish.needs_version(lake, "curated")[0]
    found = compare_units(lake, truth, version)
    assert ([one.wrong for one in found.items], found.missed) == ([[] for _ in truth.long_items], [])
    assert all(one.num_said + one.num_excluded == one.num_sentences > 0 for one in found.items)
    assert sum(one.num_said for one in found.items) > sum(one.num_sentences for one in found.items) / 2


@takes_minutes
def test_planted_things_that_were_never_there_are_missed(whole) -> None:
    """The comparison is no formality: a sentence that nobody says, a rest that is none, a copy of something else."""
    lake, truth = whole
    version = publish.needs_version(lake, "curated")[0]
    digest, long_item = next((digest, one) for digest, one in truth.long_items.items() if one.modality == "audio")
    wrong = {
        "sentences": truth.sentences | {digest: (replace(truth.sentences[digest][0], text="Nobody says this."),)},
        "long_items": truth.long_items | {digest: replace(long_item, rests_s=long_item.rests_s[1:])},
        "excerpts": (replace(truth.excerpts[0], digest=truth.excerpts[1].digest),),
    }
    for name, value in wrong.items():
        assert not compare_units(lake, replace(truth, **{name: value}), version).is_met, name


@takes_minutes
def test_no_defect_and_no_duplicate_gets_into_the_curated_version(whole) -> None:
    lake, truth = whole
    held = set(lake.versions.items("curated-v001").column("digest").to_pylist())
    good = {
        unit
        for item in truth.items
        if item.status in ADMITTED and item.digest
        for unit in units_of(lake, item.modality, item.digest)
    }
    catalog = lake.catalog.read(["digest", "is_survivor"]).to_pylist()
    assert held <= good & {row["digest"] for row in catalog if row["is_survivor"]}


@takes_minutes
def test_the_summary_adds_up_to_the_planted_items(whole) -> None:
    lake, truth = whole
    for one in summarize(lake).modalities:
        planted = Counter[str]()
        for item in truth.of(one.modality):
            planted[item.status] += len(units_of(lake, one.modality, item.digest)) if item.digest else 1
        assert {status: count for status, count in one.statuses.items() if count} == planted
        assert one.num_rows == sum(planted.values())
