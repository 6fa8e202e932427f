"""The gateway's REST interface, call by call."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from . import _events
from .errors import GatewayError
from .types import (
    ErrorResponse,
    ExecuteResponse,
    ManagedSessionInfo,
    PoolInfo,
    ResourceRequirements,
    SessionInfo,
    SessionPage,
    StepEvent,
    StepRequest,
    StepResult,
    ToolsSpec,
)

Step = StepRequest | Mapping[str, Any]
DEFAULT_URL = os.environ.get("THANE_GATEWAY") or "http://localhost:8080"
RECOVER_SECONDS = 60.0
_PIECE = 1 << 20
_BROKEN = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
_ABSENT = (httpx.ConnectError, httpx.ConnectTimeout)


def _step(step: Step) -> dict[str, Any]:
    return (step if isinstance(step, StepRequest) else StepRequest.model_validate(dict(step))).wire()


def _body(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _plain(value: ToolsSpec | ResourceRequirements | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    return value.wire() if isinstance(value, (ToolsSpec, ResourceRequirements)) else dict(value)


class GatewayClient:
    """A connection to a gateway. Usable from several threads; close it, or use it as a context manager."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        timeout: float = 300.0,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        key = api_key if api_key is not None else os.environ.get("THANE_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.base_url = base_url.rstrip("/")
        self.api_key = key
        self._http = httpx.Client(base_url=self.base_url, timeout=timeout, headers=headers, transport=transport)

    def close(self) -> None:
        """Lets go of its connections."""
        self._http.close()

    def __enter__(self) -> GatewayClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- sessions ------------------------------------------------------------------------------------------------

    def create_session(
        self,
        pool_ref: str,
        namespace: str = "default",
        idle_timeout_seconds: int | None = None,
        *,
        keep_alive: bool | None = None,
        max_lifetime_seconds: int | None = None,
        env: Mapping[str, str] | None = None,
        files: Sequence[Mapping[str, Any]] | None = None,
        on_empty: str | None = None,
        wait_seconds: int | None = None,
    ) -> SessionInfo:
        """Claims a sandbox of a pool."""
        body = _body(
            poolRef=pool_ref,
            namespace=namespace,
            keepAlive=keep_alive,
            idleTimeoutSeconds=idle_timeout_seconds,
            maxLifetimeSeconds=max_lifetime_seconds,
            env=dict(env) if env is not None else None,
            files=[dict(file) for file in files] if files is not None else None,
            onEmpty=on_empty,
            waitSeconds=wait_seconds,
        )
        return SessionInfo.model_validate(self._json("POST", "/v1/sessions", body))

    def get_session(self, session_id: str) -> SessionInfo:
        """A session."""
        return SessionInfo.model_validate(self._json("GET", f"/v1/sessions/{session_id}"))

    def list_sessions(self, cursor: str | None = None, limit: int | None = None) -> SessionPage:
        """Some of the sessions; go on with ``next_cursor``."""
        answer = self._request("GET", "/v1/sessions", params=_body(cursor=cursor, limit=limit))
        body = answer.json()
        sessions = body.get("sessions", []) if isinstance(body, dict) else body
        return SessionPage.model_validate({"sessions": sessions, "next_cursor": answer.headers.get("X-Next-Cursor")})

    def delete_session(self, session_id: str) -> None:
        """Ends a session and everything in its sandbox."""
        self._request("DELETE", f"/v1/sessions/{session_id}")

    def execute(
        self,
        session_id: str,
        steps: Sequence[Step],
        trace_id: str | None = None,
        *,
        stop_on_error: bool | None = None,
        operation_id: str | None = None,
        recover: bool = True,
        recover_timeout: float = RECOVER_SECONDS,
    ) -> ExecuteResponse:
        """Runs steps one after the other. With an ``operation_id`` asking again runs nothing twice.

        Steps run in the sandbox, not in the gateway: when the connection breaks, the same operation is asked for again,
        at this gateway or whichever has taken its place, until ``recover_timeout`` seconds have passed.
        """
        if operation_id is None and recover:
            operation_id = uuid.uuid4().hex
        body = self._steps(steps, trace_id, stop_on_error, operation_id)
        path = f"/v1/sessions/{session_id}/execute"
        answer = self._recovered("POST", path, body, recover_timeout) if recover else self._json("POST", path, body)
        return ExecuteResponse.model_validate(answer)

    def execute_stream(
        self,
        session_id: str,
        steps: Sequence[Step],
        trace_id: str | None = None,
        *,
        stop_on_error: bool | None = None,
        operation_id: str | None = None,
    ) -> Iterator[StepEvent]:
        """Runs steps and tells what they say as they say it."""
        body = self._steps(steps, trace_id, stop_on_error, operation_id)
        path = f"/v1/sessions/{session_id}/execute"
        with self._stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as answer:
            for name, data in _events.parse(_events.lines(answer.iter_bytes())):
                if name == "error":
                    said = ErrorResponse.model_validate(json.loads(data))
                    raise GatewayError(0, said.error, said.detail, said.kind)
                event = _events.step_event(name, data)
                if event is not None:
                    yield event

    @staticmethod
    def _steps(steps: Sequence[Step], trace_id: str | None, stop: bool | None, operation: str | None) -> dict[str, Any]:
        return _body(steps=[_step(step) for step in steps], traceID=trace_id, stopOnError=stop, operationID=operation)

    def restore(self, session_id: str, snapshot_id: str) -> None:
        """Ends every process and brings the files back as they were after a step."""
        self._request("POST", f"/v1/sessions/{session_id}/restore", json={"snapshotID": str(snapshot_id)})

    def fork(self, session_id: str, snapshot_id: str, count: int = 1) -> list[SessionInfo]:
        """New sessions that begin with the files as they were after a step."""
        body = {"snapshotID": str(snapshot_id), "count": count}
        answer = self._json("POST", f"/v1/sessions/{session_id}/fork", body)
        return [SessionInfo.model_validate(one) for one in answer["sessions"]]

    def get_history(self, session_id: str) -> list[StepResult]:
        """The steps that led to the present files."""
        answer = self._json("GET", f"/v1/sessions/{session_id}/history")
        return [StepResult.model_validate(one) for one in answer or []]

    def get_trajectory(self, session_id: str) -> str:
        """Every step of a session, one JSON object a line."""
        return self._request("GET", f"/v1/sessions/{session_id}/trajectory").text

    # -- files ---------------------------------------------------------------------------------------------------

    def upload_file(
        self, session_id: str, path: str, content: bytes | Iterable[bytes], sha256: str | None = None
    ) -> None:
        """Writes a file, whole or not at all."""
        if isinstance(content, bytes) and sha256 is None:
            sha256 = hashlib.sha256(content).hexdigest()
        headers = {"X-ARL-Path": path, "Content-Type": "application/octet-stream"}
        if sha256 is not None:
            headers["X-ARL-SHA256"] = sha256
        self._request("POST", f"/v1/sessions/{session_id}/upload-file", content=content, headers=headers)

    def iter_download(self, session_id: str, path: str) -> Iterator[bytes]:
        """A file, piece by piece."""
        where = f"/v1/sessions/{session_id}/download-file"
        with self._stream("POST", where, json={"path": path}) as answer:
            yield from answer.iter_bytes(_PIECE)

    def download_file(self, session_id: str, path: str) -> bytes:
        """A file."""
        return b"".join(self.iter_download(session_id, path))

    def upload_path(self, session_id: str, local: str | Path, path: str) -> None:
        """Writes a file of this machine."""
        with open(local, "rb") as file:
            self.upload_file(session_id, path, iter(lambda: file.read(_PIECE), b""))

    def download_path(self, session_id: str, path: str, local: str | Path) -> None:
        """Brings a file to this machine."""
        with open(local, "wb") as file:
            for piece in self.iter_download(session_id, path):
                file.write(piece)

    # -- pools ---------------------------------------------------------------------------------------------------

    def create_pool(
        self,
        name: str,
        namespace: str,
        image: str,
        replicas: int = 2,
        tools: ToolsSpec | Mapping[str, Any] | None = None,
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
        workspace_dir: str = "/workspace",
    ) -> None:
        """Makes a pool."""
        body = _body(
            name=name,
            image=image,
            replicas=replicas,
            namespace=namespace,
            tools=_plain(tools),
            resources=_plain(resources),
            workspaceDir=workspace_dir,
        )
        self._request("POST", "/v1/pools", json=body)

    def get_pool(self, name: str, namespace: str = "default") -> PoolInfo:
        """A pool."""
        return PoolInfo.model_validate(self._json("GET", f"/v1/pools/{name}", params={"namespace": namespace}))

    def scale_pool(
        self,
        name: str,
        replicas: int,
        namespace: str = "default",
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
    ) -> PoolInfo:
        """Changes how many sandboxes of a pool wait."""
        body = _body(replicas=replicas, namespace=namespace, resources=_plain(resources))
        return PoolInfo.model_validate(self._json("PATCH", f"/v1/pools/{name}", body))

    def delete_pool(self, name: str, namespace: str = "default") -> None:
        """Removes a pool and what waits in it."""
        self._request("DELETE", f"/v1/pools/{name}", params={"namespace": namespace})

    # -- experiments ---------------------------------------------------------------------------------------------

    def create_managed_session(
        self,
        image: str,
        experiment_id: str,
        namespace: str = "default",
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
        tools: ToolsSpec | Mapping[str, Any] | None = None,
        workspace_dir: str = "/workspace",
        max_replicas: int | None = None,
    ) -> ManagedSessionInfo:
        """Claims a sandbox of an image for an experiment; its pool is made when it is first wanted."""
        body = _body(
            image=image,
            experimentId=experiment_id,
            namespace=namespace,
            resources=_plain(resources),
            tools=_plain(tools),
            workspaceDir=workspace_dir,
            maxReplicas=max_replicas,
        )
        return ManagedSessionInfo.model_validate(self._json("POST", "/v1/managed/sessions", body))

    def list_experiment_sessions(self, experiment_id: str) -> list[ManagedSessionInfo]:
        """The sessions of an experiment."""
        answer = self._json("GET", f"/v1/managed/experiments/{experiment_id}/sessions")
        sessions = answer.get("sessions", []) if isinstance(answer, dict) else answer
        return [ManagedSessionInfo.model_validate(one) for one in sessions or []]

    def delete_experiment(self, experiment_id: str) -> int:
        """Ends all sessions of an experiment; how many there were."""
        answer = self._json("DELETE", f"/v1/managed/experiments/{experiment_id}")
        return int(answer.get("deleted", 0))

    def health(self) -> bool:
        """Whether the gateway answers."""
        try:
            return self._http.get("/healthz").is_success
        except httpx.HTTPError:
            return False

    # -- the wire ------------------------------------------------------------------------------------------------

    def _json(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        options: dict[str, Any] = {} if body is None else {"json": body}
        answer = self._request(method, path, params=dict(params or {}), **options)
        return answer.json() if answer.content else None

    def _recovered(self, method: str, path: str, body: Any, timeout: float) -> Any:
        until = None
        pause = 0.05
        while True:
            try:
                return self._json(method, path, body)
            except GatewayError as error:
                # One that was never there is told at once; one that went away in the middle may come back.
                if not isinstance(error.__cause__, _BROKEN if until is None else (*_BROKEN, *_ABSENT)):
                    raise
                now = time.monotonic()
                until = until or now + timeout
                if now + pause > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TimeoutException as error:
            raise GatewayError(0, f"no answer in time from {self.base_url}", str(error), "infra") from error
        except httpx.HTTPError as error:
            raise GatewayError(0, f"cannot reach {self.base_url}", str(error), "infra") from error
        _check(answer)
        return answer

    def _stream(self, method: str, path: str, **options: Any) -> _Streaming:
        return _Streaming(self._http, self.base_url, method, path, options)


class _Streaming:
    """A request whose answer is read piece by piece."""

    def __init__(self, http: httpx.Client, url: str, method: str, path: str, options: dict[str, Any]) -> None:
        self._url = url
        self._context = http.stream(method, path, **options)

    def __enter__(self) -> httpx.Response:
        try:
            answer = self._context.__enter__()
        except httpx.HTTPError as error:
            raise GatewayError(0, f"cannot reach {self._url}", str(error), "infra") from error
        if not answer.is_success:
            answer.read()
            self._context.__exit__(None, None, None)
        _check(answer)
        return answer

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, value, trace)
        if isinstance(value, httpx.HTTPError):
            raise GatewayError(0, f"the answer from {self._url} broke off", str(value), "infra") from value


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        said = ErrorResponse.model_validate(answer.json())
    except ValueError:
        said = ErrorResponse(error=answer.text or answer.reason_phrase)
    raise GatewayError(answer.status_code, said.error, said.detail, said.kind)
