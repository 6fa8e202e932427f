"""What is sent and understood, without a gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import httpx
import pytest

from thane_sdk import GatewayClient, GatewayError, StepRequest, StepResult, _events, session


def client(answer: Callable[[httpx.Request], httpx.Response]) -> GatewayClient:
    return GatewayClient("http://gateway", api_key="k", transport=httpx.MockTransport(answer))


def test_a_request_has_the_gateways_names() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer k"
        body = json.loads(request.content)
        assert re.fullmatch("[0-9a-f]{32}", body.pop("operationID"))
        assert body == {
            "steps": [
                {"name": "a", "command": ["true"], "workDir": "/", "timeoutSeconds": 3},
                {"name": "", "command": ["x"]},
            ],
            "stopOnError": True,
        }
        return httpx.Response(200, json={"sessionID": "s", "results": [], "totalDurationMs": 4, "later": 1})

    steps = [{"name": "a", "command": ["true"], "work_dir": "/", "timeout": 3}, StepRequest(command=["x"])]
    done = client(answer).execute("s", steps, stop_on_error=True)
    assert (done.session_id, done.total_duration_ms) == ("s", 4)


def test_events_of_a_stream() -> None:
    text = (
        ": hello\n\n"
        'event: stdout\ndata: {"index": 0, "data": "hé"}\n\n'
        'event: stderr\ndata: {"index": 0, "data": "/w==", "encoding": "base64"}\n\n'
        "event: ping\ndata: {}\n\n"
        "event: later\ndata: {}\n\n"
        'event: result\ndata: {"index": 7, "output": {"exit_code": 124}, "error": {"kind": "timeout"}}\n\n'
    )

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept"] == "text/event-stream"
        return httpx.Response(200, text=text)

    events = list(client(answer).execute_stream("s", [{"command": ["x"]}]))
    assert [event.kind for event in events] == ["stdout", "stderr", "ping", "result"]
    assert events[0].text == "hé"
    assert events[1].data == b"\xff"
    result = events[3].result
    assert result is not None and not result.ok and result.error is not None
    assert (result.index, result.error.kind) == (7, "timeout")


ODD = "a\u2028b\u2029c\u0085d\x0be\x1cf"


def test_only_newlines_end_lines() -> None:
    said = json.dumps({"index": 0, "data": ODD}, ensure_ascii=False)
    stream = f"event: stdout\r\ndata: {said}\r\n\r\nevent: ping\ndata: {{}}\n\n".encode()
    pieces = [stream[at : at + 3] for at in range(0, len(stream), 3)]
    assert [name for name, _ in _events.parse(_events.lines(pieces))] == ["stdout", "ping"]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/trajectory"):
            entry = {"session_id": "s", "step": 0, "observation": {"stdout": ODD}}
            return httpx.Response(200, content=(json.dumps(entry, ensure_ascii=False) + "\n").encode())
        return httpx.Response(200, content=stream)

    (event, _) = client(answer).execute_stream("s", [{"command": ["x"]}])
    assert event.text == ODD
    assert client(answer).get_trajectory("s").split("\n")[1:] == [""]


@pytest.mark.parametrize(
    ("status", "body", "kind", "retriable"),
    [
        (404, '{"error": "no pool", "kind": "user"}', "user", False),
        (503, '{"error": "empty", "kind": "infra", "detail": "d"}', "infra", True),
        (410, '{"error": "gone", "kind": "infra"}', "infra", False),
        (502, "<html>", "infra", True),
    ],
)
def test_errors_keep_their_kind(status: int, body: str, kind: str, retriable: bool) -> None:
    with pytest.raises(GatewayError) as raised:
        client(lambda _: httpx.Response(status, text=body)).get_session("s")
    assert (raised.value.status_code, raised.value.kind, raised.value.retriable) == (status, kind, retriable)


def test_a_gateway_that_is_not_there() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(GatewayError) as raised:
        client(answer).get_session("s")
    assert (raised.value.status_code, raised.value.kind) == (0, "infra")


def test_lines_without_events() -> None:
    assert list(_events.parse(["event: a", "", ":c", "data: 1", "data: 2", ""])) == [("message", "1\n2")]


def test_tools_are_listed_with_where_they_are() -> None:
    listed = '{"tools": [{"name": "a", "entrypoint": "run"}, {"name": "b"}]}'
    there = '"/opt/arl/tools/a/manifest.json"{"name": "a"}\n"/opt/arl/tools/image-0/c/manifest.json"{"name": "c"}'
    tools = session._tools(f"{listed}\n{there}\n").tools
    assert [(tool.name, tool.entrypoint, tool.directory) for tool in tools] == [
        ("a", "run", "/opt/arl/tools/a"),
        ("b", "", ""),
        ("c", "", "/opt/arl/tools/image-0/c"),
    ]
    assert session._tools(f'{listed}"/x/manifest.json"nonsense').tools == session._tools(listed).tools
    assert session._tools("").tools == []


def test_steps_outlive_their_gateway() -> None:
    said: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        said.append(json.loads(request.content)["operationID"])
        if len(said) == 1:
            raise httpx.ReadError("broke off", request=request)
        if len(said) < 4:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json={"sessionID": "s", "results": [{"index": 0}]})

    assert len(client(answer).execute("s", [{"command": ["x"]}]).results) == 1
    assert len(said) == 4 and len(set(said)) == 1


@pytest.mark.parametrize(
    ("first", "recover", "tries"),
    [
        (httpx.ConnectError, True, 1),
        (httpx.ReadTimeout, True, 1),
        (httpx.ReadError, False, 1),
        (httpx.ReadError, True, 3),
    ],
)
def test_what_is_not_asked_again(first: type[httpx.TransportError], recover: bool, tries: int) -> None:
    asked = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        raise (first if asked < 3 else httpx.ReadTimeout)("gone", request=request)

    with pytest.raises(GatewayError) as raised:
        client(answer).execute("s", [{"command": ["x"]}], recover=recover)
    assert (raised.value.status_code, asked) == (0, tries)


def test_nothing_said_is_nothing_special() -> None:
    result = StepResult.model_validate(
        {"index": 1, "name": None, "timestamp": "2026-01-02T03:04:05Z", "snapshot_id": None}
    )
    assert (result.name, result.snapshot_id) == ("", None)
    assert result.timestamp is not None and result.timestamp.year == 2026
