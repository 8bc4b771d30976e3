"""A landing zone on an SFTP server that the test runs: listed, read by ranges, refused and changed like any other."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mmlake import sources
from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.landing import as_landing
from mmlake.landing.filesystem import FilesystemLanding
from mmlake.records import SourceRef
from mmlake.remote.backoff import Retries
from mmlake.remote.credentials import VARIABLE
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import SourceSettings
from mmlake.store import BlobStore

paramiko = pytest.importorskip("paramiko")

BIG = bytes(range(256)) * 1000
SMALL = RemoteSettings(block_bytes=1 << 15, request_blocks=2, ahead_blocks=4)


class Door(paramiko.ServerInterface):
    """Lets in clients that know the password."""

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL if (username, password) == ("reader", "pa:ss/0123") else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


class Shelf(paramiko.SFTPServerInterface):
    """The files below a directory, for reading."""

    root: Path

    def _at(self, path: str) -> str:
        return f"{self.root}{self.canonicalize(path)}"

    def _answer_of(self, path: str, ask) -> object:
        try:
            return paramiko.SFTPAttributes.from_stat(ask(path), os.path.basename(path))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    def list_folder(self, path: str) -> object:
        try:
            return [
                self._answer_of(os.path.join(self._at(path), name), os.lstat) for name in os.listdir(self._at(path))
            ]
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    def stat(self, path: str) -> object:
        return self._answer_of(self._at(path), os.stat)

    def lstat(self, path: str) -> object:
        return self._answer_of(self._at(path), os.lstat)

    def open(self, path: str, flags: int, attr: object) -> object:
        if "refused" in path:
            return paramiko.SFTP_PERMISSION_DENIED
        handle = paramiko.SFTPHandle(flags)
        try:
            handle.readfile = open(self._at(path), "rb")  # noqa: SIM115 - the handle closes it
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)
        return handle


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with some files; cache and logins are the test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    root = tmp_path / "server"
    for path, data in {
        "in/a b/\xfc #1.txt": b"text with an odd name",
        "in/big.bin": BIG,
        "in/lines.jsonl": b'{"text": "one"}\n',
        "in/.hidden": b"x",
        "sibling.txt": b"x",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


@pytest.fixture
def port(files: Path) -> Iterator[int]:
    """Of a server that shows the files."""
    key, transports = paramiko.ECDSAKey.generate(), []
    server_socket = socket.create_server(("127.0.0.1", 0))
    shelf = type("_Shelf", (Shelf,), {"root": files})

    def serve() -> None:
        while True:
            try:
                connection, _ = server_socket.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transports.append(transport)
            transport.add_server_key(key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, shelf)
            try:
                transport.start_server(server=Door())
            except (paramiko.SSHException, EOFError):
                transport.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server_socket.getsockname()[1]
    server_socket.shutdown(socket.SHUT_RDWR)
    server_socket.close()
    thread.join()
    for transport in transports:
        transport.close()


@pytest.fixture
def zone(port: int, patient: Retries) -> Iterator[FilesystemLanding]:
    landing = FilesystemLanding(f"sftp://reader:pa%3Ass%2F0123@127.0.0.1:{port}/in", remote=SMALL, retries=patient)
    yield landing
    landing._storage._files()[0].client.close()


def test_a_tree_is_listed_and_read(zone: FilesystemLanding) -> None:
    assert {directory: [entry.path for entry in entries] for directory, entries in zone.directories()} == {
        ".": ["big.bin", "lines.jsonl"],
        "a b": ["a b/\xfc #1.txt"],
    }
    with zone.open("big.bin") as file:
        file.seek(100_000)
        assert file.read(1000) == BIG[100_000:101_000]
    assert zone.open("a b/\xfc #1.txt").read() == b"text with an odd name" and "pa" not in zone.location.partition("@")[
        0
    ].removeprefix("sftp://reader")


def test_items_are_ingested_and_found_again(zone: FilesystemLanding, tmp_path: Path) -> None:
    shards, store = sources.scan(zone, settings=SourceSettings()), BlobStore(tmp_path / "store")
    rows = [
        row
        for shard in shards
        for row in sources.ingest(shard, "text", landing=zone, store=store, settings=SourceSettings()).to_pylist()
    ]
    assert sorted(row["text_content"] for row in rows if row["text_content"]) == ["one", "text with an odd name"]
    assert dict(sources.fetch_many([SourceRef("big.bin"), SourceRef("gone.txt")], landing=zone))[0] == BIG


def test_links_are_refused_entries(zone: FilesystemLanding, files: Path) -> None:
    (files / "in" / "link.txt").symlink_to("/etc/passwd")
    assert [entry.path for entry in zone.files(".") if entry.refused] == ["link.txt"]


def test_a_file_that_changes_while_it_is_read_is_never_mixed(zone: FilesystemLanding, files: Path) -> None:
    with zone.open("big.bin") as file:
        file.read(10)
        (files / "in" / "big.bin").write_bytes(BIG[:-1])
        with pytest.raises(UnreadableItem, match="changed while it was read"):
            file.seek(200_000), file.read()


def test_a_refused_file_is_a_fault_of_its_own(zone: FilesystemLanding, files: Path) -> None:
    (files / "in" / "refused.txt").write_bytes(b"x")
    with pytest.raises(UnreadableItem, match="refuses to give the file"):
        zone.open("refused.txt").read()


def test_a_wrong_password_is_reported_without_it_and_tried_once(
    port: int, patient: Retries, waits: list[float]
) -> None:
    landing = FilesystemLanding(f"sftp://reader:recognizable@127.0.0.1:{port}/in", retries=patient)
    with pytest.raises(RemoteUnavailable, match="the storage refuses us") as raised:
        list(landing.directories())
    assert "recognizable" not in str(raised.value) and waits == []


def test_a_broken_connection_is_made_anew(zone: FilesystemLanding) -> None:
    assert zone.stat("big.bin") is not None
    with closing(zone._storage._files()[0].client):
        pass
    assert zone.open("big.bin").read(5) == BIG[:5]


def test_a_server_that_is_not_there_is_unavailable(patient: Retries) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server_socket:
        free = server_socket.getsockname()[1]
    with pytest.raises(RemoteUnavailable, match="6 tries"):
        list(as_landing(FilesystemLanding(f"sftp://reader@127.0.0.1:{free}/in", retries=patient)).directories())
