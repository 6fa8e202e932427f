"""One run of an agent: begin or resume, tell the outcome, and end with a code that says whether trying again helps."""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, TypedDict

from langgraph.graph import StateGraph

from .checkpoints import checkpoints
from .errors import Failure, Refusal
from .settings import Settings, read
from .store import Store
from .web import Web


def joined(one: list[Any], other: list[Any]) -> list[Any]:
    return [*one, *other]


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**one, **other}


class State(TypedDict, total=False):
    """What is in a checkpoint: small, since contents are in the bucket."""

    targets: list[str]
    pages: Annotated[list[dict[str, Any]], joined]
    answers: Annotated[list[dict[str, Any]], joined]
    artifacts: Annotated[dict[str, str], merged]
    evidence: dict[str, float | None]
    confidence: float
    findings: list[str]


class Node(Protocol):
    """One step of a graph, in a checkpoint when it is done."""

    def __call__(self, state: State) -> State: ...


@dataclass(frozen=True)
class Context:
    """What the nodes of a graph work with."""

    settings: Settings
    store: Store
    web: Web
    log: Callable[[str], None]


Build = Callable[[Context], "StateGraph[State]"]


def begin(agent: str, settings: Settings, build: Build, fetches: bool, log: Callable[[str], None]) -> Mapping[str, Any]:
    """Runs a graph to its end, from its last checkpoint if it has one, and returns its state."""
    web = Web(settings.allowed, settings.graph.page_timeout, settings.graph.page_bytes)
    if fetches:
        admit(settings, web)
    store = Store(settings)
    store.check()
    with checkpoints(settings, agent) as saver:
        graph = build(Context(settings, store, web, log)).compile(checkpointer=saver)
        steps = 50 + 8 * len(settings.targets) * max(len(settings.graph.text_models), len(settings.graph.vision_models))
        config: Any = {"configurable": {"thread_id": settings.job_id}, "recursion_limit": steps}
        state = graph.get_state(config)
        if not state.values:
            log(f"begins with {len(settings.targets)} targets")
            graph.invoke({"targets": list(settings.targets)}, config, durability="sync")
        elif list(state.values.get("targets", [])) != list(settings.targets):
            raise Refusal(f"job {settings.job_id} has a checkpoint with other targets; another job needs another JOB_ID")
        elif state.next:
            log(f"resumes at {', '.join(state.next)}")
            graph.invoke(None, config, durability="sync")
        else:
            log("had finished already")
        return dict(graph.get_state(config).values)


def admit(settings: Settings, web: Web) -> None:
    """Refuses the whole job if one of its targets must never be fetched, before anything is made."""
    for number, url in enumerate(settings.targets, start=1):
        try:
            web.admit(url)
        except Refusal as refusal:
            raise Refusal(f"target {number} ({url[:200]}): {refusal}") from None


def publish(agent: str, output: Path, state: Mapping[str, Any]) -> None:
    """Leaves what the workflow passes on, one value in each file."""
    insight = {
        "agent": agent,
        "confidence": state["confidence"],
        "evidence": state["evidence"],
        "findings": [finding[:300] for finding in state.get("findings", [])[:20]],
    }
    values = {
        "confidence": f"{state['confidence']:.4f}",
        "insights": json.dumps(insight, ensure_ascii=False),
        "artifacts": json.dumps(state.get("artifacts", {})),
    }
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            (output / name).write_text(value, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"OUTPUT_DIR {output}: {error.strerror}") from None


def main(agent: str, build: Build, fetches: bool = True) -> NoReturn:
    """The edge: everything expected ends in one line and a code; 1 may pass, 2 does not."""
    job = os.environ.get("JOB_ID", "?")[:128]

    def log(text: str) -> None:
        print(f"{agent} {job}: {text}", flush=True)

    # the first process of a container must say itself that it ends; what is done is in a checkpoint
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    try:
        settings = read(os.environ)
        state = begin(agent, settings, build, fetches, log)
        publish(agent, settings.output, state)
        log(f"confidence {state['confidence']:.4f} from {json.dumps(state['evidence'])}")
    except Failure as failure:
        tell(f"{agent} {job}: {failure}")
        sys.exit(failure.exit_code)
    sys.exit(0)


def tell(message: str) -> None:
    """Says why a run failed where people look: the log, and the status of the pod."""
    print(message, file=sys.stderr, flush=True)
    path = os.environ.get("TERMINATION_LOG", "/dev/termination-log")
    try:
        if os.path.exists(path):
            Path(path).write_text(message[:4096], encoding="utf-8")
    except OSError:
        pass
