"""A landing zone on the hub: one revision, listed once, read by ranges, with the token kept at home."""

from __future__ import annotations

import hashlib
import logging

import huggingface_hub.constants
import pytest
from hub_server import NAME, TOKEN, Hub

from mmlake.errors import MissingExtra, RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing import HubLanding, as_landing
from mmlake.remote.backoff import Retries
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings, read, scan
from mmlake.sources.shard import defaults_of

ADDRESS = f"hf://datasets/{NAME}"
BIG = bytes(range(256)) * 40  # in large file storage, 10 KiB
CARD = b"---\nlicense: odc-by\n---\n# Corpus\n"


def listed(landing: HubLanding) -> list[str]:
    return [entry.path for _, entries in landing.directories() for entry in entries]


def test_a_branch_is_pinned_to_its_commit_once(hub: Hub) -> None:
    first = hub.commit({"a.txt": b"one"})
    landing = HubLanding(ADDRESS)
    assert landing.location == f"hf://datasets/{NAME}@{first}"
    assert landing.provenance() == {"location": landing.location, "revision": first}
    assert len(hub.asked("/revision/")) == 1


def test_a_branch_that_moves_while_we_read_changes_nothing(hub: Hub) -> None:
    hub.commit({"a.txt": b"one", "b.txt": b"two"})
    landing = HubLanding(ADDRESS)
    hub.commit({"a.txt": b"ONE", "c.txt": b"three"})
    assert listed(landing) == ["a.txt", "b.txt"]
    assert landing.open("a.txt").read() == b"one"


def test_a_location_opened_again_reads_the_same_commit_without_asking_what_it_is(hub: Hub) -> None:
    hub.commit({"a.txt": b"one"})
    location = HubLanding(ADDRESS).location
    hub.commit({"a.txt": b"ONE"})
    hub.seen.clear()
    again = as_landing(location)
    assert not hub.seen
    assert again.location == location and again.open("a.txt").read() == b"one"


@pytest.mark.parametrize("revision", ["v1.0", "refs/convert/parquet", "feature%2Fnew"])
def test_a_tag_a_converted_branch_and_a_name_with_a_slash_are_revisions(hub: Hub, revision: str) -> None:
    sha = hub.commit({"data/a.txt": b"tagged"}, ref=revision.replace("%2F", "/"))
    landing = HubLanding(f"{ADDRESS}@{revision}/data")
    assert landing.location == f"hf://datasets/{NAME}@{sha}/data"
    assert landing.open("a.txt").read() == b"tagged"


def test_a_tree_of_many_pages_is_listed_whole_and_once(hub: Hub) -> None:
    hub.page_size = 7
    names = [f"part-{number:02d}/x.txt" for number in range(30)]
    hub.commit(dict.fromkeys(names, b"x"))
    landing = HubLanding(ADDRESS)
    assert listed(landing) == listed(landing) == names
    assert len(hub.asked("/tree/")) == 9  # 30 files and 30 folders at 7 a page
    assert [entry.path for entry in landing.files("part-03")] == ["part-03/x.txt"]


def test_hidden_files_but_media_unfinished_and_marker_files_and_the_card_are_not_listed(hub: Hub) -> None:
    hub.commit(
        {
            ".gitattributes": b"*",
            ".hidden.jpg": b"h",
            "a.txt": b"a",
            "b.txt.part": b"b",
            ".git/c.txt": b"c",
            "README.md": CARD,
            "_source.json": b"{}",
            "d/README.md": b"d",
        }
    )
    landing = HubLanding(ADDRESS)
    assert listed(landing) == [".hidden.jpg", "a.txt", "d/README.md"]
    assert landing.stat("_source.json") is not None and landing.stat("nothing") is None


def test_the_version_of_a_file_is_its_sha256_or_its_git_id(hub: Hub) -> None:
    hub.commit({"big.bin": BIG, "small.txt": b"small"})
    big, small = HubLanding(ADDRESS).files(".")
    assert (big.version, big.size_bytes) == (hashlib.sha256(BIG).hexdigest(), len(BIG))
    assert (small.version, small.size_bytes) == (hashlib.sha1(b"blob 5\0small").hexdigest(), 5)


@pytest.mark.parametrize(
    "path", ["a/../../b.txt", "../b.txt", "../../b.txt", "a/..", "//etc/passwd", "a//b.txt", "./b.txt", "nul\0.txt"]
)
def test_a_path_that_leaves_the_landing_zone_is_a_refused_row_and_never_opened(hub: Hub, path: str) -> None:
    hub.commit({path: b"b", "good/c.txt": b"good"})
    landing = HubLanding(ADDRESS)
    found = dict(landing.directories())
    assert list(found) == [".", "good"] and [entry.refused is None for entry in found["."]] == [False]
    shards = scan(landing, settings=SourceSettings())
    rows = {
        shard.key: [
            item.fault.code if item.fault else None for item in read(shard, landing=landing, settings=SourceSettings())
        ]
        for shard in shards
    }
    assert rows == {"root": [1007], "good": [None]}
    with pytest.raises(UnreadableItem, match="1007"):
        landing.open(path)


def test_odd_names_come_back_byte_for_byte(hub: Hub) -> None:
    name = "ä b/100% #1?&=+'\"[x].txt"
    hub.commit({name: b"odd", f"{name}.bin": BIG})
    landing = HubLanding(ADDRESS)
    assert landing.open(name).read() == b"odd" and landing.open(f"{name}.bin").read() == BIG


def test_an_empty_file_is_read_without_a_request(hub: Hub) -> None:
    hub.commit({"empty.txt": b""})
    landing = HubLanding(ADDRESS)
    landing.files(".")
    hub.seen.clear()
    assert landing.open("empty.txt").read() == b"" and not hub.seen


def test_seeking_reads_only_the_blocks_that_are_touched(hub: Hub) -> None:
    hub.commit({"big.bin": BIG})
    with HubLanding(ADDRESS, remote=RemoteSettings(block_bytes=1024)).open("big.bin") as file:
        file.seek(-100, 2)
        assert file.read() == BIG[-100:]
    assert hub.served("big.bin") == 1024


def test_what_was_read_once_is_not_fetched_again_at_another_revision(hub: Hub) -> None:
    hub.commit({"big.bin": BIG})
    assert HubLanding(ADDRESS).open("big.bin").read() == BIG
    hub.commit({"big.bin": BIG, "other.txt": b"new"})
    assert HubLanding(ADDRESS).open("big.bin").read() == BIG
    assert hub.served("big.bin") == len(BIG)


def test_the_token_goes_to_the_hub_and_never_to_the_content_network(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit({"big.bin": BIG, "small.txt": b"small"})
    hub.gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    landing = HubLanding(ADDRESS, remote=RemoteSettings(block_bytes=1024))
    assert landing.open("big.bin").read() == BIG and landing.open("small.txt").read() == b"small"
    assert {one.headers.get("authorization") for one in hub.seen if one.host == "hub"} == {f"Bearer {TOKEN}"}
    cdn = [one for one in hub.seen if one.host == "cdn"]
    assert cdn and not any(TOKEN in str(one.headers) for one in cdn)


def test_a_next_page_at_another_host_is_refused_before_the_token_goes_there(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, patient: Retries
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.page_size = 1
    hub.commit({"a.txt": b"a", "b.txt": b"b"})
    landing = HubLanding(ADDRESS, retries=patient)
    hub_url, hub.url = hub.url, hub.cdn_url  # what the Link header will name
    with pytest.raises(RemoteUnavailable, match="another host"):
        landing.files(".")
    hub.url = hub_url
    assert not [one for one in hub.seen if one.host == "cdn"]


def test_no_log_line_and_no_error_holds_the_token_or_a_signature(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patient: Retries
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.commit({"big.bin": BIG})
    caplog.set_level(logging.DEBUG)
    landing = HubLanding(ADDRESS, retries=patient)
    assert landing.open("big.bin").read() == BIG
    hub.commit({"other.bin": BIG[1:]})
    hub.faults = [("status", (503, {}))] * 6
    with pytest.raises(RemoteUnavailable) as failure:
        HubLanding(ADDRESS, retries=patient).open("other.bin").read()
    text = caplog.text + str(failure.value)
    assert "HTTP Request" in text and TOKEN not in text and "Signature" not in text


def test_an_expired_signature_is_renewed_by_the_hub(hub: Hub) -> None:
    data = BIG * 20
    hub.commit({"big.bin": data})
    with HubLanding(ADDRESS, remote=RemoteSettings(block_bytes=1 << 16, ahead_blocks=0)).open("big.bin") as file:
        first = file.read(10)
        hub.signature += 1
        assert first + file.read() == data
    assert len(hub.asked("/resolve/")) == 2


@pytest.mark.parametrize("where", ["hub", "cdn"])
@pytest.mark.parametrize(
    "fault",
    [
        ("status", (503, {})),
        ("status", (429, {"Retry-After": "3"})),
        ("status", (429, {"RateLimit": '"resolvers";r=0;t=3'})),
        ("cut", 100),
    ],
)
def test_a_hub_that_fails_for_a_while_gives_the_same_bytes(
    hub: Hub, patient: Retries, waits: list[float], fault: tuple, where: str
) -> None:
    hub.commit({"big.bin": BIG, "small.txt": b"x" * 60})
    hub.lfs_from_bytes = 64 if where == "cdn" else 1 << 20
    landing = HubLanding(ADDRESS, retries=patient)
    hub.faults, hub.faults_at = [fault, fault], where
    assert landing.open("big.bin").read() == BIG
    assert len(waits) == 2 and not hub.faults
    if fault[0] == "status" and fault[1][0] == 429:
        assert min(waits) >= 3.0


def test_a_page_of_the_tree_that_fails_is_asked_for_again(hub: Hub, patient: Retries, waits: list[float]) -> None:
    hub.page_size = 1
    hub.commit({"a.txt": b"a", "b.txt": b"b"})
    hub.faults, hub.faults_at = [("status", (503, {})), ("cut", 0)], "tree"
    assert listed(HubLanding(ADDRESS, retries=patient)) == ["a.txt", "b.txt"]
    assert len(waits) == 1


def test_a_hub_that_stays_away_is_an_error_and_no_row(hub: Hub, patient: Retries) -> None:
    hub.commit({"big.bin": BIG})
    landing = HubLanding(ADDRESS, retries=patient)
    hub.faults = [("status", (503, {}))] * 6
    with pytest.raises(RemoteUnavailable, match=f"data set {NAME} .*6 tries"):
        landing.open("big.bin").read()


def test_a_wrong_hash_of_the_publisher_is_reported_at_the_end_of_the_file(hub: Hub) -> None:
    hub.commit({"big.bin": BIG})
    hub.stated["big.bin"] = "0" * 64
    with pytest.raises(UnreadableItem, match="1010.*publisher"):
        HubLanding(ADDRESS).open("big.bin").read()


def test_a_small_file_is_held_against_its_git_id(hub: Hub) -> None:
    sha = hub.commit({"small.txt": b"small"})
    landing = HubLanding(ADDRESS)
    landing.files(".")
    hub.commits[sha]["small.txt"] = b"SMALL"
    with pytest.raises(UnreadableItem, match="1010.*sha1"):
        landing.open("small.txt").read()


def test_verify_reads_a_file_that_was_only_read_in_parts(hub: Hub) -> None:
    hub.commit({"big.bin": BIG})
    landing = HubLanding(ADDRESS, remote=RemoteSettings(block_bytes=1024))
    landing.verify("big.bin")
    landing.verify("big.bin")
    assert hub.served("big.bin") == len(BIG)


def test_after_a_wrong_hash_the_bytes_are_fetched_again(hub: Hub) -> None:
    sha = hub.commit({"big.bin": BIG})
    landing = HubLanding(ADDRESS)
    landing.files(".")
    hub.commits[sha]["big.bin"] = BIG[::-1]
    with pytest.raises(UnreadableItem, match="1010"):
        landing.verify("big.bin")
    hub.commits[sha]["big.bin"] = BIG
    landing.verify("big.bin")


def test_a_file_of_another_size_than_listed_is_reported(hub: Hub) -> None:
    sha = hub.commit({"big.bin": BIG})
    landing = HubLanding(ADDRESS)
    landing.files(".")
    hub.commits[sha]["big.bin"] = BIG[:-1]
    with pytest.raises(UnreadableItem, match="1010 content_mismatch: size_bytes=10239 not in \\[10240, 10240\\]"):
        landing.open("big.bin").read()


def test_a_listed_file_that_is_gone_is_missing(hub: Hub) -> None:
    sha = hub.commit({"a.txt": b"a"})
    landing = HubLanding(ADDRESS)
    landing.files(".")
    del hub.commits[sha]["a.txt"]
    with pytest.raises(UnreadableItem, match="1001"):
        landing.open("a.txt").read()


def test_the_card_gives_licence_and_the_name_gives_the_source(hub: Hub) -> None:
    hub.commit({"README.md": CARD, "data/a.txt": b"a"})
    found = defaults_of(HubLanding(ADDRESS), "data")
    assert (found.source, found.licence) == (NAME, "ODC-By-1.0")
    assert HubLanding(f"{ADDRESS}/data").defaults() == {"source": NAME, "licence": "odc-by"}


def test_a_source_file_in_the_data_set_speaks_before_the_card(hub: Hub) -> None:
    hub.commit({"README.md": CARD, "data/_source.json": b'{"source": "books", "licence": "MIT"}', "data/a.txt": b"a"})
    found = defaults_of(HubLanding(ADDRESS), "data")
    assert (found.source, found.licence) == ("books", "MIT")


@pytest.mark.parametrize(
    ("head", "licence"),
    [
        (b"license: [cc-by-4.0]", "CC-BY-4.0"),
        (b"license: [cc-by-4.0, mit]", "NOASSERTION"),
        (b"license: other\nlicense_name: Apache-2.0", "Apache-2.0"),
        (b"license: other\nlicense_name: our own words", "NOASSERTION"),
        (b"license: unknown", "NOASSERTION"),
        (b"license: {a: [", "NOASSERTION"),
        (b"- a list", "NOASSERTION"),
        (b"license: 5", "NOASSERTION"),
        (b"x: " + b"[" * 600, "NOASSERTION"),
    ],
)
def test_a_licence_is_taken_only_where_the_card_is_clear(hub: Hub, head: bytes, licence: str) -> None:
    hub.commit({"README.md": b"---\n" + head + b"\n---\n# Corpus", "a.txt": b"a"})
    assert defaults_of(HubLanding(ADDRESS), ".").licence == licence


def test_a_data_set_without_a_card_has_no_licence(hub: Hub) -> None:
    hub.commit({"a.txt": b"a"})
    assert HubLanding(ADDRESS).defaults() == {"source": NAME}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://datasets/acme/other", "does not exist or is private.*HF_TOKEN"),
        (f"{ADDRESS}@v9", "has no revision 'v9'"),
        (f"{ADDRESS}/nowhere", "has no directory 'nowhere'"),
        (f"{ADDRESS}@{'0' * 40}", "has no commit 000000000000"),
        ("hf://datasets/squad", "no data set on the hub; write hf://datasets/<org>/<name>"),
        (f"hf://{NAME}", "no data set on the hub"),
        (f"hf://{TOKEN}@datasets/acme/corpus", r"hf_\*\*\*"),
    ],
)
def test_an_address_that_cannot_be_opened_is_reported_with_its_remedy(hub: Hub, address: str, message: str) -> None:
    hub.commit({"a.txt": b"a"})
    with pytest.raises(SettingsError, match=message) as failure:
        HubLanding(address).files(".")
    assert TOKEN not in str(failure.value)


def test_a_gated_data_set_names_the_page_where_its_terms_are(hub: Hub) -> None:
    hub.commit({"a.txt": b"a"})
    hub.gated = True
    with pytest.raises(SettingsError, match=f"gated.*{hub.url}/datasets/{NAME}.*hf auth login"):
        HubLanding(ADDRESS)


def test_offline_mode_says_how_to_land_a_copy(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SettingsError, match=f"HF_HUB_OFFLINE.*hf download --repo-type dataset {NAME}"):
        HubLanding(ADDRESS)
    assert not hub.seen


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub.utils", None)
    with pytest.raises(MissingExtra, match=r"mmlake\[hub\]"):
        HubLanding(ADDRESS)
