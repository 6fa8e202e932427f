"""py-consul against an agent: what a Python program does with Consul, and what it expects back.

    check.py HOST PORT
"""

import sys
import threading
import uuid

import consul
from consul import Check

host, port = sys.argv[1], int(sys.argv[2])
c = consul.Consul(host=host, port=port)
root = f"py-{uuid.uuid4().hex[:8]}"


def same(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found!r} is not {wanted!r}")


def eventually(look, what):
    """What an agent registers reaches the catalog a moment later: wait for its index to move, not for time to pass."""
    index = None
    for _ in range(20):
        index, found = look(index)
        if found:
            return found
    sys.exit(f"{what}: never seen")


def refused(call, kind, what):
    try:
        call()
    except kind as error:
        return str(error)
    sys.exit(f"{what}: was not refused")


def keys():
    key = f"{root}/a b/ü"
    same(c.kv.get(key)[1], None, "a key that is not there")
    same(c.kv.put(key, b"\x00bytes\xff", flags=3000000000), True, "put")
    index, entry = c.kv.get(key)
    same((entry["Value"], entry["Flags"], entry["Key"]), (b"\x00bytes\xff", 3000000000, key), "get")
    same(int(index), entry["ModifyIndex"], "the index of one key is its own")
    same(c.kv.put(key, "x", cas=0), False, "cas of a key that is there")
    same(c.kv.put(key, "x", cas=entry["ModifyIndex"]), True, "cas")
    same(c.kv.put(f"{root}/n/1", None), True, "a key without value")
    same(c.kv.get(f"{root}/n/1")[1]["Value"], None, "no value")
    same([e["Key"] for e in c.kv.get(f"{root}/", recurse=True)[1]], [key, f"{root}/n/1"], "recurse")
    same(c.kv.get(f"{root}/", keys=True, separator="/")[1], [f"{root}/a b/", f"{root}/n/"], "keys")
    same(c.kv.delete(key, cas=1), False, "delete with an old index")
    same(c.kv.delete(f"{root}/n", recurse=True), True, "delete of a tree")
    same(c.kv.get(f"{root}/n/1")[1], None, "deleted")


def blocking():
    key = f"{root}/blocked"
    c.kv.put(key, "1")
    index, _ = c.kv.get(key)
    same(c.kv.get(key, index=index, wait="20ms")[0], index, "nothing changed")
    timer = threading.Timer(0.2, lambda: consul.Consul(host=host, port=port).kv.put(key, "2"))
    timer.start()
    later, entry = c.kv.get(key, index=index, wait="30s")
    timer.join()
    same((entry["Value"], int(later) > int(index)), (b"2", True), "the change that was waited for")


def agent():
    name, one = f"{root}-web", f"{root}-web-1"
    c.agent.service.register(
        name,
        service_id=one,
        address="10.9.8.7",
        port=8080,
        tags=["v1", "Blue"],
        meta={"team": "core"},
        weights={"Passing": 7, "Warning": 2},
        check=Check.ttl("30s"),
    )
    found = c.agent.services()[one]
    same((found["Service"], found["Port"], found["Tags"], found["Meta"]), (name, 8080, ["v1", "Blue"], {"team": "core"}), "service")
    same(c.agent.checks()[f"service:{one}"]["Status"], "critical", "a new check")
    rows = eventually(lambda i: c.health.service(name, index=i, wait="2s"), "the instance")
    same((rows[0]["Service"]["ID"], rows[0]["Service"]["Weights"]["Passing"]), (one, 7), "the instance")
    same(c.health.service(name, passing=True)[1], [], "not passing yet")
    c.agent.check.ttl_pass(f"service:{one}", notes="well")
    rows = eventually(lambda i: c.health.service(name, passing=True, index=i, wait="2s"), "passing")
    same([k["Output"] for k in rows[0]["Checks"] if k["CheckID"] == f"service:{one}"], ["well"], "what was said")
    same(len(c.health.service(name, tag="blue")[1]), 1, "tags have no case")
    same(len(c.health.service(name, tag="v2")[1]), 0, "another tag")
    same(sorted(c.catalog.services()[1][name]), ["Blue", "v1"], "tags, which Consul gives in any order")
    row = c.catalog.service(name)[1][0]
    same((row["ServiceAddress"], row["ServicePort"], row["ServiceID"]), ("10.9.8.7", 8080, one), "catalog")
    c.agent.service.maintenance(one, "true", "because")
    eventually(lambda i: (c.health.service(name, index=i, wait="2s")[0], not c.health.service(name, passing=True)[1]), "maintenance")
    c.agent.service.maintenance(one, "false")
    c.agent.check.register(f"{root}-check", check=Check.ttl("1m"), check_id=f"{root}-node-check")
    c.agent.check.ttl_warn(f"{root}-node-check", notes="hm")
    same(c.agent.checks()[f"{root}-node-check"]["Status"], "warning", "warning")
    c.agent.check.deregister(f"{root}-node-check")
    c.agent.service.deregister(one)
    same(one in c.agent.services(), False, "deregistered")
    eventually(lambda i: (c.health.service(name, index=i, wait="2s")[0], not c.health.service(name)[1]), "gone from the catalog")


def catalog():
    node, name = f"{root}-node", f"{root}-db"
    service = {"Service": name, "ID": f"{name}-1", "Port": 5432, "Tags": ["primary"]}
    check = {"Node": node, "CheckID": "alive", "Name": "alive", "Status": "passing", "ServiceID": f"{name}-1"}
    same(c.catalog.register(node, "10.1.2.3", service=service, check=check), True, "register")
    same([n["Address"] for n in c.catalog.nodes()[1] if n["Node"] == node], ["10.1.2.3"], "nodes")
    same(list(c.catalog.node(node)[1]["Services"]), [f"{name}-1"], "node")
    rows = c.health.service(name, passing=True)[1]
    same((rows[0]["Node"]["Node"], rows[0]["Checks"][0]["Status"]), (node, "passing"), "health")
    same([k["CheckID"] for k in c.health.checks(name)[1]], ["alive"], "checks")
    same([k["CheckID"] for k in c.health.node(node)[1]], ["alive"], "checks of a node")
    same(node in {k["Node"] for k in c.health.state("passing")[1]}, True, "state")
    same(c.catalog.deregister(node), True, "deregister")
    same(c.catalog.node(node)[1], None, "no node")


def sessions():
    key = f"{root}/lock"
    mine = c.session.create(name=root, ttl=10, lock_delay=0, behavior="delete", checks=[])
    theirs = c.session.create(ttl=10, lock_delay=0, checks=[])
    same(c.kv.put(key, "mine", acquire=mine), True, "acquire")
    same(c.kv.put(key, "mine", acquire=mine), True, "acquire again")
    same(c.kv.put(key, "theirs", acquire=theirs), False, "acquire by another")
    entry = c.kv.get(key)[1]
    same((entry["Session"], entry["LockIndex"], entry["Value"]), (mine, 1, b"mine"), "the lock")
    same(c.session.renew(mine)["Name"], root, "renew")
    same(mine in {s["ID"] for s in c.session.list()[1]}, True, "list")
    same(c.session.info(mine)[1]["Behavior"], "delete", "info")
    same(c.session.destroy(mine), True, "destroy")
    same(c.kv.get(key)[1], None, "the key goes with its session")
    same(c.kv.put(key, "theirs", acquire=theirs), True, "acquire what is free")
    same(c.kv.put(key, "", release=theirs), True, "release")
    same(c.session.destroy(theirs), True, "destroy")
    refused(lambda: c.session.renew(str(uuid.uuid4())), consul.NotFound, "a session that is not there")
    refused(lambda: c.kv.put(key, "x", acquire=str(uuid.uuid4())), consul.ConsulException, "a lock without session")


def transactions():
    value = "aGVsbG8="
    done = c.txn.put([{"KV": {"Verb": "set", "Key": f"{root}/t", "Value": value}}, {"KV": {"Verb": "get", "Key": f"{root}/t"}}])
    same((done["Errors"], done["Results"][1]["KV"]["Value"]), (None, value), "transaction")


def rest():
    same(c.status.leader().count(":"), 1, "leader")
    same(len(c.status.peers()) > 0, True, "peers")
    me = c.agent.self()
    same(me["Config"]["Datacenter"], c.catalog.datacenters()[0], "datacenter")
    same(me["Config"]["NodeName"] in {n["Node"] for n in c.catalog.nodes()[1]}, True, "its own node")
    same(len(c.agent.members()) > 0, True, "members")
    same(c.event.fire(f"{root}-event", "body") and True, True, "event")
    same(f"{root}-event" in {e["Name"] for e in c.event.list()[1]}, True, "events")
    refused(lambda: c.catalog.register("", ""), consul.ConsulException, "a node without name")


for part in (keys, blocking, agent, catalog, sessions, transactions, rest):
    part()
c.kv.delete(f"{root}/", recurse=True)
print("py-consul", consul.__version__ if hasattr(consul, "__version__") else "", "is content")
