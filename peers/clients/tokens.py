"""Makes tokens as a program on py-consul does, and uses them. Says `content` if all is as it should be."""

import sys

import consul

client = consul.Consul(host=sys.argv[1], port=int(sys.argv[2]))
root = client.acl.bootstrap()["SecretID"]

policy = client.acl.policy.create("app", token=root, rules={"key_prefix": {"app/": {"policy": "write"}}})
assert client.acl.policy.read(policy["ID"], token=root)["Name"] == "app"
assert "app" in [one["Name"] for one in client.acl.policy.list(token=root)]

made = client.acl.token.create(token=root, policies_name=["app"], description="app")
secret, accessor = made["SecretID"], made["AccessorID"]
assert client.kv.put("app/a", "1", token=secret)
assert client.kv.get("app/a", token=secret)[1]["Value"] == b"1"
for refused in ({"key": "other", "token": secret}, {"key": "app/a"}):
    try:
        client.kv.get(**refused)
        raise SystemExit(f"{refused} was not refused")
    except consul.ACLPermissionDenied:
        pass

assert accessor in [one["AccessorID"] for one in client.acl.token.list(token=root)]
assert client.acl.token.read(accessor, token=root)["Description"] == "app"
copied = client.acl.token.clone(accessor, token=root, description="copy")
assert client.kv.get("app/a", token=copied["SecretID"])[1]["Value"] == b"1"
assert client.acl.token.delete(accessor, token=root)
try:
    client.kv.get("app/a", token=secret)
    raise SystemExit("a deleted token was let in")
except consul.ACLPermissionDenied:
    pass

saved = client.snapshot.save(token=root)
assert client.kv.delete("app/a", token=root)
assert client.snapshot.restore(saved, token=root)
assert client.kv.get("app/a", token=root)[1]["Value"] == b"1"
print("content")
