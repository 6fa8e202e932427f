// The npm package `consul` against an agent: what a JavaScript program does with Consul, and what it expects back.
//
//     node check.js HOST PORT        with NODE_PATH where the package is
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const Consul = require("consul");

const [host, port] = process.argv.slice(2);
const consul = new Consul({ host, port: Number(port) });
const root = `js-${Math.random().toString(16).slice(2, 10)}`;

async function keys() {
  const key = `${root}/a/ü`;
  assert.equal(await consul.kv.get(key), undefined);
  assert.equal(await consul.kv.set(key, "hello"), true);
  const entry = await consul.kv.get(key);
  assert.deepEqual([entry.Value, entry.Key, entry.Flags, entry.LockIndex], ["hello", key, 0, 0]);
  assert.notEqual(await consul.kv.set({ key, value: "x", cas: "1" }), true);
  assert.equal(await consul.kv.set({ key, value: "again", cas: String(entry.ModifyIndex), flags: "7" }), true);
  assert.equal(String(await consul.kv.get({ key, raw: true })), "again");
  await consul.kv.set(`${root}/b`, "2");
  assert.deepEqual(await consul.kv.keys({ key: `${root}/`, separator: "/" }), [`${root}/a/`, `${root}/b`]);
  assert.equal((await consul.kv.get({ key: `${root}/`, recurse: true })).length, 2);
  assert.equal(await consul.kv.del({ key: `${root}/`, recurse: true }), true);
  assert.equal(await consul.kv.get(`${root}/b`), undefined);
}

// A watch tells the value that is there, then the change: the package blocks with the index it was given.
async function watches() {
  const key = `${root}/watched`;
  await consul.kv.set(key, "1");
  const watch = consul.watch({ method: consul.kv.get, options: { key, wait: "20s" }, backoffFactor: 100 });
  watch.on("error", (error) => assert.fail(error));
  const [first] = await once(watch, "change");
  assert.equal(first.Value, "1");
  const changed = once(watch, "change");
  await consul.kv.set(key, "2");
  const [second] = await changed;
  assert.equal(second.Value, "2");
  watch.end();
}

async function agent() {
  const name = `${root}-web`;
  const id = `${name}-1`;
  await consul.agent.service.register({
    name, id, address: "10.4.4.4", port: 80, tags: ["x"], meta: { a: "b" },
    checks: [{ ttl: "60s", name: "beat" }, { ttl: "60s", name: "second", status: "passing" }],
  });
  assert.equal((await consul.agent.services())[id].Port, 80);
  const watch = consul.watch({ method: consul.health.service, options: { service: name, passing: true, wait: "20s" }, backoffFactor: 100 });
  watch.on("error", (error) => assert.fail(error));
  await consul.agent.check.pass({ id: `service:${id}:1`, note: "fine" });
  let rows = [];
  while (rows.length === 0) [rows] = await once(watch, "change");
  watch.end();
  assert.deepEqual([rows[0].Service.ID, rows[0].Service.Meta.a, rows[0].Service.Address], [id, "b", "10.4.4.4"]);
  assert.deepEqual((await consul.catalog.service.list())[name], ["x"]);
  assert.equal((await consul.catalog.service.nodes(name))[0].ServicePort, 80);
  assert.equal((await consul.health.checks(name)).length, 2);
  await consul.agent.check.fail({ id: `service:${id}:1`, note: "gone" });
  assert.equal((await consul.agent.checks())[`service:${id}:1`].Status, "critical");
  await consul.agent.service.maintenance({ id, enable: true, reason: "work" });
  assert.ok((await consul.agent.checks())[`_service_maintenance:${id}`]);
  await consul.agent.service.maintenance({ id, enable: false });
  await consul.agent.check.register({ name: `${root}-c`, ttl: "10s", notes: "own" });
  await consul.agent.check.deregister(`${root}-c`);
  await consul.agent.service.deregister(id);
  assert.equal((await consul.agent.services())[id], undefined);
  await assert.rejects(consul.agent.service.register({ name, address: "0.0.0.0" }), /Invalid service address/);
}

async function catalog() {
  const node = `${root}-node`;
  await consul.catalog.register({ node, address: "10.5.5.5", service: { service: `${root}-db`, port: 5432 } });
  assert.ok((await consul.catalog.node.list()).some((found) => found.Node === node));
  assert.deepEqual(Object.keys((await consul.catalog.node.services(node)).Services), [`${root}-db`]);
  await consul.catalog.deregister({ node });
  assert.ok((await consul.catalog.datacenters()).length > 0);
}

async function sessions() {
  const { ID } = await consul.session.create({ ttl: "10s", behavior: "delete", lockdelay: "0s", checks: [] });
  const key = `${root}/lock`;
  assert.equal(await consul.kv.set({ key, value: "me", acquire: ID }), true);
  assert.equal((await consul.kv.get(key)).Session, ID);
  assert.equal((await consul.session.renew(ID))[0].ID, ID);
  assert.equal((await consul.session.get(ID)).Behavior, "delete");
  assert.ok((await consul.session.list()).some((found) => found.ID === ID));
  await consul.session.destroy(ID);
  assert.equal(await consul.kv.get(key), undefined);
}

async function rest() {
  assert.match(await consul.status.leader(), /:\d+$/);
  assert.ok((await consul.status.peers()).length > 0);
  const self = await consul.agent.self();
  assert.ok(self.Config.NodeName && self.Member.Name);
  assert.ok((await consul.agent.members()).length > 0);
  const value = Buffer.from("v").toString("base64");
  const done = await consul.transaction.create([{ KV: { Verb: "set", Key: `${root}/t`, Value: value } }]);
  assert.equal(done.Results[0].KV.Key, `${root}/t`);
  await consul.event.fire(`${root}-event`, "x");
  assert.ok((await consul.event.list(`${root}-event`)).length > 0);
  await consul.kv.del({ key: `${root}/`, recurse: true });
}

(async () => {
  for (const part of [keys, watches, agent, catalog, sessions, rest]) await part();
  console.log("the npm package consul is content");
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
