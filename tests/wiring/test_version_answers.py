"""Why one version holds an item or leaves it out, as that version says: then, not now."""

from __future__ import annotations

import pytest

from mmlake.errors import BlobMissing, RefMissing, SettingsError
from mmlake.item_provenance import story_of, version_answer
from mmlake.provenance import AmbiguousDigest
from mmlake.records import digest_of
from mmlake.version_provenance import _only_in
from mmlake.versions.segments import Segments
from tests import make
from tests.lakes import published
from tests.wiring.conftest import TEXTS, Site

SHORT, PROSE = (digest_of(text.encode()) for text in (TEXTS[2], TEXTS[0]))


def test_a_version_says_in_which_samples_it_holds_an_item(site: Site) -> None:
    site.publish()
    answer = version_answer(site.lake(), PROSE[:12], "curated")
    assert (answer.digest, answer.kind, answer.num_held, answer.num_left_out) == (PROSE, "item", 1, 0)
    assert answer.names == ("curated", "curated-v001")
    assert [(row["shard"], row["role"], row["digest"]) for row in answer.held] == [("text/a.jsonl", "document", PROSE)]
    assert answer.conclusion == "curated holds it in 1 sample."


def test_each_version_answers_by_what_it_was_made_with(site: Site) -> None:
    """The verdict of now says nothing of the version before."""
    site.publish()
    loose = {"quality": {"bounds": {"text_too_short": [1, None]}}}
    assert site.publish(**loose) == "curated-v002"
    before, after = (version_answer(site.lake(**loose), SHORT, f"curated-v00{number}") for number in (1, 2))
    assert before.conclusion.startswith("curated-v001 does not hold it: rule:text_too_short: num_words=2 words not in")
    assert [row["is_whole"] for row in before.left_out] == [True]
    assert (after.num_held, after.num_left_out) == (1, 0)


def test_an_item_that_was_erased_is_answered_by_the_versions_that_name_it(site: Site) -> None:
    """`mmlake why` knew it no more, although a version held it."""
    site.publish()
    site.land("text/a.jsonl", TEXTS[1:2])
    assert site.publish() == "curated-v002"
    lake = site.lake()
    with pytest.raises(BlobMissing):
        story_of(lake, PROSE)
    held, out = (version_answer(lake, digest[:10], "curated-v001") for digest in (PROSE, SHORT))
    assert (held.digest, held.kind, held.num_held) == (PROSE, None, 1)
    assert (out.digest, out.num_held, [row["cause"] for row in out.left_out]) == (SHORT, 0, ["rule:text_too_short"])
    assert "no table of the lake knows it any more" in held.to_text()
    with pytest.raises(BlobMissing, match="nor does version .* name it"):
        version_answer(lake, PROSE, "curated-v002")


def test_the_story_of_an_item_reads_what_versions_share_once(site: Site, monkeypatch) -> None:
    """Of a thousand shards and two hundred versions, each version was read from its first sample to its last."""
    site.publish()
    for number in range(3):
        site.land(f"text/more{number}.jsonl", [make.prose(20 + number)])
        site.publish()
    read, read_one = [], Segments.read
    monkeypatch.setattr(
        Segments, "read", lambda self, one, schema: read.append(one.digest) or read_one(self, one, schema)
    )
    said = {str(one) for one in story_of(site.lake(), PROSE).versions}
    assert len(said) == 4
    assert len(read) == len(set(read))


def test_an_item_that_came_later_was_not_there(site: Site) -> None:
    site.publish()
    site.land("text/b.jsonl", [make.prose(7)])
    site.publish()
    later = digest_of(make.prose(7).encode())
    answer = version_answer(site.lake(), later, "curated-v001")
    assert answer.conclusion == (
        "curated-v001 does not hold it: no sample of the lake had it when the version was made."
    )
    assert version_answer(site.lake(), later, "curated").num_held == 1


def test_every_cause_of_an_item_in_several_samples_is_said(tmp_path) -> None:
    """Only the first was, of samples that share a picture."""
    site = Site(tmp_path, TEXTS[:1])
    picture = make.picture(1, width=256, height=256)
    captioned = {"a.jpg": picture, "a.txt": b"A red boat on the lake.", "b.jpg": picture}
    make.land(site.zone, {"p/a.tar": make.tar(captioned)})
    lake = site.catalogued()
    recipe = 'name = "words"\ndescription = "x"\nstatuses = ["ok", "flagged"]\nrequired_roles = ["caption"]\n'
    answer = version_answer(lake, digest_of(picture), published(lake, recipe))
    assert (answer.num_held, answer.num_left_out) == (1, 1)
    assert "left out 1 time: required:caption" in answer.conclusion


def test_what_is_no_digest_or_no_version_is_refused(site: Site) -> None:
    site.publish()
    lake = site.lake()
    with pytest.raises(RefMissing):
        version_answer(lake, PROSE, "nosuch")
    with pytest.raises(SettingsError, match="no digest and no file"):
        version_answer(lake, "xyz", "curated")


def test_a_prefix_of_several_that_only_the_version_names_is_ambiguous(site: Site) -> None:
    texts = [make.prose(seed) for seed in range(100, 400)]
    site.land("text/a.jsonl", texts)
    site.publish("everything")
    digests = sorted(digest_of(text.encode()) for text in texts)
    shared = next(a[:2] for a, b in zip(digests, digests[1:], strict=False) if a[:2] == b[:2])
    lake = site.lake()
    with pytest.raises(AmbiguousDigest):
        _only_in(lake, lake.versions.resolve("everything-v001"), shared, BlobMissing("gone"))
