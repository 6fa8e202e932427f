"""Services that are down, refuse, or fail for a while."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from conftest import ROOT, Job
from services import Bucket, Postgres, Relay, Site, free_port
from thane_agents.checkpoints import checkpoints
from thane_agents.errors import Failure, Refusal
from thane_agents.models import Models
from thane_agents.settings import Settings, read
from thane_agents.store import Missing, Store


@pytest.fixture
def settings(job: Job) -> Settings:
    return read(job.environment)


def test_s3_is_down(job: Job, site: Site) -> None:
    code, said = job.run("scraper", MINIO_URL=f"http://127.0.0.1:{free_port()}")
    assert code == 1 and "S3: look at http://127.0.0.1" in said and "bucket artifacts" in said
    assert not site.hits


def test_s3_keys_are_wrong(job: Job) -> None:
    job.secret("minio-keys", "secretkey", "not-the-key-it-was")
    code, said = job.run("scraper")
    assert code == 2 and "the keys of Secret minio-keys" in said and "were refused" in said
    assert "not-the-key-it-was" not in said


def test_a_secret_is_missing(job: Job) -> None:
    (job.folder / "secrets/minio-keys/accesskey").unlink()
    code, said = job.run("scraper")
    assert code == 2 and "Secret minio-keys" in said and "No such file" in said


def test_a_bucket_is_missing(job: Job) -> None:
    code, said = job.run("scraper", MINIO_BUCKET="another")
    assert code == 2 and "bucket another: there is no such bucket" in said


def test_an_upload_is_tried_three_times_more(job: Job, bucket: Bucket) -> None:
    relay = Relay(bucket.url)
    try:
        store = Store(read({**job.environment, "MINIO_URL": relay.url}), sleep=lambda _: None)
        failures = iter([503, 500, 503])
        relay.refuse = lambda method, path: next(failures, 200)
        store.put("x", b"y", "text/plain")
        assert len(relay.requests) == 4
        relay.requests.clear()
        relay.refuse = lambda method, path: 503
        with pytest.raises(Failure, match="S3: upload of job_"):
            store.put("x", b"y", "text/plain")
        assert len(relay.requests) == 4
    finally:
        relay.close()


def test_objects(settings: Settings) -> None:
    store = Store(settings)
    assert store.put_json("a/b.json", {"x": "é"}) == f"s3://artifacts/job_{settings.job_id}/a/b.json"
    assert store.get_json("a/b.json") == {"x": "é"}
    assert list(store.names()) == ["a/b.json"]
    with pytest.raises(Missing, match="it is not there"):
        store.get("nothing")


def test_models_are_asked_once_for_each_question(settings: Settings, models: Relay) -> None:
    client = Models(settings)
    first = client.ask("text", "What is this?")
    assert "harbours" in first and client.ask("text", "What is this?") == first
    assert len(models.requests) == 1
    assert "heading" in client.ask("vision", "What is this?", b"\x89PNG")
    assert len(models.requests) == 2


def test_models_that_fail_are_left_alone(settings: Settings, models: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    models.refuse = lambda method, path: 503
    client = Models(settings)
    with pytest.raises(Failure, match="model text: 503"):
        client.ask("text", "one")
    assert client.breakers["text"].state == "open"
    asked = len(models.requests)
    with pytest.raises(Failure, match="left alone"):
        client.ask("text", "two")
    assert len(models.requests) == asked == 4


@pytest.mark.parametrize(("key", "model", "message"), [("sk-wrong", "text", "Secret llm-keys"), (None, "unheard-of", "unheard-of")])
def test_models_that_refuse(job: Job, key: str | None, model: str, message: str) -> None:
    if key:
        job.secret("llm-keys", "api-key", key)
    with pytest.raises(Refusal, match=message):
        Models(read(job.environment)).ask(model, "hello")


def test_postgres_refuses_or_is_not_there(job: Job, postgres: Postgres) -> None:
    code, said = job.run("scraper", PGPASSWORD="wrong-password")
    assert code == 2 and "password authentication failed" in said and "wrong-password" not in said
    code, said = job.run("scraper", POSTGRES_DSN=f"postgresql://agents:hidden@127.0.0.1:{free_port()}/postgres")
    assert code == 1 and "PostgreSQL at 127.0.0.1" in said and "hidden" not in said
    code, said = job.run("scraper", POSTGRES_DSN="nonsense")
    assert code == 2 and "POSTGRES_DSN is no connection string" in said
    code, said = job.run("scraper", POSTGRES_DSN=None)
    assert code == 2 and "neither POSTGRES_DSN nor CHECKPOINT_DIR is set" in said


TABLES = """
import os
from thane_agents.checkpoints import checkpoints
from thane_agents.settings import read
with checkpoints(read(os.environ), "x"):
    pass
"""


def test_agents_make_the_tables_at_once(job: Job, postgres: Postgres, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = psycopg.connect(postgres.dsn, password=postgres.password, autocommit=True)
    name = f"job_{job.id}"
    admin.execute(f"CREATE DATABASE {name}")
    environment = {**job.environment, "POSTGRES_DSN": postgres.dsn.replace("/postgres", f"/{name}")}
    running = [subprocess.Popen([sys.executable, "-c", TABLES], env=environment, cwd=ROOT) for _ in range(3)]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with checkpoints(read(environment), "one") as one:
        assert one.get_tuple({"configurable": {"thread_id": "nobody"}}) is None
    admin.close()


def test_the_failure_is_in_the_status_of_the_pod(job: Job, tmp_path: Path) -> None:
    log = tmp_path / "termination"
    log.touch()
    code, said = job.run("scraper", TERMINATION_LOG=str(log), MINIO_BUCKET="another")
    assert code == 2 and log.read_text() == said.strip().splitlines()[-1]


def can_isolate() -> bool:
    """Whether this machine lets us have mounts of our own and become somebody else."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_isolate(), reason="needs root and mounts of its own")
def test_user_1000_on_a_read_only_root(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "out"
    os.chown(out, 1000, 1000)
    # files of this machine may be readable for root only, so reading is all that is left of root's rights
    rights = "--reuid=1000 --regid=1000 --clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=+dac_read_search --no-new-privs"
    script = (
        f"mount --bind {out} {out} && mount -o remount,bind,ro / && ! touch {tmp_path}/probe 2>/dev/null && "
        f"exec setpriv {rights} {sys.executable} -B -m thane_agents.scraper"
    )
    command = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(command, env=job.environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (out / "confidence").read_text() == "1.0000" and (out / "confidence").stat().st_uid == 1000
