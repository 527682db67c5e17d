//! The task that reports local counts to Redis.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep_until};
use tollgate_core::Span;

use super::report::{self, Line, Report};
use super::table::Table;
use crate::caches::Caches;
use crate::failure::Failure;
use crate::join::join_all;
use crate::resp::Malformed;
use crate::router::{NodeFailure, Router};
use crate::script_reply::ScriptReply;
use crate::snapshot::Snapshot;
use crate::stats::Stats;

/// Lines of one message; at most [`AT_ONCE`] messages are in flight. So decisions that share a
/// connection with them wait for few lines. In a Cluster a message is split over many nodes and
/// slots, so it has more lines.
const LINES: usize = 2 * report::LINES_MAX;
const LINES_OF_CLUSTER: usize = 16 * report::LINES_MAX;
const AT_ONCE: usize = 2;
/// How long a report is awaited, beyond the timeout of a decision. By then a silent connection has
/// been closed, so a late reply is still applied.
const LATE: Duration = Duration::from_secs(1);

/// Reports local counts to Redis.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) table: Arc<Table>,
    pub(crate) router: Arc<Router>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) caches: Arc<Caches>,
}

/// The outcome of a report.
pub(crate) struct Sent {
    /// Lines for which Redis has replied with the count.
    applied: usize,
    /// Why it has not for the others: the first failure.
    pub(crate) failure: Option<NodeFailure>,
}

// === impl Reporter ===

impl Reporter {
    /// Reports at every interval; never returns.
    ///
    /// Units must have been reported within an interval and a timeout. So if a round of reports
    /// took longer than half the timeout, because it has very many keys, the next one starts
    /// earlier by that time, but not by more than half the interval. If rounds take longer than
    /// that, the table decides less ([`Table::adapt`]).
    pub(crate) async fn keep(self, (every, timeout): (Span, Span)) {
        let (every, half) = (Duration::from(every), Duration::from(every) / 2);
        let in_time = Duration::from(timeout) / 2;
        loop {
            let start = Instant::now();
            let lines = self.report_round().await;
            let took = start.elapsed();
            if let Some(lines) = lines {
                self.table.adapt(lines, took, half);
            }
            let rest = match took {
                took if took <= in_time => every,
                took => every.saturating_sub(took).max(half),
            };
            sleep_until(start + rest).await;
        }
    }

    /// Reports all lines that are due, and returns their number; `None` if some could not be
    /// reported, which are then left for another round.
    pub(crate) async fn report_round(&self) -> Option<usize> {
        self.table.begin_round();
        let most = match self.router.is_cluster() {
            true => LINES_OF_CLUSTER,
            false => LINES,
        };
        let reporter = || async {
            let (mut lines, mut is_complete) = (0, true);
            loop {
                let report = self.table.take_due(most);
                if report.lines.is_empty() {
                    return is_complete.then_some(lines);
                }
                let sent = self.send(report).await;
                if sent.applied == 0 {
                    return None;
                }
                // In a Cluster, one unreachable node does not delay reports to the others.
                lines += sent.applied;
                is_complete &= sent.failure.is_none();
            }
        };
        let lines = join_all((0..AT_ONCE).map(|_| reporter()).collect()).await;
        lines.into_iter().sum()
    }

    /// Sends a report, and applies the replies to the table.
    pub(crate) async fn send(&self, report: Report) -> Sent {
        let groups = report.into_groups(self.router.is_cluster());
        let request = |at: usize| report::request(&groups[at]);
        let since = Instant::now() + LATE;
        let (answers, messages) = self.router.ask_all(groups.len(), request, since).await;
        let stats = &self.stats;
        stats.count_report(messages, groups.iter().map(Vec::len).sum());
        let mut sent = Sent {
            applied: 0,
            failure: None,
        };
        for (lines, answer) in groups.into_iter().zip(answers) {
            // A line without parts only fetches a count.
            let charged = lines.iter().filter(|line| !line.parts.is_empty());
            charged.for_each(|line| self.caches.forget(line.key));
            let applied = answer.and_then(|reply| apply_replies(&reply, &lines, &self.table));
            let Err(failure) = applied else {
                sent.applied += lines.len();
                continue;
            };
            match &failure.failure {
                // The connection broke, or is as good as broken: it may have been charged.
                Failure::OutcomeUnknown | Failure::Malformed(_) => {
                    stats.count_lost_report();
                    lines.iter().for_each(|line| self.table.drop_line(line));
                }
                _ => lines.into_iter().for_each(|line| self.table.put_back(line)),
            }
            sent.failure.get_or_insert(failure);
        }
        sent
    }
}

fn apply_replies(reply: &ScriptReply, lines: &[Line], table: &Table) -> Result<(), NodeFailure> {
    let ScriptReply::General(general) = reply else {
        return Err(NodeFailure::bad_reply(lines[0].key));
    };
    let read = |(line, state): (&Line, _)| match Snapshot::read(state, &line.fitted)? {
        Snapshot::Log(_) => Err(Malformed("a state of another algorithm")),
        snapshot => Ok(snapshot),
    };
    let pairs = lines.iter().zip(&general.states);
    let snapshots: Result<Vec<_>, Malformed> = pairs.map(read).collect();
    let snapshots = snapshots.map_err(|_| NodeFailure::bad_reply(lines[0].key))?;
    if snapshots.len() != lines.len() {
        return Err(NodeFailure::bad_reply(lines[0].key));
    }
    for (line, snapshot) in lines.iter().zip(snapshots) {
        table.apply_reply(line, snapshot, general.now);
    }
    Ok(())
}
