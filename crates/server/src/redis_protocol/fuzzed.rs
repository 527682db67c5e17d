//! The parsers of commands that ask for a decision, for a fuzz target.

use tollgate_core::{Cost, Limit, Request};
use tollgate_resp::Command;

use super::ask::Ask;
use super::command_table::{CommandKind, find};
use super::throttles;

/// Reads a command that the rules decide, and passes its request to `look`; `None` if the command
/// is none of these.
///
/// # Errors
///
/// The text of the reply.
pub(crate) fn ask<T>(
    command: &Command<'_>,
    look: impl FnOnce(&Request<'_>) -> T,
) -> Option<Result<T, String>> {
    let known = find(command.name())?;
    let CommandKind::Ask(kind) = known.kind else {
        return None;
    };
    let checked = known.check_words(command);
    let ask = checked.and_then(|()| Ask::read(kind, command));
    Some(ask.map(|ask| look(&ask.request())))
}

/// Reads a command whose limit the client brings along; `None` if the command is another one.
///
/// # Errors
///
/// The text of the reply.
pub(crate) fn throttle(command: &Command<'_>) -> Option<Result<(Limit, Cost), String>> {
    let known = find(command.name())?;
    let (CommandKind::Throttle, checked) = (known.kind, known.check_words(command)) else {
        return None;
    };
    let read = checked.and_then(|()| throttles::read(command, None));
    Some(read.map(|(_, limit, cost)| (limit, cost)))
}
