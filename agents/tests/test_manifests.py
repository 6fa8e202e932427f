"""The manifests of the pipeline say what the agents need, and the policies decide as they should."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict
from regopy import Interpreter  # type: ignore[import-untyped]

from conftest import ROOT
from services import PEERS
from thane_agents.settings import graph_of, read

DEPLOY = ROOT.parent / "deploy/workload"
SEVEN = ["job_id", "target_urls", "minio_bucket", "agent_image", "browserless_url", "litellm_url", "postgres_dsn"]


def objects() -> list[dict[str, Any]]:
    return [item for path in sorted(DEPLOY.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text()) if item]


def named(kind: str, name: str) -> dict[str, Any]:
    return next(item for item in objects() if item["kind"] == kind and item["metadata"]["name"] == name)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return dict(named("WorkflowTemplate", "scraper")["spec"])


def test_the_template_takes_the_seven_parameters(template: dict[str, Any]) -> None:
    values = {parameter["name"]: parameter.get("value") for parameter in template["arguments"]["parameters"]}
    assert list(values) == [*SEVEN, "gate_timeout"]
    dsn = conninfo_to_dict(str(values["postgres_dsn"]))
    assert dsn["user"] == "agents" and "password" not in dsn


def test_nobody_answering_means_deny(template: dict[str, Any]) -> None:
    templates = {item["name"]: item for item in template["templates"]}
    gate = templates["gate"]
    assert gate["suspend"] == {"duration": "{{workflow.parameters.gate_timeout}}"}
    assert {"name": "gate_timeout", "value": "30m"}.items() <= template["arguments"]["parameters"][-1].items()
    assert gate["outputs"]["parameters"] == [{"name": "decision", "valueFrom": {"supplied": {}, "default": "deny"}}]
    tasks = {task["name"]: task for task in templates["pipeline"]["dag"]["tasks"]}
    assert tasks["synthesis"]["when"] == "{{tasks.gate.outputs.parameters.decision}} == approve"
    assert {name: task.get("depends") for name, task in tasks.items()} == {
        "scraper": None,
        "screenshot": "scraper",
        "dom": "scraper",
        "gate": "screenshot && dom",
        "synthesis": "gate",
        "report": "synthesis.Succeeded",
    }


def test_steps_are_unprivileged_and_told_what_agents_read(template: dict[str, Any]) -> None:
    assert template["securityContext"]["runAsUser"] == 1000 and template["securityContext"]["runAsNonRoot"]
    for item in template["templates"]:
        if container := item.get("container"):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    agent = next(item for item in template["templates"] if item["name"] == "agent")
    told = {variable["name"]: variable.get("value", "") for variable in agent["container"]["env"]}
    assert {"JOB_ID", "TARGET_URLS", "MINIO_BUCKET", "MINIO_URL", "BROWSERLESS_URL", "LITELLM_URL", "POSTGRES_DSN"} <= set(told)
    mounts = {mount["mountPath"] for mount in agent["container"]["volumeMounts"]}
    assert mounts == {"/etc/secrets/minio-keys", "/etc/secrets/llm-keys", "/etc/config/graph", "/tmp"}
    values = {parameter["name"]: parameter.get("value", "") for parameter in template["arguments"]["parameters"]}
    values |= {"job_id": "x", "target_urls": '["https://example.com/"]'}
    filled = {name: text.replace("{{workflow.parameters.", "").removesuffix("}}") for name, text in told.items()}
    read({name: values.get(text, "") for name, text in filled.items()} | {"MINIO_URL": named("ConfigMap", "agents")["data"]["minio-url"]})


def test_the_graph_and_the_models_fit_together() -> None:
    graph = graph_of(yaml.safe_load(named("ConfigMap", "graph")["data"]["graph.yaml"]), "graph.yaml")
    for file in ("config.yaml", "mock.yaml"):
        models = yaml.safe_load(named("ConfigMap", "litellm")["data"][file])["model_list"]
        assert {*graph.text_models, *graph.vision_models} <= {model["model_name"] for model in models}


def test_what_is_referred_to_is_there() -> None:
    names = {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects()}
    for service, port in (("minio", 9000), ("postgresql", 5432), ("browserless", 3000), ("litellm", 4000)):
        assert ("Service", "shared-services", service) in names
        assert named("Service", service)["spec"]["ports"][0]["port"] == port
    for claimed in ("minio", "postgresql"):
        assert named("StatefulSet", claimed)["spec"]["volumeClaimTemplates"]
    assert named("Deployment", "browserless")["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "2Gi"


def test_agents_reach_only_services_names_and_the_web() -> None:
    rules = named("NetworkPolicy", "agents")["spec"]["egress"]
    reached = set()
    for rule in rules:
        for peer in rule["to"]:
            ports = tuple(port["port"] for port in rule["ports"])
            label = peer.get("podSelector", {}).get("matchLabels", {})
            reached.add((label.get("app.kubernetes.io/name") or label.get("k8s-app") or peer["ipBlock"]["cidr"], ports))
    assert reached == {
        ("kube-dns", (53, 53)),
        ("minio", (9000,)),
        ("browserless", (3000,)),
        ("litellm", (4000,)),
        ("postgresql", (5432,)),
        ("0.0.0.0/0", (80, 443)),
        ("2000::/3", (80, 443)),
    }


def test_real_argo_finds_nothing_wrong() -> None:
    program = os.environ.get("THANE_ARGO") or shutil.which("argo", path=str(PEERS / "bin"))
    if not program:
        pytest.skip("argo is not built")
    done = subprocess.run([program, "lint", "--offline", str(DEPLOY / "40-template.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", ["up", "secrets", "local"])
def test_scripts_are_shell(script: str) -> None:
    assert os.access(DEPLOY / script, os.X_OK)
    subprocess.run(["bash", "-n", DEPLOY / script], check=True)


def decide(policy: str, question: dict[str, Any]) -> tuple[bool, str]:
    rego = Interpreter()
    rego.add_module(policy, Path(DEPLOY / "policies" / f"{policy}.rego").read_text())
    rego.set_input(question)
    answer = rego.query("data.agentworkload.policies.decision").results[0].expressions[0]
    return answer["allow"], answer["reason"]


def start(*targets: str) -> dict[str, Any]:
    workload = {"name": "x", "namespace": "agents", "spec": {"targetUrls": list(targets)}}
    return {
        "stage": "start",
        "workload": workload,
        "gate": None,
        "insights": [],
        "confidence": None,
        "threshold": 0.95,
        "now": "2026-01-01T00:00:00Z",
    }


def gate(confidence: float | None, insights: int = 3) -> dict[str, Any]:
    found = [{"step": "dom", "confidence": confidence, "insights": {}}] * insights
    return {**start("https://example.com/"), "stage": "gate", "gate": "gate", "insights": found, "confidence": confidence}


@pytest.mark.parametrize(
    ("policy", "question", "allow", "reason"),
    [
        ("strict", start("https://example.com/", "http://example.org"), True, "within bounds"),
        ("strict", start(), False, "no targets"),
        ("strict", start(*["https://example.com/"] * 21), False, "21 targets, 20 are allowed"),
        ("strict", start("https://example.com/", "file:///etc/passwd"), False, "is not on the web"),
        ("strict", start("http://user:x@example.com/"), False, "is not on the web"),
        ("strict", start("http://169.254.169.254/latest"), False, "is not public"),
        ("strict", start("http://LOCALHOST/"), False, "is not public"),
        ("strict", start("http://[::1]/"), False, "is not public"),
        ("strict", gate(0.96), True, "is above"),
        ("strict", gate(0.95), True, "a person decides"),
        ("strict", gate(0.5), True, "a person decides"),
        ("strict", gate(0.49), False, "is below"),
        ("strict", gate(None), False, "no confidence"),
        ("strict", gate(0.99, insights=0), False, "no step said"),
        ("strict", {**start("https://example.com/"), "stage": "later"}, False, "neither start nor gate"),
        ("permissive", start("http://127.0.0.1:8080/"), True, "permitted"),
        ("permissive", start(), False, "no targets"),
        ("permissive", gate(0.1), True, "threshold"),
    ],
)
def test_policies(policy: str, question: dict[str, Any], allow: bool, reason: str) -> None:
    decided, why = decide(policy, question)
    assert decided == allow and reason in why
