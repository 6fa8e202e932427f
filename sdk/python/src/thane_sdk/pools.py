"""Pools of warm sandboxes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from .client import DEFAULT_URL, GatewayClient
from .errors import GatewayError, PoolNotReadyError, PoolTimeoutError
from .types import PoolInfo, ResourceRequirements, ToolsSpec

_FAILING_POLLS = 2


class WarmPoolManager:
    """Makes, watches and removes pools of a namespace."""

    def __init__(
        self,
        namespace: str = "default",
        gateway_url: str = DEFAULT_URL,
        timeout: float = 300.0,
        *,
        api_key: str | None = None,
    ) -> None:
        self.namespace = namespace
        self.client = GatewayClient(gateway_url, timeout, api_key)

    def create_warmpool(
        self,
        name: str,
        image: str,
        replicas: int = 2,
        tools: ToolsSpec | Mapping[str, Any] | None = None,
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
        workspace_dir: str = "/workspace",
    ) -> None:
        """Makes a pool."""
        self.client.create_pool(name, self.namespace, image, replicas, tools, resources, workspace_dir)

    def get_warmpool(self, name: str) -> PoolInfo:
        """A pool."""
        return self.client.get_pool(name, self.namespace)

    def wait_for_ready(self, name: str, timeout: float = 300, poll_interval: float = 5, min_ready: int = 1) -> PoolInfo:
        """Waits until so many sandboxes are idle and ready.

        Says so early when pods keep failing, unless the reason is a rate limit, which passes. A gateway that cannot be
        reached is asked again until the time is up.
        """
        until = time.monotonic() + timeout
        failing = 0
        pause = min(0.05, poll_interval)
        while True:
            try:
                pool = self.get_warmpool(name)
            except GatewayError as error:
                if error.status_code != 0 or time.monotonic() + pause > until:
                    raise
            else:
                if pool.ready_replicas >= min_ready:
                    return pool
                failing = failing + 1 if _is_failing(pool) else 0
                if failing >= _FAILING_POLLS and pause >= poll_interval:
                    raise PoolNotReadyError(name, conditions=pool.conditions)
                if time.monotonic() + pause > until:
                    said = f"{pool.ready_replicas} of {min_ready} ready after {timeout:g} s"
                    raise PoolTimeoutError(name, said, pool.conditions)
            time.sleep(pause)
            # A pool here is ready in a moment; a pod on a far cluster takes a while.
            pause = min(pause * 2, poll_interval)

    def scale_warmpool(
        self,
        name: str,
        replicas: int,
        resources: ResourceRequirements | Mapping[str, Any] | None = None,
    ) -> PoolInfo:
        """Changes how many wait."""
        return self.client.scale_pool(name, replicas, self.namespace, resources)

    def delete_warmpool(self, name: str) -> None:
        """Removes a pool and what waits in it."""
        self.client.delete_pool(name, self.namespace)

    def close(self) -> None:
        """Lets go of the connection."""
        self.client.close()

    def __enter__(self) -> WarmPoolManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_failing(pool: PoolInfo) -> bool:
    said = [one for one in pool.conditions if one.type == "PodsFailing" and one.status == "True"]
    limits = ("rate limit", "qps exceeded", "toomanyrequests", "too many requests", "429")
    return any(not any(word in one.message.lower() for word in limits) for one in said)
