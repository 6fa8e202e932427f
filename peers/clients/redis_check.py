"""What Argo CD does with Redis, through the hub's proxy: python redis_check.py PROXY HUB CLUSTER, three ports."""

import gzip
import json
import sys
import time

import redis

TREE = "app|resources-tree|cluster-1_shop|1.8.3.gz"
LOCAL_TREE = "app|resources-tree|shop|1.8.3.gz"
SHARD = "app|resources-tree|cluster-1_shop|1|1.8.3.gz"
LOCAL_SHARD = "app|resources-tree|shop|1|1.8.3.gz"
CHANGED = "app|managed-resources|cluster-1_shop|1.8.3"
LOCAL_CHANGED = "app|managed-resources|shop|1.8.3"


def server(port, protocol=2):
    return redis.Redis(port=int(port), protocol=protocol, socket_timeout=30)


def until(found, what):
    """Another program's state can only be asked for, not awaited."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        result = found()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"never {what}")


def values(proxy, hub, cluster):
    value = bytes(range(256)) * 8192
    cluster.set(LOCAL_TREE, value)
    cluster.set(LOCAL_SHARD, b"second part")
    assert proxy.get(TREE) == value, "an agent's value"
    assert proxy.get(SHARD) == b"second part", "a part of a large tree"
    assert proxy.get(CHANGED) is None, "a value that is not there"
    assert proxy.get("app|resources-tree|shop|1.8.3.gz") is None, "one of the hub's own"
    proxy.set("own", "value", ex=60)
    assert hub.get("own") == b"value" and cluster.get("own") is None, "what is not about an agent's application"
    pipeline = proxy.pipeline(transaction=False)
    for number in range(200):
        pipeline.set(f"key-{number}", number)
        pipeline.get(TREE if number % 3 == 0 else CHANGED)
        pipeline.get(f"key-{number}")
    answers = pipeline.execute()
    for number in range(200):
        expected = [True, value if number % 3 == 0 else None, str(number).encode()]
        assert answers[3 * number : 3 * number + 3] == expected, f"the order in a pipeline, at {number}"
    pipeline = proxy.pipeline(transaction=True)
    pipeline.set("own", "other").get("own").get(TREE)
    assert pipeline.execute() == [True, b"other", None], "a transaction is the hub's"
    cluster.delete(LOCAL_TREE, LOCAL_SHARD)


def channels(proxy, hub, cluster):
    listener = proxy.pubsub()
    listener.subscribe(CHANGED)
    confirmed = listener.get_message(timeout=30)
    assert confirmed["type"] == "subscribe" and confirmed["channel"] == CHANGED.encode(), confirmed
    for _ in range(3):
        assert cluster.publish(LOCAL_CHANGED, b"") == 1, "the agent listens once, however many do behind it"
        message = listener.get_message(timeout=30)
        assert message["type"] == "message" and message["channel"] == CHANGED.encode(), message
        assert message["data"] == b"", message
    listener.subscribe("own")
    assert listener.get_message(timeout=30)["channel"] == b"own"
    hub.publish("own", "hello")
    assert listener.get_message(timeout=30)["data"] == b"hello"
    listener.ping()
    listener.unsubscribe()
    said = []
    while said.count("unsubscribe") < 2:
        said.append(until(lambda: listener.get_message(timeout=30), "left")["type"])
    assert said.count("pong") <= 1 and set(said) <= {"pong", "unsubscribe"}, said
    until(lambda: hub.publish("own", "nobody") == 0, "left at the hub's Redis")
    listener.close()


def clusters(hub):
    def connected():
        for key in hub.scan_iter("cluster|info|*agentName=cluster-1|1.8.3.gz"):
            info = json.loads(gzip.decompress(hub.get(key)))
            if info["connectionState"]["status"] == "Successful":
                return 0 < hub.ttl(key) <= 600
        return False

    until(connected, "shown as connected")


def main():
    proxy_port, hub_port, cluster_port = sys.argv[1:]
    hub, cluster = server(hub_port), server(cluster_port)
    for ready in (hub, cluster):
        def answers(ready=ready):
            try:
                return ready.ping()
            except redis.exceptions.ConnectionError:
                return False

        until(answers, "there")
    clusters(hub)
    for protocol in (2, 3):
        proxy = server(proxy_port, protocol)
        values(proxy, hub, cluster)
        channels(proxy, hub, cluster)
    print("content")


main()
