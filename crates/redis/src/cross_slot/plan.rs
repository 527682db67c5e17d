//! The lines of a round of requests, by slot, and the slots' replies.

mod at_once;

mod undo;

use std::collections::BTreeMap;

use bytes::Buf;
use tollgate_core::{Enforcement, Key, Line, Span};

use super::grouping::Grouping;
use super::outcome::{Commitment, Outcome};
use super::parts::{LineState, SplitRequest};
use crate::fit::FittedLimit;
use crate::resp::Malformed;
use crate::router::{Form, NodeFailure};
use crate::script_reply::{General, Status};
use crate::script_request::{ScriptRequest, Step, StepLine};
use crate::snapshot::Snapshot;

/// All lines of a round. Requests with equal lines share them.
pub(super) struct Plan<'a> {
    lines: Vec<Planned<'a>>,
    pub(super) parts: Vec<Part>,
    /// The lines of each request.
    of_requests: Vec<Vec<usize>>,
}

struct Planned<'a> {
    line: Line<'a>,
    fitted: FittedLimit,
    part: usize,
    /// The first line on the same key.
    first: usize,
    /// How many requests share it.
    times: u32,
}

/// The lines in one slot, or on one key.
pub(super) struct Part {
    pub(super) key: Key,
    lines: Vec<usize>,
}

/// For each line, the number of allowed and of denied requests that it is charged for.
pub(super) struct Counts {
    pub(super) allowed: Vec<u32>,
    pub(super) denied: Vec<u32>,
}

/// The replies of the slots, and the reserved units that no request has used yet.
pub(super) struct Ledger {
    lines: Vec<Option<ScriptReply>>,
    /// For each part, why there is no reply.
    failures: Vec<Option<NodeFailure>>,
    /// The timeout of a decision.
    timeout: Span,
}

struct ScriptReply {
    before: LineState,
    /// The state after the allowed requests; kept for the first line of each key.
    after: LineState,
    /// The number of further requests that the line is reserved for.
    reserved: u32,
}

// === impl Plan ===

impl<'a> Plan<'a> {
    /// Plans one round for all `requests`: equal lines are merged, and lines are grouped.
    pub(super) fn new(requests: &[SplitRequest<'a>], grouping: Grouping) -> Plan<'a> {
        let mut plan = Plan {
            lines: Vec::new(),
            parts: Vec::new(),
            of_requests: Vec::with_capacity(requests.len()),
        };
        let mut of_keys: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for request in requests {
            let pairs = request.bill.lines().iter().zip(&request.fitted);
            let indexes = pairs.map(|(line, fitted)| {
                let of_key = of_keys.entry(line.charge.key).or_default();
                plan.index_of(line, fitted, of_key)
            });
            let indexes = indexes.collect();
            plan.of_requests.push(indexes);
        }
        let mut parts: BTreeMap<_, Part> = BTreeMap::new();
        for (index, planned) in plan.lines.iter().enumerate() {
            let key = planned.line.charge.key;
            let lines = Vec::new();
            let part = parts.entry(grouping.part_of(key));
            let part = part.or_insert(Part { key, lines });
            part.lines.push(index);
        }
        plan.parts = parts.into_values().collect();
        for (index, part) in plan.parts.iter().enumerate() {
            for line in &part.lines {
                plan.lines[*line].part = index;
            }
        }
        plan
    }

    /// The index of a line, which is added unless an equal one is known.
    fn index_of(
        &mut self,
        line: &Line<'a>,
        fitted: &FittedLimit,
        of_key: &mut Vec<usize>,
    ) -> usize {
        let known = of_key.iter().find(|index| self.lines[**index].is(line));
        let index = known.copied().unwrap_or(self.lines.len());
        if index == self.lines.len() {
            of_key.push(index);
            self.lines.push(Planned {
                line: *line,
                fitted: *fitted,
                part: 0,
                first: of_key[0],
                times: 0,
            });
        }
        self.lines[index].times += 1;
        index
    }

    pub(super) fn no_counts(&self) -> Counts {
        Counts {
            allowed: vec![0; self.lines.len()],
            denied: vec![0; self.lines.len()],
        }
    }

    /// The script request that reserves all lines of a part, each for all requests that share it.
    pub(super) fn reserve(&self, step: Step, part: usize, form: Form) -> ScriptRequest {
        self.request(step, part, form, |line| (self.lines[line].times, 0))
    }

    /// The script request that confirms or releases all lines of a part.
    pub(super) fn settle(
        &self,
        step: Step,
        part: usize,
        counts: &Counts,
        form: Form,
    ) -> ScriptRequest {
        self.request(step, part, form, |line| {
            (counts.allowed[line], counts.denied[line])
        })
    }

    /// A script request for one step on all lines of a part, with the `counts` of each.
    fn request(
        &self,
        step: Step,
        part: usize,
        form: Form,
        counts: impl Fn(usize) -> (u32, u32),
    ) -> ScriptRequest {
        let counted = self.parts[part].lines.iter().map(|index| {
            let planned = &self.lines[*index];
            let (times, denied) = counts(*index);
            StepLine {
                line: &planned.line,
                fitted: &planned.fitted,
                times,
                denied,
            }
        });
        let counted: Vec<_> = counted.collect();
        let short = match form {
            Form::Short => ScriptRequest::reservation(step, &counted),
            Form::General => None,
        };
        short.unwrap_or_else(|| ScriptRequest::of_step(step, &counted))
    }

    /// Whether a part is charged for any allowed request, and for any denied one.
    pub(super) fn charges(&self, part: usize, counts: &Counts) -> (bool, bool) {
        let lines = &self.parts[part].lines;
        let any = |of: &[u32]| lines.iter().any(|line| of[*line] > 0);
        (any(&counts.allowed), any(&counts.denied))
    }

    /// Whether the reservation of a part is to be repeated until others have released theirs: not
    /// for shadow limits, which keep no request waiting.
    pub(super) fn is_blocked(&self, part: usize, reply: &General) -> bool {
        let mut lines = self.parts[part].lines.iter();
        let enforcement = |line: &usize| self.lines[*line].line.charge.enforcement;
        reply.status == Status::Blocked
            && lines.any(|line| enforcement(line) != Enforcement::Shadow)
    }

    /// The part of a line.
    pub(super) fn part(&self, line: usize) -> usize {
        self.lines[line].part
    }

    /// Counts a denied request in each of its lines that charge for denials.
    pub(super) fn penalise(&self, request: usize, counts: &mut Counts) {
        for line in &self.of_requests[request] {
            if self.lines[*line].line.penalty() > 0 {
                counts.denied[*line] += 1;
            }
        }
    }

    /// Whether a denial of the request is charged.
    pub(super) fn penalises(&self, request: usize) -> bool {
        let mut lines = self.of_requests[request].iter();
        lines.any(|line| self.lines[*line].line.penalty() > 0)
    }
}

impl Planned<'_> {
    /// Whether the lines are equal; all lines of a key in a round have the same limit.
    fn is(&self, line: &Line<'_>) -> bool {
        let asks = |line: &Line<'_>| {
            let units = [line.take(), line.penalty(), line.refund()];
            (line.charge.enforcement, line.units_judged(), units)
        };
        asks(&self.line) == asks(line)
    }
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(plan: &Plan<'_>, timeout: Span) -> Ledger {
        Ledger {
            lines: plan.lines.iter().map(|_| None).collect(),
            failures: plan.parts.iter().map(|_| None).collect(),
            timeout,
        }
    }

    /// Reads the replies of the parts that were called.
    pub(super) fn read(
        &mut self,
        plan: &Plan<'_>,
        reply: impl Iterator<Item = (usize, Result<General, NodeFailure>)>,
    ) {
        for (index, reply) in reply {
            let part = &plan.parts[index];
            let read = reply.and_then(|reply| {
                let read = self.read_part(plan, part, &reply);
                read.map_err(|_| NodeFailure::bad_reply(part.key))
            });
            // If the key needs the general script, nothing was done: the next round uses that.
            let failure = read.err();
            self.failures[index] = failure.filter(|failed| !failed.needs_general());
        }
    }

    /// Reads the reply to the script call of one slot: for each line, the units reserved and the
    /// state found.
    fn read_part(
        &mut self,
        plan: &Plan<'_>,
        part: &Part,
        reply: &General,
    ) -> Result<(), Malformed> {
        if part.lines.len() != reply.states.len() {
            return Err(Malformed("a reply that does not match the request"));
        }
        for (line, state) in part.lines.iter().zip(&reply.states) {
            let mut state = state.clone();
            let short = |_| Malformed("a reply is too short");
            let reserved = state.try_get_u32().map_err(short)?;
            let line_state = LineState {
                now: reply.now,
                snapshot: Snapshot::read_line(&state, &plan.lines[*line].fitted)?,
            };
            self.lines[*line] = Some(ScriptReply {
                before: line_state.clone(),
                after: line_state,
                reserved,
            });
        }
        Ok(())
    }

    /// Whether a part is known to have reserved units; after a lost reply it may have some as well.
    pub(super) fn may_hold(&self, plan: &Plan<'_>, part: usize) -> bool {
        let holds = |line: &usize| {
            let reserved = self.lines[*line].as_ref().map_or(0, |reply| reply.reserved);
            reserved > 0 && plan.lines[*line].line.take() > 0
        };
        plan.parts[part].lines.iter().any(holds)
    }

    /// Whether the outcome of a part's reservation is unknown.
    pub(super) fn is_unknown(&self, part: usize) -> bool {
        let failure = self.failures[part].as_ref();
        failure.is_some_and(|failed| failed.failure.is_unknown())
    }

    /// Whether the keys of a part are on two nodes, because their slot migrates.
    pub(super) fn is_split(&self) -> bool {
        self.failures.iter().flatten().any(NodeFailure::is_split)
    }

    /// Decides a request of the round, after those before it.
    pub(super) fn judge(
        &mut self,
        plan: &Plan<'_>,
        index: usize,
        (request, commitment): (&SplitRequest<'_>, Commitment),
    ) -> Outcome {
        let lines = &plan.of_requests[index];
        let failed = |line: &usize| self.failures[plan.part(*line)].as_ref();
        if let Some(failed) = lines.iter().find_map(failed) {
            // The next round has a part for each key. But it does not repeat refunds.
            if failed.is_split() && commitment != Commitment::Committed && !request.refunds() {
                return Outcome::Blocked;
            }
            let failed = match commitment {
                // Everything else was reserved, and this part was to be charged immediately.
                Commitment::Committed => failed.clone(),
                // What was lost was a reservation, which expires, or was charged for other
                // requests.
                Commitment::Open | Commitment::Excluded => failed.clone().into_unsent(),
            };
            return Outcome::Failed(failed.into_error(self.timeout));
        }
        let reply: Option<Vec<&ScriptReply>> = lines
            .iter()
            .map(|line| self.lines[*line].as_ref())
            .collect();
        // These parts were not called because no caller waited, or they need the general script.
        let Some(reply) = reply else {
            return Outcome::Blocked;
        };
        let before: Vec<&LineState> = reply.iter().map(|reply| &reply.before).collect();
        let waits = request.waits(&before);
        if let Some(denied) = request.bill.denied_by(&waits) {
            let mut line_states: Vec<LineState> = before.into_iter().cloned().collect();
            let verdict = request.verdict(&mut line_states, Some(denied));
            return verdict.map_or_else(Outcome::bad_reply, Outcome::Denied);
        }
        let lacks = |line: &usize| waits[*line].is_none() && reply[*line].reserved == 0;
        let lacking: Vec<usize> = (0..lines.len()).filter(lacks).collect();
        let is_excluded = commitment == Commitment::Excluded;
        if is_excluded || !lacking.iter().all(|line| request.gives_way(*line)) {
            return Outcome::Blocked;
        }
        let charged = request.charged_lines(&waits);
        let charged = charged.filter(|line| !lacking.contains(line));
        let charged: Vec<usize> = charged.map(|line| lines[line]).collect();
        let mut outcome = self.allow(plan, lines, request, charged);
        if let Outcome::Allowed(verdict, _) = &mut outcome {
            request.deny_lines(verdict, &lacking);
        }
        outcome
    }

    /// Decides on a request whose reservations all succeeded, and records what it charges.
    ///
    /// Lines that it charges are decided on the states as earlier requests of the round left them.
    /// The others, which only ask or belong to a limit that is exceeded and does not deny, are
    /// decided on what their slot found, as if the request had come first: that is what was judged,
    /// and a log's reply says when the units of its own line fit, not those of other lines.
    fn allow(
        &mut self,
        plan: &Plan<'_>,
        lines: &[usize],
        request: &SplitRequest<'_>,
        charged: Vec<usize>,
    ) -> Outcome {
        let first = |line: &usize| plan.lines[*line].first;
        let state = |line: &usize| match charged.contains(line) {
            true => Some(self.lines[first(line)].as_ref()?.after.clone()),
            false => Some(self.lines[*line].as_ref()?.before.clone()),
        };
        let line_states: Option<Vec<LineState>> = lines.iter().map(state).collect();
        let mut line_states = line_states.expect("one reply has all lines of a part");
        let verdict = match request.verdict(&mut line_states, None) {
            Ok(verdict) => verdict,
            Err(error) => return Outcome::bad_reply(error),
        };
        let pairs = lines.iter().zip(line_states);
        for (line, line_state) in pairs.filter(|(line, _)| charged.contains(line)) {
            if let Some(reply) = &mut self.lines[first(line)] {
                reply.after = line_state;
            }
            if let Some(reply) = &mut self.lines[*line] {
                reply.reserved -= 1;
            }
        }
        Outcome::Allowed(verdict, charged)
    }
}
