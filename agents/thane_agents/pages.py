"""What the agents that read targets have in common: one target for each step, so that each is in a checkpoint of its own."""

from collections.abc import Callable
from typing import Any

from .errors import PageFailure, Refusal
from .run import Context, Node, State

Page = dict[str, Any]


def each_target(context: Context, verb: str, work: Callable[[int, str], Page]) -> Node:
    """A node that does the next target. What is the target's fault is written down; what is a service's ends the run."""

    def node(state: State) -> State:
        index = len(state.get("pages", []))
        url = state["targets"][index]
        context.log(f"{verb} {index + 1} of {len(state['targets'])}: {url}")
        try:
            page = {"url": url, "error": None, **work(index, url)}
        except PageFailure as failure:
            context.log(f"{verb} {index + 1} failed: {failure}")
            page = {"url": url, "error": str(failure)}
        return {"pages": [page]}

    return node


def targets_left(state: State) -> bool:
    return len(state.get("pages", [])) < len(state["targets"])


def readable(state: State) -> list[Page]:
    """The pages that could be read; it is an error if none could."""
    pages = [page for page in state["pages"] if page["error"] is None]
    if not pages:
        raise Refusal(f"none of the {len(state['pages'])} targets could be read; the first: {state['pages'][0]['error']}")
    return pages


def part(agent: str, index: int) -> str:
    """Where one target's result waits until all are there."""
    return f"parts/{agent}/{index:03}.json"
