// What node-redis, which knows nothing of us, sees of a service at the port in the arguments.
//
// The service has the rule `user`, 3/day, of the domain `shop`, and two passwords. It is started
// again when this prints `restart`, and has been when a line arrives.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import path from "node:path";

const [, , directory, port, password, adminPassword] = process.argv;
const { createClient } = createRequire(path.join(directory, "x.js"))("redis");

async function connect(options) {
  const client = createClient({ socket: { port: Number(port), host: "127.0.0.1" }, ...options });
  // Those of a connection that ends; calls have errors of their own.
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function check(RESP) {
  const client = await connect({ password, RESP, name: `v${RESP}`, database: 0 });
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.clientGetName(), `v${RESP}`);
  const hello = await client.hello();
  assert.deepEqual(
    [hello.server, hello.proto, hello.mode, hello.role, [...hello.modules]],
    ["tollgate", RESP, "standalone", "master", []],
  );
  assert.equal(hello.id, await client.clientId());
  const described = await client.command();
  assert.equal(described.length, await client.commandCount());
  const throttle = described.find((one) => one.name === "cl.throttle");
  assert.deepEqual([...throttle.flags, ...throttle.categories], ["fast", "@fast"]);
  assert.equal(throttle.firstKeyIndex, 1);
  assert.equal((await client.configGet("databases")).databases, "1");
  const ask = (...words) => client.sendCommand(words.map(String));
  const throttled = [];
  for (let i = 0; i < 3; i++) {
    throttled.push((await ask("CL.THROTTLE", `node:${RESP}`, 1, 1, 3600))[0]);
  }
  assert.deepEqual(throttled, [0, 0, 1]);
  const user = `node${RESP}`;
  const checked = await ask("TG.CHECK", "shop", 1, "user", user);
  assert.deepEqual([checked[0], checked[1], checked[2], checked[6]], [0, 3, 2, "user"]);

  // Calls that nobody awaits are one pipeline. An error in its midst concerns no other one.
  const calls = [1, 2, 3].map(() => ask("TG.CHECK", "shop", 1, "user", user));
  calls.push(ask("GET", "key"), ask("TG.PEEK", "shop", 1, "user", user));
  const settled = await Promise.allSettled(calls);
  assert.deepEqual(settled.slice(0, 3).map((one) => one.value[0]), [0, 0, 1]);
  assert.match(settled[3].reason.message, /^ERR unknown command 'GET'/);
  assert.equal(settled[4].value[2], 0);
  const transaction = client.multi();
  transaction.addCommand(["CL.THROTTLE", `multi${RESP}`, "1", "1", "3600"]);
  transaction.addCommand(["TG.PEEK", "shop", "1", "user", user]);
  const executed = await transaction.exec();
  assert.deepEqual(executed.map((reply) => reply[0]), [0, 1]);

  for (const [words, expected] of [
    [["CL.THROTTLE", "key"], /wrong number of arguments/],
    [["TG.CHECK", "shop", "x", "user", "ann"], /cost/],
    [["TG.RESET", "shop", "user", "ann"], /^NOPERM .*admin/],
  ]) {
    await assert.rejects(ask(...words), { message: expected });
  }
  const admin = await connect({ username: "admin", password: adminPassword, RESP });
  const reset = await admin.sendCommand(["TG.RESET", "shop", "user", user]);
  assert.equal(reset[2], 3);
  admin.destroy();
  return client;
}

for (const [wrong, expected] of [
  [{ password: "wrong" }, /^WRONGPASS/],
  [{ password: "wrong", RESP: 3 }, /^WRONGPASS/],
]) {
  const reconnectStrategy = false;
  const socket = { port: Number(port), host: "127.0.0.1", reconnectStrategy };
  await assert.rejects(connect({ ...wrong, socket }), { message: expected });
}

const clients = [await check(2), await check(3)];
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
console.log("restart");
assert.equal((await lines.next()).value, "restarted");
for (const client of clients) {
  // By itself: it has connected again, or does now.
  const words = ["TG.CHECK", "shop", "1", "user", "new"];
  assert.equal((await client.sendCommand(words))[0], 0);
  client.destroy();
}
console.log("done");
process.exit(0);
