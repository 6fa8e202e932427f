"""The Chrome DevTools Protocol over one WebSocket, to Browserless or to a plain Chromium."""

import itertools
import json
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from .errors import Failure

MAX_MESSAGE = 64 << 20
Event = dict[str, Any]


class Late(Failure):
    """An answer did not come in time."""


def shown(url: str) -> str:
    """A URL without what only its owner should know."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}" if parts.port else f"{parts.scheme}://{parts.hostname}"


def with_token(url: str, token: str) -> str:
    """Browserless takes its token as `?token=`; one that is there stays."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    if token and not any(name == "token" for name, _ in query):
        query.append(("token", token))
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", urlencode(query), ""))


def endpoint(url: str, timeout: float) -> str:
    """The WebSocket of a browser: given as such, or asked for at a plain Chromium's debugging port."""
    parts = urlsplit(url)
    if parts.scheme in ("ws", "wss"):
        return url
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        # Chromium answers only to addresses, not to names
        address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)[0][4][0]
        host = f"[{address}]" if ":" in str(address) else address
        with httpx.Client(timeout=timeout, trust_env=False) as client:
            answer = client.get(f"{parts.scheme}://{host}:{port}/json/version").json()["webSocketDebuggerUrl"]
    except (OSError, httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise Failure(f"browser at {shown(url)}: {str(error) or type(error).__name__}") from None
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, f"{host}:{port}", urlsplit(str(answer)).path, "", ""))


class Connection:
    """Commands with their answers; events go to a handler while an answer is awaited."""

    def __init__(self, url: str, timeout: float) -> None:
        self.place = f"browser at {shown(url)}"
        try:
            self.socket = connect(
                endpoint(url, timeout), open_timeout=timeout, close_timeout=2, max_size=MAX_MESSAGE, compression=None, proxy=None
            )
        except (OSError, WebSocketException, TimeoutError) as error:
            raise Failure(f"{self.place}: {str(error) or type(error).__name__}") from None
        self.ids = itertools.count(1)
        self.handler: Callable[[Event], None] = lambda event: None

    def send(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None) -> int:
        message: dict[str, Any] = {"id": next(self.ids), "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        try:
            self.socket.send(json.dumps(message))
        except (OSError, WebSocketException) as error:
            raise Failure(f"{self.place}: {method}: {error}") from None
        return int(message["id"])

    def receive(self, deadline: float) -> Event | None:
        """The next message; none when the time is over."""
        try:
            text = self.socket.recv(timeout=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return None
        except (OSError, WebSocketException) as error:
            raise Failure(f"{self.place}: {error}") from None
        message = json.loads(text)
        return message if isinstance(message, dict) else {}

    def call(self, method: str, parameters: dict[str, Any] | None, session: str | None, deadline: float) -> Event:
        """Sends a command and handles events until its answer comes."""
        awaited = self.send(method, parameters, session)
        while (message := self.receive(deadline)) is not None:
            if message.get("id") == awaited:
                if "error" in message:
                    raise Failure(f"{self.place}: {method}: {message['error'].get('message')}")
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            if "method" in message:
                self.handler(message)
        raise Late(f"{self.place}: {method}: no answer in time")

    def pump(self, until: Callable[[], bool], deadline: float) -> bool:
        """Handles events until something is so; says whether it came to be."""
        while not until():
            message = self.receive(deadline)
            if message is None:
                return False
            if "method" in message:
                self.handler(message)
        return True

    def close(self) -> None:
        try:
            self.socket.close()
        except (OSError, WebSocketException):
            pass
