"""From samples and catalog rows to a version: what stays, what is masked, what is out, and why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.errors import ContractBroken
from mmlake.modalities import MODALITIES
from mmlake.versions import RECIPES
from mmlake.versions.outs import WRONG_TRANSCRIPT
from tests.versions.sample_rows import CURATED, caption, catalog_row, chosen, many, name, part, picture, sample


def kept(selection) -> list[list[str]]:
    return sorted([one["digest"] for one in row["parts"]] for row in selection.samples.to_pylist())


def out(selection) -> list[tuple[str, str, bool]]:
    return sorted((row["digest"] or "", row["cause"], row["is_whole"]) for row in selection.excluded.to_pylist())


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"status": "flagged", "weight": 0.5}, None),
        ({"status": "quarantined", "rule": "blank"}, "rule:blank"),
        ({"status": "unreadable"}, "status:unreadable"),
        ({"tier": "near", "survivor": name(9)}, "tier:near"),
        ({"tier": "semantic", "survivor": name(9)}, "tier:semantic"),
        ({"licences": ["GPL-3.0-only", "MIT"]}, "licence:GPL-3.0-only"),
    ],
)
def test_a_sample_goes_with_its_lead(fields: dict, cause: str | None) -> None:
    recipe = replace(CURATED, deny_licences=("GPL-3.0-only",))
    samples = [sample(picture(1), caption(2)), sample(part(3))]
    selection = chosen([catalog_row(1, **fields), catalog_row(2), catalog_row(3)], samples, recipe)
    assert selection.samples.num_rows == (2 if cause is None else 1)
    assert out(selection) == ([] if cause is None else sorted([(name(1), cause, True), (name(2), cause, True)]))


@pytest.mark.parametrize(
    ("fields", "cause"),
    [({"status": "quarantined", "rule": "junk"}, "rule:junk"), ({"status": "unreadable"}, "status:unreadable")],
)
def test_a_part_that_fails_is_masked_and_its_sample_stays(fields: dict, cause: str) -> None:
    samples = [sample(picture(1), caption(2), caption(3), caption(4))]
    selection = chosen([catalog_row(1), catalog_row(2), catalog_row(3, **fields), catalog_row(4)], samples)
    assert kept(selection) == [[name(1), name(2), name(4)]]
    assert out(selection) == [(name(3), cause, False)]
    assert [one["position"] for one in selection.samples["parts"][0].as_py()] == [0, 1, 3]


def test_a_caption_is_said_once() -> None:
    """As downloaded pictures have it in a text file and in their record. What has fields of its own says more."""
    pair = sample(picture(1), caption(2), caption(3), caption(2), caption(2), fields_json='{"alt":"2"}')
    numbered = sample(picture(4), caption(2, fields_json='{"id":1}'), caption(2, fields_json='{"id":2}'), caption(2))
    said = sample(picture(5), caption(2), caption(2, role="transcript"))
    pages = sample(part(6), part(6), picture(1), picture(1))
    selection = chosen(many(7), [pair, numbered, said, pages])
    assert kept(selection) == sorted(
        [
            [name(1), name(2), name(3)],
            [name(4), *[name(2)] * 3],
            [name(5), *[name(2)] * 2],
            [name(6)] * 2 + [name(1)] * 2,
        ]
    )
    assert out(selection) == [(name(2), "part:repeated", False)] * 2
    (row,) = [one for one in selection.samples.to_pylist() if one["lead"] == name(1) and len(one["parts"]) == 3]
    assert row["fields_json"] == '{"alt":"2"}', "what stays is no secret"
    assert chosen(many(4), [pair], RECIPES["everything"]).excluded.num_rows == 2


def test_fields_do_not_repeat_what_is_masked_of_their_sample() -> None:
    """The texts of the captions are "2", "3" and "4"; the third fails."""
    record = {"alt": " 3\n", "url": "http://3", "others": ["2", "3"], "of": {"text": "3"}, "number": 3, "kept": "2"}
    written = json.dumps(record)  # spaces between the entries: not as we write it
    own, of_picture = written, json.dumps({"title": "3"})
    pair = sample(picture(1, fields_json=of_picture), caption(2), caption(3), caption(4), fields_json=own)
    other = sample(picture(5, fields_json=of_picture), caption(2), fields_json=own)
    twice = sample(picture(6), caption(3), part(3, role="document"), fields_json=own)
    rows = [catalog_row(1), catalog_row(2), catalog_row(4), *(catalog_row(at) for at in (5, 6))]
    failing = catalog_row(3, status="quarantined", rule="junk")
    made = {row["sample"]: row for row in chosen([*rows, failing], [pair, other, twice]).samples.to_pylist()}
    left = made[pair["sample"]]
    expected = {"url": "http://3", "others": ["2"], "number": 3, "kept": "2"}
    assert json.loads(left["fields_json"]) == expected
    assert [one["fields_json"] for one in left["parts"]] == ["{}", None, None]
    assert made[other["sample"]]["fields_json"] == written, "of a sample that loses nothing, byte for byte"
    assert made[other["sample"]]["parts"][0]["fields_json"] == of_picture
    assert json.loads(made[twice["sample"]]["fields_json"]) == expected
    everything = chosen([*rows, failing], [pair, twice], RECIPES["everything"]).samples
    assert everything["fields_json"].to_pylist() == [written, written]


def test_a_text_that_stays_in_another_part_stays_in_the_fields() -> None:
    recipe = replace(CURATED, roles=("media", "document"))
    both = sample(picture(1), caption(2), part(2), fields_json='{"alt":"2"}')
    row = chosen([catalog_row(1), catalog_row(2)], [both], recipe).samples.to_pylist()[0]
    assert ([one["role"] for one in row["parts"]], row["fields_json"]) == (["media", "document"], '{"alt":"2"}')


def test_a_transcript_that_its_sound_does_not_say_is_masked_and_the_sound_stays() -> None:
    rule = {"status": "flagged", "rule": WRONG_TRANSCRIPT, "reason": "transcript_match=0.03", "weight": 0.5}
    rows = [catalog_row(1, modality="audio", **rule), catalog_row(2), catalog_row(3, modality="audio"), catalog_row(4)]
    sound = {"modality": "audio", "content_type": "audio/flac"}
    said = {"role": "transcript"}
    samples = [sample(picture(n, **sound), part(n + 1, **said), caption(4)) for n in (1, 3)]
    selection = chosen(rows, samples)
    assert kept(selection) == sorted([[name(1), name(4)], [name(3), name(4), name(4)]])
    (row,) = selection.excluded.to_pylist()
    assert (row["digest"], row["cause"], row["detail"], row["is_whole"]) == (
        name(2), "rule:wrong_transcript", "transcript_match=0.03", False,
    )  # fmt: skip
    assert chosen(rows, samples, RECIPES["everything"]).excluded.num_rows == 0


def test_the_rule_that_masks_transcripts_is_one_of_sound_and_of_film() -> None:
    for modality in ("audio", "video"):
        assert WRONG_TRANSCRIPT in {rule.name for rule in MODALITIES[modality].rules}


def test_a_caption_is_no_duplicate_whatever_the_catalog_says_of_its_text() -> None:
    samples = [sample(picture(number), caption(9)) for number in range(3)]
    selection = chosen([*many(3), catalog_row(9, tier="near", survivor=name(8))], samples)
    assert kept(selection) == sorted([name(number), name(9)] for number in range(3))


def test_five_captions_stay_in_their_order() -> None:
    samples = [sample(picture(1), *(caption(number) for number in (7, 3, 5, 2, 6)))]
    selection = chosen(many(8), samples)
    assert kept(selection) == [[name(number) for number in (1, 7, 3, 5, 2, 6)]]


def test_an_interleaved_document_stays_while_a_leading_part_does() -> None:
    document = sample(part(1), picture(2), part(3))
    rows = [catalog_row(1), catalog_row(2, tier="near", survivor=name(9)), catalog_row(3)]
    selection = chosen(rows, [document])
    assert (kept(selection), selection.samples["modality"].to_pylist()) == ([[name(1), name(3)]], ["interleaved"])
    gone = chosen([row | {"status": "quarantined", "rule": "junk"} for row in rows], [document])
    assert kept(gone) == []
    assert {cause for _, cause, whole in out(gone) if whole} == {"rule:junk"}


def test_a_caption_without_a_picture_is_out_and_says_so() -> None:
    assert out(chosen(many(2), [sample(caption(1))])) == [(name(1), "sample:no_lead", True)]


def test_a_part_without_bytes_is_masked() -> None:
    selection = chosen(many(2), [sample(part(1), picture(0, digest=None))])
    assert (kept(selection), out(selection)) == ([[name(1)]], [("", "part:missing", False)])


def test_bytes_that_the_catalog_has_as_another_modality_are_out_whatever_the_recipe() -> None:
    rows = [catalog_row(1, modality="text"), catalog_row(2)]
    selection = chosen(rows, [sample(picture(1)), sample(part(2), caption(1))], RECIPES["everything"])
    assert (kept(selection), out(selection)) == ([[name(2), name(1)]], [(name(1), "part:other_modality", True)])


def test_of_samples_with_one_lead_the_best_source_then_the_most_parts_stay() -> None:
    poor, rich = sample(picture(1), caption(2)), sample(picture(1), caption(2), caption(3))
    assert kept(chosen(many(4), [poor, rich])) == [[name(1), name(2), name(3)]]
    preferred = chosen(many(4), [poor | {"source": "gold"}, rich], priority={"gold": 1, "news": 100}.get)
    assert kept(preferred) == [[name(1), name(2)]]
    assert {row["detail"] for row in preferred.excluded.to_pylist()} == {poor["sample"]}
    assert len(kept(chosen(many(4), [poor, rich], replace(CURATED, drop_tiers=())))) == 2


def test_a_picture_in_a_document_is_no_duplicate_of_the_picture_alone() -> None:
    assert len(kept(chosen(many(4), [sample(part(1), picture(2)), sample(picture(2))]))) == 2


def test_roles_can_be_required_and_left_out() -> None:
    samples = [sample(picture(1), caption(2)), sample(picture(3))]
    recipe = replace(CURATED, required_roles=("caption",))
    assert out(chosen(many(4), samples, recipe)) == [(name(3), "required:caption", True)]
    bare = chosen(many(4), samples, replace(CURATED, roles=("document", "media")))
    assert (kept(bare), out(bare)) == (sorted([[name(1)], [name(3)]]), [(name(2), "role:caption", False)])


def test_equal_samples_of_two_shards_count_once_with_their_occurrences() -> None:
    one = sample(part(1))
    other = one | {"sample_ids": ["t/1"], "source": "mirror", "num_occurrences": 2, "shard": "mirror/0"}
    (row,) = chosen(many(2), [one, other]).samples.to_pylist()
    assert (row["num_occurrences"], row["sources"], row["sample_ids"]) == (
        3, ["mirror", "news"], sorted([*one["sample_ids"], "t/1"]),
    )  # fmt: skip
    assert row["shard"] == "mirror/0"  # the first by name, whatever came first


def test_the_weight_of_a_sample_is_that_of_its_lead() -> None:
    rows = [catalog_row(1, weight=0.5), catalog_row(2, weight=0.1)]
    assert chosen(rows, [sample(picture(1), caption(2))]).samples["weight"].to_pylist() == [0.5]


def test_everything_does_not_depend_on_verdicts() -> None:
    samples = [sample(picture(1), caption(2)), sample(part(3))]
    good = [catalog_row(number) for number in (1, 2, 3)]
    bad = [catalog_row(n, status="quarantined", rule="blank", reason="r", weight=0.0, tier="near") for n in (1, 2, 3)]
    both = [chosen(rows, samples, RECIPES["everything"]) for rows in (good, bad)]
    assert both[0].samples.equals(both[1].samples)
    assert both[0].excluded.num_rows == both[1].excluded.num_rows == 0


def test_a_version_names_the_settings_that_its_recipe_depends_on_and_no_others() -> None:
    assert RECIPES["everything"].sections == ()
    assert RECIPES["curated"].sections == ("align", "quality", "dedup")
    assert replace(CURATED, drop_tiers=("exact",)).sections == ("align", "quality")


def test_a_digest_twice_in_the_catalog_breaks_the_contract() -> None:
    with pytest.raises(ContractBroken, match="twice"):
        chosen([catalog_row(1), catalog_row(1)])


def test_a_part_that_the_catalog_does_not_know_breaks_the_contract() -> None:
    with pytest.raises(ContractBroken, match="the catalog does not"):
        chosen([catalog_row(1)], [sample(part(2))])


def test_nothing_at_all_is_a_selection() -> None:
    selection = chosen([], [])
    assert (selection.samples.num_rows, selection.excluded.num_rows) == (0, 0)


@st.composite
def _worlds(draw):
    statuses = st.sampled_from(["ok", "flagged", "quarantined", "unreadable"])
    rows = [catalog_row(n, status=draw(statuses), tier=draw(st.sampled_from([None, "near"]))) for n in range(6)]
    kinds = st.sampled_from([part, picture, caption])
    made = st.lists(st.tuples(kinds, st.integers(0, 5)), min_size=1, max_size=4)
    return rows, [sample(*(kind(n) for kind, n in one)) for one in draw(st.lists(made, max_size=6))]


@given(_worlds())
def test_every_part_of_every_sample_is_kept_or_has_a_cause(world) -> None:
    rows, samples = world
    selection = chosen(rows, samples)
    distinct = {one["sample"]: one for one in samples}
    expected = Counter((key, one["digest"]) for key, row in distinct.items() for one in row["parts"])
    held = Counter((row["sample"], one["digest"]) for row in selection.samples.to_pylist() for one in row["parts"])
    left = Counter((row["sample"], row["digest"]) for row in selection.excluded.to_pylist())
    assert held + left == expected
    assert all(row["cause"] for row in selection.excluded.to_pylist())
    leads = {row["sample"]: [one["role"] for one in row["parts"]] for row in selection.samples.to_pylist()}
    assert all({"document", "media"} & set(roles) for roles in leads.values())
