// The page: reads snapshots from the service, and shows them.

import { Chart } from "./chart.js";
import { DENIED, History, SECONDS, sum } from "./history.js";
import { ago, bytes, descriptorText, fill, node, perSecond, time, whole } from "./tables.js";

const RETRY_MILLIS = 2000;
// No snapshot is larger: an event that does not end is not kept.
const EVENT_MAX = 4 << 20;
// The outcomes of a route that deny: limits, lists and concurrency limits.
const ROUTE_DENIED = ["denied", "deny_listed", "in_flight"];

const $ = (id) => document.getElementById(id);
const history = new History();
const rates = new Chart($("rates"), ["allowed", "denied", "other"], perSecond);
const times = new Chart($("times"), ["p50", "p90", "p99"], time);
// Kept in this variable alone: neither the browser's storage nor an address has the token.
let token = "";

const request = (path, headers = {}) =>
  fetch(path, { headers: token ? { ...headers, authorization: `Bearer ${token}` } : headers, cache: "no-store" });

function setState(text, isLost = false) {
  $("state").textContent = text;
  $("state").classList.toggle("lost", isLost);
}

// Reads the events of one response. Returns when it ends.
async function read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    if (text.length > EVENT_MAX) throw new Error("an event is too large");
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) show(JSON.parse(data.slice(6)));
    }
  }
}

// Follows the service until a token is needed.
async function follow() {
  for (;;) {
    try {
      const response = await request("/v1/dashboard/events");
      if (response.status === 401) {
        setState(token ? "this token is not accepted" : "a token is needed", true);
        $("sign-in").hidden = false;
        $("token").focus();
        return;
      }
      if (!response.ok) throw new Error((await response.json()).detail);
      $("sign-in").hidden = true;
      await read(response);
      setState("the service closed the connection; connecting again", true);
    } catch (error) {
      setState(`no connection to the service: ${error.message}`, true);
    }
    await new Promise((done) => setTimeout(done, RETRY_MILLIS));
  }
}

function show(snapshot) {
  history.push(snapshot);
  const minutes = Math.floor(snapshot.uptimeMillis / 60000);
  setState(`live; version ${snapshot.program}, up for ${minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`}`);
  showTiles();
  rates.draw(history.chart("rates"), SECONDS);
  times.draw(history.chart("times"), SECONDS);
  showKeys(snapshot.keys);
  showRules(snapshot);
  showStores(snapshot);
  showGateway(snapshot.gateway);
  showReloads(snapshot.reloads);
}

function showTiles() {
  const [allowed, denied, other] = history.rates();
  const all = allowed + denied + other;
  $("rate").textContent = allowed === null ? "–" : perSecond(all);
  const share = all > 0 ? `${(100 * denied / all).toFixed(1)} %` : "–";
  $("denied").replaceChildren(share, node("small", "", ` ${perSecond(denied)}/s`));
  const [p50, p99] = history.percentiles([0.5, 0.99]);
  $("p50").textContent = p50 === null ? "–" : `≤ ${time(p50)}`;
  $("p99").textContent = p99 === null ? "–" : `≤ ${time(p99)}`;
}

function showKeys(keys) {
  const columns = [["key"], ["rule", "spare"], ["count", "number"], ["", "number"]];
  const rows = (list) => list.map((key) => {
    const text = key.entries.map(([name, value]) => `${name}=${value}`).join(", ");
    const error = key.error > 0 ? ` −${whole(key.error)}` : "";
    return [text + (key.whole ? "" : "…"), `${key.domain}: ${key.rule}`, whole(key.count) + error, why(key, keys.hashed)];
  });
  const span = `last ${keys.seconds} s`;
  const note = (total, error) => {
    const hidden = keys.hashed ? " Values are hashes: explain.show_values is off." : "";
    const missed = keys.missed > 0 ? ` ${whole(keys.missed)} were not counted.` : "";
    return `${whole(total)} in the ${span}; a count is at most ${whole(error)} too high.${missed}${hidden}`;
  };
  $("denied-note").textContent = note(keys.denials, keys.denialErrorMax);
  $("hot-note").textContent = note(keys.decisions, keys.errorMax);
  fill($("most-denied"), columns, rows(keys.mostDenied), "no request was denied");
  fill($("hottest"), columns, rows(keys.hottest), "no request met a limit");
}

// A button that explains a key, if its values are known.
function why(key, isHashed) {
  if (isHashed || !key.whole) return "";
  const button = node("button", "", "Why?");
  button.type = "button";
  button.addEventListener("click", () => {
    $("domain").value = key.domain;
    $("descriptor").value = descriptorText(key.entries);
    $("request-id").value = "";
    explain();
    $("explain").scrollIntoView();
  });
  return button;
}

function showRules(snapshot) {
  const columns = [["rule"], ["limit", "spare"], ["per s", "number"], ["denied per s", "number"], ["denied", "number spare"], ["budget used", "bar"]];
  const rows = snapshot.rules.filter((rule) => rule.domain).map((rule) => {
    return [
      `${rule.domain}: ${rule.name || rule.rule || "(no limit)"}`,
      rule.limit ?? "",
      perSecond(history.ruleRate(rule.domain, rule.rule)),
      perSecond(history.ruleRate(rule.domain, rule.rule, DENIED)),
      `${whole(sum(rule.counts, DENIED))} of ${whole(sum(rule.counts))}`,
      budget(rule.budget),
    ];
  });
  fill($("rules"), columns, rows, "no decision yet");
  const domains = [...new Set(snapshot.rules.map((rule) => rule.domain).filter(Boolean))];
  if ($("domains").children.length !== domains.length) {
    $("domains").replaceChildren(...domains.map((domain) => new Option(domain, domain)));
    if (domains.length === 1 && !$("domain").value) $("domain").value = domains[0];
  }
  const outcomes = Object.entries(snapshot.outcomes).map(([name, count]) =>
    [name, perSecond(history.rate((one) => one.outcomes[name] ?? 0)), whole(count)]);
  fill($("outcomes"), [["outcome"], ["per s", "number"], ["since the start", "number"]], outcomes, "no decision yet");
}

function budget(found) {
  if (!found) return "";
  const meter = node("meter");
  [meter.max, meter.value] = [found.capacity, found.used];
  // A budget that is nearly used up has another colour.
  [meter.low, meter.high, meter.optimum] = [0.5 * found.capacity, 0.9 * found.capacity, 0];
  const share = `${Math.round(100 * found.used / Math.max(1, found.capacity))} %`;
  meter.setAttribute("aria-label", `${whole(found.used)} of ${whole(found.capacity)}`);
  return node("span", "", meter, ` ${share}`);
}

function showStores({ memory, stores }) {
  const rows = [];
  if (memory) {
    rows.push(["memory: live keys", whole(memory.liveKeys)], ["live keys evicted", whole(memory.evictedKeys)],
      ["memory: most", bytes(memory.bytesMax)], ["used by large states", bytes(memory.arenaBytes)]);
  }
  for (const store of stores) {
    const { metrics } = store;
    rows.push([store.name, store.up ? "up" : node("span", "bad", "unavailable")]);
    if (store.breaker) {
      rows.push(["circuit breaker", store.breaker === "open" ? node("span", "bad", "open") : store.breaker]);
    }
    if (store.trouble) rows.push(["why", node("div", "bad trouble", store.trouble)]);
    rows.push(
      ["instances", whole(store.instances)], ["decided by on_store_error", whole(store.fallbacks)],
      ["circuit breaker opened", whole(metrics.breaker_openings)], ["keys with a lease", whole(metrics.leases_held)],
      ["leases granted", whole(metrics.leases)], ["requests without a reply", whole(metrics.outcome_unknown)]);
  }
  fill($("stores"), [["what"], ["now", "number"]], rows, "");
}

// The upstreams and routes of a gateway, if there is one.
function showGateway(gateway) {
  $("gateway").hidden = !gateway;
  if (!gateway) return;
  const bad = (count) => count > 0 ? node("span", "bad", whole(count)) : "0";
  const upstreams = gateway.upstreams.map(({ upstream, answers, errors }) => {
    const times = history.upstreamTimes(upstream, [0.5, 0.99]);
    return [upstream, perSecond(history.upstreamRate(upstream)), ...times.map((bound) => bound === null ? "–" : `≤ ${time(bound)}`), whole(answers), bad(sum(errors))];
  });
  const number = (title) => [title, "number"];
  const spare = (title) => [title, "number spare"];
  fill($("upstreams"), [["upstream"], number("per s"), spare("p50"), number("p99"), spare("answers"), number("not answered")],
    upstreams, "no upstream");
  const routes = gateway.routes.map(({ route, counts }) => {
    const { forwarded = 0, canceled = 0 } = counts;
    const denied = sum(counts, ROUTE_DENIED);
    const failed = sum(counts) - forwarded - denied - canceled;
    return [route || "(no route)", perSecond(history.routeRate(route)), whole(forwarded), whole(denied), whole(canceled), bad(failed)];
  });
  fill($("routes"), [["route"], number("per s"), number("forwarded"), number("denied"), spare("canceled"), number("failed")],
    routes, "no request yet");
}

function showReloads({ ok, failed, recent }) {
  const rows = recent.map((reload) => {
    const found = reload.diagnostics.map((one) =>
      node("div", one.severity === "error" ? "bad" : "", `${one.file}:${one.line}:${one.column}: ${one.message}${one.help ? `; ${one.help}` : ""}`));
    const some = (count, what) => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;
    const summary = `${reload.ok ? "in effect" : "failed"}: ${some(reload.rules, "rule")} in ${some(reload.domains, "domain")}`;
    const more = reload.omitted > 0 ? [node("div", "muted", `and ${whole(reload.omitted)} more`)] : [];
    const unreadable = reload.unreadable ? [node("div", "bad", reload.unreadable)] : [];
    return [ago(reload.secondsAgo), node("div", "", node("div", reload.ok ? "" : "bad", summary), ...unreadable, ...found, ...more)];
  });
  fill($("reloads"), [["when"], ["what"]], rows, `${whole(ok)} ok, ${whole(failed)} failed`);
}

async function explain() {
  const query = new URLSearchParams();
  const id = $("request-id").value.trim();
  if (id) {
    query.set("request_id", id);
  } else {
    query.set("domain", $("domain").value.trim());
    query.set("descriptor", $("descriptor").value.trim());
  }
  const output = $("explanation");
  output.hidden = false;
  try {
    const response = await request(`/v1/explain?${query}`, { accept: "text/plain" });
    const text = await response.text();
    output.textContent = response.ok ? text : JSON.parse(text).detail;
  } catch (error) {
    output.textContent = `no answer from the service: ${error.message}`;
  }
}

$("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  explain();
});
$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  follow();
});
follow();
