"""Bounds on calls of services: how often, how long in vain, and not twice for the same answer. No I/O but the given clock."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from .errors import Failure

Result = TypeVar("Result")
Clock = Callable[[], float]
Sleep = Callable[[float], None]


class Open(Failure):
    """A breaker is open: the service was not even asked."""


class Breaker:
    """Opens after some failures in a row; after a rest it lets one call through and closes if that succeeds."""

    def __init__(self, name: str, threshold: int = 4, rest: float = 30.0, clock: Clock = time.monotonic) -> None:
        self.name, self.threshold, self.rest, self.clock = name, threshold, rest, clock
        self.failures = 0
        self.opened_at: float | None = None
        self.last = ""

    @property
    def state(self) -> str:
        if self.opened_at is None:
            return "closed"
        return "half-open" if self.clock() - self.opened_at >= self.rest else "open"

    def call(self, action: Callable[[], Result], counts: tuple[type[Exception], ...] = (Failure,)) -> Result:
        """Runs the action unless open. Only exceptions of the given types count against the service."""
        if self.state == "open":
            raise Open(f"{self.name} is left alone for a while after {self.failures} failures in a row, the last: {self.last}")
        try:
            result = action()
        except counts as error:
            self.failures += 1
            self.last = str(error)
            if self.failures >= self.threshold or self.opened_at is not None:
                self.opened_at = self.clock()
            raise
        self.failures, self.opened_at = 0, None
        return result


class TokenBucket:
    """At most `rate` calls a second on average and `burst` at once."""

    def __init__(self, rate: float, burst: float, max_wait: float = 60.0, clock: Clock = time.monotonic, sleep: Sleep = time.sleep) -> None:
        self.rate, self.burst, self.max_wait, self.clock, self.sleep = rate, burst, max_wait, clock, sleep
        self.tokens, self.at = burst, clock()

    def take(self) -> float:
        """Waits for a token and takes it; says how long that took."""
        now = self.clock()
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        wait = max(0.0, (1.0 - self.tokens) / self.rate)
        if wait > self.max_wait:
            raise Failure(f"the limit of {self.rate:g} calls a second means a wait of {wait:.0f} s, more than {self.max_wait:.0f} s")
        self.tokens -= 1.0
        if wait > 0:
            self.sleep(wait)
        return wait


class Cache:
    """The answers to the last few questions, within a number and a size."""

    def __init__(self, entries: int = 256, size: int = 4 << 20) -> None:
        self.entries, self.size = entries, size
        self.held: OrderedDict[str, str] = OrderedDict()
        self.used = 0

    def get(self, key: str) -> str | None:
        if key in self.held:
            self.held.move_to_end(key)
        return self.held.get(key)

    def put(self, key: str, value: str) -> None:
        self.used += len(value) - len(self.held.pop(key, ""))
        self.held[key] = value
        while self.held and (len(self.held) > self.entries or self.used > self.size):
            _, dropped = self.held.popitem(last=False)
            self.used -= len(dropped)


def retried(
    action: Callable[[], Result],
    retries: int = 3,
    pause: float = 0.5,
    transient: Callable[[Exception], bool] = lambda error: type(error) is Failure,
    sleep: Sleep = time.sleep,
) -> Result:
    """Runs the action, and again after a failure that may pass, each pause twice as long as the one before."""
    for attempt in range(retries):
        try:
            return action()
        except Failure as error:
            if not transient(error):
                raise
        sleep(min(10.0, pause * 2**attempt))
    return action()
