"""What a gateway is asked and what it answers.

Names are Python's; on the wire they are the gateway's, which spells envelopes in camel case and results in snake case.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Wire(BaseModel):
    """Takes both spellings, passes over what it does not know and what is null."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _said(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data

    def wire(self) -> dict[str, Any]:
        """As it is sent: the gateway's names, nothing that was not said."""
        return self.model_dump(by_alias=True, exclude_none=True)


class StepRequest(_Wire):
    """A command to run."""

    name: str = ""
    command: list[str]
    env: dict[str, str] | None = None
    work_dir: str | None = Field(default=None, alias="workDir")
    timeout: int | None = Field(default=None, alias="timeoutSeconds")
    background: bool | None = None


class StepOutput(_Wire):
    """What a command said and how it ended."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class StepError(_Wire):
    """Why a command did not end by itself: ``user``, ``timeout``, ``oom`` or ``infra``."""

    kind: str
    message: str = ""


class StepResult(_Wire):
    """A step that ended."""

    index: int
    name: str = ""
    output: StepOutput = Field(default_factory=StepOutput)
    snapshot_id: str | None = None
    duration_ms: int = 0
    timestamp: datetime | None = None
    input: Any = None
    error: StepError | None = None
    parent: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with 0."""
        return self.error is None and self.output.exit_code == 0


class ExecuteResponse(_Wire):
    """The results of a request, in order."""

    session_id: str = Field(alias="sessionID")
    results: list[StepResult] = Field(default_factory=list)
    total_duration_ms: int = Field(default=0, alias="totalDurationMs")


class StepEvent(_Wire):
    """Something that happened while steps ran."""

    kind: Literal["stdout", "stderr", "result", "ping"]
    index: int = 0
    data: bytes = b""
    result: StepResult | None = None

    @property
    def text(self) -> str:
        """The output as text; bytes that are none become the replacement character."""
        return self.data.decode("utf-8", errors="replace")


class SessionInfo(_Wire):
    """A session."""

    id: str
    sandbox_name: str = Field(default="", alias="sandboxName")
    namespace: str = "default"
    pool_ref: str = Field(default="", alias="poolRef")
    pod_ip: str = Field(default="", alias="podIP")
    pod_name: str = Field(default="", alias="podName")
    created_at: datetime | None = Field(default=None, alias="createdAt")


class ManagedSessionInfo(SessionInfo):
    """A session of an experiment."""

    experiment_id: str = Field(default="", alias="experimentId")
    managed: bool = True


class SessionPage(_Wire):
    """Some of the sessions there are, and where the next ones begin."""

    sessions: list[SessionInfo] = Field(default_factory=list)
    next_cursor: str | None = None


class PoolCondition(_Wire):
    """What a pool says about itself."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PoolInfo(_Wire):
    """A pool."""

    name: str
    namespace: str = "default"
    replicas: int = 0
    ready_replicas: int = Field(default=0, alias="readyReplicas")
    allocated_replicas: int = Field(default=0, alias="allocatedReplicas")
    conditions: list[PoolCondition] = Field(default_factory=list)


class TrajectoryEntry(_Wire):
    """A step as it is exported."""

    session_id: str
    step: int
    action: dict[str, Any] = Field(default_factory=dict)
    observation: dict[str, Any] = Field(default_factory=dict)
    snapshot_id: str | None = None
    timestamp: datetime | None = None
    parent: int | None = None


class ErrorResponse(_Wire):
    """An error as the gateway says it."""

    error: str
    kind: str | None = None
    detail: str = ""


class ResourceRequirements(_Wire):
    """What a sandbox is given, in Kubernetes' quantities."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class ToolsImageSource(_Wire):
    """An image with tools."""

    image: str


class ToolsConfigMapSource(_Wire):
    """A ConfigMap with tools."""

    name: str


class InlineToolSpec(_Wire):
    """A tool said in the pool itself."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    runtime: Literal["bash", "python", "binary"] = "bash"
    entrypoint: str
    timeout: str | None = None
    files: dict[str, str] = Field(default_factory=dict)


class ToolsSpec(_Wire):
    """Programs that agents find in a sandbox."""

    images: list[ToolsImageSource] | None = None
    config_maps: list[ToolsConfigMapSource] | None = Field(default=None, alias="configMaps")
    inline: list[InlineToolSpec] | None = None


class ToolManifest(_Wire):
    """A tool that is there."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    runtime: str = ""
    entrypoint: str = ""
    timeout: str = ""
    directory: str = ""


class ToolsRegistry(_Wire):
    """All tools of a sandbox."""

    tools: list[ToolManifest] = Field(default_factory=list)


class ToolResult(_Wire):
    """What a tool answered."""

    raw_output: str = ""
    parsed: dict[str, Any] = Field(default_factory=dict)
    exit_code: int = 0
    stderr: str = ""


class ShellMessage(_Wire):
    """Something said in an interactive shell."""

    type: Literal["input", "output", "signal", "resize", "exit", "error"]
    data: str = ""
    signal: str = ""
    rows: int = 0
    cols: int = 0
    exit_code: int = 0
