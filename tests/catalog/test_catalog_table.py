from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from mmlake import catalog as catalogs
from mmlake import schemas
from mmlake.catalog import CATALOG_SCHEMA, NOT_JUDGED, CatalogSettings, rows, vector_column
from mmlake.errors import ContractBroken, LakeLocked, SettingsError
from mmlake.locks import exclusive_lock
from mmlake.modalities import MODALITIES
from mmlake.records import digest_of
from tests import make

Catalog = partial(catalogs.Catalog, modalities=tuple(MODALITIES))


def name(word: str) -> str:
    return digest_of(word.encode())


def item(word: str, *, shard: str = "a", ordinal: int = 0, modality: str = "text", **fields) -> dict:
    base = {
        "item_id": f"{shard}#{ordinal:06d}",
        "digest": name(word),
        "sample_id": f"{shard}/{word}",
        "position": 0,
        "modality": modality,
        "role": "document",
        "source_ref": "{}",
        "source": "news",
    }
    return base | {"licence": "MIT", "size_bytes": len(word), "status": "ok"} | fields


def track(word: str, **fields) -> dict:
    return {
        "digest": name(word),
        "modality": "text",
        "role": "document",
        "status": "ok",
        "size_bytes": len(word),
        "text": f"words about {word}",
        "transcript_source": "none",
    } | fields


def verdict(word: str, **fields) -> dict:
    return {"digest": name(word), "status": "ok", "weight": 1.0} | fields


def embedding(word: str, vector: list[float], encoder: str = "hashed-words") -> dict:
    made = {"digest": name(word), "encoder": encoder, "revision": "1", "dimension": len(vector), "vector": vector}
    return made | ({"status": "ok"} if vector else {"status": "unreadable", "error_code": 5002, "error": "torn"})


def unstamped(schema, made: list[dict]) -> pa.Table:
    return pa.concat_tables([schemas.from_rows(schema, [dict(row)]) for row in made]) if made else schemas.empty(schema)


def joined(items, tracks=(), verdicts=(), clusters=(), embeddings=(), *, modality="text") -> pa.Table:
    tables = zip(
        (schemas.ITEMS, schemas.TRACKS, schemas.VERDICTS, schemas.CLUSTERS, schemas.EMBEDDINGS),
        (items, tracks, verdicts, clusters, embeddings),
        strict=True,
    )
    item, track, *others = (unstamped(schema, list(made)) for schema, made in tables)
    return rows(item, make.whole_units(track), *others, modality=modality)


def simple(*words: str, vectors: dict[str, list[float]] | None = None, **fields) -> pa.Table:
    numbered = [item(word, ordinal=index) for index, word in enumerate(words)]
    return joined(
        numbered,
        [track(word) for word in words],
        [verdict(word, **fields) for word in words],
        (),
        [embedding(word, vector) for word, vector in (vectors or {}).items()],
    )


def by_word(table: pa.Table, word: str) -> dict:
    return next(row for row in table.to_pylist() if row["digest"] == name(word))


def test_every_distinct_digest_has_one_row_and_its_occurrences_are_united() -> None:
    items = [
        item("x", shard="b", source="web", licence="CC0-1.0"),
        item("x", shard="a", source="news"),
        item("y", shard="b", ordinal=1),
        item("z", ordinal=5, digest=None, status="unreadable"),
    ]
    row = by_word(table := joined(items, [track("x"), track("y")], [verdict("x"), verdict("y")]), "x")
    assert table.num_rows == 2
    assert (row["sources"], row["licences"], row["shards"], row["sample_ids"], row["num_occurrences"]) == (
        ["news", "web"],
        ["CC0-1.0", "MIT"],
        ["a", "b"],
        ["a/x", "b/x"],
        2,
    )


def test_the_best_status_wins_whatever_the_order_of_arrival() -> None:
    items = [item("x", shard="a"), item("x", shard="b")]
    tracks = [track("x", text="from a"), track("x", status="unreadable", text=None)]
    verdicts = [verdict("x"), verdict("x", status="quarantined", weight=0.0)]
    one, other = joined(items, tracks, verdicts), joined(items[::-1], tracks[::-1], verdicts[::-1])
    assert one.equals(other)
    assert (by_word(one, "x")["status"], by_word(one, "x")["text"]) == ("ok", "from a")


def test_an_unreadable_item_without_verdict_keeps_its_reason() -> None:
    row = by_word(joined([item("x", status="unreadable", error_code=1004, materialize_error="no encoding fits")]), "x")
    assert (row["status"], row["rule"], row["reason"], row["severity"], row["weight"]) == (
        "unreadable",
        "not_text",
        "no encoding fits",
        "P0",
        0.0,
    )


def test_an_item_that_nobody_judged_is_quarantined() -> None:
    row = by_word(joined([item("x")], [track("x")]), "x")
    assert (row["status"], row["rule"], row["is_survivor"]) == ("quarantined", NOT_JUDGED, False)


def test_an_admitted_item_without_cluster_stands_for_itself() -> None:
    row = by_word(simple("x"), "x")
    assert (row["survivor"], row["is_survivor"], row["cluster_size"]) == (name("x"), True, 1)


def test_a_duplicate_names_its_survivor() -> None:
    clusters = [
        {
            "digest": name("x"),
            "survivor": name("y"),
            "is_survivor": False,
            "cluster_size": 2,
            "radius": 0.1,
            "num_occurrences": 1,
            "tier": "near",
            "score": 0.9,
        }
    ]
    row = by_word(joined([item("x")], [track("x")], [verdict("x")], clusters), "x")
    assert (row["survivor"], row["is_survivor"], row["tier"], row["score"]) == (name("y"), False, "near", 0.9)


def test_a_video_is_previewed_by_its_first_keyframe() -> None:
    frames = [{"time_s": 2.0, "digest": name("late"), "shot": 1}, {"time_s": 0.0, "digest": name("early"), "shot": 0}]
    row = by_word(
        joined(
            [item("x", modality="video")],
            [track("x", modality="video", keyframes=frames)],
            [verdict("x")],
            modality="video",
        ),
        "x",
    )
    assert (row["preview_digest"], row["keyframe_digests"]) == (name("early"), [name("early"), name("late")])


def test_tracks_of_unknown_items_break_the_contract() -> None:
    with pytest.raises(ContractBroken, match="come from no item"):
        joined([item("x")], [track("x"), track("stranger")])


def test_vectors_that_are_not_finite_break_the_contract() -> None:
    with pytest.raises(ContractBroken, match="not finite"):
        simple("x", vectors={"x": [1.0, float("nan")]})


def test_vectors_are_null_where_the_item_has_none() -> None:
    table = simple("x", "y", vectors={"y": [0.6, 0.8]})
    assert by_word(table, "x")["vector_hashed_words"] is None
    assert by_word(table, "y")["vector_hashed_words"] == pytest.approx([0.6, 0.8])


def test_encoder_names_become_plain_column_names() -> None:
    assert vector_column("All-MiniLM/L6.v2") == "vector_all_minilm_l6_v2"


def test_a_second_upsert_of_the_same_rows_writes_nothing(tmp_path) -> None:
    catalog, table = Catalog(tmp_path), simple("x", "y", vectors={"x": [1.0, 0.0]})
    assert catalog.upsert(table) == {"inserted": 2, "updated": 0, "unchanged": 0}
    before = sorted(tmp_path.rglob("*"))
    assert catalog.upsert(table) == {"inserted": 0, "updated": 0, "unchanged": 2}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_changed_row_replaces_the_old_one(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(simple("x", "y"))
    assert catalog.upsert(simple("x", "y", status="flagged")) == {"inserted": 0, "updated": 2, "unchanged": 0}
    assert (catalog.count(), catalog.count("status = 'flagged'")) == (2, 2)
    catalog.verify_unique()


def test_the_data_version_depends_on_rows_alone(tmp_path) -> None:
    one, other = Catalog(tmp_path / "one"), Catalog(tmp_path / "other")
    one.upsert(simple("x", "y"))
    for word in ("y", "x"):
        table = simple("x", "y")
        other.upsert(table.filter(pa.compute.equal(table["digest"], name(word))))
    assert one.data_version() == other.data_version() != Catalog(tmp_path / "none").data_version()


def test_a_new_encoder_adds_a_column_and_changes_only_rows_that_have_its_vector(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(simple("x", "y"))
    assert catalog.upsert(simple("x", "y", vectors={"x": [0.0, 1.0]})) == {"inserted": 0, "updated": 1, "unchanged": 1}
    assert catalog.encoders() == ["hashed_words"]


def test_another_dimension_of_a_known_encoder_is_refused(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(simple("x", vectors={"x": [1.0, 0.0]}))
    with pytest.raises(SettingsError, match="2 dimensions, the rows bring 3"):
        catalog.upsert(simple("x", vectors={"x": [1.0, 0.0, 0.0]}))


def test_a_digest_given_twice_is_refused(tmp_path) -> None:
    with pytest.raises(ContractBroken, match="2 rows hold 1 distinct"):
        Catalog(tmp_path).upsert(pa.concat_tables([simple("x"), simple("x")]))


def test_bytes_of_two_modalities_keep_the_better_row_in_either_order(tmp_path) -> None:
    text = simple("x", status="quarantined")
    audio = joined([item("x", modality="audio", status="unreadable", error_code=1006)], modality="audio")
    for folder, tables in (("one", (text, audio)), ("other", (audio, text))):
        for table in tables:
            Catalog(tmp_path / folder).upsert(table)
    assert Catalog(tmp_path / "one").data_version() == Catalog(tmp_path / "other").data_version()
    assert Catalog(tmp_path / "one").get(name("x"))["modality"] == "text"


def test_absent_digests_are_removed(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(simple("x", "y", "z"))
    assert catalog.remove_absent([name("y")]) == 2
    assert catalog.read(["digest"]).to_pylist() == [{"digest": name("y")}]


def test_a_second_writer_is_asked_to_wait(tmp_path) -> None:
    with exclusive_lock(tmp_path / "writer.lock", what="it"), pytest.raises(LakeLocked):
        Catalog(tmp_path).upsert(simple("x"))


def test_a_cut_off_upsert_converges_when_run_again(tmp_path, monkeypatch) -> None:
    """Whatever step a writer dies in, readers see whole rows and the next run completes the table."""
    table = simple("x", "y", vectors={"x": [1.0, 0.0]})
    (whole := Catalog(tmp_path / "whole")).upsert(table)
    steps = ("columns.grown", "catalog._with_old_vectors", "catalog._columns", "catalog._as_stored")
    for step in (*steps, "catalog.index_text"):
        catalog = Catalog(tmp_path / step)
        with monkeypatch.context() as patch:
            patch.setattr(f"mmlake.catalog.{step}", _dies)
            with pytest.raises(KeyboardInterrupt):
                catalog.upsert(table)
        catalog.upsert(table)
        assert (catalog.data_version(), catalog.search("words").num_rows) == (whole.data_version(), 2)


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_changed_cell_is_found_by_verify(tmp_path) -> None:
    (catalog := Catalog(tmp_path)).upsert(simple("x", "y", vectors={"x": [1.0, 0.0], "y": [0.0, 1.0]}))
    assert catalog.verify() == []
    catalog._open().update(where=f"digest = '{name('x')}'", values={"size_bytes": 999})
    assert catalog.verify() == [name("x")]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> Catalog:
    catalog = Catalog(tmp_path_factory.mktemp("zoo"), settings=CatalogSettings(vector_index_rows=10_000))
    words = ["zebra", "lion", "tiger", "otter"]
    vectors = {"zebra": [1.0, 0.0, 0.0], "lion": [0.8, 0.6, 0.0], "tiger": [0.0, 1.0, 0.0]}
    catalog.upsert(simple(*words, vectors=vectors))
    return catalog


def found(table: pa.Table) -> list[str]:
    names = {name(word): word for word in ("zebra", "lion", "tiger", "otter")}
    return [names[digest] for digest in table["digest"].to_pylist()]


def test_text_search_finds_the_word(zoo) -> None:
    assert found(zoo.search("zebra")) == ["zebra"]


WRITTEN = {
    "zh": "系统管理员需要配置操作系统的网络。",
    "ja": "パッケージ管理システムは動作を途中で終了する。",
    "th": "เรือออกจากท่าก่อนพระอาทิตย์ขึ้น",
    "en": "The ferries left the piers of the harbour.",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Catalog:
    """A catalog of a text in each of these languages, whose full-text index is an earlier release's."""
    from lancedb.index import FTS

    catalog = Catalog(tmp_path_factory.mktemp("written"))
    some = [item(one, ordinal=at) for at, one in enumerate(WRITTEN)]
    catalog.upsert(joined(some[:1], [track("zh", text=WRITTEN["zh"])]))
    table = catalog._open()
    for index in table.list_indices():
        table.drop_index(index.name)
    table.create_index("text", config=FTS())
    catalog.upsert(joined(some, [track(one, text=text) for one, text in WRITTEN.items()]))
    return catalog


@pytest.mark.parametrize(
    ("words", "language"),
    [("系统", "zh"), ("管理员", "zh"), ("システム", "ja"), ("ท่า", "th"), ("ferry", "en"), ("harbours", "en")],
)
def test_words_are_found_in_scripts_without_spaces(written, words, language) -> None:
    assert written.search(words)["digest"].to_pylist()[:1] == [name(language)]


def test_vector_search_ranks_by_cosine_and_skips_items_without_vector(zoo) -> None:
    result = zoo.search(vector=[2.0, 0.0, 0.0], encoder="hashed-words")
    assert found(result) == ["zebra", "lion", "tiger"]
    assert result["score"].to_pylist() == pytest.approx([1.0, 0.8, 0.0], abs=1e-6)


def test_hybrid_search_is_reciprocal_rank_fusion(zoo) -> None:
    result = zoo.search("tiger", np.array([1.0, 0.0, 0.0]))
    assert found(result) == ["tiger", "zebra", "lion"]
    assert result["score"].to_pylist() == pytest.approx([1 / 61 + 1 / 63, 1 / 61, 1 / 62])


def test_a_filter_alone_lists_by_digest(zoo) -> None:
    result = zoo.search(where="size_bytes = 5", limit=2)
    assert result["digest"].to_pylist() == sorted(name(word) for word in ("zebra", "tiger", "otter"))[:2]
    assert result["score"].to_pylist() == [None, None]


def test_a_filter_narrows_every_kind_of_search(zoo) -> None:
    assert found(zoo.search("words", where="size_bytes = 4")) == ["lion"]
    assert found(zoo.search(vector=[1.0, 0.0, 0.0], where="size_bytes = 4")) == ["lion"]
    assert zoo.search("words", modality="image").num_rows == 0


@pytest.mark.parametrize(
    "where", ["colour = 'red'", "size_bytes >", "1 = 1; drop table catalog", "1=1) OR (size_bytes", "size_bytes", " "]
)
def test_an_unusable_filter_is_refused_in_our_own_words(zoo, where: str) -> None:
    with pytest.raises(SettingsError, match="filter") as caught:
        zoo.search("zebra", where=where)
    assert "lance" not in str(caught.value).lower()


def test_warnings_about_a_filter_are_not_shown(zoo) -> None:
    """LanceDB's logger is set up at its first import in a process."""
    script = (
        "import sys; from mmlake.catalog import Catalog; "
        "Catalog(sys.argv[1], modalities=('text',)).count(\"regexp_match(digest, 'a')\")"
    )
    done = subprocess.run([sys.executable, "-c", script, str(zoo.root)], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("text", ["", '"', "AND (", "a*b:c^2", "' OR 1=1 --"])
def test_odd_queries_find_nothing_and_raise_nothing(zoo, text: str) -> None:
    assert zoo.search(text).num_rows == 0


@pytest.mark.parametrize("vector", [[1.0], [0.0, 0.0, 0.0], [float("nan"), 0.0, 0.0]])
def test_an_unusable_query_vector_is_refused(zoo, vector) -> None:
    with pytest.raises(SettingsError, match="query vector"):
        zoo.search(vector=vector)


def test_an_unknown_encoder_is_refused_with_the_known_ones(zoo) -> None:
    with pytest.raises(SettingsError, match="it has: hashed_words"):
        zoo.search(vector=[1.0, 0.0, 0.0], encoder="clip")


def test_get_and_vector_return_one_item(zoo) -> None:
    assert zoo.get(name("lion"))["text"] == "words about lion"
    assert zoo.vector(name("lion"), encoder="hashed-words") == pytest.approx([0.8, 0.6, 0.0])
    assert zoo.vector(name("otter"), encoder="hashed-words") is None
    assert zoo.get(name("nobody")) is None


def test_an_empty_catalog_answers_everything(tmp_path) -> None:
    catalog = Catalog(tmp_path / "none")
    assert (
        catalog.count(),
        catalog.search("x").num_rows,
        catalog.get(name("x")),
        catalog.encoders(),
        catalog.verify(),
    ) == (0, 0, None, [], [])


def test_compaction_prunes_and_keeps_every_answer(tmp_path) -> None:
    catalog = Catalog(tmp_path, settings=CatalogSettings(vector_index_rows=300))
    rng = np.random.default_rng(0)
    words = [f"w{index}" for index in range(320)]
    catalog.upsert(
        simple(
            *words,
            vectors={word: vector.tolist() for word, vector in zip(words, rng.normal(size=(320, 8)), strict=True)},
        )
    )
    before, answer = catalog.data_version(), catalog.search("w7")["digest"].to_pylist()
    catalog.compact()
    assert (catalog.data_version(), catalog.search("w7")["digest"].to_pylist()) == (before, answer)
    assert catalog.search(vector=catalog.vector(name("w3"), encoder="hashed-words"), limit=1)["digest"].to_pylist() == [
        name("w3")
    ]


def test_the_schema_names_every_promised_column() -> None:
    assert simple("x").schema.equals(CATALOG_SCHEMA)


def test_rows_without_a_vector_verify_too(zoo) -> None:
    assert zoo.verify() == []
