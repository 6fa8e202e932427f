"""Checkpoints that outlive the pod: in PostgreSQL, or in SQLite on a claim."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from .errors import Failure, Refusal
from .settings import Settings

POOL_SIZE = 10
TIMEOUT = 30
SETUP_LOCK = 7_214_931  # any number, as long as all agents have the same
EPHEMERAL = ("tmpfs", "ramfs", "overlay")
# Where nodes of `thane up` have what goes with its pod; claims are beside it. In kubelet's folders of that name another
# folder is between, with the kind of the volume.
OWN_OF_POD = re.compile(r"/pods/[^/]+/volumes/[a-z0-9-]+(/|$)")


class AgentSaver(BaseCheckpointSaver[str]):
    """One agent's part of a job's thread. The agents of a job share its thread id; each has a namespace of its own."""

    def __init__(self, inner: BaseCheckpointSaver[str], agent: str) -> None:
        super().__init__(serde=inner.serde)
        self.inner, self.agent = inner, agent

    def outward(self, config: RunnableConfig) -> RunnableConfig:
        place = config["configurable"]
        inside = place.get("checkpoint_ns", "")
        return {**config, "configurable": {**place, "checkpoint_ns": f"{self.agent}|{inside}" if inside else self.agent}}

    def inward(self, config: RunnableConfig | None) -> RunnableConfig | None:
        if config is None:
            return None
        place = config["configurable"]
        inside = place.get("checkpoint_ns", "").removeprefix(self.agent).removeprefix("|")
        return {**config, "configurable": {**place, "checkpoint_ns": inside}}

    def translated(self, found: CheckpointTuple) -> CheckpointTuple:
        config = self.inward(found.config)
        return found._replace(config=config or found.config, parent_config=self.inward(found.parent_config))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self.inner.get_tuple(self.outward(config))
        return None if found is None else self.translated(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        outward = None if config is None else self.outward(config)
        for found in self.inner.list(outward, filter=filter, before=before, limit=limit):
            yield self.translated(found)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        stored = self.inner.put(self.outward(config), checkpoint, metadata, new_versions)
        return self.inward(stored) or stored

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(self.outward(config), writes, task_id, task_path)

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self.inner.get_next_version(current, channel)


def place_of(dsn: str) -> str:
    """A database without its password."""
    parts = conninfo_to_dict(dsn)
    return f"PostgreSQL at {parts.get('host', 'the default host')}:{parts.get('port', 5432)}, database {parts.get('dbname', 'default')}"


@contextmanager
def postgres(dsn: str) -> Iterator[BaseCheckpointSaver[str]]:
    """A saver over a small pool. The password may also come from PGPASSWORD, as everywhere with PostgreSQL."""
    try:
        place = place_of(dsn)
    except psycopg.Error:
        raise Refusal("POSTGRES_DSN is no connection string of PostgreSQL") from None
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row, "connect_timeout": TIMEOUT}
    try:
        # a plain connection first: it says why, where a pool only says that nothing came
        with psycopg.connect(dsn, **options) as connection:
            set_up(connection)
        pool: ConnectionPool[psycopg.Connection[dict[str, Any]]] = ConnectionPool(
            dsn, kwargs=options, min_size=1, max_size=POOL_SIZE, timeout=TIMEOUT, open=False
        )
        with pool:
            yield PostgresSaver(pool)
    except PoolTimeout:
        raise Failure(f"{place}: no connection within {TIMEOUT} s") from None
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        wrong = "authentication failed" in said or "no password supplied" in said or "does not exist" in said
        raise (Refusal if wrong else Failure)(f"{place}: {said}") from None


def set_up(connection: psycopg.Connection[Any]) -> None:
    """Makes the tables, one agent at a time. Waiting for the lock inside PostgreSQL would block the other's indexes."""
    end = time.monotonic() + TIMEOUT
    while not connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (SETUP_LOCK,)).fetchone()["mine"]:  # type: ignore[index]
        if time.monotonic() > end:
            raise Failure(f"PostgreSQL: another agent has been making the tables for {TIMEOUT} s")
        time.sleep(0.1)
    try:
        PostgresSaver(connection).setup()
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))


def mount_of(folder: Path, mounts: str) -> tuple[str, str] | None:
    """Type and source folder of what is mounted exactly at a folder, from the text of mountinfo."""
    found = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 6 and "-" in fields and fields[4].replace("\\040", " ") == str(folder):
            found = (fields[fields.index("-") + 1], fields[3])
    return found


def why_not_durable(folder: Path, declared: bool, mounts: str) -> str | None:
    """Why files in a folder would go with the pod; none if they would stay."""
    if declared:
        return None
    mount = mount_of(folder, mounts)
    if mount is None:
        return "nothing is mounted there"
    if mount[0] in EPHEMERAL:
        return f"a {mount[0]} is mounted there"
    if "kubernetes.io~empty-dir" in mount[1] or OWN_OF_POD.search(mount[1]):
        return "an emptyDir is mounted there"
    return None


@contextmanager
def sqlite(folder: Path, declared: bool, agent: str) -> Iterator[BaseCheckpointSaver[str]]:
    """A saver in a file of this agent."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Refusal(f"CHECKPOINT_DIR {folder} is no folder that this user may write to")
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if Path("/proc/self/mountinfo").exists() else ""
    if reason := why_not_durable(folder.resolve(), declared, mounts):
        raise Refusal(
            f"CHECKPOINT_DIR {folder} does not outlive the pod: {reason}. Mount a claim there, set POSTGRES_DSN, or, where the "
            "folder is known to stay, set CHECKPOINT_DURABLE=true"
        )
    path = folder / f"{agent}.sqlite"
    try:
        connection = sqlite3.connect(path, check_same_thread=False, timeout=TIMEOUT)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise Failure(f"checkpoints in {path}: {error}") from None


@contextmanager
def checkpoints(settings: Settings, agent: str) -> Iterator[AgentSaver]:
    """Where this agent keeps its checkpoints."""
    if settings.postgres_dsn:
        with postgres(settings.postgres_dsn) as saver:
            yield AgentSaver(saver, agent)
    elif settings.checkpoint_dir:
        with sqlite(Path(settings.checkpoint_dir), settings.checkpoint_durable, agent) as saver:
            yield AgentSaver(saver, agent)
    else:
        raise Refusal("neither POSTGRES_DSN nor CHECKPOINT_DIR is set: checkpoints would not outlive the pod")
