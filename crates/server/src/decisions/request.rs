//! Requests of the stream as requests for decisions.

use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Request};
use tollgate_rls::decisions::{self, CheckRequest};

/// Converts a request within the bounds of [`Request`], without copying its texts. It means what a
/// request of `/v1/check` with the same members means.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn request(message: &CheckRequest) -> Result<Request<'_>, String> {
    let descriptors = message.descriptors.iter().map(descriptor);
    let request = Request {
        domain: &message.domain,
        descriptors: descriptors.collect(),
        cost: cost(message)?,
        charge_denied: ChargeDenied::Never,
    };
    request.check_bounds().map_err(|error| error.to_string())?;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        check_keys_differ(index, descriptor)?;
    }
    Ok(request)
}

/// Bytes of its texts.
pub(super) fn text_bytes(message: &CheckRequest) -> usize {
    let entries = message.descriptors.iter().flat_map(|one| &one.entries);
    let bytes: usize = entries
        .map(|entry| entry.key.len() + entry.value.len())
        .sum();
    message.domain.len() + bytes
}

fn descriptor(message: &decisions::Descriptor) -> Descriptor<'_> {
    let entries = message.entries.iter().map(|entry| Entry {
        key: &entry.key,
        value: &entry.value,
    });
    Descriptor {
        entries: entries.collect(),
        is_unordered: message.any_order,
        ..Descriptor::default()
    }
}

fn cost(message: &CheckRequest) -> Result<Cost, String> {
    let cost = message.cost.unwrap_or(1);
    match (u64::try_from(cost), message.peek) {
        (Ok(units), true) => Ok(Cost::Peek(units)),
        (Ok(units), false) => Ok(Cost::Take(units)),
        (Err(_), false) => Ok(Cost::Refund(cost.unsigned_abs())),
        (Err(_), true) => {
            Err("`peek` with a negative cost; leave out `peek` or the sign".to_owned())
        }
    }
}

/// Entries in any order are found by their keys, so no two may have the same.
fn check_keys_differ(index: usize, descriptor: &Descriptor<'_>) -> Result<(), String> {
    let entries = &descriptor.entries;
    let is_repeated = |at: usize| entries[..at].iter().any(|one| one.key == entries[at].key);
    match (0..entries.len()).find(|at| descriptor.is_unordered && is_repeated(*at)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "descriptors[{index}].entries[{at}] has the key of an earlier entry; to describe both \
             values, send two descriptors"
        )),
    }
}
