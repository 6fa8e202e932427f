"""The whole pipeline where workloads run, each agent killed once in the middle: `make test-pipeline`."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from queue import Empty
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from conftest import ROOT
from places import Place, place, reachable
from services import Bucket, Postgres, Relay, Site

pytestmark = pytest.mark.skipif("THANE_PROGRAM" not in os.environ, reason="the program is not named: make test-pipeline")

ALL = ("/one", "/two", "/three", "/four")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("place")) as found:
        yield found


class Pipeline:
    """The template and what it needs, in place, and one workload of it."""

    def __init__(self, here: Place, site: str, services: dict[str, str]) -> None:
        self.here, self.name, self.site = here, f"research-{uuid.uuid4().hex[:6]}", site
        script = ROOT.parent / "deploy/workload/local"
        environment = {**os.environ, **services, "THANE": here.program}
        done = subprocess.run(
            [script, "--kubeconfig", str(here.kubeconfig)], env=environment, text=True, capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr + done.stdout

    def submit(self, **spec: Any) -> None:
        """The example, with targets here and somebody who is asked."""
        workload = yaml.safe_load((ROOT.parent / "examples/agentworkload.yaml").read_text())
        workload["metadata"]["name"] = self.name
        orchestration = {"type": self.here.runtime, "workflowTemplateRef": {"name": "scraper"}}
        targets = [self.site + path for path in ALL]
        chosen = {"jobId": self.name, "targetUrls": targets, "opaPolicy": "permissive", "autoApproveThreshold": "1"}
        workload["spec"].update({"orchestration": orchestration, **chosen, **spec})
        self.here.run("workload", "submit", "-", "--namespace", "agents", text=json.dumps(workload))

    def steps(self, *names: str) -> dict[str, list[str]]:
        """The phases of all attempts at these steps."""
        found: dict[str, list[str]] = {name: [] for name in names}
        for node in sorted(self.here.nodes(self.name), key=lambda node: str(node["name"])):
            step = str(node["displayName"]).partition("(")[0]
            if step in found and node["type"] == "Pod":
                found[step].append(str(node["phase"]))
        return found


@pytest.fixture
def pipeline(
    here: Place, site: Site, models: Relay, postgres: Postgres, bucket: Bucket, browser: str, model_key: str
) -> Iterator[Pipeline]:
    with ExitStack() as stack:

        def url(local: str) -> str:
            port = urlsplit(local).port or 80
            return local.replace(f"127.0.0.1:{port}", f"{here.host}:{stack.enter_context(reachable(here.host, port))}")

        served = url(site.url)
        services = {
            "MINIO_URL": url(bucket.url),
            "MINIO_ACCESS_KEY": bucket.access,
            "MINIO_SECRET_KEY": bucket.secret,
            "POSTGRES_DSN": url(postgres.dsn),
            "POSTGRES_PASSWORD": postgres.password,
            "BROWSERLESS_URL": url(browser),
            "LITELLM_URL": url(models.url),
            "LITELLM_KEY": model_key,
            "TEXT_MODELS": "[text, second]",
            "ALLOWED_TARGETS": urlsplit(served).netloc,
        }
        yield Pipeline(here, served, services)


def arrivals(here: Place, site: Site, count: int) -> list[str]:
    """The next requests for pages that are held back."""
    try:
        return [site.arrived.get(timeout=120) for _ in range(count)]
    except Empty:
        raise AssertionError(f"nobody asks\n{here.words()}") from None


def hits(site: Site) -> list[int]:
    return [site.hits[path] for path in ALL]


def test_the_pipeline_with_every_agent_killed_once(pipeline: Pipeline, here: Place, site: Site, models: Relay, bucket: Bucket) -> None:
    job = f"job_{pipeline.name}"
    site.hold("/three")
    pipeline.submit()

    # the scraper's pod is taken away while it waits for the third of four pages
    assert arrivals(here, site, 1) == ["/three"]
    here.evict(here.pod(pipeline.name, "scraper"))
    # the next pod asks for that page again, and for none before it
    assert arrivals(here, site, 1) == ["/three"]
    assert hits(site) == [1, 1, 2, 0]
    site.hold("/two")
    site.release("/three")

    # screenshot's process is killed, dom's pod is taken away, while each waits for the second page
    assert arrivals(here, site, 2) == ["/two", "/two"]
    assert len(json.loads(bucket.read(f"{job}/raw_html.json"))["pages"]) == 4
    here.kill(here.pod(pipeline.name, "screenshot"))
    here.evict(here.pod(pipeline.name, "dom"))
    assert arrivals(here, site, 2) == ["/two", "/two"]
    site.release("/two")

    waiting = here.phase(pipeline.name, "PendingApproval")
    assert "waits for a person" in waiting["message"]
    # one for each of three agents, and once more where one was killed; the scraper's third, screenshot's and dom's second
    assert hits(site) == [3, 5, 4, 3]
    assert pipeline.steps("scraper", "screenshot", "dom", "synthesis")["synthesis"] == []
    pictures = [key for key in bucket.keys(f"{job}/screenshots/") if key.endswith(".png")]
    assert len(pictures) == 4 and all(bucket.read(key).startswith(b"\x89PNG") for key in pictures)
    headings = [page["headings"][0]["text"] for page in json.loads(bucket.read(f"{job}/dom_structures.json"))["pages"]]
    assert headings == [f"Harbours {name}" for name in ("one", "two", "three", "four")]

    # synthesis is killed at its fourth question of ten
    models.requests.clear()
    models.hold_at = 4
    here.run("workload", "approve", pipeline.name, "--reason", "seen", "--namespace", "agents")
    models.arrived.get(timeout=120)
    here.kill(here.pod(pipeline.name, "synthesis"))
    models.hold_at = None
    models.hold.set()
    done = here.phase(pipeline.name, "Completed")
    assert len(models.requests) == 11
    assert "> These pages describe harbours" in bucket.read(f"{job}/report.md").decode()
    for agent, attempts in pipeline.steps("scraper", "screenshot", "dom", "synthesis").items():
        # Argo may make a pod that was taken away again, in the same attempt
        least = 1 if here.runtime == "argo" and agent in ("scraper", "dom") else 2
        assert attempts[-1] == "Succeeded" and least <= len(attempts) <= 2, (agent, attempts)
        assert set(attempts[:-1]) <= {"Failed", "Error"}, (agent, attempts)
    told = set(done["workflowArtifacts"].values())
    wanted = ("raw_html.json", "dom_structures.json", "report.md", "screenshots/000-127.0.0.1.png".replace("127.0.0.1", here.host))
    assert {f"s3://{bucket.name}/{job}/{name}" for name in wanted} <= told, told
    last = done["decisions"][-1]
    assert (last["allow"], last["reason"]) == (True, "seen")

    # deleting it takes what it made, and leaves the artifacts
    here.run("delete", "agentworkload", pipeline.name, "--namespace", "agents")
    here.until("the Workflow is gone", lambda: not here.get("workflows", "-l", f"thane.dev/workload={pipeline.name}")["items"])
    here.until("its pods are gone", lambda: not here.get("pods", "-l", f"workflows.argoproj.io/workflow={pipeline.name}")["items"])
    assert bucket.read(f"{job}/report.md")


def test_what_must_not_be_fetched_is_refused(pipeline: Pipeline, here: Place) -> None:
    pipeline.submit(targetUrls=["http://169.254.169.254/latest/meta-data"])
    failed = here.phase(pipeline.name, "Failed")
    assert pipeline.steps("scraper", "dom") == {"scraper": ["Failed"], "dom": []}, "no second attempt at what cannot succeed"
    assert "its Workflow ended Failed" in failed["message"], failed
    pipeline.name += "-strict"
    pipeline.submit(targetUrls=["http://169.254.169.254/latest/meta-data"], opaPolicy="strict")
    denied = here.phase(pipeline.name, "PolicyDenied")
    assert "is not public" in denied["message"], denied
    assert not here.get("workflows", "-l", f"thane.dev/workload={pipeline.name}")["items"], "nothing was made"
