"""Warm, isolated sandboxes for AI agents.

A program written for ``arl`` runs with ``import thane_sdk as arl``.
"""

from .client import GatewayClient
from .errors import GatewayError, PoolNotReadyError, PoolTimeoutError
from .pools import WarmPoolManager
from .session import ManagedSession, SandboxSession
from .shell import InteractiveShellClient, create_websocket_proxy
from .types import (
    ErrorResponse,
    ExecuteResponse,
    InlineToolSpec,
    ManagedSessionInfo,
    PoolCondition,
    PoolInfo,
    ResourceRequirements,
    SessionInfo,
    SessionPage,
    ShellMessage,
    StepError,
    StepEvent,
    StepOutput,
    StepRequest,
    StepResult,
    ToolManifest,
    ToolResult,
    ToolsConfigMapSource,
    ToolsImageSource,
    ToolsRegistry,
    ToolsSpec,
    TrajectoryEntry,
)

__version__ = "0.1.0"

__all__ = [
    "ErrorResponse",
    "ExecuteResponse",
    "GatewayClient",
    "GatewayError",
    "InlineToolSpec",
    "InteractiveShellClient",
    "ManagedSession",
    "ManagedSessionInfo",
    "PoolCondition",
    "PoolInfo",
    "PoolNotReadyError",
    "PoolTimeoutError",
    "ResourceRequirements",
    "SandboxSession",
    "SessionInfo",
    "SessionPage",
    "ShellMessage",
    "StepError",
    "StepEvent",
    "StepOutput",
    "StepRequest",
    "StepResult",
    "ToolManifest",
    "ToolResult",
    "ToolsConfigMapSource",
    "ToolsImageSource",
    "ToolsRegistry",
    "ToolsSpec",
    "TrajectoryEntry",
    "WarmPoolManager",
    "__version__",
    "create_websocket_proxy",
]
