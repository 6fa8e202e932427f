"""Pages in a browser that reaches nothing by itself: each of its requests is paused, made by us through the guard, and answered.

Whatever cannot be paused (WebSockets, other targets) meets a proxy that leads nowhere.
"""

import base64
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .cdp import Connection, Event, Late, with_token
from .errors import Failure, PageFailure, Refusal
from .limits import Breaker, retried
from .settings import Settings
from .web import Answer, Web

WIDTH, HEIGHT, MAX_HEIGHT = 1280, 800, 8000
MAX_REQUESTS = 200
QUIET = 0.5
# The share of a page's time that is kept for looking at it.
LOOKING = 0.3
# Port 9 is "discard": nobody listens there, and loopback goes there, too.
NOWHERE = {"proxyServer": "http://127.0.0.1:9", "proxyBypassList": "<-loopback>"}
# A peer connection would not use a proxy.
WITHOUT_PEERS = "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete window[name];"
HEADERS_NOT_PASSED = {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding", "upgrade"}
Result = TypeVar("Result")


class Page:
    """One page, open in a context of its own that ends with the connection."""

    def __init__(self, connection: Connection, web: Web, timeout: float) -> None:
        self.connection, self.web, self.timeout = connection, web, timeout
        self.deadline = time.monotonic() + timeout
        # what a page loads must leave time to look at it
        self.load_until = self.deadline - timeout * LOOKING
        self.requests = 0
        self.loaded = False
        self.crashed = False
        self.document: Answer | None = None
        self.failure: PageFailure | None = None
        self.refused: list[str] = []
        connection.handler = self.handle
        context = connection.call("Target.createBrowserContext", {"disposeOnDetach": True, **NOWHERE}, None, self.deadline)
        target = connection.call(
            "Target.createTarget",
            {"url": "about:blank", "browserContextId": context["browserContextId"], "width": WIDTH, "height": HEIGHT},
            None,
            self.deadline,
        )
        attached = connection.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}, None, self.deadline)
        self.session = str(attached["sessionId"])
        for method, parameters in (
            ("Page.enable", {}),
            ("Inspector.enable", {}),
            ("Network.setBypassServiceWorker", {"bypass": True}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": WITHOUT_PEERS}),
            ("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}),
        ):
            self.call(method, parameters)

    def call(self, method: str, parameters: dict[str, Any] | None = None) -> Event:
        return self.connection.call(method, parameters, self.session, self.deadline)

    def handle(self, event: Event) -> None:
        method, parameters = event["method"], event.get("params", {})
        if event.get("sessionId") != getattr(self, "session", None):
            return
        if method == "Fetch.requestPaused":
            self.answer(parameters)
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.connection.send("Page.handleJavaScriptDialog", {"accept": False}, self.session)
        elif method == "Inspector.targetCrashed":
            self.crashed = True

    def answer(self, paused: dict[str, Any]) -> None:
        """Makes a request of the page and gives it what came back."""
        request, paused_id = paused["request"], paused["requestId"]
        self.requests += 1
        is_document = paused.get("resourceType") == "Document" and self.document_open()
        try:
            if self.requests > MAX_REQUESTS:
                raise PageFailure(f"{request['url']}: more than {MAX_REQUESTS} requests of one page")
            answer = self.fetch(request)
        except PageFailure as failure:
            self.refused.append(str(failure))
            if is_document:
                self.failure = failure
            self.connection.send("Fetch.failRequest", {"requestId": paused_id, "errorReason": "AccessDenied"}, self.session)
            return
        if is_document:
            # whatever was loaded before was the empty page
            self.document, self.loaded = answer, False
        headers = [{"name": name, "value": value} for name, value in answer.headers.items() if name.lower() not in HEADERS_NOT_PASSED]
        body = base64.b64encode(answer.body).decode()
        self.connection.send(
            "Fetch.fulfillRequest",
            {"requestId": paused_id, "responseCode": answer.status, "responseHeaders": headers, "body": body},
            self.session,
        )

    def document_open(self) -> bool:
        """Whether the page itself, or a redirect on the way to it, is what is asked for: frames come after."""
        return self.document is None or 300 <= self.document.status < 400

    def fetch(self, request: dict[str, Any]) -> Answer:
        url, method = str(request["url"]), str(request["method"])
        if url.startswith("data:"):
            raise PageFailure("data: needs no fetch")
        if method not in ("GET", "HEAD", "OPTIONS"):
            raise PageFailure(f"{url}: {method} would change something")
        passed = {
            name: value
            for name, value in request.get("headers", {}).items()
            if name.lower() in ("accept", "accept-language", "referer", "user-agent")
        }
        return self.web.once(url, method, passed, within=self.load_until - time.monotonic())

    def open(self, url: str) -> Answer:
        """Loads a page and waits until it is quiet."""
        self.web.client.cookies.clear()
        navigated = self.call("Page.navigate", {"url": url})
        if self.failure is not None:
            raise self.failure
        if reason := navigated.get("errorText"):
            raise PageFailure(f"{url}: {reason}")
        self.connection.pump(lambda: self.loaded or self.crashed, self.load_until)
        if self.crashed:
            raise Failure(f"{self.connection.place}: the page of {url} crashed")
        if self.failure is not None:
            raise self.failure
        if self.document is None:
            raise PageFailure(f"{url}: nothing came within {self.timeout:g} s")
        if self.document.status >= 400:
            raise PageFailure(f"{url}: {self.document.status}")
        self.settle()
        return self.document

    def settle(self) -> None:
        """Lets scripts finish: until half a second passes without a request, five at most."""
        end = min(self.load_until, time.monotonic() + 5)
        while (before := time.monotonic()) < end and self.more_requests(min(end, before + QUIET)):
            pass

    def more_requests(self, deadline: float) -> bool:
        seen = self.requests
        return self.connection.pump(lambda: self.requests != seen, deadline)

    def screenshot(self) -> bytes:
        """The whole page as PNG, cut off below some height."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": max(1, min(MAX_HEIGHT, int(size["height"]))), "scale": 1}
        shot = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(shot["data"])

    def evaluate(self, script: str) -> Any:
        """The value of a script, run where the page's own scripts cannot reach it."""
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        world = self.call("Page.createIsolatedWorld", {"frameId": frame, "worldName": "thane"})["executionContextId"]
        result = self.call("Runtime.evaluate", {"expression": script, "contextId": world, "returnByValue": True})
        if "exceptionDetails" in result:
            raise PageFailure(f"the page could not be read: {result['exceptionDetails'].get('text')}")
        return result["result"].get("value")


class Browser:
    """Visits pages, each over a new connection; retries what is the browser's fault and gives up on one that keeps failing."""

    def __init__(self, settings: Settings, web: Web) -> None:
        if not settings.browser_url:
            raise Refusal("BROWSERLESS_URL is not set")
        self.url = with_token(settings.browser_url, settings.browser_token)
        self.web, self.timeout = web, settings.graph.page_timeout
        self.breaker = Breaker("browser")

    def visit(self, url: str, look: Callable[[Page], Result]) -> tuple[Answer, Result]:
        """Opens a page and looks at it."""
        return retried(lambda: self.breaker.call(lambda: self.once(url, look)))

    def once(self, url: str, look: Callable[[Page], Result]) -> tuple[Answer, Result]:
        connection = Connection(self.url, min(10.0, self.timeout))
        try:
            page = Page(connection, self.web, self.timeout)
            try:
                return page.open(url), look(page)
            except Late as late:
                # the browser was fine until it met this page
                raise PageFailure(f"{url}: {late}") from None
        finally:
            connection.close()
