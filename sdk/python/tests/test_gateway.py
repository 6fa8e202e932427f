"""Everything the SDK offers, on a real gateway with real sandboxes: needs THANE_GATEWAY."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from thane_sdk import (
    GatewayClient,
    GatewayError,
    InteractiveShellClient,
    ManagedSession,
    PoolNotReadyError,
    SandboxSession,
    WarmPoolManager,
)

URL = os.environ.get("THANE_GATEWAY", "")
pytestmark = pytest.mark.skipif(not URL, reason="THANE_GATEWAY names no gateway: its tests are LEFT OUT")


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    name = f"pool-{uuid.uuid4().hex[:8]}"
    with WarmPoolManager(gateway_url=URL) as pools:
        pools.create_warmpool(name, image="host", replicas=2)
        pools.wait_for_ready(name, timeout=60, poll_interval=0.5)
        yield name
        pools.delete_warmpool(name)


@pytest.fixture
def session(pool: str) -> Iterator[SandboxSession]:
    with SandboxSession(pool, gateway_url=URL, env={"GIVEN": "at claim"}, files={"/workspace/in": b"\x00\xff"}) as one:
        yield one


def test_steps_run_in_order_and_failures_are_results(session: SandboxSession) -> None:
    done = session.execute(
        [
            {"name": "a", "command": ["sh", "-c", "echo $GIVEN $OWN; echo err >&2"], "env": {"OWN": "own"}},
            {"name": "b", "command": ["sh", "-c", "exit 3"]},
            {"name": "c", "command": ["pwd"], "workDir": "/tmp"},
        ]
    )
    first, second, third = done.results
    assert (first.output.stdout, first.output.stderr, first.ok) == ("at claim own\n", "err\n", True)
    assert second.output.exit_code == 3 and second.error is None
    assert third.output.stdout == "/tmp\n"
    assert [step.index for step in done.results] == [0, 1, 2]
    assert [step.name for step in session.get_history()] == ["a", "b", "c"]


def test_stop_on_error_leaves_the_rest(session: SandboxSession) -> None:
    done = session.execute([{"command": ["false"]}, {"command": ["true"]}], stop_on_error=True)
    assert len(done.results) == 1


def test_kinds_of_failure(session: SandboxSession) -> None:
    slow = session.run(["sleep", "60"], timeout=1)
    assert slow.error is not None and slow.error.kind == "timeout" and slow.output.exit_code == 124
    absent = session.run(["/no/such/program"])
    assert absent.error is not None and absent.error.kind == "user"
    assert session.run("true").ok


def test_an_operation_is_run_once(session: SandboxSession) -> None:
    steps = [{"command": ["sh", "-c", "echo x >> once; wc -l < once"]}]
    first = session.execute(steps, operation_id="op-1").results[0]
    again = session.execute(steps, operation_id="op-1").results[0]
    assert first.output.stdout.strip() == again.output.stdout.strip() == "1"
    with pytest.raises(GatewayError) as raised:
        session.execute([{"command": ["true"]}], operation_id="op-1")
    assert raised.value.status_code == 409


def test_output_comes_as_it_is_said(session: SandboxSession) -> None:
    command = ["sh", "-c", "printf 'a\\377'; echo b >&2; exit 2"]
    events = list(session.stream([{"command": command}]))
    said = b"".join(event.data for event in events if event.kind == "stdout")
    assert said == b"a\xff"
    assert b"".join(event.data for event in events if event.kind == "stderr") == b"b\n"
    result = events[-1].result
    assert result is not None and result.output.exit_code == 2


def test_files_go_in_and_out(session: SandboxSession, tmp_path: Path) -> None:
    assert session.download_file("/workspace/in") == b"\x00\xff"
    content = os.urandom(3 << 20)
    session.upload_file("/workspace/deep/er/big", content)
    assert session.download_file("/workspace/deep/er/big") == content
    session.download_path("/workspace/deep/er/big", tmp_path / "big")
    session.upload_path(tmp_path / "big", "relative")
    assert session.run("cmp relative deep/er/big").ok
    with pytest.raises(GatewayError) as raised:
        session.download_file("/no/such/file")
    assert (raised.value.status_code, raised.value.kind) == (404, "user")


def test_restore_brings_files_back_exactly(session: SandboxSession) -> None:
    kept = session.run("mkdir -m 700 d; echo 1 > d/f; ln -s f d/l; mkdir empty")
    session.run("rm -r d empty; echo 2 > other")
    session.run("touch third")
    assert kept.snapshot_id is not None
    session.restore(kept.snapshot_id)
    seen = session.run("ls; stat -c %a d; cat d/l").output.stdout
    assert seen == "d\nempty\nin\n700\n1\n"
    parents = {entry.step: entry.parent for entry in session.trajectory()}
    assert parents[3] == 0 and set(parents) == {0, 1, 2, 3}
    assert [step.index for step in session.get_history()] == [0, 3]


def test_forks_begin_alike_and_go_their_own_way(session: SandboxSession) -> None:
    kept = session.run("echo common > note")
    assert kept.snapshot_id is not None
    left, right = session.fork(kept.snapshot_id, 2)
    with left, right:
        assert len({left.session_id, right.session_id, session.session_id}) == 3
        assert left.run("echo left >> note; cat note").output.stdout == "common\nleft\n"
        assert right.run("cat note").output.stdout == "common\n"
    assert session.run("cat note").output.stdout == "common\n"


def test_trajectory_is_a_line_for_each_step(session: SandboxSession) -> None:
    session.run("echo hi")
    (line,) = session.export_trajectory().splitlines()
    entry = json.loads(line)
    assert (entry["session_id"], entry["step"]) == (session.session_id, 0)


def test_a_session_is_found_again(pool: str) -> None:
    first = SandboxSession(pool, gateway_url=URL, keep_alive=True)
    first.create_sandbox()
    first.run("echo here > note")
    first.close()
    assert first.session_id is not None
    again = SandboxSession.attach(first.session_id, URL, keep_alive=False)
    with again:
        assert again.run("cat note").output.stdout == "here\n"
    with GatewayClient(URL) as client, pytest.raises(GatewayError) as raised:
        client.get_session(first.session_id)
    assert raised.value.status_code == 404


def test_sessions_are_listed_page_by_page(pool: str) -> None:
    with SandboxSession(pool, gateway_url=URL) as one, SandboxSession(pool, gateway_url=URL) as two:
        seen: set[str] = set()
        cursor = None
        with GatewayClient(URL) as client:
            while True:
                page = client.list_sessions(cursor, limit=1)
                assert len(page.sessions) <= 1
                seen.update(info.id for info in page.sessions)
                cursor = page.next_cursor
                if not cursor:
                    break
        assert {one.session_id, two.session_id} <= seen


def test_a_shell_talks(session: SandboxSession) -> None:
    assert session.session_id is not None
    with InteractiveShellClient(URL) as shell:
        shell.connect(session.session_id)
        shell.send_resize(cols=100, rows=30)
        shell.send_input("stty size; exit 5\n")
        said, code = "", None
        while (message := shell.read_message(timeout=20)) is not None:
            said += message.data or ""
            if message.type == "exit":
                code = message.exit_code
                break
        assert "30 100" in said and code == 5


def test_managed_sessions_belong_to_an_experiment() -> None:
    experiment = f"exp-{uuid.uuid4().hex[:8]}"
    with ManagedSession("host", experiment, gateway_url=URL) as session, GatewayClient(URL) as client:
        assert session.run("echo hi").output.stdout == "hi\n"
        assert [info.id for info in client.list_experiment_sessions(experiment)] == [session.session_id]
        assert client.delete_experiment(experiment) == 1


def test_tools_are_called(pool: str) -> None:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    tool = {
        "name": "upper",
        "description": "shouts",
        "runtime": "python",
        "entrypoint": "main.py",
        "files": {"main.py": "import json,sys; print(json.dumps({'said': json.load(sys.stdin)['text'].upper()}))"},
    }
    with WarmPoolManager(gateway_url=URL) as pools:
        pools.create_warmpool(name, image="host", replicas=1, tools={"inline": [tool]})
        pools.wait_for_ready(name, timeout=60, poll_interval=0.5)
        with SandboxSession(name, gateway_url=URL) as session:
            assert [one.name for one in session.list_tools().tools] == ["upper"]
            assert session.call_tool("upper", {"text": "hi"}).parsed == {"said": "HI"}
        pools.delete_warmpool(name)


def test_a_pool_that_cannot_fill_says_why() -> None:
    name = f"bad-{uuid.uuid4().hex[:8]}"
    with WarmPoolManager(gateway_url=URL) as pools:
        pools.create_warmpool(name, image="no/such:image", replicas=1)
        with pytest.raises(PoolNotReadyError) as raised:
            pools.wait_for_ready(name, timeout=20, poll_interval=0.2)
        assert "no/such:image" in str(raised.value)
        pools.delete_warmpool(name)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"poolRef": "no-such-pool"}, 404),
        ({"poolRef": ""}, 400),
        ({"poolRef": 7}, 400),
        ({"poolRef": "x", "onEmpty": "maybe"}, 400),
    ],
)
def test_bad_claims_are_refused_plainly(body: dict[str, object], status: int) -> None:
    with GatewayClient(URL) as client, pytest.raises(GatewayError) as raised:
        client._json("POST", "/v1/sessions", body)
    assert (raised.value.status_code, raised.value.kind) == (status, "user")
    assert raised.value.error


def test_an_empty_pool_says_so(pool: str) -> None:
    with WarmPoolManager(gateway_url=URL) as pools:
        name = f"empty-{uuid.uuid4().hex[:8]}"
        pools.create_warmpool(name, image="host", replicas=0)
        with GatewayClient(URL) as client, pytest.raises(GatewayError) as raised:
            client.create_session(name, on_empty="fail")
        assert (raised.value.status_code, raised.value.kind) == (503, "infra")
        with SandboxSession(name, gateway_url=URL, on_empty="cold") as cold:
            assert cold.run("true").ok
        pools.delete_warmpool(name)


def test_one_step_at_a_time_and_none_lost(session: SandboxSession) -> None:
    threads = [threading.Thread(target=session.run, args=("echo x >> all; sleep 0.01",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run("wc -l < all").output.stdout.strip() == "8"
    assert [step.index for step in session.get_history()] == list(range(9))
