"""A client of a chat endpoint asks bounded questions, and takes every answer for what it is: bytes of a stranger."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mmlake.endpoint import Endpoint, EndpointSettings, Picture
from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from tests.captions.chat_server import Answer, body, chat_server, completion, cut_after, drips, floods, hangs_up, says
from tests.ports import free_port


def _ask(base_url: str, *, environment: dict[str, str] | None = None, waits: list[float] | None = None, **given: Any):
    settings = EndpointSettings(base_url=base_url, model="some-model", **{"tries": 3, "timeout_s": 5.0, **given})
    sleep = (lambda seconds: None) if waits is None else waits.append
    return Endpoint(settings, environment=environment or {}, sleep=sleep).ask(["what?"], instructions="Be short.")


def test_a_question_goes_out_as_the_protocol_has_it() -> None:
    with chat_server(says("fine")) as server:
        settings = EndpointSettings(base_url=server.base_url, model="m", max_tokens=7, body={"seed": "", "top_p": 0.5})
        found = Endpoint(settings, environment={"MMLAKE_ENDPOINT_KEY": "secret"}).ask(
            ["frame:", Picture(b"\xff\xd8")], instructions="Be short."
        )
    assert found == "fine"
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["messages"] == [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "frame:"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9g="}},
            ],
        },
    ]
    assert (request["model"], request["max_tokens"], request["temperature"], request["top_p"]) == ("m", 7, 0, 0.5)
    assert "seed" not in request
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_without_a_key_none_is_sent() -> None:
    with chat_server(says("fine")) as server:
        _ask(server.base_url)
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_a_burst_of_an_overloaded_server_is_waited_out(status: int) -> None:
    busy, waits = body(b"", status=status, headers=[("Retry-After", "7")]), list[float]()
    with chat_server(busy, busy, says("fine")) as server:
        assert _ask(server.base_url, waits=waits) == "fine"
    assert len(server.requests) == 3
    assert [wait_s >= 7 for wait_s in waits] == [True, True]
    assert waits[0] != waits[1]  # jitter


@pytest.mark.parametrize(
    "answer, reason",
    [
        (body(b"", status=503), "HTTP 503"),
        (hangs_up, "RemoteDisconnected"),
        (cut_after(completion("fine")[:20], promised=400), "an answer that was cut"),
        (cut_after(b"", promised=400), "an answer that was cut"),
        (lambda handler, request: handler.wfile.write(b"\x16\x03\x01 no http\r\n\r\n"), "BadStatusLine"),
    ],
)
def test_a_server_that_gives_no_answer_costs_the_item_and_may_be_asked_again(answer: Answer, reason: str) -> None:
    with chat_server(answer) as server, pytest.raises(UnreadableItem) as caught:
        _ask(server.base_url)
    assert caught.value.code == 3801
    assert caught.value.reason == f"no answer in 3 tries, the last failed by {reason}"
    assert len(server.requests) == 3


def test_a_server_that_drips_is_cut_at_the_timeout_of_the_whole_answer() -> None:
    began_s = time.monotonic()
    with chat_server(drips) as server, pytest.raises(UnreadableItem) as caught:
        _ask(server.base_url, timeout_s=0.5, tries=2)
    assert (caught.value.code, "timeout_s=0.5" in caught.value.reason or "cut" in caught.value.reason) == (3801, True)
    assert time.monotonic() - began_s < 5


def test_a_server_that_says_nothing_is_cut_at_the_timeout() -> None:
    with chat_server(lambda handler, request: time.sleep(1.5)) as server, pytest.raises(UnreadableItem) as caught:
        _ask(server.base_url, timeout_s=0.2, tries=1)
    assert (caught.value.code, caught.value.reason) == (3801, "no answer in 1 tries, the last failed by timeout_s=0.2")


@pytest.mark.parametrize(
    "answer, said",
    [
        (floods, "answer_bytes"),
        (body(b"x" * 2_000_000), "answer_bytes"),
        (body(b"<html>busy</html>"), "no JSON of a chat completion"),
        (body(b""), "no JSON of a chat completion"),
        (body(b"[" * 200_000), "no JSON of a chat completion"),
        (body(b"\xff\xfe\x00"), "no JSON of a chat completion"),
        (body(b'{"choices": []}'), "no JSON of a chat completion"),
        (body(b'{"choices": {"0": 1}}'), "no JSON of a chat completion"),
        (body(b'{"choices": [{"message": null}]}'), "no JSON of a chat completion"),
        (body(b'"choices"'), "no JSON of a chat completion"),
        (body(completion(None)), "no text"),
        (body(completion(["a"])), "no text"),
        (says("   "), "no text"),
        (says("half of", finish_reason="length"), "max_tokens"),
        (body(completion("fine"), headers=[("Content-Encoding", "gzip")]), "compressed"),
    ],
)
def test_an_answer_that_cannot_be_used_is_the_items_failure(answer: Answer, said: str) -> None:
    with chat_server(answer) as server, pytest.raises(UnreadableItem) as caught:
        _ask(server.base_url)
    assert caught.value.code == 3802
    assert said in caught.value.reason
    assert len(server.requests) == 1  # the same question would get the same answer


@pytest.mark.parametrize("status", [400, 413, 418, 422])
def test_a_question_that_is_refused_is_the_items_failure(status: int) -> None:
    with chat_server(body(b"too long", status=status)) as server, pytest.raises(UnreadableItem) as caught:
        _ask(server.base_url)
    assert (caught.value.code, str(status) in caught.value.reason, len(server.requests)) == (3803, True, 1)


@pytest.mark.parametrize(
    "status, error", [(401, RemoteUnavailable), (403, RemoteUnavailable), (404, SettingsError), (302, SettingsError)]
)
def test_what_concerns_every_question_ends_the_run(status: int, error: type[Exception]) -> None:
    """A redirect is not followed: the key and the items would go to a host that nobody named."""
    with chat_server(says("elsewhere")) as other:
        answer = body(b"", status=status, headers=[("Location", f"{other.base_url}/chat/completions")])
        with chat_server(answer) as server, pytest.raises(error) as caught:
            _ask(server.base_url, environment={"MMLAKE_ENDPOINT_KEY": "very-secret"})
    assert other.requests == []
    assert "very-secret" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with chat_server(says("fine")) as server:
        assert _ask(server.base_url) == "fine"


def test_a_server_that_answers_nobody_ends_the_run() -> None:
    settings = EndpointSettings(
        base_url=f"http://127.0.0.1:{free_port()}/v1", model="m", tries=1, max_unanswered=3, timeout_s=2.0
    )
    endpoint = Endpoint(settings, environment={}, sleep=lambda seconds: None)
    for _ in range(2):
        with pytest.raises(UnreadableItem):
            endpoint.ask(["what?"], instructions="")
    with pytest.raises(RemoteUnavailable, match="ConnectionRefusedError"):
        endpoint.ask(["what?"], instructions="")


def test_a_server_that_stops_answering_costs_no_answer_that_it_gave() -> None:
    with chat_server(says("fine"), body(b"", status=503)) as server:
        settings = EndpointSettings(base_url=server.base_url, model="m", tries=1, max_unanswered=2)
        endpoint, reasons = Endpoint(settings, environment={}, sleep=lambda seconds: None), []
        assert endpoint.ask(["what?"], instructions="") == "fine"
        for _ in range(4):
            with pytest.raises(UnreadableItem) as caught:
                endpoint.ask(["what?"], instructions="")
            reasons.append((caught.value.code, caught.value.reason.split(":")[0]))
    asked = (3801, "no answer in 1 tries, the last failed by HTTP 503")
    assert reasons == [asked, asked, (3801, "not asked"), (3801, "not asked")]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "file:///etc/passwd",
        "http://a:b@host/v1",
        "http://host/v1?key=a",
        "http://",
    ]
    + ["http://host:99999/v1"],
)
def test_addresses_that_are_none_are_refused(base_url: str) -> None:
    with pytest.raises(SettingsError, match="endpoint.base_url"):
        Endpoint(EndpointSettings(base_url=base_url, model="m"), environment={})


def test_a_key_is_never_sent_unencrypted_to_another_machine() -> None:
    settings = EndpointSettings(base_url="http://model.example.org/v1", model="m")
    with pytest.raises(SettingsError, match="unencrypted") as caught:
        Endpoint(settings, environment={"MMLAKE_ENDPOINT_KEY": "very-secret"})
    assert "very-secret" not in str(caught.value)
    Endpoint(settings, environment={})


def test_a_key_that_would_break_the_header_is_refused() -> None:
    settings = EndpointSettings(base_url="http://127.0.0.1/v1", model="m")
    with pytest.raises(SettingsError, match="line breaks") as caught:
        Endpoint(settings, environment={"MMLAKE_ENDPOINT_KEY": "very-secret\r\nX-Other: 1"})
    assert "very-secret" not in str(caught.value)
