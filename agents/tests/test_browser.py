"""A browser that reaches nothing by itself, whatever a page tries."""

import json

import pytest

from conftest import Job
from services import Bucket, Site
from thane_agents.cdp import shown, with_token

TRAP = """<!doctype html><title>Trap</title><body><h1>Trap</h1><img src="{other}/image"><iframe src="{other}/frame"></iframe>
<script src="{other}/script"></script><link rel=stylesheet href="{other}/style"><link rel=prefetch href="{other}/prefetch">
<img src="http://169.254.169.254/latest"><iframe src="file:///etc/passwd"></iframe><form></form>
<p id=fine>nothing yet</p>
<script>
fetch("{own}/data").then(r => r.text()).then(text => document.getElementById("fine").textContent = text);
fetch("{other}/fetch", {{mode: "no-cors"}}).catch(() => 0); navigator.sendBeacon("{other}/beacon", "x");
new WebSocket("{other}/socket".replace("http", "ws")); window.open("{other}/popup");
new Worker(URL.createObjectURL(new Blob(["fetch('{other}/worker')"])));
fetch("{own}/changed", {{method: "POST", body: "x"}}).catch(() => 0);
document.title = typeof RTCPeerConnection;
</script></body>"""


def test_a_page_reaches_only_what_is_allowed(job: Job, site: Site, bucket: Bucket) -> None:
    other = Site()
    try:
        site.page("/data", "fetched by a script")
        trap = site.page("/trap", TRAP.format(other=other.url, own=site.url))
        job.succeed("dom", TARGET_URLS=json.dumps([trap]))
        assert not other.hits
        assert site.hits["/data"] == 1 and site.hits["/changed"] == 0
    finally:
        other.close()
    page = json.loads(bucket.read(f"job_{job.id}/dom_structures.json"))["pages"][0]
    assert page["title"] == "undefined", "peer connections are not there"
    assert any("metadata" in refused for refused in page["requests_refused"])
    assert any("would change something" in refused for refused in page["requests_refused"])


def test_redirects_are_followed_and_checked(job: Job, site: Site) -> None:
    site.page("/moved", "", 302, location="/one")
    site.page("/away", "", 302, location="http://169.254.169.254/latest")
    said = job.succeed("dom", TARGET_URLS=json.dumps([f"{site.url}/moved", f"{site.url}/away"]))
    assert "169.254.169.254 is refused" in said
    assert json.loads(job.output("insights"))["findings"][0].startswith(f"{site.url}/moved: Page one")


def test_scripts_are_run_and_dialogs_dismissed(job: Job, site: Site, bucket: Bucket) -> None:
    page = site.page(
        "/script", "<title>before</title><body><script>alert(1); document.title = 'after'; history.back = 0</script><h1>x</h1>"
    )
    job.succeed("dom", TARGET_URLS=json.dumps([page]))
    assert json.loads(bucket.read(f"job_{job.id}/dom_structures.json"))["pages"][0]["title"] == "after"


def test_pages_that_never_end_cost_their_time_and_nothing_else(job: Job, site: Site, bucket: Bucket) -> None:
    (job.folder / "graph/graph.yaml").write_text("vision_models: [vision]\nmodel_rate: 100\npage_timeout: 6\n")
    busy = site.page("/busy", "<title>busy</title><body><h1>busy</h1><script>while (true) {}</script>")
    waiting = site.page("/waiting", "<title>waiting</title><body><h1>waiting</h1><img src=/never>")
    site.hold("/never")
    said = job.succeed("screenshot", TARGET_URLS=json.dumps([busy, waiting]))
    assert "capture 1 failed" in said and "in time" in said
    assert [key for key in bucket.keys(f"job_{job.id}/screenshots/") if key.endswith(".png")] == [
        f"job_{job.id}/screenshots/001-127.0.0.1.png"
    ]
    assert job.output("confidence") == "0.5000"


def test_a_browser_that_is_not_there(job: Job) -> None:
    code, said = job.run("dom", BROWSERLESS_URL="ws://127.0.0.1:9?token=secret-token")
    assert code == 1 and "browser at ws://127.0.0.1:9: " in said and "secret-token" not in said


@pytest.mark.parametrize(
    ("url", "token", "expected"),
    [
        ("ws://browser:3000", "", "ws://browser:3000/"),
        ("ws://browser:3000", "a b", "ws://browser:3000/?token=a+b"),
        ("ws://browser:3000?token=x", "y", "ws://browser:3000/?token=x"),
        ("wss://browser/chromium?stealth=true", "y", "wss://browser/chromium?stealth=true&token=y"),
    ],
)
def test_tokens(url: str, token: str, expected: str) -> None:
    assert with_token(url, token) == expected
    assert "token" not in shown(expected)
