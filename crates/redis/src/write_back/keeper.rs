//! Whoever tells Redis what was admitted here.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep_until};
use tollgate_core::Span;

use super::report::{self, Line, Report};
use super::table::Table;
use crate::failure::Failure;
use crate::reach::{Asked, Reach};
use crate::resp::Malformed;
use crate::seen::Seen;
use crate::stats::Stats;
use crate::told::Told;

/// Reports at every interval; never ends.
///
/// Units must be reported, not only about to be, within an interval and a timeout. So if a report
/// took longer than half the timeout, because it is of very many keys, the next one comes as much
/// sooner, but not by more than half the interval. For as long, and a timeout, it is waited for.
pub(crate) async fn keep(
    table: Arc<Table>,
    reach: Arc<Reach>,
    stats: Arc<Stats>,
    (every, timeout): (Span, Span),
) {
    let (every, half) = (Duration::from(every), Duration::from(every) / 2);
    let in_time = Duration::from(timeout) / 2;
    loop {
        let start = Instant::now();
        let report = table.due();
        // Keys whose report fails ask at their next decision.
        let _heard_then = send(report, &table, &reach, &stats, start + half).await;
        let rest = match start.elapsed() {
            took if took <= in_time => every,
            took => every.saturating_sub(took).max(half),
        };
        sleep_until(start + rest).await;
    }
}

/// Reports, and tells the table what came back; the first failure, if there is any.
pub(crate) async fn send(
    report: Report,
    table: &Table,
    reach: &Reach,
    stats: &Stats,
    since: Instant,
) -> Result<(), Asked> {
    if report.lines.is_empty() {
        return Ok(());
    }
    let groups = report.into_groups(reach.is_cluster());
    let questions = groups.iter().map(|lines| report::question(lines)).collect();
    let (answers, messages) = reach.ask_all(questions, since).await;
    stats.reported(messages, groups.iter().map(Vec::len).sum());
    let mut first_failure = Ok(());
    for (lines, answer) in groups.into_iter().zip(answers) {
        let heard = answer.and_then(|told| hear(&told, &lines, table));
        let Err(asked) = heard else { continue };
        match &asked.failure {
            // It may have been charged.
            Failure::Lost | Failure::Malformed(_) => {
                stats.report_lost();
                lines.iter().for_each(|line| table.lost(line));
            }
            _ => lines.into_iter().for_each(|line| table.unsent(line)),
        }
        first_failure = first_failure.and(Err(asked));
    }
    first_failure
}

fn hear(told: &Told, lines: &[Line], table: &Table) -> Result<(), Asked> {
    let Told::General(general) = told else {
        return Err(Asked::malformed(lines[0].key));
    };
    let read = |(line, state): (&Line, _)| match Seen::read(state, &line.fitted)? {
        Seen::Account(account) => Ok(account),
        Seen::Log(_) => Err(Malformed("a state of another algorithm")),
    };
    let pairs = lines.iter().zip(&general.states);
    let accounts: Result<Vec<_>, Malformed> = pairs.map(read).collect();
    let accounts = accounts.map_err(|_| Asked::malformed(lines[0].key))?;
    if accounts.len() != lines.len() {
        return Err(Asked::malformed(lines[0].key));
    }
    for (line, account) in lines.iter().zip(accounts) {
        table.told(line, account, general.now);
    }
    Ok(())
}
