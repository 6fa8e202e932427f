"""Where workloads run: `thane up` on this machine, or a cluster that is there; both by the program's own commands."""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from services import PEERS, free_port, running

PATIENCE = 300.0


class Place:
    """An API with pods, as its users see it."""

    def __init__(self, program: str, kubeconfig: Path, runtime: str, host: str = "127.0.0.1", log: Path | None = None) -> None:
        self.program, self.kubeconfig, self.runtime, self.host, self.log = program, kubeconfig, runtime, host, log

    def run(self, *words: str, text: str = "", **environment: str) -> str:
        """What a command prints; it must succeed."""
        done = self.tried(*words, text=text, **environment)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def tried(self, *words: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        command = [self.program, *words, "--kubeconfig", str(self.kubeconfig)]
        return subprocess.run(
            command, input=text, text=True, capture_output=True, check=False, env={**os.environ, **environment}, timeout=120
        )

    def get(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(self.run("get", *words, "--namespace", "agents", "-o", "json")))

    def apply(self, *objects: dict[str, Any]) -> None:
        self.run("apply", "-f", "-", text="\n---\n".join(json.dumps(item) for item in objects))

    def workload(self, name: str) -> dict[str, Any]:
        return dict(self.get("agentworkload", name).get("status") or {})

    def nodes(self, workflow: str) -> list[dict[str, Any]]:
        status = self.get("workflow", workflow).get("status") or {}
        return list((status.get("nodes") or {}).values())

    def pod(self, workflow: str, step: str) -> str:
        """The pod of a step that runs."""
        pods = self.get("pods", "-l", f"workflows.argoproj.io/workflow={workflow}")["items"]
        for pod in pods:
            name = pod["metadata"]["annotations"].get("workflows.argoproj.io/node-name", "")
            running = pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
            if f".{step}" in name and running:
                return str(pod["metadata"]["name"])
        raise AssertionError(f"{step} has no pod that runs: {[pod['metadata']['name'] for pod in pods]}")

    def asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        """kubectl, for what the program has no command for."""
        command = [str(PEERS / "bin/kubectl"), "--kubeconfig", str(self.kubeconfig), "--namespace", "agents", *words]
        return subprocess.run(command, text=True, capture_output=True, check=False, timeout=120)

    def kubectl(self, *words: str) -> str:
        return self.asked(*words).stdout

    def evict(self, pod: str) -> None:
        """Takes a pod away, at once."""
        done = self.asked("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        assert done.returncode == 0, done.stderr

    def kill(self, pod: str) -> None:
        """Kills the agent in a pod, but not what runs it and tells how it ended."""
        script = 'for p in /proc/[0-9]*; do case "$(cat $p/comm)" in python*) kill -9 "${p#/proc/}" && echo killed;; esac; done'
        done = self.asked("exec", pod, "-c", "main", "--", "sh", "-c", script)
        assert "killed" in done.stdout, done.stderr

    def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{what}\n{self.words()}"
            time.sleep(0.2)

    def phase(self, name: str, *wanted: str) -> dict[str, Any]:
        """The status of a workload once it is in one of these phases."""
        found: dict[str, Any] = {}

        def is_there() -> bool:
            found.clear()
            found.update(self.workload(name))
            ended = found.get("phase") in ("Completed", "Failed", "PolicyDenied")
            assert found.get("phase") in wanted or not ended, f"{name}: {json.dumps(found, indent=1)}\n{self.words()}"
            return found.get("phase") in wanted

        self.until(f"{name} is {wanted}", is_there)
        return found

    def words(self) -> str:
        """What there is, for whoever looks into a failure."""
        said = [self.kubectl("get", "agentworkloads,workflows,pods", "-o", "wide"), self.kubectl("get", "workflows", "-o", "yaml")[-6000:]]
        for pod in self.kubectl("get", "pods", "-o", "name").split():
            said.append(f"--- {pod}\n" + self.kubectl("logs", pod, "--all-containers", "--tail=15"))
        if self.log is not None:
            said.append(self.log.read_text()[-3000:])
        return "\n".join(said)


@contextmanager
def machine(program: str, image: str, folder: Path) -> Iterator[Place]:
    """`thane up` in a folder, with the agents' image."""
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("apiAddress", "hubAddress", "proxyAddress", "gatewayAddress")}
    settings = folder / "thane.yaml"
    settings.write_text(json.dumps({"up": addresses, "admin": {"address": f"127.0.0.1:{free_port()}"}}))
    log = folder / "log"
    command = [program, "up", "--config", str(settings), "--clusters", "0"]
    with log.open("wb") as said, running(command, cwd=folder, stdout=said, stderr=said) as process:
        place = Place(program, folder / ".thane/kubeconfig", "thane", log=log)
        end = time.monotonic() + 90
        while not place.kubeconfig.exists() or place.tried("get", "agentworkloads").returncode != 0:
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        subprocess.run([program, "image", "import", image, "--data", str(folder / ".thane")], check=True, capture_output=True, timeout=300)
        yield place
        # pods end with it, and the next test wants the machine as it was
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def reachable(host: str, port: int) -> Iterator[int]:
    """A port of loopback at another address of this machine; the port there."""
    if host == "127.0.0.1":
        yield port
        return
    listener = socket.create_server((host, 0))

    def copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                return
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.close()


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """The cluster that THANE_PIPELINE_KUBECONFIG names, or this machine."""
    program = os.environ["THANE_PROGRAM"]
    with ExitStack() as stack:
        if kubeconfig := os.environ.get("THANE_PIPELINE_KUBECONFIG"):
            yield Place(program, Path(kubeconfig), "argo", os.environ.get("THANE_PIPELINE_HOST", "127.0.0.1"))
        else:
            yield stack.enter_context(machine(program, os.environ["THANE_AGENTS_IMAGE"], folder))


def program(name: str) -> str:
    found = shutil.which(name, path=str(PEERS / "bin"))
    assert found, f"{name} is not built: make peers"
    return found
