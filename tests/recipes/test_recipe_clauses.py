"""What clauses, licences and quotas keep out, with which cause."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.errors import SettingsError
from mmlake.recipes import RECIPES, Mixture, Quota, parse
from mmlake.recipes.licences import Policy, normal_licence
from mmlake.recipes.quotas import cut
from mmlake.versions import select
from tests.versions.sample_rows import CURATED, caption, catalog_row, chosen, name, part, picture, sample


def rows_with(*rows: dict) -> pa.Table:
    """Catalog rows with measures and source fields."""
    base = chosen([catalog_row(0)])  # the schema of the tests of versions
    assert base.samples.num_rows == 1
    strings = {"digest", "modality", "status", "severity", "rule", "reason", "tier", "survivor"}
    fields = [(one, pa.string()) for one in sorted(strings)]
    fields += [("weight", pa.float32()), ("licences", pa.list_(pa.string())), ("sources", pa.list_(pa.string()))]
    fields += [("width_px", pa.int32()), ("sharpness", pa.float64())]
    fields.append(("metadata", pa.struct([("language", pa.string()), ("score", pa.float64())])))
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


ROWS = rows_with(
    catalog_row(0, width_px=100, sharpness=0.9, metadata={"language": "en", "score": 1.0}),
    catalog_row(1, width_px=10, sharpness=0.9, metadata={"language": "en-GB", "score": 1.0}),
    catalog_row(2, sources=["web"], width_px=100, sharpness=0.1, metadata={"language": "fr", "score": None}),
    catalog_row(3, sources=["web", "news"], width_px=None, sharpness=None, metadata=None),
)


@pytest.mark.parametrize(
    ("keys", "causes"),
    [
        ("sources = ['news']", [None, None, "source:web", None]),
        ("sources = ['books']", ["source:news", "source:news", "source:web", "source:news"]),
        ("[size]\nwidth_px = [64, inf]", [None, "size", None, None]),
        ("[size]\nwidth_px = [-inf, 64]", ["size", None, "size", None]),
        ("languages = ['en']", [None, None, "language", None]),
        ("where = 'sharpness > 0.5'", [None, None, "where", "where"]),
        ("where = 'metadata.score = 1 OR metadata.language IS NULL'", [None, None, "where", None]),
        ("sources = ['news']\nwhere = 'sharpness > 0.5'\n[size]\nwidth_px = [64, inf]",
         [None, "size", "source:web", "where"]),
    ],
)  # fmt: skip
def test_each_clause_keeps_its_own_out_and_the_first_is_the_cause(keys: str, causes: list[str | None]) -> None:
    recipe = parse(f'name = "mine"\n{keys}', origin="x.toml")
    assert recipe.lead_causes(ROWS).to_pylist() == causes
    assert set(recipe.columns) <= {"width_px", "sharpness", "metadata"}


def test_a_clause_is_asked_of_what_leads_and_not_of_its_captions() -> None:
    recipe = parse('name = "mine"\nwhere = "modality = \'image\'"', origin="x.toml")
    rows = [catalog_row(1, modality="image"), catalog_row(2), catalog_row(3)]
    selection = chosen(rows, [sample(picture(1), caption(2)), sample(part(3))], recipe)
    assert [[one["digest"] for one in row["parts"]] for row in selection.samples.to_pylist()] == [[name(1), name(2)]]
    assert [(row["digest"], row["cause"]) for row in selection.excluded.to_pylist()] == [(name(3), "where")]


def test_a_verdict_comes_before_a_choice_and_a_choice_before_a_duplicate() -> None:
    recipe = parse('name = "mine"\nwhere = "digest = \'x\'"', origin="x.toml")
    rows = [catalog_row(1, status="quarantined", rule="blank"), catalog_row(2, tier="near", survivor=name(1))]
    causes = {row["digest"]: row["cause"] for row in chosen(rows, None, recipe).excluded.to_pylist()}
    assert causes == {name(1): "rule:blank", name(2): "where"}


def test_the_causes_of_the_package_recipes_are_what_they_were() -> None:
    rows = rows_with(
        catalog_row(0, status="quarantined"), catalog_row(1, status="quarantined", rule="blank"),
        catalog_row(2, status=None), catalog_row(3, status="unreadable", rule=""),
    )  # fmt: skip
    assert RECIPES["curated"].causes(rows).to_pylist() == [
        "status:quarantined", "rule:blank", "status:None", "status:unreadable",
    ]  # fmt: skip
    assert RECIPES["everything"].causes(rows).to_pylist() == [None, None, "status:None", "status:unreadable"]


def test_p0_enters_no_version_that_reads_verdicts_and_p1_does_where_a_recipe_says_so() -> None:
    rows = rows_with(
        catalog_row(0, status="quarantined", severity="P0", rule="av_detached"),
        catalog_row(1, status="quarantined", severity="P1", rule="blank"),
        catalog_row(2, status="flagged", severity="P2", rule="static"),
    )
    isolated = parse('name = "mine"\nstatuses = ["ok", "flagged", "quarantined"]', origin="x.toml")
    assert isolated.causes(rows).to_pylist() == ["rule:av_detached", None, None]
    assert RECIPES["everything"].causes(rows).to_pylist() == [None, None, None]  # it reads no verdict


@pytest.mark.parametrize(
    ("allow", "deny", "licence", "admitted"),
    [
        ([], [], "GPL-2.0-only", True),
        (["MIT"], [], "MIT", True),
        (["MIT"], [], "Apache-2.0", False),
        (["MIT"], [], "MIT OR GPL-2.0-only", True),
        (["MIT"], [], "MIT AND GPL-2.0-only", False),
        (["MIT", "GPL-2.0-only"], [], "MIT AND GPL-2.0-only", True),
        ([], ["GPL-2.0-only"], "MIT OR GPL-2.0-only", True),
        ([], ["GPL-2.0-only"], "MIT AND GPL-2.0-only", False),
        (["MIT"], [], "(MIT OR GPL-2.0-only) AND (MIT OR Apache-2.0)", True),
        (["MIT"], [], "(MIT OR GPL-2.0-only) AND Apache-2.0", False),
        (["MIT OR Apache-2.0"], [], "Apache-2.0", True),
        (["MIT AND CC-BY-4.0"], [], "CC-BY-4.0 AND MIT", True),
        (["MIT AND CC-BY-4.0"], [], "MIT", False),
        (["MIT AND CC-BY-4.0"], ["MIT"], "CC-BY-4.0 AND MIT", False),
        (["CC-BY-*"], ["CC-BY-NC-*"], "CC-BY-4.0", True),
        (["CC-BY-*"], ["CC-BY-NC-*"], "CC-BY-NC-4.0", False),
        (["GPL-2.0-only"], [], "GPL-2.0-only WITH Classpath-exception-2.0", True),
        (["GPL-2.0-only WITH Classpath-exception-2.0"], [], "GPL-2.0-only", False),
        (["LicenseRef-*"], [], "LicenseRef-CC-BY", True),
        (["LicenseRef-*"], [], "NOASSERTION", False),
        (["NOASSERTION"], [], "NOASSERTION", True),
        ([], ["NOASSERTION"], "NOASSERTION", False),
        ([], ["MIT"], "what is this", True),
        (["MIT"], [], "what is this", False),
    ],
)
def test_an_expression_is_admitted_when_the_lists_satisfy_it(allow, deny, licence: str, admitted: bool) -> None:
    lists = [tuple(normal_licence(one, where="x") for one in each) for each in (allow, deny)]
    assert (Policy(*lists).denied([licence]) is None) == admitted


def test_every_licence_of_an_item_is_needed_and_none_is_not_enough_for_an_allow_list() -> None:
    assert Policy(("MIT",), ()).denied(["MIT", "GPL-2.0-only"]) == "GPL-2.0-only"
    assert Policy(("MIT",), ()).denied([]) == "none stated"
    assert Policy((), ("MIT",)).denied([]) is None


def of_sources(**counts: int) -> pa.Table:
    """Documents of these sources."""
    rows, samples, number = [], [], 0
    for source, count in counts.items():
        for _ in range(count):
            number += 1
            rows.append(catalog_row(number, sources=[source]))
            samples.append(sample(part(number), source=source))
    return chosen(rows, samples).samples if rows else chosen([]).samples


def left(samples: pa.Table, *quotas: Quota, seed: int = 0) -> tuple[Counter, set[str]]:
    causes = cut(samples, quotas, seed=seed, where="x.toml")
    kept = samples.filter(pa.array([cause is None for cause in causes]))
    out = Counter(cause for cause in causes if cause)
    held = Counter(source for sources in kept["sources"].to_pylist() for source in sources)
    assert sum(out.values()) + kept.num_rows == samples.num_rows
    return held, set(kept["sample"].to_pylist())


def test_a_group_has_at_most_its_quota_and_the_rest_says_so() -> None:
    samples = of_sources(web=30, coco=5)
    causes = Counter(cut(samples, (Quota(by="source", at_most=10),), seed=0, where="x").tolist())
    assert causes == {None: 15, "quota:web": 20}
    assert left(samples, Quota(by="source", at_most=10, groups=("coco",)))[0] == {"web": 30, "coco": 5}


def test_a_share_is_of_what_stays() -> None:
    for counts, share, expected in (
        ({"web": 100, "coco": 10}, 0.5, {"web": 10, "coco": 10}),
        ({"web": 100, "coco": 100, "books": 1}, 0.34, {"web": 1, "coco": 1, "books": 1}),
        ({"web": 50, "coco": 50}, 0.5, {"web": 50, "coco": 50}),
        ({"web": 90, "coco": 5, "books": 5}, 0.6, {"web": 15, "coco": 5, "books": 5}),
    ):
        assert left(of_sources(**counts), Quota(by="source", share=share))[0] == expected


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=2), st.floats(0.2, 1.0))
def test_no_group_has_more_than_its_share_and_no_sample_is_cut_without_need(counts: dict, share: float) -> None:
    names, sizes = list(counts), np.array(list(counts.values()))
    samples = pa.table(
        {
            "sample": [f"{one}{number}" for one, size in counts.items() for number in range(size)],
            "sources": pa.array([[one] for one, size in counts.items() for _ in range(size)]),
        }
    )
    try:
        causes = cut(samples, (Quota(by="source", share=share),), seed=0, where="x")
    except SettingsError:
        assert share * len(names) < 1 + share  # so few groups, or so small ones, that whole samples cannot make it
        return
    kept = Counter(one["sources"][0] for one, cause in zip(samples.to_pylist(), causes, strict=True) if cause is None)
    total = sum(kept.values())
    assert max(kept.values()) <= share * total + 1e-6
    # the most for which all shares hold: no larger whole has the groups for it
    assert all(
        sum(np.minimum(sizes, np.floor(share * more + 1e-9))) < more for more in range(total + 1, int(sizes.sum()) + 1)
    )


def test_more_data_of_a_kind_changes_as_little_as_possible() -> None:
    quota = Quota(by="source", at_most=50)
    before, after = left(of_sources(web=200), quota)[1], left(of_sources(web=220), quota)[1]
    assert len(before) == len(after) == 50
    assert len(after - before) <= 20
    assert len(after - before) < 15  # 50 of 220 in place of 50 of 200: about five
    assert left(of_sources(web=200, coco=70), quota)[1] >= before


def test_the_seed_chooses_others() -> None:
    samples = of_sources(web=60)
    quota = Quota(by="source", at_most=10)
    assert left(samples, quota, seed=1)[1] != left(samples, quota, seed=2)[1]
    assert left(samples, quota, seed=1)[1] == left(samples.take(pa.array(range(59, -1, -1))), quota, seed=1)[1]


@pytest.mark.parametrize(
    ("quota", "message"),
    [
        (Quota(by="source", at_least=10), "quota 1 .by source.: group 'coco' has 5 samples, expected at least 10"),
        (Quota(by="source", at_least=1, groups=("wed",)), r"group 'wed' \(near: web\) has 0 samples"),
        (Quota(by="source", share=0.4), "no 2 groups can have a share of 0.4 each and make a whole"),
        (Quota(by="source", share=0.5, at_least=6), "group 'coco' has 5 samples, expected at least 6"),
    ],
)
def test_a_quota_that_cannot_be_met_is_an_error(quota: Quota, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        left(of_sources(web=30, coco=5), quota)


def test_quotas_are_part_of_a_selection_and_count_fields_too() -> None:
    samples = [sample(part(number), fields_json=json.dumps({"label": number % 2})) for number in range(20)]
    recipe = replace(CURATED, quotas=(Quota(by="metadata.label", at_most=3), Quota(by="modality", at_most=5)))
    selection = chosen([catalog_row(number) for number in range(20)], samples, recipe)
    assert selection.samples.num_rows == 5
    assert Counter(selection.excluded["cause"].to_pylist()) == {"quota:0": 7, "quota:1": 7, "quota:text": 1}
    assert set(selection.excluded["is_whole"].to_pylist()) == {True}


def test_selecting_from_nothing_with_every_clause_is_nothing() -> None:
    recipe = parse(
        'name = "m"\nsources = ["a"]\nwhere = "width_px > 1"\n[size]\nwidth_px = [1, 2]\n[[quotas]]\nby = "source"\n'
        'at_most = 1\n[licences]\nallow = ["MIT"]',
        origin="x",
    )
    none = chosen([]).samples
    assert select(ROWS.slice(0, 0), pa.Table.from_pylist([], schema=_samples()), recipe).samples.equals(none)


def _samples() -> pa.Schema:
    from tests.versions import sample_rows

    return sample_rows._SAMPLES


@pytest.mark.parametrize(
    ("mixture", "expected"),
    [
        (Mixture(by="source", weights=(("a", 3),)), {"a": 82, "b": 28}),
        (Mixture(by="source", temperature=2), {"a": 84, "b": 26}),
        (Mixture(by="source", epochs=(("b", 3),)), {"a": 100, "b": 30}),
        (Mixture(by="source", epochs=(("b", 0.5),)), {"a": 100, "b": 5}),
        (Mixture(by="source", weights=(("a", 0),)), {"a": 0, "b": 110}),
        (Mixture(by="source", weights=(("a", 0), ("b", 0))), {"a": 0, "b": 0}),
    ],
)
def test_positions_of_groups_follow_weights_temperature_and_epochs(mixture: Mixture, expected: dict) -> None:
    """weights: 110 * 3*100 / (3*100 + 10), temperature: 110 * sqrt(100) / (sqrt(100) + sqrt(10))."""
    sizes = {"a": 100, "b": 10}
    if mixture.weights == (("a", 3.0),):
        expected = {"a": round(110 * 300 / 310), "b": round(110 * 10 / 310)}
    assert mixture.counts(sizes) == expected


def test_the_lowest_temperature_has_numbers_for_any_sizes() -> None:
    """A temperature of 0.001, which was admitted, ended the publication with an OverflowError."""
    mixture = Mixture(by="source", temperature=0.1, weights=(("a", 9e8),))
    mixture.check("m")
    assert mixture.counts({"a": 10**9, "b": 10**9, "c": 3}) == {"a": 2 * 10**9 + 1, "b": 2, "c": 0}


def test_a_weight_for_a_group_that_is_not_there_is_answered_with_near_names() -> None:
    with pytest.raises(SettingsError, match=r"weights name the group 'cooc' \(near: coco\)"):
        Mixture(by="source", weights=(("cooc", 2),)).check_groups(["coco", "web"], "x.toml")
