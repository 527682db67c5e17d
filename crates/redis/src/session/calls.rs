//! Sending: requests in groups that share a script call.

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Call, Sent, Session};
use crate::failure::Failure;
use crate::request_queue::{Pending, Redirected};
use crate::resp::{self, Reply};
use crate::script_request::{General, Plain, ScriptKind, ScriptRequest};

/// The most keys in one call of the general script.
const KEYS_MAX: usize = 256;

impl Session<'_> {
    /// Calls `send` with groups of as many requests as may share a call.
    pub(super) fn send_in_groups(
        &mut self,
        mut requests: Vec<Pending>,
        send: impl Fn(&mut Self, Vec<Pending>),
    ) {
        let shares_slots = self.slot_sharing.is_on();
        if !shares_slots {
            requests.retain_mut(has_one_slot);
        }
        if requests.is_empty() {
            return;
        }
        // Read-only requests do not share a call with writes: if Redis is out of memory, one failed
        // write fails the whole call.
        let call_group = |pending: &Pending| {
            let writes = pending.request.writes();
            let script = pending.request.script();
            let slot = match shares_slots && pending.redirected == Redirected::No {
                true => None,
                false => pending.slot,
            };
            (pending.redirected, slot, writes, script)
        };
        requests.sort_by_key(call_group);
        let mut group: Vec<Pending> = Vec::new();
        let mut keys = 0;
        for pending in requests {
            let count = pending.request.keys().len();
            let shares = group.first().is_none_or(|first| {
                let is_alone = first.redirected != Redirected::No;
                !is_alone && call_group(first) == call_group(&pending)
            });
            let is_full = group.len() >= self.task.batch || keys + count > KEYS_MAX;
            if !shares || is_full && !group.is_empty() {
                send(self, std::mem::take(&mut group));
                keys = 0;
            }
            keys += count;
            group.push(pending);
        }
        send(self, group);
    }

    pub(super) fn send_plain(&mut self, mut group: Vec<Pending>) {
        group.sort_by_key(|pending| pending.request.is_leasing());
        self.send_asking(&group);
        let requests = group.iter().map(|pending| &pending.request);
        let plain: Vec<Plain> = requests.filter_map(ScriptRequest::as_plain).collect();
        let spans = spans_slots(&group);
        self.task.caller.call_plain(&mut self.out, &plain, spans);
        self.count_sent(&group);
        self.push_call(Sent::Plain(group));
    }

    pub(super) fn send_general(&mut self, group: Vec<Pending>) {
        self.send_asking(&group);
        let requests = group.iter().map(|pending| &pending.request);
        let requests: Vec<&General> = requests.filter_map(ScriptRequest::as_general).collect();
        let spans = spans_slots(&group);
        self.task
            .caller
            .call_general(&mut self.out, &requests, spans);
        self.count_sent(&group);
        self.push_call(Sent::General(group));
    }

    /// Counts the requests of one script call as in flight.
    fn count_sent(&mut self, group: &[Pending]) {
        self.requests += group.len();
        self.shared.stats.count_call(group.len());
        self.watch(group);
    }

    pub(super) fn send_asking(&mut self, group: &[Pending]) {
        let first = group.first().map(|pending| pending.redirected);
        if first == Some(Redirected::Ask) {
            resp::command(&mut self.out, 1);
            resp::word(&mut self.out, b"ASKING");
            self.push_call(Sent::Asking);
        }
    }

    pub(super) fn send_command(
        &mut self,
        words: &[Vec<u8>],
        reply: oneshot::Sender<Result<Reply, Failure>>,
    ) {
        resp::command(&mut self.out, words.len());
        words
            .iter()
            .for_each(|word| resp::word(&mut self.out, word));
        self.push_call(Sent::Command(reply));
    }

    pub(super) fn push_call(&mut self, sent: Sent) {
        let at = Instant::now();
        self.sent.push_back(Call { sent, at });
    }

    /// Sends `SCRIPT LOAD`, unless it is in flight.
    pub(super) fn load(&mut self) {
        if self.loading > 0 {
            return;
        }
        self.shared.stats.count_script_load();
        self.task.opener.load(&mut self.out);
        let scripts = ScriptKind::ALL.len();
        (0..scripts).for_each(|_| self.push_call(Sent::Load));
        self.loading = scripts;
    }
}

/// Whether the requests of one call are in several slots.
pub(super) fn spans_slots(group: &[Pending]) -> bool {
    let mut slots = group.iter().map(|pending| pending.slot);
    let first = slots.next().flatten();
    first.is_none() || slots.any(|slot| slot != first)
}

/// Whether the request is in one slot; it fails otherwise.
pub(super) fn has_one_slot(pending: &mut Pending) -> bool {
    if pending.slot.is_none() {
        pending.fail(&Failure::Apart);
    }
    pending.slot.is_some()
}
