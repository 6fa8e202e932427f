"""What can go wrong."""

from __future__ import annotations

from .types import PoolCondition


class GatewayError(Exception):
    """The gateway said no, or could not be reached (``status_code`` 0).

    ``kind`` tells whose fault it is: ``user``, ``timeout``, ``oom`` or ``infra``. Only ``infra`` is worth another try.
    """

    def __init__(self, status_code: int, error: str, detail: str = "", kind: str | None = None) -> None:
        self.status_code = status_code
        self.error = error
        self.detail = detail
        self.kind = kind or ("infra" if status_code == 0 or status_code >= 500 else "user")
        super().__init__(f"{status_code}: {error}" + (f" ({detail})" if detail else ""))

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind == "infra" and self.status_code != 410


class PoolNotReadyError(Exception):
    """A pool did not become ready, with what it says about itself."""

    def __init__(self, pool_name: str, message: str = "", conditions: list[PoolCondition] | None = None) -> None:
        self.pool_name = pool_name
        self.message = message
        self.conditions = conditions or []
        said = [message] if message else []
        said += [f"{one.type}={one.status} {one.reason}: {one.message}" for one in self.conditions]
        super().__init__(f"pool {pool_name!r} is not ready" + (f": {'; '.join(said)}" if said else ""))


class PoolTimeoutError(PoolNotReadyError, TimeoutError):
    """The time was up before a pool was ready."""
