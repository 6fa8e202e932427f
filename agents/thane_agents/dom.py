"""The structure of the targets as a browser builds it: dom_structures.json."""

from importlib.resources import files
from typing import Any

from langgraph.graph import END, START, StateGraph

from .browser import Browser
from .confidence import confidence, share
from .errors import PageFailure
from .pages import Page, each_target, part, readable, targets_left
from .run import Context, State, main


def structured(structure: dict[str, Any]) -> bool:
    """Whether a page says what it is and has something in it."""
    return bool(structure["title"] or structure["headings"]) and structure["elements"] > 5


def build(context: Context) -> "StateGraph[State]":
    browser = Browser(context.settings, context.web)
    script = files("thane_agents").joinpath("outline.js").read_text(encoding="utf-8")

    def work(index: int, url: str) -> Page:
        answer, structure = browser.visit(url, lambda page: (page.evaluate(script), page.refused[:20]))
        outline, refused = structure
        if not isinstance(outline, dict):
            raise PageFailure(f"{url}: has no document")
        context.store.put_json(part("dom", index), {"url": url, "final_url": answer.url, **outline, "requests_refused": refused})
        return {"elements": outline["elements"], "structured": structured(outline), "whole": not outline["cut"], "title": outline["title"]}

    def assemble(state: State) -> State:
        readable(state)
        pages = [
            context.store.get_json(part("dom", index)) if page["error"] is None else {"url": page["url"], "error": page["error"]}
            for index, page in enumerate(state["pages"])
        ]
        address = context.store.put_json("dom_structures.json", {"job_id": context.settings.job_id, "pages": pages})
        return {"artifacts": {"dom_structures": address}}

    def judge(state: State) -> State:
        pages = readable(state)
        evidence: dict[str, float | None] = {
            "inspected": share(len(pages), len(state["targets"])),
            "structured": share(sum(page["structured"] for page in pages), len(pages)),
            "whole": share(sum(page["whole"] for page in pages), len(pages)),
        }
        findings = [f"{page['url']}: {page['title'] or 'no title'}, {page['elements']} elements" for page in pages]
        failures = [str(page["error"]) for page in state["pages"] if page["error"] is not None]
        return {"evidence": evidence, "confidence": confidence(evidence), "findings": findings + failures}

    graph = StateGraph(State)
    graph.add_node("inspect", each_target(context, "inspect", work))
    graph.add_node("assemble", assemble)
    graph.add_node("judge", judge)
    graph.add_edge(START, "inspect")
    graph.add_conditional_edges("inspect", lambda state: "inspect" if targets_left(state) else "assemble", ["inspect", "assemble"])
    graph.add_edge("assemble", "judge")
    graph.add_edge("judge", END)
    return graph


if __name__ == "__main__":
    main("dom", build)
