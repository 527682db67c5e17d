// What the last snapshots say about rates and times. Bounded: a page that is open for days keeps no
// more than one that is open for five minutes.

export const SECONDS = 300;
const POINTS_MAX = SECONDS;
// Snapshots that rates and percentiles are made of.
const SNAPSHOTS_MAX = 11;
const RATE_SECONDS = 5;
// A snapshot has at most so many rules, and so many routes and upstreams, the busiest.
const RULES_MAX = 100;
const ROUTES_MAX = 50;
const ALLOWED = ["allowed", "over_soft"];
// Without the store, whether the limit is exceeded is unknown.
export const DENIED = ["denied", "store_unavailable"];
const OTHER = ["shadow_denied", "quota_over", "uncharged", "unlimited", "no_limit", "unknown_domain"];

export const sum = (counts, names = Object.keys(counts)) =>
  names.reduce((total, name) => total + (counts[name] ?? 0), 0);

// What `read` finds in one of the busiest: `nothing` if all are listed and it is not among them; null
// if it may have been left out.
function readOne(busiest, most, isIt, read, nothing) {
  const found = busiest.find(isIt);
  if (found) return read(found);
  return busiest.length < most ? nothing : null;
}

const readUpstream = (snapshot, upstream, read, nothing) =>
  readOne(snapshot.gateway?.upstreams ?? [], ROUTES_MAX, (one) => one.upstream === upstream, read, nothing);

// Whether the service was restarted between two snapshots. With a long break between them, its uptime
// does not tell, but the times of its decisions do: unlike the outcomes, of which a reload takes those
// of former rules, they only grow while it runs.
function isRestarted(last, next) {
  const decisions = (snapshot, listener) => snapshot.latency[listener]?.at(-1)?.[1] ?? 0;
  const hasLost = (listener) => decisions(next, listener) < decisions(last, listener);
  return next.uptimeMillis <= last.uptimeMillis || Object.keys(last.latency).some(hasLost);
}

export class History {
  constructor() {
    this.points = [];
    this.snapshots = [];
  }

  // Adds a snapshot. One of a service that was restarted begins a new history.
  push(snapshot) {
    const last = this.snapshots.at(-1);
    if (last && isRestarted(last, snapshot)) {
      this.points = [];
      this.snapshots = [];
    }
    this.snapshots.push(snapshot);
    if (this.snapshots.length > SNAPSHOTS_MAX) this.snapshots.shift();
    const [allowed, denied, other] = this.rates(1);
    const times = this.percentiles([0.5, 0.9, 0.99], 2);
    this.points.push({ at: snapshot.uptimeMillis / 1000, rates: [allowed, denied, other], times });
    if (this.points.length > POINTS_MAX) this.points.shift();
  }

  // The snapshot so many seconds before the latest one, or the earliest.
  before(seconds) {
    const latest = this.snapshots.at(-1);
    const early = this.snapshots.filter((one) => latest.uptimeMillis - one.uptimeMillis >= seconds * 1000 - 500);
    return early.at(-1) ?? this.snapshots[0];
  }

  // What `read` of a snapshot grows by in a second; null with a single snapshot, or if it is null in
  // one of both.
  rate(read, seconds = RATE_SECONDS) {
    const [before, latest] = [this.before(seconds), this.snapshots.at(-1)];
    const millis = latest.uptimeMillis - before.uptimeMillis;
    const [from, to] = [read(before), read(latest)];
    return millis > 0 && from !== null && to !== null ? Math.max(0, to - from) * 1000 / millis : null;
  }

  rates(seconds = RATE_SECONDS) {
    return [ALLOWED, DENIED, OTHER].map((names) => this.rate((one) => sum(one.outcomes, names), seconds));
  }

  ruleRate(domain, rule, names) {
    const isIt = (one) => one.domain === domain && one.rule === rule;
    return this.rate((one) => readOne(one.rules, RULES_MAX, isIt, ({ counts }) => sum(counts, names), 0));
  }

  routeRate(route) {
    const isIt = (one) => one.route === route;
    return this.rate((one) => readOne(one.gateway?.routes ?? [], ROUTES_MAX, isIt, ({ counts }) => sum(counts), 0));
  }

  upstreamRate(upstream) {
    return this.rate((one) => readUpstream(one, upstream, ({ answers }) => answers, 0));
  }

  upstreamTimes(upstream, shares) {
    return this.percentiles(shares, 10, (one) => readUpstream(one, upstream, ({ times }) => [times], []));
  }

  // The upper bounds, in seconds, of what shares of the decisions of all listeners took, or of other
  // lists of buckets that `read` finds in a snapshot; null without any, or if `read` is null.
  percentiles(shares, seconds = 10, read = (one) => Object.values(one.latency)) {
    const [before, latest] = [this.before(seconds), this.snapshots.at(-1)];
    const buckets = new Map();
    const found = [[read(latest), 1], [read(before), -1]];
    if (found.some(([lists]) => lists === null)) return shares.map(() => null);
    for (const [lists, sign] of found) {
      for (const list of lists) {
        for (const [bound, count] of list) buckets.set(bound, (buckets.get(bound) ?? 0) + sign * count);
      }
    }
    const sorted = [...buckets].sort(([a], [b]) => a - b);
    const total = sorted.at(-1)?.[1] ?? 0;
    return shares.map((share) => total > 0 ? sorted.find(([, count]) => count >= share * total)[0] : null);
  }

  // The points of a chart, of `rates` or `times`.
  chart(kind) {
    const now = this.points.at(-1).at;
    const recent = this.points.filter((point) => now - point.at <= SECONDS);
    return recent.map((point) => ({ age: now - point.at, values: point[kind] }));
  }
}
