"""Server-sent events, as far as the gateway uses them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from .types import StepEvent, StepResult


def lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines of a stream. Only a newline ends one: text in JSON may hold all other characters that could."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.removesuffix(b"\r").decode("utf-8", "replace")


def parse(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names and data of the events in a stream of lines."""
    name = "message"
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
        elif line.startswith(":"):
            continue
        else:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)


def step_event(name: str, data: str) -> StepEvent | None:
    """What an event means; none for those of later versions."""
    body: dict[str, Any] = json.loads(data) if data else {}
    if name in ("stdout", "stderr"):
        text = body.get("data", "")
        binary = body.get("encoding") == "base64"
        content = base64.b64decode(text) if binary else text.encode()
        return StepEvent(kind=name, index=body.get("index", 0), data=content)
    if name == "result":
        result = StepResult.model_validate(body)
        return StepEvent(kind="result", index=result.index, result=result)
    if name == "ping":
        return StepEvent(kind="ping")
    return None
