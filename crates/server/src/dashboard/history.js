// What the last snapshots say about rates and times. Bounded: a page that is open for days keeps no
// more than one that is open for five minutes.

export const SECONDS = 300;
const POINTS_MAX = SECONDS;
// Snapshots that rates and percentiles are made of.
const SNAPSHOTS_MAX = 11;
const RATE_SECONDS = 5;
const ALLOWED = ["allowed", "over_soft"];
const OTHER = ["store_unavailable", "shadow_denied", "quota_over", "uncharged", "unlimited", "no_limit", "unknown_domain"];

const sum = (counts, names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);

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

  // What `read` of a snapshot grows by in a second; null with a single snapshot.
  rate(read, seconds = RATE_SECONDS) {
    const [before, latest] = [this.before(seconds), this.snapshots.at(-1)];
    const millis = latest.uptimeMillis - before.uptimeMillis;
    return millis > 0 ? Math.max(0, read(latest) - read(before)) * 1000 / millis : null;
  }

  rates(seconds = RATE_SECONDS) {
    return [ALLOWED, ["denied"], OTHER].map((names) => this.rate((one) => sum(one.outcomes, names), seconds));
  }

  ruleRate(domain, rule, names) {
    return this.rate((one) => {
      const found = one.rules.find((other) => other.domain === domain && other.rule === rule);
      return found ? sum(found.counts, names ?? Object.keys(found.counts)) : 0;
    });
  }

  // The upper bounds, in seconds, of what shares of the decisions of all listeners took, or of other
  // lists of buckets that `read` finds in a snapshot; null without any.
  percentiles(shares, seconds = 10, read = (one) => Object.values(one.latency)) {
    const [before, latest] = [this.before(seconds), this.snapshots.at(-1)];
    const buckets = new Map();
    for (const [snapshot, sign] of [[latest, 1], [before, -1]]) {
      for (const list of read(snapshot)) {
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
