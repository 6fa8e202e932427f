"""Fixtures: the services once for all tests, everything else new for each."""

import json
import os
import secrets
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import PAGES, REPLIES
from services import PEERS, Bucket, Postgres, Relay, Site, browserless, chromium, litellm, minio, moto

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def model_key() -> str:
    return "sk-" + secrets.token_hex(16)


@pytest.fixture(scope="session")
def model_service(model_key: str) -> Iterator[str]:
    with litellm(model_key, REPLIES) as url:
        yield url


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres().serving() as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[str]:
    with chromium() as url:
        yield url


@pytest.fixture(scope="session")
def browserless_url(browser: str) -> Iterator[tuple[str, str]]:
    token = secrets.token_hex(8)
    with browserless(browser, token) as url:
        yield url, token


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    program = PEERS / "bin/minio"
    with minio(program) if program.exists() else moto(Path(sys.executable).parent / "moto_server") as found:
        yield found


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    for path, body in PAGES.items():
        served.page(path, body)
    yield served
    served.close()


@pytest.fixture
def models(model_service: str) -> Iterator[Relay]:
    relay = Relay(model_service)
    yield relay
    relay.close()


class Job:
    """One job's environment, and runs of agents in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.id = folder, environment["JOB_ID"]
        self.environment = environment

    def start(self, agent: str, **changes: str | None) -> subprocess.Popen[str]:
        environment = {**self.environment, **{name: value for name, value in changes.items() if value is not None}}
        for name, value in changes.items():
            if value is None:
                environment.pop(name, None)
        return subprocess.Popen(
            [sys.executable, "-m", f"thane_agents.{agent}"],
            env=environment,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )

    def run(self, agent: str, **changes: str | None) -> tuple[int, str]:
        """The exit code and everything that was said."""
        process = self.start(agent, **changes)
        try:
            out, errors = process.communicate(timeout=180)
        finally:
            process.kill()
        assert "Traceback" not in errors, errors
        return process.returncode, out + errors

    def succeed(self, agent: str, **changes: str | None) -> str:
        code, said = self.run(agent, **changes)
        assert code == 0, said
        return said

    def output(self, name: str) -> str:
        return (self.folder / "out" / name).read_text()

    def secret(self, name: str, key: str, value: str) -> None:
        path = self.folder / "secrets" / name
        path.mkdir(parents=True, exist_ok=True)
        (path / key).write_text(value)


@pytest.fixture
def job(tmp_path: Path, site: Site, postgres: Postgres, bucket: Bucket, browser: str, models: Relay, model_key: str) -> Job:
    for folder in ("graph", "out"):
        (tmp_path / folder).mkdir()
    (tmp_path / "graph/graph.yaml").write_text("text_models: [text, second]\nvision_models: [vision]\nmodel_rate: 100\n")
    environment = {
        "PATH": os.environ["PATH"],
        "JOB_ID": uuid.uuid4().hex[:12],
        "TARGET_URLS": json.dumps([f"{site.url}/{name}" for name in ("one", "two", "three", "four")]),
        "MINIO_BUCKET": bucket.name,
        "MINIO_URL": bucket.url,
        "BROWSERLESS_URL": browser,
        "LITELLM_URL": models.url,
        "POSTGRES_DSN": postgres.dsn,
        "PGPASSWORD": postgres.password,
        "ALLOWED_TARGETS": json.dumps([f"127.0.0.1:{site.port}"]),
        "SECRETS_DIR": str(tmp_path / "secrets"),
        "GRAPH_CONFIG_DIR": str(tmp_path / "graph"),
        "OUTPUT_DIR": str(tmp_path / "out"),
    }
    job = Job(tmp_path, environment)
    job.secret("minio-keys", "accesskey", bucket.access)
    job.secret("minio-keys", "secretkey", bucket.secret)
    job.secret("llm-keys", "api-key", model_key)
    return job
