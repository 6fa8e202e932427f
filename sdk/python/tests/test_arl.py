"""Programs written for ``arl``: its own client on our gateway, and ours in its place. Needs the package ``arl-env``."""

from __future__ import annotations

import importlib
import inspect
import os
import uuid
from collections.abc import Iterator
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest

import thane_sdk

arl = pytest.importorskip("arl", reason="the package arl-env is not installed: its programs are LEFT OUT")
URL = os.environ.get("THANE_GATEWAY", "")
needs_gateway = pytest.mark.skipif(not URL, reason="THANE_GATEWAY names no gateway: its tests are LEFT OUT")


def test_every_name_is_here() -> None:
    assert set(arl.__all__) <= set(thane_sdk.__all__)


def calls() -> Iterator[tuple[str, Any, Any]]:
    for name in arl.__all__:
        theirs, ours = getattr(arl, name), getattr(thane_sdk, name)
        if not inspect.isclass(theirs):
            yield name, theirs, ours
        elif hasattr(theirs, "model_fields"):
            continue
        else:
            for method, function in inspect.getmembers(theirs, inspect.isroutine):
                is_theirs = getattr(function, "__module__", "") == theirs.__module__
                if is_theirs and (method == "__init__" or not method.startswith("_")):
                    yield f"{name}.{method}", function, getattr(ours, method)


@pytest.mark.parametrize(("theirs", "ours"), [pytest.param(t, o, id=name) for name, t, o in calls()])
def test_calls_by_position_and_by_name_mean_the_same(theirs: Any, ours: Any) -> None:
    """Whatever may be given to theirs may be given to ours: the same names at the same places, no more required."""
    by_place = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    expected = [one for one in inspect.signature(theirs).parameters.values() if one.kind in by_place]
    given = list(inspect.signature(ours).parameters.values())
    assert [one.name for one in given[: len(expected)]] == [one.name for one in expected]
    for one, other in zip(expected, given, strict=False):
        assert other.kind in by_place
        if one.default is not inspect.Parameter.empty:
            assert other.default is not inspect.Parameter.empty, f"{one.name} may be left out"
    assert all(
        one.default is not inspect.Parameter.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        for one in given[len(expected) :]
    )


@pytest.mark.parametrize("name", [name for name in arl.__all__ if hasattr(getattr(arl, name), "model_fields")])
def test_answers_have_the_same_fields(name: str) -> None:
    assert set(getattr(arl, name).model_fields) <= set(getattr(thane_sdk, name).model_fields)


@needs_gateway
@pytest.mark.parametrize("package", ["arl", "thane_sdk"])
def test_a_program_runs_with_either(package: str) -> None:
    module: ModuleType = importlib.import_module(package)
    name = f"arl-{uuid.uuid4().hex[:8]}"
    tool = module.InlineToolSpec(
        name="greet",
        runtime="bash",
        entrypoint="run.sh",
        timeout="10s",
        files={"run.sh": '#!/bin/sh\ncat >/dev/null; echo \'{"said": "hi"}\'\n'},
    )
    pools = module.WarmPoolManager("default", URL)
    small = module.ResourceRequirements(requests={"cpu": "100m", "memory": "64Mi"})
    pools.create_warmpool(name, "host", 2, module.ToolsSpec(inline=[tool]), small)
    pools.wait_for_ready(name, 60.0, 0.5)
    with module.SandboxSession(name, "default", URL) as session:
        a_session(module, session)
    with module.SandboxSession(name, gateway_url=URL, keep_alive=False) as session, pytest.raises(module.GatewayError):
        session.restore("no such snapshot")
    assert pools.scale_warmpool(name, 1).replicas == 1
    pools.delete_warmpool(name)
    with pytest.raises(module.GatewayError) as raised:
        pools.get_warmpool(name)
    assert raised.value.status_code == 404 and isinstance(raised.value.detail, str)
    experiment = f"exp-{uuid.uuid4().hex[:8]}"
    with module.GatewayClient(URL) as client:
        # It is not left: it goes with its experiment, and may be gone by the time it would be deleted.
        managed = module.ManagedSession("host", experiment, "default", URL).__enter__()
        assert managed.execute([{"name": "a", "command": ["echo", "hi"]}]).results[0].output.stdout == "hi\n"
        assert [one.experiment_id for one in client.list_experiment_sessions(experiment)] == [experiment]
        assert client.delete_experiment(experiment) == 1


def a_session(module: ModuleType, session: Any) -> None:
    steps = [
        {"name": "write", "command": ["sh", "-c", "echo $WHO > note"], "env": {"WHO": "me"}, "timeout": 20},
        {"name": "fail", "command": ["sh", "-c", "cat note; echo no >&2; exit 3"], "workDir": "/workspace"},
    ]
    first, second = session.execute(steps, "trace").results
    assert (second.output.stdout, second.output.stderr, second.output.exit_code) == ("me\n", "no\n", 3)
    assert isinstance(first.timestamp, datetime) and isinstance(session.session_info.created_at, datetime)
    session.restore(first.snapshot_id)
    assert [step.name for step in session.get_history()] == ["write"]
    entries = [module.TrajectoryEntry.model_validate_json(line) for line in session.export_trajectory().splitlines()]
    assert [entry.step for entry in entries] == [0, 1]
    assert [one.name for one in session.list_tools().tools] == ["greet"]
    assert session.call_tool("greet", {"a": 1}).parsed == {"said": "hi"}
    with pytest.raises(ValueError):
        session.call_tool("../greet")
    again = module.SandboxSession.attach(session.session_id, URL)
    assert again.execute([{"name": "a", "command": ["cat", "note"]}]).results[0].output.stdout == "me\n"
    again.close()
    refused: list[str] = []
    shell = module.create_websocket_proxy(URL, session.session_id, refused.append)
    assert shell.is_open() and not refused
    shell.send_resize(100, 30)
    shell.send_input("echo $((6 * 7))\n")
    said = ""
    while "42" not in said:
        said += shell.read_output(20.0)
    shell.send_signal()
    shell.close()
    assert not shell.is_open()
