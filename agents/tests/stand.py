"""All services at once, for suites that are not written in Python: prints where they are, and ends with its standard input.

    $THANE_PEERS_HOME/agents/python/bin/python agents/tests/stand.py

One line of JSON is printed when everything answers. Requests of the site are counted at `/hits`, as JSON.
"""

import json
import secrets
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from pages import PAGES, REPLIES
from services import PEERS, Postgres, Site, browserless, chromium, litellm, minio, moto


def main() -> None:
    # whoever ends us ends what we started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        site = Site()
        stack.callback(site.close)
        for path, body in PAGES.items():
            site.page(path, body)
        token, key = secrets.token_hex(8), "sk-" + secrets.token_hex(16)
        postgres = stack.enter_context(Postgres().serving())
        browser = stack.enter_context(chromium())
        browser_door = stack.enter_context(browserless(browser, token))
        program = PEERS / "bin/minio"
        bucket = stack.enter_context(minio(program) if program.exists() else moto(Path(sys.executable).parent / "moto_server"))
        models = stack.enter_context(litellm(key, REPLIES))
        told = {
            "site": site.url,
            "target_urls": [site.url + path for path in PAGES],
            "allowed_targets": [f"127.0.0.1:{site.port}"],
            "postgres_dsn": postgres.dsn,
            "postgres_password": postgres.password,
            "chromium_url": browser,
            "browserless_url": browser_door,
            "browserless_token": token,
            "litellm_url": models,
            "llm_key": key,
            "minio_url": bucket.url,
            "minio_bucket": bucket.name,
            "accesskey": bucket.access,
            "secretkey": bucket.secret,
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
