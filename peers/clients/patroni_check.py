"""Patroni's own Consul client, unchanged: two members of a cluster elect a leader, lose it and elect another."""

import sys
import threading
import time

from patroni.dcs.consul import Consul
from patroni.postgresql.mpp import get_mpp

HOST, PORT = sys.argv[1:3]
SCOPE = "patroni-%d" % time.time_ns()


def member(name):
    return Consul({
        "scope": SCOPE, "name": name, "namespace": "/service/", "host": HOST, "port": int(PORT),
        "ttl": 30, "loop_wait": 10, "retry_timeout": 10, "register_service": True, "checks": [],
    }, get_mpp({}))


def data(role, port):
    return {"conn_url": "postgres://127.0.0.1:%d/postgres" % port, "api_url": "http://127.0.0.1:%d/patroni" % (port + 1),
            "state": "running", "role": role, "xlog_location": 1}


def expect(what, condition):
    if not condition:
        raise SystemExit("not so: " + what)


first, second = member("first"), member("second")

# whoever makes the cluster is one
expect("one initializes", [first.initialize(), second.initialize()] == [True, False])
expect("the cluster gets its id", first.initialize(create_new=False, sysid="7000000000000000001"))
expect("settings are compared", first.set_config_value('{"ttl":30}') and not first.set_config_value("{}", 1))

# one of two gets the lock, and keeps it
for dcs, port in ((first, 15432), (second, 25432)):
    dcs.get_cluster()
    expect("a member is written", dcs.touch_member(data("replica", port)))
expect("the first is the leader", first.attempt_to_acquire_leader())
expect("the second is not", not second.attempt_to_acquire_leader())
cluster = second.get_cluster()
expect("both see it", cluster.leader.name == "first" == first.get_cluster().leader.name)
expect("both are members", sorted(each.name for each in cluster.members) == ["first", "second"])
expect("the leader goes on", first.update_leader(first.get_cluster(), 42))
expect("and says how far it is", second.get_cluster().status.last_lsn == 42)
expect("its member is changed", first.touch_member(data("primary", 15432)))

# whoever watches hears of the end of a leader at once
woken = []
version = second.get_cluster().leader.version
watcher = threading.Thread(target=lambda: woken.append(second.watch(version, 20)))
watcher.start()
time.sleep(0.5)
started = time.monotonic()
expect("the leader steps down", first.delete_leader(first.get_cluster().leader))
watcher.join()
expect("the watcher is told", woken == [True] and time.monotonic() - started < 5)
expect("the second takes over", second.attempt_to_acquire_leader())
expect("the first does not", not first.attempt_to_acquire_leader())
expect("both see that", first.get_cluster().leader.name == "second")

# a session that was destroyed takes its leader and its member along; a new one is made for the next try
second._client.session.destroy(second._session)
cluster = first.get_cluster()
expect("nobody leads", not cluster.leader or not cluster.leader.name)
expect("its member is gone", [each.name for each in cluster.members] == ["first"])
time.sleep(0.05)  # the lock of a session that ended stays shut for its delay, a millisecond
expect("the first leads again", first.attempt_to_acquire_leader())
second.watch(None, 0)  # the end of a round: the session is looked at again
expect("the second has a new session", not second.attempt_to_acquire_leader() and second._session)

expect("the leader is a service", any(SCOPE in name for name in first._client.agent.services()))
for service in list(first._client.agent.services()):
    if SCOPE in service:
        first.deregister_service(service)
expect("everything goes", first.delete_cluster() and not first.get_cluster().members)
print("content")
