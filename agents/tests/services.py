"""Real services on free ports of loopback, each ended by whoever started it."""

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import boto3
import httpx
from botocore.config import Config
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

PEERS = Path(os.environ.get("THANE_PEERS_HOME") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "thane-peers")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], what: str, seconds: float = 90) -> None:
    """Waits for another program, which tells nobody when it is ready."""
    end = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, f"{what} ended with {process.returncode}"
        assert time.monotonic() < end, f"{what} is not ready after {seconds} s"
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code < 500
    except httpx.HTTPError:
        return False


@contextmanager
def running(command: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program and all that it starts, ended at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


class Site:
    """Pages on loopback; a page can be held back, and every request is counted."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.hits: Counter[str] = Counter()
        self.held: dict[str, threading.Event] = {}
        self.arrived: Queue[str] = Queue()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/hits":
                    site.pages["/hits"] = (200, {"content-type": "application/json"}, json.dumps(site.hits).encode())
                else:
                    site.hits[self.path] += 1
                if hold := site.held.get(self.path):
                    site.arrived.put(self.path)
                    hold.wait(120)
                status, headers, body = site.pages.get(self.path, (404, {}, b"not here"))
                try:
                    self.send_response(status)
                    for name, value in {"content-type": "text/html; charset=utf-8", **headers, "content-length": str(len(body))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, path: str, body: str, status: int = 200, **headers: str) -> str:
        self.pages[path] = (status, headers, body.encode())
        return self.url + path

    def hold(self, path: str) -> threading.Event:
        self.held[path] = threading.Event()
        return self.held[path]

    def release(self, path: str) -> None:
        self.held.pop(path).set()

    def close(self) -> None:
        for hold in self.held.values():
            hold.set()
        self.server.shutdown()
        self.server.server_close()


class Relay:
    """An HTTP proxy before a service: counts requests, holds one back, or answers some in its place."""

    def __init__(self, upstream: str) -> None:
        self.requests: list[str] = []
        self.hold_at: int | None = None
        self.hold = threading.Event()
        self.arrived: Queue[int] = Queue()
        self.refuse: Callable[[str, str], int | None] = lambda method, path: None
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                relay.requests.append(f"{self.command} {self.path}")
                if relay.hold_at == len(relay.requests):
                    relay.arrived.put(len(relay.requests))
                    relay.hold.wait(120)
                status, content, headers = relay.refuse(self.command, self.path), b"", {}
                if status is None:
                    passed = {name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"}
                    answer = httpx.request(self.command, upstream + self.path, content=body, headers=passed, timeout=60, trust_env=False)
                    status, content = answer.status_code, answer.content
                    headers = {"content-type": answer.headers.get("content-type", "application/octet-stream")}
                try:
                    self.send_response(status)
                    for name, value in {**headers, "content-length": str(len(content))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass

            do_GET = do_POST = do_PUT = do_HEAD = forward

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


class Postgres:
    """A real PostgreSQL that asks for a password."""

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        assert programs, "PostgreSQL is not installed: peers/build agents"
        self.folder = Path(tempfile.mkdtemp(prefix="thane-postgres-"))
        self.password, self.port = secrets.token_urlsafe(12), free_port()
        user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        self.options: dict[str, object] = (
            {"cwd": self.folder} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": self.folder}
        )
        (self.folder / "password").write_text(self.password)
        if user is not None:
            for path in (self.folder, self.folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        data = self.folder / "data"
        subprocess.run(
            [programs[-1] / "initdb", "-D", data, "-U", "agents", "-A", "scram-sha-256", "--pwfile", self.folder / "password", "-N"],
            check=True,
            stdout=subprocess.DEVNULL,
            **self.options,  # type: ignore[call-overload]
        )
        self.command = [
            str(programs[-1] / "postgres"),
            "-D",
            str(data),
            "-p",
            str(self.port),
            "-h",
            "127.0.0.1",
            "-k",
            str(self.folder),
            "-c",
            "fsync=off",
        ]
        self.ready = str(programs[-1] / "pg_isready")

    @property
    def dsn(self) -> str:
        """Without its password, as the workflow has it."""
        return f"postgresql://agents@127.0.0.1:{self.port}/postgres"

    @contextmanager
    def serving(self) -> Iterator["Postgres"]:
        with running(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.options) as process:
            check = [self.ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            wait_until(lambda: subprocess.run(check, check=False).returncode == 0, process, "PostgreSQL")
            yield self
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def chromium() -> Iterator[str]:
    """A real Chromium; its debugging port."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: peers/build agents"
    folder = Path(tempfile.mkdtemp(prefix="thane-chromium-"))
    command = [
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "about:blank",
    ]
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)}) as process:
        port_file = folder / "DevToolsActivePort"
        wait_until(lambda: port_file.exists() and port_file.read_text().count("\n") >= 1, process, "Chromium")
        url = f"http://127.0.0.1:{port_file.read_text().splitlines()[0]}"
        wait_until(lambda: answers(f"{url}/json/version"), process, "Chromium")
        yield url
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def browserless(chromium_url: str, token: str) -> Iterator[str]:
    """Browserless' way in, `ws://host:port?token=`, before a plain Chromium."""
    target = httpx.get(f"{chromium_url}/json/version", trust_env=False).json()["webSocketDebuggerUrl"]

    def handle(client: object) -> None:
        if f"token={token}" not in client.request.path:  # type: ignore[attr-defined]
            client.close(1008, "wrong token")  # type: ignore[attr-defined]
            return
        with connect(target, max_size=None, compression=None, proxy=None) as upstream:

            def back() -> None:
                try:
                    for message in upstream:
                        client.send(message)  # type: ignore[attr-defined]
                except ConnectionClosed:
                    pass

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            try:
                for message in client:  # type: ignore[attr-defined]
                    upstream.send(message)
            except ConnectionClosed:
                pass

    with serve(handle, "127.0.0.1", 0, max_size=None, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


@contextmanager
def litellm(key: str, replies: dict[str, str]) -> Iterator[str]:
    """A real LiteLLM proxy whose models say what they are told to."""
    program = os.environ.get("THANE_LITELLM") or str(PEERS / "agents/litellm/bin/litellm")
    assert Path(program).exists(), "LiteLLM is not installed: peers/build agents"
    folder, port = Path(tempfile.mkdtemp(prefix="thane-litellm-")), free_port()
    models = "".join(
        f"  - model_name: {name}\n    litellm_params: {{model: openai/{name}, api_key: none, mock_response: {reply!r}}}\n"
        for name, reply in replies.items()
    )
    (folder / "config.yaml").write_text(f"model_list:\n{models}general_settings:\n  master_key: {key}\n")
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    command = [program, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    with (folder / "log").open("wb") as log, running(command, stdout=log, stderr=log, env=environment) as process:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/health/liveliness"), process, "LiteLLM", 180)
        yield f"http://127.0.0.1:{port}"
    shutil.rmtree(folder, ignore_errors=True)


class Bucket:
    """A bucket on a real S3 server that checks keys: MinIO where it is built, else moto."""

    def __init__(self, url: str, access: str, secret: str) -> None:
        self.url, self.access, self.secret, self.name = url, access, secret, "artifacts"

    def client(self) -> object:
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.access,
            aws_secret_access_key=self.secret,
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def read(self, key: str) -> bytes:
        return bytes(self.client().get_object(Bucket=self.name, Key=key)["Body"].read())  # type: ignore[attr-defined]

    def keys(self, prefix: str) -> list[str]:
        found = self.client().list_objects_v2(Bucket=self.name, Prefix=prefix)  # type: ignore[attr-defined]
        return [entry["Key"] for entry in found.get("Contents", [])]


@contextmanager
def minio(program: Path) -> Iterator[Bucket]:
    folder, port, secret = Path(tempfile.mkdtemp(prefix="thane-minio-")), free_port(), secrets.token_hex(16)
    environment = {**os.environ, "MINIO_ROOT_USER": "agents", "MINIO_ROOT_PASSWORD": secret, "HOME": str(folder), "MINIO_BROWSER": "off"}
    command = [str(program), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder / "data")]
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/minio/health/ready"), process, "MinIO")
        bucket = Bucket(url, "agents", secret)
        bucket.client().create_bucket(Bucket=bucket.name)  # type: ignore[attr-defined]
        yield bucket
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def moto(program: Path) -> Iterator[Bucket]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # the first calls make the user whose keys every later one is checked against
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"}
    command = [str(program), "-H", "127.0.0.1", "-p", str(port)]
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        wait_until(lambda: answers(f"{url}/moto-api/"), process, "moto")
        bucket = Bucket(url, "none", "none")
        iam = boto3.client(
            "iam",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(proxies={}),
        )
        bucket.client().create_bucket(Bucket=bucket.name)  # type: ignore[attr-defined]
        iam.create_user(UserName="agents")
        policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        iam.put_user_policy(UserName="agents", PolicyName="all", PolicyDocument=policy)
        key = iam.create_access_key(UserName="agents")["AccessKey"]
        bucket.access, bucket.secret = key["AccessKeyId"], key["SecretAccessKey"]
        yield bucket
