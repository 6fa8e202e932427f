"""Fetches of targets. Every connection, also of a redirect, goes to the very address that was checked."""

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpcore
import httpx

from .addresses import Address, Allowed, why_refused
from .errors import PageFailure, Refusal

REDIRECTS = 5
AGENT_NAME = "thane-agent/0.1"


def parse_target(url: str) -> httpx.URL:
    """Reads a URL that may be a target: http or https, with a host and without credentials."""
    if len(url) > 2048:
        raise Refusal("is longer than 2048 characters")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise Refusal(f"is no URL: {error}") from None
    if parsed.scheme not in ("http", "https"):
        raise Refusal(f"has scheme {parsed.scheme!r}; only http and https are fetched")
    if not parsed.host:
        raise Refusal("has no host")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise Refusal(f"has port {parsed.port}, which does not exist")
    if parsed.userinfo:
        raise Refusal("carries credentials")
    return parsed


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, as the system has them: also `0x7f.1` and `2130706433`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PageFailure(f"{host} does not resolve: {getattr(error, 'strerror', None) or error}") from None
    return [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def checked_addresses(host: str, port: int, allowed: tuple[Allowed, ...]) -> list[Address]:
    """The addresses of a host, all of which may be connected to; one that may not refuses them all."""
    addresses = resolve(host, port)
    for address in addresses:
        if reason := why_refused(address, port, allowed):
            raise Refusal(f"{host} is refused: {reason}")
    return addresses


class Deadline:
    """When the request that is being made must be done, however slowly its bytes come."""

    def __init__(self) -> None:
        self.at = 0.0

    def set(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def left(self, timeout: float | None) -> float:
        """How long the next read or write may take."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("took too long")
        return left if timeout is None else min(left, timeout)


class TimedStream(httpcore.NetworkStream):
    """A connection on which nothing lasts longer than the request it is for."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.inner, self.deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, self.deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, self.deadline.left(timeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return TimedStream(self.inner.start_tls(ssl_context, server_hostname, self.deadline.left(timeout)), self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class GuardedBackend(httpcore.SyncBackend):
    """Resolves once, checks, and connects to what was checked: a name that changes its mind in between gains nothing."""

    def __init__(self, allowed: tuple[Allowed, ...], deadline: Deadline) -> None:
        self.allowed, self.deadline = allowed, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        error: Exception | None = None
        for address in checked_addresses(host, port, self.allowed)[:4]:
            try:
                stream = super().connect_tcp(str(address), port, self.deadline.left(timeout), local_address, socket_options)
                return TimedStream(stream, self.deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.NetworkStream:
        raise Refusal("a target is no socket of this machine")


class Body(httpx.SyncByteStream):
    """The bytes of an answer."""

    def __init__(self, response: httpcore.Response) -> None:
        self.response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self.response.iter_stream()

    def close(self) -> None:
        self.response.close()


class GuardedTransport(httpx.BaseTransport):
    """Sends requests through the guarded backend."""

    def __init__(self, allowed: tuple[Allowed, ...], deadline: Deadline) -> None:
        self.pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=10,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(allowed, deadline),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path)
        response = self.pool.handle_request(
            httpcore.Request(request.method, url, headers=request.headers.raw, content=request.read(), extensions=request.extensions)
        )
        return httpx.Response(response.status, headers=response.headers, stream=Body(response))

    def close(self) -> None:
        self.pool.close()


@dataclass(frozen=True)
class Answer:
    """What a target sent."""

    url: str
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    truncated: bool
    encoding: str

    @property
    def text(self) -> str:
        return self.body.decode(self.encoding, errors="replace")


class Web:
    """Fetches pages, within a time and a size."""

    def __init__(self, allowed: tuple[Allowed, ...], timeout: float, max_bytes: int) -> None:
        self.allowed, self.timeout, self.max_bytes = allowed, timeout, max_bytes
        self.deadline = Deadline()
        self.client = httpx.Client(
            transport=GuardedTransport(allowed, self.deadline),
            timeout=timeout,
            trust_env=False,
            headers={"user-agent": AGENT_NAME},
        )

    def admit(self, url: str) -> None:
        """Refuses a target that must never be fetched. One that does not resolve now may do so later."""
        parsed = parse_target(url)
        try:
            checked_addresses(parsed.host, port_of(parsed), self.allowed)
        except PageFailure:
            return

    def once(self, url: str, method: str = "GET", headers: dict[str, str] | None = None, within: float | None = None) -> Answer:
        """One request and its answer, be it a redirect."""
        self.deadline.set(self.timeout if within is None else min(within, self.timeout))
        try:
            parse_target(url)
            with self.client.stream(method, url, headers=headers) as response:
                body, truncated = self.read(response)
                return Answer(
                    url=str(response.url),
                    status=response.status_code,
                    headers=dict(response.headers),
                    body=body,
                    truncated=truncated,
                    encoding=usable(response.charset_encoding),
                )
        except Refusal as refusal:
            raise PageFailure(f"{url}: {refusal}") from None
        except (httpx.HTTPError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise PageFailure(f"{url}: {str(error) or type(error).__name__}", transient=True) from None

    def read(self, response: httpx.Response) -> tuple[bytes, bool]:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > self.max_bytes:
                return bytes(body[: self.max_bytes]), True
        return bytes(body), False

    def fetch(self, url: str) -> Answer:
        """Follows redirects, each checked as the first address was."""
        for _ in range(REDIRECTS + 1):
            answer = self.once(url)
            location = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            try:
                url = str(httpx.URL(answer.url).join(location))
            except (httpx.InvalidURL, ValueError) as error:
                raise PageFailure(f"{answer.url}: redirects to no URL: {error}") from None
        raise PageFailure(f"{url}: more than {REDIRECTS} redirects")

    def close(self) -> None:
        self.client.close()


def usable(encoding: str | None) -> str:
    """A character encoding that Python knows."""
    try:
        b"".decode(encoding or "utf-8")
    except (LookupError, ValueError):
        return "utf-8"
    return encoding or "utf-8"
