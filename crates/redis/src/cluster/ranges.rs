//! The reply to `CLUSTER SLOTS`.

use std::ops::RangeInclusive;

use crate::keys::SLOTS;
use crate::resp::Reply;

/// A range of slots that one node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Within [`SLOTS`].
    pub(crate) slots: RangeInclusive<usize>,
    /// `host:port`.
    pub(crate) address: String,
}

/// Parses the reply to `CLUSTER SLOTS`: for each range its ends, its primary and its replicas.
/// Invalid ranges are skipped, as are those beyond one for each slot. `own_host` is the host of the
/// node that replied.
pub(crate) fn ranges(reply: &Reply, own_host: &str) -> Vec<Range> {
    let read = |range: &Reply| {
        let [Reply::Integer(from), Reply::Integer(to), master, ..] = range.elements() else {
            return None;
        };
        let [host, Reply::Integer(port), ..] = master.elements() else {
            return None;
        };
        let (from, to) = (usize::try_from(*from).ok()?, usize::try_from(*to).ok()?);
        let port = u16::try_from(*port).ok()?;
        // A node that does not know its own host name leaves it out.
        let host = host.text().filter(|host| !host.is_empty() && *host != "?");
        let host = host.unwrap_or(own_host);
        (from <= to && to < SLOTS).then(|| Range {
            slots: from..=to,
            address: format!("{host}:{port}"),
        })
    };
    let ranges = reply.elements().iter().take(SLOTS);
    ranges.filter_map(read).collect()
}
