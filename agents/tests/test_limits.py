"""Breaker, token bucket, cache and retries, on a clock of the test's own."""

import pytest

from thane_agents.errors import Failure, Refusal
from thane_agents.limits import Breaker, Cache, Open, TokenBucket, retried


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def fail() -> None:
    raise Failure("no answer")


def test_a_breaker_opens_rests_tries_once_and_closes() -> None:
    time = Time()
    breaker = Breaker("service", threshold=3, rest=10, clock=time.clock)
    for _ in range(3):
        with pytest.raises(Failure, match="no answer"):
            breaker.call(fail)
    assert breaker.state == "open"
    with pytest.raises(Open, match="service is left alone for a while after 3 failures in a row, the last: no answer"):
        breaker.call(lambda: pytest.fail("the service was asked"))
    time.now = 10
    assert breaker.state == "half-open"
    with pytest.raises(Failure, match="no answer"):
        breaker.call(fail)
    assert breaker.state == "open"
    time.now = 20
    assert breaker.call(lambda: "fine") == "fine"
    assert breaker.state == "closed"


def test_a_success_begins_the_count_anew_and_other_errors_do_not_count() -> None:
    breaker = Breaker("service", threshold=2)
    for _ in range(5):
        with pytest.raises(Failure):
            breaker.call(fail)
        breaker.call(lambda: None)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            breaker.call(lambda: 1 // 0)
    assert breaker.state == "closed"


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    time = Time()
    bucket = TokenBucket(2, 3, clock=time.clock, sleep=time.sleep)
    for _ in range(7):
        bucket.take()
    assert time.slept == [0.5, 0.5, 0.5, 0.5]
    time.now += 100
    for _ in range(3):
        assert bucket.take() == 0


def test_a_bucket_does_not_wait_for_ever() -> None:
    bucket = TokenBucket(0.001, 1, max_wait=5, clock=lambda: 0.0, sleep=lambda _: pytest.fail("waited"))
    bucket.take()
    with pytest.raises(Failure, match="more than 5 s"):
        bucket.take()


def test_a_cache_is_bounded_in_number_and_size() -> None:
    cache = Cache(entries=3, size=100)
    for name in "abcd":
        cache.put(name, name)
    assert [cache.get(name) for name in "abcd"] == [None, "b", "c", "d"]
    cache.get("b")
    cache.put("e", "e")
    assert cache.get("b") == "b" and cache.get("c") is None
    cache.put("large", "x" * 99)
    assert cache.get("large") and cache.used <= 100
    cache.put("too large", "x" * 101)
    assert not cache.held and cache.used == 0


@pytest.mark.parametrize(("failures", "calls", "pauses"), [(0, 1, []), (2, 3, [0.5, 1.0]), (3, 4, [0.5, 1.0, 2.0])])
def test_retries(failures: int, calls: int, pauses: list[float]) -> None:
    time, made = Time(), []

    def action() -> str:
        made.append(1)
        if len(made) <= failures:
            raise Failure("not yet")
        return "done"

    assert retried(action, sleep=time.sleep) == "done"
    assert len(made) == calls and time.slept == pauses


def test_retries_end_and_are_not_spent_on_what_will_not_change() -> None:
    for error, calls in ((Failure("down"), 4), (Refusal("wrong"), 1), (Open("open"), 1)):
        made = []

        def action(error: Failure = error, made: list[int] = made) -> None:
            made.append(1)
            raise error

        with pytest.raises(type(error)):
            retried(action, sleep=lambda _: None)
        assert len(made) == calls
