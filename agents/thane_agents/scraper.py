"""Fetches the targets as they are: raw_html.json."""

import hashlib
import time
from dataclasses import replace

from langgraph.graph import END, START, StateGraph

from .confidence import confidence, share
from .errors import PageFailure
from .markup import reading
from .pages import Page, each_target, part, readable, targets_left
from .run import Context, State, main
from .web import Answer

# What all pages of a job come to at most: they are together in memory once.
TOTAL_BYTES = 64 << 20
TRANSIENT = (408, 429, 500, 502, 503, 504)


def fetched(context: Context, url: str, tries: int = 3, pause: float = 0.5) -> Answer:
    """Fetches a page, again where a failure may pass."""
    for attempt in range(tries):
        last = attempt == tries - 1
        try:
            answer = context.web.fetch(url)
        except PageFailure as failure:
            if last or not failure.transient:
                raise
        else:
            if answer.status < 400:
                return answer
            if last or answer.status not in TRANSIENT:
                raise PageFailure(f"{url}: {answer.status}")
        time.sleep(pause * 2**attempt)
    raise PageFailure(f"{url}: not tried")


def build(context: Context) -> "StateGraph[State]":
    limit = TOTAL_BYTES // len(context.settings.targets)

    def work(index: int, url: str) -> Page:
        answer = fetched(context, url)
        if len(answer.body) > limit:
            answer = replace(answer, body=answer.body[:limit], truncated=True)
        text = answer.text
        seen = reading(text)
        page = {
            "url": url,
            "final_url": answer.url,
            "status": answer.status,
            "content_type": answer.headers.get("content-type", ""),
            "fetched_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "sha256": hashlib.sha256(answer.body).hexdigest(),
            "truncated": answer.truncated,
            "title": seen.title,
            "html": text,
        }
        context.store.put_json(part("scraper", index), page)
        return {"title": seen.title, "characters": len(seen.text), "truncated": answer.truncated}

    def assemble(state: State) -> State:
        readable(state)
        pages = [
            context.store.get_json(part("scraper", index)) if page["error"] is None else {"url": page["url"], "error": page["error"]}
            for index, page in enumerate(state["pages"])
        ]
        return {"artifacts": {"raw_html": context.store.put_json("raw_html.json", {"job_id": context.settings.job_id, "pages": pages})}}

    def judge(state: State) -> State:
        pages = readable(state)
        with_text = [page for page in pages if page["characters"] >= context.settings.graph.min_text]
        evidence: dict[str, float | None] = {
            "fetched": share(len(pages), len(state["targets"])),
            "with_text": share(len(with_text), len(pages)),
            "whole": share(sum(not page["truncated"] for page in pages), len(pages)),
        }
        findings = [f"{page['url']}: {page['title'] or 'no title'}, {page['characters']} characters" for page in pages]
        failures = [str(page["error"]) for page in state["pages"] if page["error"] is not None]
        return {"evidence": evidence, "confidence": confidence(evidence), "findings": findings + failures}

    graph = StateGraph(State)
    graph.add_node("fetch", each_target(context, "fetch", work))
    graph.add_node("assemble", assemble)
    graph.add_node("judge", judge)
    graph.add_edge(START, "fetch")
    graph.add_conditional_edges("fetch", lambda state: "fetch" if targets_left(state) else "assemble", ["fetch", "assemble"])
    graph.add_edge("assemble", "judge")
    graph.add_edge("judge", END)
    return graph


if __name__ == "__main__":
    main("scraper", build)
