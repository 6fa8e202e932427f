"""The agents one after the other, each killed in the middle once, with real services."""

import json
import subprocess
from pathlib import Path

import psycopg
import pytest

from conftest import Job
from services import Bucket, Postgres, Relay, Site


def kill(process: subprocess.Popen[str]) -> str:
    process.kill()
    out, errors = process.communicate(timeout=30)
    assert process.returncode == -9, errors
    return out


def killed_at_page(job: Job, site: Site, agent: str, path: str) -> str:
    """Starts an agent and kills it while it waits for a page."""
    hold = site.hold(path)
    process = job.start(agent)
    try:
        site.arrived.get(timeout=120)
    finally:
        said = kill(process)
    del site.held[path]
    hold.set()
    return said


def killed_at_question(job: Job, models: Relay, agent: str, number: int) -> str:
    """Starts an agent and kills it while it waits for a model."""
    models.requests.clear()
    models.hold.clear()
    models.hold_at = number
    process = job.start(agent)
    try:
        models.arrived.get(timeout=120)
    finally:
        said = kill(process)
    models.hold_at = None
    models.hold.set()
    return said


def test_whole_pipeline_with_every_agent_killed_once(job: Job, site: Site, models: Relay, bucket: Bucket) -> None:
    killed_at_page(job, site, "scraper", "/three")
    assert "resumes at fetch" in job.succeed("scraper")
    assert [site.hits[path] for path in ("/one", "/two", "/three", "/four")] == [1, 1, 2, 1]
    raw = json.loads(bucket.read(f"job_{job.id}/raw_html.json"))
    assert [page["title"] for page in raw["pages"]] == ["Page one", "Page two", "Page three", "Page four"]
    assert "<h1>Harbours two</h1>" in raw["pages"][1]["html"]
    assert job.output("confidence") == "1.0000"

    site.hits.clear()
    killed_at_page(job, site, "screenshot", "/three")
    said = job.succeed("screenshot")
    assert "resumes at capture" in said and "capture 1 of" not in said and "capture 2 of" not in said
    assert [site.hits[path] for path in ("/one", "/two", "/three", "/four")] == [1, 1, 2, 1]
    pictures = [key for key in bucket.keys(f"job_{job.id}/screenshots/") if key.endswith(".png")]
    assert len(pictures) == 4 and all(bucket.read(key).startswith(b"\x89PNG") for key in pictures)
    analysis = json.loads(bucket.read(f"job_{job.id}/screenshots/analysis.json"))
    assert len([entry for entry in analysis["descriptions"] if "heading" in entry["text"]]) == 4

    site.hits.clear()
    killed_at_page(job, site, "dom", "/two")
    assert "resumes at inspect" in job.succeed("dom")
    assert [site.hits[path] for path in ("/one", "/two", "/three", "/four")] == [1, 2, 1, 1]
    structures = json.loads(bucket.read(f"job_{job.id}/dom_structures.json"))
    assert [page["headings"][0]["text"] for page in structures["pages"]] == [f"Harbours {name}" for name in ("one", "two", "three", "four")]

    killed_at_question(job, models, "synthesis", 4)
    assert "resumes at summarise" in job.succeed("synthesis")
    # five topics for two models, and the one that was killed
    assert len(models.requests) == 11
    report = bucket.read(f"job_{job.id}/report.md").decode()
    assert "> These pages describe harbours" in report and "## Evidence" in report
    assert 0.5 < float(job.output("confidence")) < 1.0
    assert "report.md" in job.succeed("report")
    assert set(json.loads(job.output("artifacts"))) >= {
        "raw_html.json",
        "dom_structures.json",
        "report.md",
        "screenshots/000-127.0.0.1.png",
    }


def test_a_finished_agent_does_nothing_again(job: Job, site: Site, postgres: Postgres) -> None:
    job.succeed("scraper")
    before = dict(site.hits)
    assert "had finished already" in job.succeed("scraper")
    assert dict(site.hits) == before
    with psycopg.connect(postgres.dsn, password=postgres.password) as connection:
        found = connection.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = %s", (job.id,)).fetchall()
    assert found == [("scraper",)]
    code, said = job.run("scraper", TARGET_URLS=json.dumps([f"{site.url}/one"]))
    assert code == 2 and "has a checkpoint with other targets" in said


def test_an_eviction_ends_it_at_once_and_it_continues(job: Job, site: Site) -> None:
    hold = site.hold("/two")
    process = job.start("scraper")
    site.arrived.get(timeout=120)
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 143, errors
    del site.held["/two"]
    hold.set()
    assert "resumes at fetch" in job.succeed("scraper")
    assert site.hits["/one"] == 1


def test_describing_is_resumed_between_pictures(job: Job, models: Relay) -> None:
    killed_at_question(job, models, "screenshot", 3)
    said = job.succeed("screenshot")
    assert "resumes at describe" in said and "capture 1 of" not in said
    assert len(models.requests) == 5


def test_sqlite_on_a_folder_that_is_declared_to_stay(job: Job, site: Site, tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    job.environment.pop("POSTGRES_DSN")
    job.environment["CHECKPOINT_DIR"] = str(claim)
    code, said = job.run("scraper")
    assert code == 2 and "does not outlive the pod: nothing is mounted there" in said
    job.environment["CHECKPOINT_DURABLE"] = "true"
    killed_at_page(job, site, "scraper", "/two")
    assert "resumes at fetch" in job.succeed("scraper")
    assert site.hits["/one"] == 1


def test_browserless_by_url_and_token(job: Job, browserless_url: tuple[str, str]) -> None:
    url, token = browserless_url
    code, said = job.run("dom", BROWSERLESS_URL=f"{url}?token=wrong")
    assert code == 1 and "browser at ws://127.0.0.1" in said and "wrong" not in said.replace("wrong token", "")
    job.succeed("dom", BROWSERLESS_URL=f"{url}?token={token}")


def test_browserless_token_of_its_own_variable(job: Job, browserless_url: tuple[str, str]) -> None:
    url, token = browserless_url
    job.succeed("dom", BROWSERLESS_URL=url, BROWSERLESS_TOKEN=token)


@pytest.mark.parametrize("agent", ["scraper", "dom"])
def test_confidence_falls_with_what_could_not_be_read(job: Job, site: Site, agent: str) -> None:
    targets = [f"{site.url}/one", f"{site.url}/missing"]
    said = job.succeed(agent, TARGET_URLS=json.dumps(targets))
    assert "missing: 404" in said
    assert job.output("confidence") == "0.5000"
    insight = json.loads(job.output("insights"))
    assert insight["agent"] == agent and insight["confidence"] == 0.5
