"""The report as people read it, and, as a step of its own, the check that a job left all it should have."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Failure, Refusal
from .run import tell
from .settings import read
from .store import Store

EXPECTED = ("raw_html.json", "dom_structures.json", "report.md")


def quoted(text: str) -> str:
    """Words of a model or a page as a quotation, so that they cannot pass for the report's own."""
    return "\n".join(f"> {line}" for line in text.replace("<", "&lt;").splitlines() if line.strip())


def plain(text: str) -> str:
    """One line without Markdown of its own."""
    return " ".join(text.replace("`", "'").replace("[", "(").replace("]", ")").replace("<", "&lt;").split())


def document(
    job_id: str,
    pages: Sequence[Mapping[str, Any]],
    answers: Sequence[Mapping[str, Any]],
    evidence: Mapping[str, float | None],
    confidence: float,
    artifacts: Sequence[str],
) -> str:
    """Markdown: conclusions, then every page, then what the confidence rests on."""
    lines = [f"# Report of job {job_id}", "", f"Confidence {confidence:.4f}", "", "## Findings", ""]
    for answer in answers:
        if answer["about"] == "all" and answer["text"]:
            lines += [f"{plain(answer['model'])}:", "", quoted(answer["text"]), ""]
    lines += ["## Pages", ""]
    for page in pages:
        lines += [f"### {plain(page['title'] or page['url'])}", "", f"`{plain(page['url'])}`", ""]
        for answer in answers:
            if answer["about"] == page["url"] and answer["text"]:
                lines += [f"{plain(answer['model'])}:", "", quoted(answer["text"]), ""]
    lines += ["## Evidence", "", "| what | share |", "|---|---|"]
    lines += [f"| {name} | {'not measured' if value is None else f'{value:.4f}'} |" for name, value in evidence.items()]
    lines += ["", "## Artifacts", "", *(f"- `{address}`" for address in artifacts), ""]
    return "\n".join(lines)


def check(names: Mapping[str, int]) -> None:
    """Names what a job should have left and has not."""
    missing = [name for name in EXPECTED if not names.get(name)]
    if not any(name.startswith("screenshots/") and name.endswith(".png") and size for name, size in names.items()):
        missing.append("screenshots/*.png")
    if missing:
        raise Refusal(f"artifacts are missing: {', '.join(missing)}")


def main() -> int:
    """Checks the artifacts and leaves their addresses for the workflow."""
    job = os.environ.get("JOB_ID", "?")[:128]
    try:
        settings = read(os.environ)
        store = Store(settings)
        names = store.names()
        check(names)
        kept = {name: store.address(name) for name in sorted(names) if not name.startswith("parts/")}
        settings.output.mkdir(parents=True, exist_ok=True)
        (settings.output / "artifacts").write_text(json.dumps(kept), encoding="utf-8")
    except (Failure, OSError) as failure:
        tell(f"report {job}: {failure}")
        return failure.exit_code if isinstance(failure, Failure) else 2
    print(f"report {job}: {len(kept)} artifacts, the report at {kept['report.md']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
