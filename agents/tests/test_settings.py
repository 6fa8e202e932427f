"""What an agent is told wrongly is refused by name, before anything is done."""

import json
from pathlib import Path

import pytest

from thane_agents.checkpoints import why_not_durable
from thane_agents.errors import Refusal
from thane_agents.settings import Graph, graph_of, read

FINE = {"JOB_ID": "a-1", "TARGET_URLS": '["http://example.com"]', "MINIO_BUCKET": "artifacts", "MINIO_URL": "http://minio:9000"}


def test_the_least_that_does() -> None:
    settings = read(FINE)
    assert settings.key("report.md") == "job_a-1/report.md"
    assert settings.graph == Graph()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("JOB_ID", "", "JOB_ID is not set"),
        ("JOB_ID", "../other", "JOB_ID '../other' must be"),
        ("JOB_ID", "a..b", "must be letters"),
        ("JOB_ID", "x" * 129, "must be letters"),
        ("JOB_ID", "{{workflow.name}}", "must be letters"),
        ("MINIO_BUCKET", "No/Bucket", "is no name of a bucket"),
        ("MINIO_URL", "", "MINIO_URL is not set"),
        ("MINIO_URL", "minio:9000", "MINIO_URL is no URL that begins with http://"),
        ("BROWSERLESS_URL", "ftp://x", "BROWSERLESS_URL is no URL that begins with ws://"),
        ("LITELLM_URL", "http://[", "LITELLM_URL is no URL"),
        ("TARGET_URLS", "", "TARGET_URLS is not set"),
        ("TARGET_URLS", "http://example.com", "TARGET_URLS is no JSON list"),
        ("TARGET_URLS", "{}", "TARGET_URLS is no JSON list of strings"),
        ("TARGET_URLS", "[1]", "TARGET_URLS is no JSON list of strings"),
        ("TARGET_URLS", "[]", "TARGET_URLS is empty"),
        ("TARGET_URLS", "[" * 100_000, "TARGET_URLS is no JSON list"),
        ("TARGET_URLS", json.dumps(["http://example.com"] * 101), "has 101 targets; 100 are allowed"),
        ("ALLOWED_TARGETS", '["everything"]', "allowed target 'everything'"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(Refusal, match=message.replace("[", r"\[")):
        read({**FINE, name: value})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is no mapping"),
        ({"modells": ["a"]}, "modells is not known; known are text_models"),
        ({"text_models": "gpt"}, "text_models must be a list of strings"),
        ({"text_models": []}, "between 1 and 64"),
        ({"page_timeout": -1}, "page_timeout must be a number above zero"),
        ({"page_timeout": True}, "page_timeout must be a number above zero"),
    ],
)
def test_graph_files_that_are_wrong(content: object, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        graph_of(content, "graph.yaml")


def test_graph_file(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text("vision_models: [a, b]\npage_bytes: 1000\nallowed_targets: ['10.0.0.0/8']\n")
    settings = read({**FINE, "GRAPH_CONFIG_DIR": str(tmp_path)})
    assert settings.graph.vision_models == ("a", "b") and settings.graph.page_bytes == 1000
    assert len(settings.allowed) == 1
    (tmp_path / "graph.yaml").write_text("a: [")
    with pytest.raises(Refusal, match=r"graph.yaml cannot be read"):
        read({**FINE, "GRAPH_CONFIG_DIR": str(tmp_path)})


CLAIM = "36 35 98:0 / /data rw,noatime master:1 - ext4 /dev/sdb rw\n"
EMPTY = "37 35 98:0 /var/lib/kubelet/pods/x/volumes/kubernetes.io~empty-dir/data /data rw - ext4 /dev/sda rw\n"
HERE = "39 35 98:0 /data/hub/node/pods/0a1b-2c/volumes/data%s /data rw - ext4 /dev/sda rw\n"
CLAIMED = "40 35 98:0 /data/hub/node/claims/agents/volumes /data rw - ext4 /dev/sda rw\n"
LOCAL = "41 35 98:0 /var/lib/kubelet/pods/x/volumes/kubernetes.io~local-volume/data /data rw - ext4 /dev/sda rw\n"
MEMORY = "38 35 0:5 / /data rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("mounts", "declared", "reason"),
    [
        (CLAIM, False, None),
        ("", False, "nothing is mounted there"),
        ("", True, None),
        (EMPTY, False, "an emptyDir is mounted there"),
        (HERE % "", False, "an emptyDir is mounted there"),
        (HERE % "/below", False, "an emptyDir is mounted there"),
        (CLAIMED, False, None),
        (LOCAL, False, None),
        (MEMORY, False, "a tmpfs is mounted there"),
        (CLAIM + MEMORY, False, "a tmpfs is mounted there"),
        (CLAIM.replace("/data", "/other"), False, "nothing is mounted there"),
    ],
)
def test_folders_that_outlive_a_pod(mounts: str, declared: bool, reason: str | None) -> None:
    assert why_not_durable(Path("/data"), declared, mounts) == reason
