"""An interactive shell over a WebSocket."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .client import DEFAULT_URL
from .types import ShellMessage

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection


class InteractiveShellClient:
    """A shell in a sandbox. Needs the extra ``thane-sdk[shell]``."""

    def __init__(self, gateway_url: str = DEFAULT_URL, api_key: str | None = None) -> None:
        self.gateway_url = gateway_url.rstrip("/")
        self.api_key = api_key if api_key is not None else os.environ.get("THANE_API_KEY")
        self._socket: ClientConnection | None = None

    def connect(self, session_id: str) -> None:
        """Opens a shell in a session's sandbox."""
        try:
            from websockets.sync.client import connect
        except ImportError as error:
            raise ImportError("interactive shells need websockets: pip install 'thane-sdk[shell]'") from error
        url = self.gateway_url.replace("http", "ws", 1) + f"/v1/sessions/{session_id}/shell"
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else None
        self._socket = connect(url, additional_headers=headers)

    def is_open(self) -> bool:
        """Whether there is a shell."""
        return self._socket is not None

    def _send(self, message: ShellMessage) -> None:
        if self._socket is None:
            raise RuntimeError("there is no shell: call connect() first")
        self._socket.send(message.model_dump_json(exclude_defaults=True))

    def send_input(self, data: str) -> None:
        """Types something."""
        self._send(ShellMessage(type="input", data=data))

    def send_signal(self, sig: str = "SIGINT") -> None:
        """Sends a signal."""
        self._send(ShellMessage(type="signal", signal=sig))

    def send_resize(self, cols: int, rows: int) -> None:
        """Tells the size of the terminal."""
        self._send(ShellMessage(type="resize", cols=cols, rows=rows))

    def read_message(self, timeout: float | None = 1.0) -> ShellMessage | None:
        """The next thing it says; none when the time is up or the shell has ended. Without a timeout it waits."""
        if self._socket is None:
            return None
        from websockets.exceptions import ConnectionClosed

        try:
            text = self._socket.recv(timeout)
        except TimeoutError:
            return None
        except ConnectionClosed:
            self.close()
            return None
        return ShellMessage.model_validate_json(text)

    def read_output(self, timeout: float | None = 1.0) -> str:
        """What it prints next; nothing when the time is up or the shell has ended."""
        message = self.read_message(timeout)
        if message is None:
            return ""
        if message.type in ("exit", "error"):
            self.close()
        return message.data if message.type == "output" else ""

    def close(self) -> None:
        """Ends the shell."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> InteractiveShellClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create_websocket_proxy(
    gateway_url: str, session_id: str, on_error: Callable[[str], None], api_key: str | None = None
) -> InteractiveShellClient:
    """A shell that is connected; ``on_error`` hears why if it cannot be, before the error is raised."""
    shell = InteractiveShellClient(gateway_url, api_key)
    try:
        shell.connect(session_id)
    except Exception as error:
        on_error(str(error))
        raise
    return shell
