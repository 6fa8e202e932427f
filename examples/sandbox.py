"""A pool, three steps, back to the first, two forks, and everything that was done."""

import os

from thane_sdk import SandboxSession, WarmPoolManager

gateway = os.environ.get("THANE_GATEWAY", "http://localhost:8080")
pools = WarmPoolManager(gateway_url=gateway)
pools.create_warmpool("example", image="host", replicas=3)
pools.wait_for_ready("example")
with SandboxSession("example", gateway_url=gateway) as session:
    steps = [
        {"command": ["sh", "-c", f"echo {word} >> note; cat note"]}
        for word in ("one", "two", "three")
    ]
    first, *_, last = session.execute(steps).results
    print(last.output.stdout, end="")
    session.restore(first.snapshot_id)
    forks = session.fork(first.snapshot_id, count=2)
    for name, fork in zip(("left", "right"), forks, strict=True):
        with fork:
            print(fork.run(f"echo {name} >> note; cat note").output.stdout, end="")
    print(session.run("cat note").output.stdout, end="")
    print(session.export_trajectory(), end="")
