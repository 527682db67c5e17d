//! What a shared store does not know of a key, because an instance of the service holds it.

use tollgate_core::{KeyState, Mode};

use crate::message::pluralize;

/// A line for each of these keys whose state is not only in the store.
pub(super) fn notes(states: &[(Mode, KeyState)]) -> Vec<String> {
    let notes = states.iter().filter_map(|(mode, state)| {
        let what = match mode {
            Mode::WriteBack => "instances add their local counts with their next report".to_owned(),
            _ if state.leased.holders > 0 => format!(
                "{} are leased by {} and count as consumed here",
                pluralize(state.leased.units, "unit"),
                pluralize(state.leased.holders, "instance")
            ),
            _ => return None,
        };
        Some(format!(
            "\nnote: {what}; `tollgate explain --url` asks an instance what it would decide\n"
        ))
    });
    let mut notes: Vec<String> = notes.collect();
    notes.dedup();
    notes
}
