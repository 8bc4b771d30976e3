"""A public server leads nobody into a private network, whatever its name servers say from one moment to the next."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from site_server import Site, serving_site

from mmlake.errors import RemoteUnavailable, UnreadableItem
from mmlake.landing import as_landing
from mmlake.landing.website import WebsiteLanding
from mmlake.remote.backoff import Retries
from mmlake.remote.networks import Networks

OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"  # in these tests the first counts as a public address
SECRET = b"what only this machine can reach"


class Names:
    """A name server: name -> the answers that it gives, one after another, the last repeatedly."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.answers.get(host)
        if answers is None:
            if host in (OUTSIDE, INSIDE):
                return [host]
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr("mmlake.remote.networks.addresses_of", found)
    monkeypatch.setattr("mmlake.remote.client.PUBLIC", Networks((f"{OUTSIDE}/32",)))
    return found


@pytest.fixture
def inside() -> Iterator[Site]:
    with serving_site(INSIDE) as server:
        server.files = {"a.bin": SECRET, "latest/meta-data": SECRET}
        yield server


def at(site: Site, host: str) -> str:
    return f"http://{host}:{urlsplit(site.url).port}/"


def read(url: str, retries: Retries, path: str = "a.bin") -> bytes:
    with WebsiteLanding(url, retries=retries).open(path) as file:
        return file.read()


def test_a_redirect_from_a_public_server_is_followed_to_public_ones(site: Site, names: Names, patient: Retries) -> None:
    names.answers = {"public.example": [[OUTSIDE]], "other.example": [[INSIDE, OUTSIDE]]}
    site.files, site.redirects = {"b.bin": b"open"}, {"/a.bin": at(site, "other.example") + "b.bin"}
    assert read(at(site, "public.example"), patient) == b"open"


@pytest.mark.parametrize(
    "host", [INSIDE, "inside.example", "[::1]", "[::ffff:127.0.0.2]", "0x7f.2", "2130706434", "127.2"]
)
def test_a_redirect_from_a_public_server_into_a_private_network_is_a_row(
    site: Site, inside: Site, names: Names, patient: Retries, host: str
) -> None:
    names.answers = {
        "public.example": [[OUTSIDE]],
        "inside.example": [[INSIDE]],
        "2130706434": [[INSIDE]],
        "127.2": [[INSIDE]],
        "0x7f.2": [[INSIDE]],
    }
    site.redirects = {"/a.bin": at(inside, host) + "latest/meta-data"}
    with pytest.raises(UnreadableItem, match="1001.*(into a private network|to an address that is none)"):
        read(at(site, "public.example"), patient)
    assert inside.seen == []


def test_a_name_that_leads_elsewhere_after_it_was_checked_gains_nothing(
    site: Site, inside: Site, names: Names, patient: Retries
) -> None:
    """Whatever answer the name server gives to the check, the connection goes to that answer."""
    names.answers = {"public.example": [[OUTSIDE]], "rebinding.example": [[OUTSIDE], [INSIDE], [OUTSIDE], [INSIDE]]}
    site.redirects = {"/a.bin": at(inside, "rebinding.example") + "latest/meta-data"}
    for _ in range(4):
        with pytest.raises((UnreadableItem, RemoteUnavailable)):
            read(at(site, "public.example"), patient)
    assert inside.seen == []


def test_a_landing_zone_that_was_public_is_not_read_from_inside_later(
    site: Site, inside: Site, names: Names, patient: Retries
) -> None:
    names.answers = {"zone.example": [[OUTSIDE], [INSIDE]]}
    with pytest.raises(RemoteUnavailable, match="zone.example.*now leads into a private network"):
        read(at(inside, "zone.example"), patient)
    assert inside.seen == []


def test_of_several_addresses_of_a_landing_zone_the_public_ones_are_asked(
    site: Site, inside: Site, names: Names, patient: Retries
) -> None:
    """A server must not make itself private by a second address, and so lead where it likes."""
    names.answers = {"both.example": [[INSIDE, OUTSIDE]]}
    site.files, site.redirects = {"b.bin": b"open"}, {"/a.bin": at(inside, INSIDE) + "a.bin"}
    assert read(at(site, "both.example"), patient, "b.bin") == b"open"
    with pytest.raises(UnreadableItem, match="into a private network"):
        read(at(site, "both.example"), patient)
    assert inside.seen == []


def test_a_landing_zone_inside_may_redirect_inside(site: Site, inside: Site, names: Names, patient: Retries) -> None:
    names.answers = {"intranet.example": [[INSIDE]], "files.example": [[INSIDE]]}
    inside.redirects = {"/a.bin": at(inside, "files.example") + "latest/meta-data"}
    assert read(at(inside, "intranet.example"), patient) == SECRET


def test_a_name_without_an_address_is_tried_again(
    site: Site, names: Names, patient: Retries, waits: list[float]
) -> None:
    site.files = {"a.bin": b"open"}
    url = at(site, "late.example")
    with pytest.raises(RemoteUnavailable, match="late.example"):
        read(url, patient)
    assert len(waits) >= 3
    names.answers = {"late.example": [[OUTSIDE]]}
    assert read(url, patient) == b"open"


def test_a_proxy_inside_is_used_and_decides_where_names_lead(
    site: Site, inside: Site, names: Names, patient: Retries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It resolves names by itself; what this machine knows of a name or address is still held against a redirect."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", inside.url)
    inside.files = {
        "http://public.example/a.bin": b"by the proxy",
        "http://elsewhere.example/b.bin": b"by the proxy too",
    }
    inside.redirects = {
        "http://public.example/c.bin": "http://elsewhere.example/b.bin",
        "http://public.example/d.bin": f"http://{INSIDE}/a.bin",
        "http://public.example/e.bin": "http://inside.example/a.bin",
    }
    names.answers = {"public.example": [[OUTSIDE]], "inside.example": [[INSIDE]]}
    assert [read("http://public.example/", patient, path) for path in ("a.bin", "c.bin")] == [
        b"by the proxy",
        b"by the proxy too",
    ]
    for path in ("d.bin", "e.bin"):
        with pytest.raises(UnreadableItem, match="into a private network"):
            read("http://public.example/", patient, path)


def test_the_name_stays_in_the_request(site: Site, names: Names, patient: Retries) -> None:
    names.answers = {"public.example": [[OUTSIDE]]}
    site.files = {"a.bin": b"open"}
    zone = as_landing(at(site, "public.example"))
    with zone.open("a.bin") as file:
        assert file.read() == b"open"
    assert {one.headers["host"] for one in site.seen} == {f"public.example:{urlsplit(site.url).port}"}
