"""Pictures of the targets, each described by vision models: screenshots/*.png."""

import re
from urllib.parse import urlsplit

from langgraph.graph import END, START, StateGraph

from .browser import Browser
from .confidence import agreement, confidence, mean, share
from .errors import Failure, Refusal
from .models import Models
from .pages import Page, each_target, readable, targets_left
from .run import Context, State, main

QUESTION = "What does this screenshot of a web page show? Name its purpose, its main parts and anything broken or unusual."


def file_name(index: int, url: str) -> str:
    host = re.sub(r"[^A-Za-z0-9.-]+", "_", urlsplit(url).hostname or "page")[:80]
    return f"screenshots/{index:03}-{host}.png"


def questions(state: State, models: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every picture for every model, in the order they are asked."""
    return [(page["file"], model) for page in readable(state) for model in models]


def build(context: Context) -> "StateGraph[State]":
    browser, models = Browser(context.settings, context.web), Models(context.settings)
    names = context.settings.graph.vision_models

    def work(index: int, url: str) -> Page:
        answer, picture = browser.visit(url, lambda page: page.screenshot())
        name = file_name(index, url)
        return {"file": name, "address": context.store.put(name, picture, "image/png"), "final_url": answer.url, "bytes": len(picture)}

    def describe(state: State) -> State:
        asked = questions(state, names)
        file, model = asked[len(state.get("answers", []))]
        context.log(f"describe {len(state.get('answers', [])) + 1} of {len(asked)}: {file} by {model}")
        try:
            answer = {"file": file, "model": model, "text": models.ask(model, QUESTION, context.store.get(file)), "error": None}
        except Failure as failure:
            # one model may be missing, as long as another sees the picture
            others = [entry for entry in state.get("answers", []) if entry["file"] == file and entry["text"]]
            if model == names[-1] and not others:
                raise
            answer = {"file": file, "model": model, "text": "", "error": str(failure)}
        return {"answers": [answer]}

    def next_after(state: State) -> str:
        return "describe" if len(state.get("answers", [])) < len(questions(state, names)) else "assemble"

    def assemble(state: State) -> State:
        analysis = {"job_id": context.settings.job_id, "pages": state["pages"], "descriptions": state["answers"]}
        address = context.store.put_json("screenshots/analysis.json", analysis)
        pictures = {f"screenshot_{index:03}": page["address"] for index, page in enumerate(state["pages"]) if page["error"] is None}
        return {"artifacts": {**pictures, "screenshot_analysis": address}}

    def judge(state: State) -> State:
        pages = readable(state)
        said = {
            page["file"]: [entry["text"] for entry in state["answers"] if entry["file"] == page["file"] and entry["text"]] for page in pages
        }
        if not any(said.values()):
            raise Refusal("no model said anything about any picture")
        agreed = [value for texts in said.values() if (value := agreement(texts)) is not None]
        evidence: dict[str, float | None] = {
            "captured": share(len(pages), len(state["targets"])),
            "described": share(sum(len(texts) for texts in said.values()), len(pages) * len(names)),
            "agreement": mean(agreed),
        }
        findings = [f"{page['url']}: {texts[0]}" for page in pages if (texts := said[page["file"]])]
        failures = [str(page["error"]) for page in state["pages"] if page["error"] is not None]
        return {"evidence": evidence, "confidence": confidence(evidence), "findings": findings + failures}

    graph = StateGraph(State)
    graph.add_node("capture", each_target(context, "capture", work))
    graph.add_node("describe", describe)
    graph.add_node("assemble", assemble)
    graph.add_node("judge", judge)
    graph.add_edge(START, "capture")
    graph.add_conditional_edges("capture", lambda state: "capture" if targets_left(state) else "describe", ["capture", "describe"])
    graph.add_conditional_edges("describe", next_after, ["describe", "assemble"])
    graph.add_edge("assemble", "judge")
    graph.add_edge("judge", END)
    return graph


if __name__ == "__main__":
    main("screenshot", build)
