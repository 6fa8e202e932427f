"""What the targets say, put together by text models from the other agents' artifacts: report.md."""

from typing import Any

from langgraph.graph import END, START, StateGraph

from .confidence import agreement, confidence, grounding, mean, share
from .errors import Failure, Refusal
from .markup import reading
from .models import Models
from .report import document
from .run import Context, State, main
from .store import Missing

PAGE_LIMIT = 6000
SUMMARY = "Summarise this page in at most five sentences.\n<page>\n{page}\n</page>"
CONCLUSION = (
    "These are summaries of pages of one job. State what they have in common and the main findings, in at most ten sentences."
    "\n<page>\n{pages}\n</page>"
)


def digests(raw: Any, structures: Any, analysis: Any) -> list[dict[str, str]]:
    """For each page that was fetched: what it says, how it is built, and what it looks like, within bounds."""
    try:
        built = {page["url"]: page for page in structures["pages"] if "outline" in page}
        seen: dict[str, list[str]] = {}
        files = {page["file"]: page["url"] for page in analysis["pages"] if page["error"] is None}
        for entry in analysis["descriptions"]:
            if entry["text"]:
                seen.setdefault(files[entry["file"]], []).append(entry["text"])
        found = []
        for page in raw["pages"]:
            if "html" not in page:
                continue
            structure = built.get(page["url"], {})
            headings = "; ".join(heading["text"] for heading in structure.get("headings", [])[:40])
            found.append(
                {
                    "url": page["url"],
                    "title": page["title"] or structure.get("title", ""),
                    "text": reading(page["html"], PAGE_LIMIT).text,
                    "headings": headings[:1000],
                    "picture": "\n".join(seen.get(page["url"], []))[:2000],
                }
            )
    except (LookupError, TypeError, AttributeError) as error:
        raise Refusal(f"the artifacts of the other agents are not as they should be: {type(error).__name__} {error}") from None
    if not found:
        raise Refusal("raw_html.json has no page that could be read")
    return found


def shown(digest: dict[str, str]) -> str:
    return f"{digest['url']}\n{digest['title']}\nHeadings: {digest['headings']}\nLooks like: {digest['picture']}\n{digest['text']}"


def build(context: Context) -> "StateGraph[State]":
    store, models, names = context.store, Models(context.settings), context.settings.graph.text_models

    def collect(state: State) -> State:
        context.log("collect the artifacts of scraper, screenshot and dom")
        raw, structures, analysis = (store.get_json(name) for name in ("raw_html.json", "dom_structures.json", "screenshots/analysis.json"))
        found = digests(raw, structures, analysis)
        store.put_json("parts/synthesis/digests.json", found)
        return {"pages": [{"url": digest["url"], "title": digest["title"]} for digest in found]}

    def ask(state: State, question: str, model: str, about: str) -> State:
        number = len(state.get("answers", [])) + 1
        context.log(f"ask {number} of {(len(state['pages']) + 1) * len(names)}: {model} about {about}")
        try:
            answer = {"about": about, "model": model, "text": models.ask(model, question), "error": None}
        except Failure as failure:
            others = [entry for entry in state.get("answers", []) if entry["about"] == about and entry["text"]]
            if model == names[-1] and not others:
                raise
            answer = {"about": about, "model": model, "text": "", "error": str(failure)}
        return {"answers": [answer]}

    def summarise(state: State) -> State:
        page, model = divmod(len(state.get("answers", [])), len(names))
        digest = store.get_json("parts/synthesis/digests.json")[page]
        return ask(state, SUMMARY.format(page=shown(digest)), names[model], digest["url"])

    def conclude(state: State) -> State:
        model = len(state["answers"]) - len(state["pages"]) * len(names)
        summaries = "\n\n".join(
            f"{entry['about']}: {entry['text']}" for entry in state["answers"] if entry["text"] and entry["about"] != "all"
        )
        return ask(state, CONCLUSION.format(pages=summaries[:60_000]), names[model], "all")

    def next_after(state: State) -> str:
        answers, pages = len(state.get("answers", [])), len(state["pages"])
        return "summarise" if answers < pages * len(names) else "conclude" if answers < (pages + 1) * len(names) else "judge"

    def judge(state: State) -> State:
        sources = [shown(digest) for digest in store.get_json("parts/synthesis/digests.json")]
        said = [entry for entry in state["answers"] if entry["text"]]
        if not said:
            raise Refusal("no model said anything about any page")
        topics = [[entry["text"] for entry in said if entry["about"] == about] for about in {entry["about"] for entry in said}]
        evidence: dict[str, float | None] = {
            "covered": share(len(state["pages"]), len(state["targets"])),
            "answered": share(len(said), len(state["answers"])),
            "agreement": mean([value for texts in topics if (value := agreement(texts)) is not None]),
            "grounding": mean([grounding(entry["text"], sources) for entry in said]),
        }
        findings = [entry["text"] for entry in said if entry["about"] == "all"]
        return {"evidence": evidence, "confidence": confidence(evidence), "findings": findings}

    def write(state: State) -> State:
        text = document(
            context.settings.job_id, state["pages"], state["answers"], state["evidence"], state["confidence"], addresses(context)
        )
        return {"artifacts": {"report": store.put("report.md", text.encode(), "text/markdown; charset=utf-8")}}

    graph = StateGraph(State)
    for name, node in (("collect", collect), ("summarise", summarise), ("conclude", conclude), ("judge", judge), ("write", write)):
        graph.add_node(name, node)
    graph.add_edge(START, "collect")
    graph.add_edge("collect", "summarise")
    graph.add_conditional_edges("summarise", next_after, ["summarise", "conclude"])
    graph.add_conditional_edges("conclude", next_after, ["conclude", "judge"])
    graph.add_edge("judge", "write")
    graph.add_edge("write", END)
    return graph


def addresses(context: Context) -> list[str]:
    """The job's artifacts, without what was kept only on the way."""
    try:
        return [context.store.address(name) for name in sorted(context.store.names()) if not name.startswith("parts/")]
    except Missing:
        return []


if __name__ == "__main__":
    main("synthesis", build, fetches=False)
