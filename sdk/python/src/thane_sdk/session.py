"""Sessions: a sandbox each, from claim to release."""

from __future__ import annotations

import base64
import json
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from .client import DEFAULT_URL, RECOVER_SECONDS, GatewayClient, Step
from .errors import GatewayError
from .types import (
    ExecuteResponse,
    ManagedSessionInfo,
    ResourceRequirements,
    SessionInfo,
    StepEvent,
    StepResult,
    ToolManifest,
    ToolResult,
    ToolsRegistry,
    ToolsSpec,
    TrajectoryEntry,
)

KEEP_ALIVE_IDLE_SECONDS = 1800
TOOLS = "/opt/arl/tools"
REGISTRY = f"{TOOLS}/registry.json"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
# The list that the pool knows, then each tool that is there: where, and what it says about itself. What an image brings
# only the sandbox knows.
_LIST = f"""cat {REGISTRY} || exit
for said in {TOOLS}/*/manifest.json {TOOLS}/image-*/*/manifest.json; do
  if [ -f "$said" ]; then printf '"%s"' "$said"; cat "$said"; fi
done"""
Self = TypeVar("Self", bound="SandboxSession")


def _values(text: str) -> Iterator[Any]:
    """JSON values that follow each other, up to the first that is none."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            return
        yield value
        text = text[end:]


def _tools(text: str) -> ToolsRegistry:
    """Tools from what was listed: the pool's list, and then for each its file and what is in it."""
    said = list(_values(text))
    listed = ToolsRegistry.model_validate(said[0] if said else {})
    tools = {tool.name: tool for tool in listed.tools}
    for path, manifest in zip(said[1::2], said[2::2], strict=False):
        tool = ToolManifest.model_validate(manifest)
        tools.setdefault(tool.name, tool).directory = str(path).rsplit("/", 1)[0]
    return ToolsRegistry(tools=list(tools.values()))


class SandboxSession:
    """A sandbox of a pool. As a context manager it is claimed on entering and released on leaving."""

    def __init__(
        self,
        pool_ref: str,
        namespace: str = "default",
        gateway_url: str = DEFAULT_URL,
        keep_alive: bool = False,
        timeout: float = 300.0,
        idle_timeout_seconds: int | None = None,
        *,
        max_lifetime_seconds: int | None = None,
        env: Mapping[str, str] | None = None,
        files: Mapping[str, bytes | str] | None = None,
        on_empty: str | None = None,
        wait_seconds: int | None = None,
        api_key: str | None = None,
    ) -> None:
        if idle_timeout_seconds is None and keep_alive:
            idle_timeout_seconds = KEEP_ALIVE_IDLE_SECONDS
        self.pool_ref = pool_ref
        self.namespace = namespace
        self.gateway_url = gateway_url
        self.keep_alive = keep_alive
        self.timeout = timeout
        self.idle_timeout_seconds = idle_timeout_seconds
        self.max_lifetime_seconds = max_lifetime_seconds
        self._env = dict(env) if env is not None else None
        self._files = _files(files)
        self._on_empty = on_empty
        self._wait_seconds = wait_seconds
        self._info: SessionInfo | None = None
        self.client = GatewayClient(gateway_url, timeout, api_key)

    @classmethod
    def attach(
        cls: type[Self],
        session_id: str,
        gateway_url: str = DEFAULT_URL,
        timeout: float = 300.0,
        keep_alive: bool = True,
        api_key: str | None = None,
    ) -> Self:
        """A session that is there already."""
        session = cls.__new__(cls)
        SandboxSession.__init__(
            session, "", gateway_url=gateway_url, keep_alive=keep_alive, timeout=timeout, api_key=api_key
        )
        session._adopt(session.client.get_session(session_id))
        return session

    def _adopt(self, info: SessionInfo) -> None:
        self._info = info
        self.pool_ref, self.namespace = info.pool_ref, info.namespace

    @property
    def session_id(self) -> str | None:
        """Its name, once it has one."""
        return self._info.id if self._info else None

    @property
    def session_info(self) -> SessionInfo | None:
        """What the gateway said about it."""
        return self._info

    def _id(self) -> str:
        if self._info is None:
            raise RuntimeError("the session has no sandbox yet: call create_sandbox() or use `with`")
        return self._info.id

    def create_sandbox(self) -> SessionInfo:
        """Claims a sandbox."""
        self._info = self._claim()
        return self._info

    def _claim(self) -> SessionInfo:
        return self.client.create_session(
            self.pool_ref,
            self.namespace,
            keep_alive=self.keep_alive,
            idle_timeout_seconds=self.idle_timeout_seconds,
            max_lifetime_seconds=self.max_lifetime_seconds,
            env=self._env,
            files=self._files,
            on_empty=self._on_empty,
            wait_seconds=self._wait_seconds,
        )

    def execute(
        self,
        steps: Sequence[Step],
        trace_id: str | None = None,
        *,
        stop_on_error: bool | None = None,
        operation_id: str | None = None,
        recover: bool = True,
        recover_timeout: float = RECOVER_SECONDS,
    ) -> ExecuteResponse:
        """Runs steps one after the other, also if the gateway is restarted meanwhile."""
        return self.client.execute(
            self._id(),
            steps,
            trace_id,
            stop_on_error=stop_on_error,
            operation_id=operation_id,
            recover=recover,
            recover_timeout=recover_timeout,
        )

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> StepResult:
        """Runs one command; text is given to a shell."""
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        step: dict[str, Any] = {"command": words}
        if timeout is not None:
            step["timeout"] = timeout
        if env is not None:
            step["env"] = dict(env)
        return self.execute([step]).results[0]

    def stream(
        self,
        steps: Sequence[Step],
        trace_id: str | None = None,
        *,
        stop_on_error: bool | None = None,
        operation_id: str | None = None,
    ) -> Iterator[StepEvent]:
        """Runs steps and tells what they say as they say it."""
        return self.client.execute_stream(
            self._id(), steps, trace_id, stop_on_error=stop_on_error, operation_id=operation_id
        )

    def restore(self, snapshot_id: str) -> None:
        """Ends every process and brings the files back as they were after a step."""
        self.client.restore(self._id(), snapshot_id)

    def fork(self: Self, snapshot_id: str, count: int = 1) -> list[Self]:
        """New sessions that begin with the files as they were after a step; each is released on leaving its context."""
        forked = []
        for info in self.client.fork(self._id(), snapshot_id, count):
            session = self.__class__.__new__(self.__class__)
            SandboxSession.__init__(
                session,
                self.pool_ref,
                self.namespace,
                self.gateway_url,
                self.keep_alive,
                self.timeout,
                self.idle_timeout_seconds,
                api_key=self.client.api_key,
            )
            session._adopt(info)
            forked.append(session)
        return forked

    def get_history(self) -> list[StepResult]:
        """The steps that led to the present files."""
        return self.client.get_history(self._id())

    def export_trajectory(self) -> str:
        """Every step, one JSON object a line."""
        return self.client.get_trajectory(self._id())

    def trajectory(self) -> list[TrajectoryEntry]:
        """Every step."""
        # Only a newline ends a line: what steps said may hold all other characters that could.
        lines = self.export_trajectory().split("\n")
        return [TrajectoryEntry.model_validate_json(line) for line in lines if line]

    def upload_file(self, path: str, content: bytes | str) -> None:
        """Writes a file."""
        self.client.upload_file(self._id(), path, content.encode() if isinstance(content, str) else content)

    def download_file(self, path: str) -> bytes:
        """A file."""
        return self.client.download_file(self._id(), path)

    def upload_path(self, local: str | Path, path: str) -> None:
        """Writes a file of this machine."""
        self.client.upload_path(self._id(), local, path)

    def download_path(self, path: str, local: str | Path) -> None:
        """Brings a file to this machine."""
        self.client.download_path(self._id(), path, local)

    def list_tools(self) -> ToolsRegistry:
        """The tools that are there; an error in a pool without tools."""
        result = self.execute([{"name": "list_tools", "command": ["sh", "-c", _LIST]}]).results[0]
        if not result.ok:
            said = result.error.message if result.error else result.output.stderr.strip()
            raise RuntimeError(f"the sandbox does not tell its tools: {said}")
        return _tools(result.output.stdout)

    def call_tool(self, tool_name: str, params: Mapping[str, Any] | None = None) -> ToolResult:
        """Runs a tool with its parameters as JSON on its input."""
        if not _TOOL_NAME.fullmatch(tool_name):
            raise ValueError(f"no tool can be called {tool_name!r}")
        found = next((one for one in self.list_tools().tools if one.name == tool_name), None)
        if found is None or not found.entrypoint:
            return ToolResult(exit_code=127, stderr=f"there is no tool {tool_name!r}")
        directory = found.directory or f"{TOOLS}/{tool_name}"
        runner = {"bash": "bash ", "python": "python3 "}.get(found.runtime, "")
        given = base64.b64encode(json.dumps(dict(params or {})).encode()).decode()
        line = f"printf %s {given} | base64 -d | {runner}{shlex.quote(f'{directory}/{found.entrypoint}')}"
        step: dict[str, Any] = {"name": f"tool:{tool_name}", "command": ["sh", "-c", line]}
        if found.timeout and (seconds := _seconds(found.timeout)):
            step["timeout"] = seconds
        result = self.execute([step]).results[0]
        try:
            parsed = json.loads(result.output.stdout)
        except ValueError:
            parsed = {}
        return ToolResult(
            raw_output=result.output.stdout,
            parsed=parsed if isinstance(parsed, dict) else {},
            exit_code=result.output.exit_code,
            stderr=result.output.stderr,
        )

    def delete_sandbox(self) -> None:
        """Releases the sandbox; one that is gone already is released."""
        if self._info is None:
            return
        try:
            self.client.delete_session(self._info.id)
        except GatewayError as error:
            if error.status_code not in (404, 410):
                raise
        self._info = None

    def close(self) -> None:
        """Lets go of the connection; the sandbox stays."""
        self.client.close()

    def __enter__(self: Self) -> Self:
        if self.keep_alive:
            warnings.warn(
                "with keep_alive the session goes on after the context, until it is idle or deleted",
                UserWarning,
                stacklevel=2,
            )
        if self._info is None:
            self.create_sandbox()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self.keep_alive:
                self.delete_sandbox()
        finally:
            self.close()


class ManagedSession(SandboxSession):
    """A sandbox of an image, for an experiment; the gateway looks after the pool."""

    def __init__(
        self,
        image: str,
        experiment_id: str,
        namespace: str = "default",
        gateway_url: str = DEFAULT_URL,
        timeout: float = 300.0,
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
        tools: ToolsSpec | Mapping[str, Any] | None = None,
        workspace_dir: str = "/workspace",
        max_replicas: int | None = None,
        *,
        api_key: str | None = None,
    ) -> None:
        super().__init__("", namespace, gateway_url, timeout=timeout, api_key=api_key)
        self.image = image
        self.experiment_id = experiment_id
        self.resources = resources
        self.tools = tools
        self.workspace_dir = workspace_dir
        self.max_replicas = max_replicas

    def _claim(self) -> ManagedSessionInfo:
        info = self.client.create_managed_session(
            self.image,
            self.experiment_id,
            self.namespace,
            self.resources,
            self.tools,
            self.workspace_dir,
            self.max_replicas,
        )
        self.pool_ref = info.pool_ref
        return info


def _files(files: Mapping[str, bytes | str] | None) -> list[dict[str, Any]] | None:
    if files is None:
        return None
    contents = {path: value.encode() if isinstance(value, str) else value for path, value in files.items()}
    return [{"path": path, "content": base64.b64encode(value).decode()} for path, value in contents.items()]


def _seconds(text: str) -> int | None:
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    for unit, factor in units.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return max(1, round(float(number) * factor))
    return None
