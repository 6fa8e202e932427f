"""What an agent is told: environment, mounted Secrets, and the mounted configuration of its graph."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from .addresses import Allowed, parse_allowed
from .errors import Refusal

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
MAX_TARGETS = 100


@dataclass(frozen=True)
class Graph:
    """The file graph.yaml of /etc/config/graph; every field has a default."""

    text_models: tuple[str, ...] = ("text",)
    vision_models: tuple[str, ...] = ("vision",)
    page_timeout: float = 30.0
    page_bytes: int = 2 << 20
    min_text: int = 40
    model_timeout: float = 120.0
    model_rate: float = 2.0
    model_burst: float = 4.0
    allowed_targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """Everything one run of an agent depends on."""

    job_id: str
    targets: tuple[str, ...]
    bucket: str
    minio_url: str
    browser_url: str
    model_url: str
    postgres_dsn: str
    checkpoint_dir: str
    checkpoint_durable: bool
    secrets: Path
    output: Path
    graph: Graph
    allowed: tuple[Allowed, ...]
    browser_token: str = field(default="", repr=False)

    def secret(self, name: str, key: str) -> str:
        """A value of a mounted Secret."""
        path = self.secrets / name / key
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Refusal(f"Secret {name}: {path} cannot be read: {reason}") from None
        if not value:
            raise Refusal(f"Secret {name}: {path} is empty")
        return value

    def key(self, name: str) -> str:
        """Where an artifact of this job is in its bucket."""
        return f"job_{self.job_id}/{name}"


def required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise Refusal(f"{name} is not set")
    return value


def service_url(environment: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str:
    """A URL of a service, checked when it is there; who needs it asks for it."""
    value = environment.get(name, "").strip()
    if value:
        try:
            parts = urlsplit(value)
            fine = parts.scheme in schemes and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            fine = False
        if not fine:
            raise Refusal(f"{name} is no URL that begins with {' or '.join(scheme + '://' for scheme in schemes)}")
    return value.rstrip("/")


def read_list(name: str, text: str) -> list[str]:
    """A JSON list of strings."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{name} is no JSON list: {error}") from None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refusal(f"{name} is no JSON list of strings")
    return value


def read_targets(text: str) -> tuple[str, ...]:
    targets = read_list("TARGET_URLS", text)
    if not targets:
        raise Refusal("TARGET_URLS is empty: there is nothing to do")
    if len(targets) > MAX_TARGETS:
        raise Refusal(f"TARGET_URLS has {len(targets)} targets; {MAX_TARGETS} are allowed")
    return tuple(targets)


def read_graph(folder: Path) -> Graph:
    """Reads graph.yaml; what is not in it has its default, what is not known is refused."""
    path = folder / "graph.yaml"
    if not path.is_file():
        return Graph()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise Refusal(f"{path} cannot be read: {error}") from None
    return graph_of(content or {}, str(path))


def graph_of(content: Any, path: str) -> Graph:
    if not isinstance(content, dict):
        raise Refusal(f"{path} is no mapping")
    fields: dict[str, Any] = {}
    for name, value in content.items():
        default: Any = getattr(Graph, str(name), None)
        if str(name) not in Graph.__dataclass_fields__:
            raise Refusal(f"{path}: {name} is not known; known are {', '.join(Graph.__dataclass_fields__)}")
        if isinstance(default, tuple):
            if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
                raise Refusal(f"{path}: {name} must be a list of strings")
            if (not value and name != "allowed_targets") or len(value) > 64:
                raise Refusal(f"{path}: {name} must have between 1 and 64 entries")
            fields[name] = tuple(value)
        else:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise Refusal(f"{path}: {name} must be a number above zero")
            fields[name] = type(default)(value)
    return Graph(**fields)


def read(environment: Mapping[str, str]) -> Settings:
    """Reads and checks everything before anything is done."""
    job_id = required(environment, "JOB_ID")
    if not JOB_ID.fullmatch(job_id) or ".." in job_id:
        raise Refusal(f"JOB_ID {job_id[:64]!r} must be letters, digits, '.', '_' or '-', at most 128")
    bucket = required(environment, "MINIO_BUCKET")
    if not BUCKET.fullmatch(bucket):
        raise Refusal(f"MINIO_BUCKET {bucket[:64]!r} is no name of a bucket")
    graph = read_graph(Path(environment.get("GRAPH_CONFIG_DIR", "/etc/config/graph")))
    extra = read_list("ALLOWED_TARGETS", environment["ALLOWED_TARGETS"]) if environment.get("ALLOWED_TARGETS") else []
    return Settings(
        job_id=job_id,
        targets=read_targets(required(environment, "TARGET_URLS")),
        bucket=bucket,
        minio_url=service_url(environment, "MINIO_URL", ("http", "https")) or required(environment, "MINIO_URL"),
        browser_url=service_url(environment, "BROWSERLESS_URL", ("ws", "wss", "http", "https")),
        model_url=service_url(environment, "LITELLM_URL", ("http", "https")),
        postgres_dsn=environment.get("POSTGRES_DSN", "").strip(),
        checkpoint_dir=environment.get("CHECKPOINT_DIR", "").strip(),
        checkpoint_durable=environment.get("CHECKPOINT_DURABLE", "").strip().lower() in ("1", "true", "yes"),
        secrets=Path(environment.get("SECRETS_DIR", "/etc/secrets")),
        output=Path(environment.get("OUTPUT_DIR", "/tmp/outputs")),
        graph=graph,
        allowed=tuple(parse_allowed(entry) for entry in (*graph.allowed_targets, *extra)),
        browser_token=environment.get("BROWSERLESS_TOKEN", "").strip(),
    )
