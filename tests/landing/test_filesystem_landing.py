"""A landing zone in any storage that fsspec reads, tried on the storage that is this process's memory."""

from __future__ import annotations

import ftplib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from mmlake.errors import MissingExtra, RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.landing import Landing, as_landing, is_address
from mmlake.landing.filesystem import FilesystemLanding
from mmlake.remote.backoff import Retries
from mmlake.remote.credentials import VARIABLE, Logins, options_of
from mmlake.remote.settings import RemoteSettings
from mmlake.remote.storages import _in_our_words, _info_of
from mmlake.sources import SourceSettings, read, scan

BIG = np.random.default_rng(1).bytes(300_000)
SMALL = RemoteSettings(block_bytes=1 << 15, request_blocks=2, ahead_blocks=4)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """fsspec's storage in this process's memory, empty before and after."""
    files = fsspec.filesystem("memory")
    monkeypatch.setattr(type(files), "store", {})
    monkeypatch.setattr(type(files), "pseudo_dirs", [""])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return files


class Answered(OSError):
    """What a library raises that knows the status of HTTP."""

    def __init__(self, status_code: int) -> None:
        super().__init__("secret")
        self.status_code = status_code


def paths_of(landing: Landing) -> dict[str, list[str]]:
    return {directory: [entry.path for entry in entries] for directory, entries in landing.directories()}


def test_a_tree_is_listed_and_read(memory: Any) -> None:
    memory.pipe(
        {
            "/in/b.txt": b"hello",
            "/in/a/big.bin": BIG,
            "/in/a/c/x.txt": b"x",
            "/in/.hidden": b"x",
            "/in/.hidden.jpg": b"x",
            "/in/y.part": b"x",
            "/in/_SUCCESS": b"",
            "/sibling/z.txt": b"z",
        }
    )
    landing = FilesystemLanding("memory://in/", remote=SMALL)
    assert paths_of(landing) == {".": [".hidden.jpg", "b.txt"], "a": ["a/big.bin"], "a/c": ["a/c/x.txt"]}
    assert landing.open("a/big.bin").read() == BIG and landing.location == "memory://in"
    assert landing.stat("_SUCCESS") is not None and landing.stat("_source.json") is None and landing.stat("a") is None
    assert landing.has("a") and landing.has("b.txt") and not landing.has("z") and landing.files("nothing") == []
    for outside in ("../sibling/z.txt", "/sibling/z.txt", "a/../../sibling/z.txt", "a\0"):
        assert landing.stat(outside) is None
        with pytest.raises(UnreadableItem, match="1007"):
            landing.open(outside)


def test_the_whole_storage_and_one_file_are_landing_zones_too(memory: Any) -> None:
    memory.pipe({"/in/b.txt": b"hello", "/c.txt": b"c"})
    assert paths_of(as_landing("memory://")) == {".": ["c.txt"], "in": ["in/b.txt"]}
    one = as_landing("memory://in/b.txt")
    assert paths_of(one) == {".": ["b.txt"]} and one.open("b.txt").read() == b"hello" and one.stat("c.txt") is None


def test_a_place_that_is_not_there_is_a_wrong_setting(memory: Any) -> None:
    with pytest.raises(SettingsError, match="memory://nowhere is not there"):
        list(as_landing("memory://nowhere").directories())


def test_reading_the_head_fetches_the_head(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe({"/in/big.bin": BIG})
    fetched = []
    real = type(memory).cat_file
    monkeypatch.setattr(
        type(memory),
        "cat_file",
        lambda self, path, start=None, end=None: (fetched.append(end - start), real(self, path, start, end))[1],
    )
    with FilesystemLanding("memory://in", remote=SMALL).sparing().open("big.bin") as file:
        file.read(100)
    assert sum(fetched) <= 2 * SMALL.block_bytes


def test_many_directories_of_few_files_are_read_as_one_shard(memory: Any) -> None:
    memory.pipe({f"/in/d/{at}/{at}.txt": f"text {at}".encode() for at in range(70)})
    landing, settings = as_landing("memory://in"), SourceSettings()
    (shard,) = scan(landing, settings=settings)
    items = read(shard, landing=landing, settings=settings)
    found = {item.sample_id: item.content.head(99) for item in items if item.content}
    assert shard.key == "d~~" and found == {f"d/{at}/{at}": f"text {at}".encode() for at in range(70)}


def test_a_changed_file_is_a_new_revision_of_its_shard(memory: Any) -> None:
    memory.pipe({"/in/a.txt": b"one", "/in/b.jsonl": b'{"text": "b"}\n'})
    before = {shard.key: shard.revision for shard in scan(as_landing("memory://in"), settings=SourceSettings())}
    memory.pipe({"/in/a.txt": b"two"})
    after = {shard.key: shard.revision for shard in scan(as_landing("memory://in"), settings=SourceSettings())}
    assert {key for key in before if before[key] != after[key]} == {"root"}


@pytest.mark.parametrize("data", [BIG[::-1], BIG[:-1], BIG[:1000], None])
def test_a_file_that_changes_while_it_is_read_is_never_mixed(memory: Any, data: bytes | None) -> None:
    memory.pipe({"/in/big.bin": BIG})
    with FilesystemLanding("memory://in", remote=SMALL).open("big.bin") as file:
        file.read(10)
        memory.rm("/in/big.bin")
        if data is not None:
            memory.pipe({"/in/big.bin": data})
        with pytest.raises(UnreadableItem, match="changed while it was read"):
            file.seek(200_000), file.read()


def test_faults_on_the_way_change_no_byte(
    memory: Any, monkeypatch: pytest.MonkeyPatch, patient: Retries, waits: list[float]
) -> None:
    memory.pipe({"/in/big.bin": BIG})
    real, faults = (
        type(memory).cat_file,
        [
            ConnectionResetError(),
            TimeoutError(),
            OSError("secret"),
            EOFError(),
            ftplib.error_temp("421 secret"),
            b"short",
        ],
    )

    def cat_file(self: Any, path: str, start: int, end: int) -> bytes:
        fault = faults.pop() if faults else None
        if isinstance(fault, Exception):
            raise fault
        return fault or real(self, path, start, end)

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    remote = RemoteSettings(block_bytes=1 << 17, ahead_blocks=0)
    assert FilesystemLanding("memory://in", remote=remote, retries=patient).open("big.bin").read() == BIG
    assert len(waits) == 6


@pytest.mark.parametrize(
    ("raised", "expected", "words"),
    [
        (OSError("secret"), RemoteUnavailable, "6 tries .* OSError"),
        (PermissionError("secret"), UnreadableItem, "refuses to give the file"),
        (ftplib.error_perm("530 secret"), RemoteUnavailable, "refuses us"),
        (ftplib.error_perm("550 secret"), UnreadableItem, "refuses to give the file"),
        (ImportError("secret", name="crc32c"), SettingsError, "crc32c"),
        (Answered(403), UnreadableItem, "refuses to give the file"),
        (Answered(401), UnreadableItem, "refuses to give the file"),
        (Answered(500), RemoteUnavailable, "6 tries"),
        (OSError("Forbidden: secret"), UnreadableItem, "refuses to give the file"),
    ],
)
def test_what_a_library_raises_is_reported_in_our_words(
    memory: Any, monkeypatch: pytest.MonkeyPatch, patient: Retries, raised: Exception, expected: type, words: str
) -> None:
    memory.pipe({"/in/a.txt": b"hello"})

    def info(self: Any, path: str) -> dict[str, object]:
        raise raised

    monkeypatch.setattr(type(memory), "info", info)
    with pytest.raises(expected, match=words) as caught:
        FilesystemLanding("memory://in", retries=patient)._storage.info("in/a.txt")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_not_tried_again(
    memory: Any, monkeypatch: pytest.MonkeyPatch, patient: Retries, waits: list[float], status: int
) -> None:
    def ls(self: Any, path: str, detail: bool) -> list[object]:
        raise Answered(status)

    monkeypatch.setattr(type(memory), "ls", ls)
    with pytest.raises(RemoteUnavailable, match="refuses us"):
        FilesystemLanding("memory://in", retries=patient)._storage.listed("in")
    assert waits == []


def test_a_library_that_tries_for_long_by_itself_is_asked_twice(
    memory: Any, monkeypatch: pytest.MonkeyPatch, patient: Retries, waits: list[float]
) -> None:
    """gcsfs and the library of Azure try for 35 and 84 seconds where nobody answers; six times that is a run that
    seems to hang."""
    now_s = [0.0]

    def info(self: Any, path: str) -> dict[str, object]:
        now_s[0] += 35.0
        raise OSError("secret")

    monkeypatch.setattr(type(memory), "info", info)
    monkeypatch.setattr("mmlake.remote.storages.time.monotonic", lambda: now_s[0])
    with pytest.raises(RemoteUnavailable, match="2 tries took longer than 20 s each and failed, the last by OSError"):
        FilesystemLanding("memory://in", retries=patient)._storage.info("in/a.txt")
    assert (now_s[0], len(waits)) == (70.0, 1)


def test_names_that_no_tree_has_and_special_files_are_refused_entries(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [
        {"name": "/in/..", "type": "file", "size": 1},
        {"name": "/elsewhere/x.txt", "type": "file", "size": 1},
        {"name": "/in/link", "type": "link", "size": 1},
        {"name": "/in/both", "type": "file", "size": 1},
        {"name": "/in/both", "type": "directory", "size": 0},
        {"name": "/in/endless.bin", "type": "file", "size": None},
        {"name": "/in/ok.txt", "type": "file", "size": 1},
    ]
    monkeypatch.setattr(type(memory), "info", lambda self, path: {"name": path, "type": "directory", "size": 0})
    monkeypatch.setattr(type(memory), "ls", lambda self, path, detail: listed if path == "/in" else [])
    entries = [entry for _, entries in as_landing("memory://in").directories() for entry in entries]
    assert [entry.path for entry in entries if entry.refused is None] == ["ok.txt"]
    assert len(entries) == 6


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc",
        "local:///etc",
        "zip://x.zip",
        "tar://x",
        "reference://x",
        "dask://x",
        "jupyter://x",
        "data://x",
        "git://x",
        "dir://x",
        "generic://x",
        "nothing://x",
    ],
)
def test_what_reads_this_machine_or_leads_on_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match=f"scheme '{address.partition(':')[0]}'.*not opened"):
        as_landing(address)


@pytest.mark.parametrize(
    "address",
    [
        "simplecache::http://u:secret@h/",
        "filecache::memory://in",
        "zip://a::memory://in/x.zip",
        "memory://in::x",
        "gs://b/x::y",
    ],
)
def test_chains_of_storages_are_refused(address: str) -> None:
    assert is_address(address)
    with pytest.raises(SettingsError, match="not opened|chained") as raised:
        as_landing(address)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "memory://in?token=secret",
        "memory://in#secret",
        "memory://user:secret@in/x",
        "memory://in/../x",
        "memory://in//x",
    ],
)
def test_a_wrong_address_is_a_wrong_setting_and_not_repeated(address: str) -> None:
    with pytest.raises(SettingsError, match="address has") as raised:
        as_landing(address)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "package"),
    [
        ("gs://bucket/x", "gcsfs"),
        ("abfs://c@account.dfs.core.windows.net/x", "adlfs"),
        ("sftp://u:secret@host/x", "paramiko"),
        ("smb://h/s", "smbprotocol"),
    ],
)
def test_a_missing_package_is_named(address: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(SettingsError, match=f"pip install {package}") as raised:
        as_landing(address)
    assert "secret" not in str(raised.value)
    assert raised.value.exit_code == MissingExtra.exit_code == 7  # it was 2, that of a mistyped option


def test_ftp_is_asked_with_the_login_that_its_location_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "fsspec.implementations.ftp.FTPFileSystem._connect",
        lambda self: asked.append((self.host, self.port, self.cred)),
    )
    monkeypatch.setattr("fsspec.implementations.ftp.FTPFileSystem.__del__", lambda self: None)
    landing = FilesystemLanding("ftp://ann:se%2Fcret@ftp.example.org:2121/pub/data/")
    assert landing.location == "ftp://ann@ftp.example.org:2121/pub/data"
    landing._storage._files()
    assert asked == [("ftp.example.org", 2121, ("ann", "se/cret", ""))]


def test_options_come_from_settings_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RemoteSettings(
        storage_options={
            "gs": {"project": "p", "token": "env:GS_TOKEN"},
            "gs://special": {"token": "anon"},
            "az": {"account_key": "literal"},
        }
    )
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(SettingsError, match="'GS_TOKEN', which is not set"):
        options_of("gs://bucket/x", settings)
    monkeypatch.setenv("GS_TOKEN", "secret")
    assert options_of("gs://bucket/x", settings) == {"project": "p", "token": "secret"}
    assert options_of("gs://special/x", settings) == {"token": "anon"}
    assert options_of("gs://specialer/x", settings) == {"project": "p", "token": "secret"}
    assert options_of("ftp://h/x", settings) == {}
    with pytest.raises(SettingsError, match="resembles a secret") as raised:
        options_of("az://c/x", settings)
    assert "literal" not in str(raised.value)
    monkeypatch.setenv(VARIABLE, '{"az": {"account_key": "given", "nested": {"list": ["env:GS_TOKEN"]}}}')
    assert options_of("az://c/x", settings) == {"account_key": "given", "nested": {"list": ["secret"]}}
    monkeypatch.setenv(VARIABLE, "no json")
    with pytest.raises(SettingsError, match="no JSON object"):
        options_of("az://c/x", settings)


def test_options_that_do_not_fit_are_a_wrong_setting(memory: Any) -> None:
    landing = FilesystemLanding(
        "memory://in", remote=RemoteSettings(storage_options={"memory": {"global_store": 1, "batch_size": object()}})
    )
    memory.pipe({"/in/a.txt": b"a"})
    assert landing.open("a.txt").read() == b"a"
    with pytest.raises(SettingsError, match="no table of options"):
        options_of("memory://in", RemoteSettings(storage_options={"memory": "x"}))


@pytest.mark.parametrize(
    ("info", "version", "modified_ns"),
    [
        ({"etag": '"abc"', "updated": "2026-11-20T10:00:00.000Z"}, "abc", 1_795_168_800_000_000_000),
        (
            {
                "content_settings": {},
                "content_md5": bytearray(b"\1\2"),
                "last_modified": datetime(2026, 11, 20, 10, tzinfo=UTC),
            },
            "0102",
            1_795_168_800_000_000_000,
        ),
        ({"mtime": 1_795_168_800}, None, 1_795_168_800_000_000_000),
        ({"modificationTime": 1_795_168_800_000}, None, 1_795_168_800_000_000_000),
        ({"modify": "20261120100000.123"}, None, 1_795_168_800_000_000_000),
        ({"LastModified": "Fri, 20 Nov 2026 10:00:00 GMT"}, None, 1_795_168_800_000_000_000),
        ({"sha": "77aa", "modified": "some day"}, "77aa", 0),
        ({}, None, 0),
    ],
)
def test_versions_and_times_are_found_as_storages_spell_them(
    info: dict[str, Any], version: str | None, modified_ns: int
) -> None:
    facts = _info_of({"name": "x", "type": "file", "size": 1, **info})
    assert (facts.version, facts.modified_ns) == (version, modified_ns)


def test_a_forked_process_makes_its_own_file_system(memory: Any) -> None:
    storage = FilesystemLanding("memory://in")._storage
    first, _ = storage._files()
    storage._made = (os.getpid() + 1, first, None)
    assert storage._files()[1] is not None


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://user:secret@host/x", "https://host/x"),
        ("https://token@host:8/x@y", "https://host:8/x@y"),
        ("HTTPS://u:p@ss@host/x", "https://host/x"),
        ("sftp://ann:secret@host/x", "sftp://ann@host/x"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("github://org:repo@main/x", "github://org:repo@main/x"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_a_login_is_taken_out_of_an_address(address: str, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Logins().take_from(address) == plain


def test_hdfs_without_java_says_what_to_install() -> None:
    with pytest.raises(SettingsError, match="JAVA_HOME"), _in_our_words("INFO hdfs://h/data", of_file=False):
        raise OSError("Unable to load libjvm: libjvm.so: cannot open shared object file")
