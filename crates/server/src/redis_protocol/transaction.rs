//! Transactions: `MULTI` queues commands, `EXEC` decides them in order, in one reply.
//!
//! As Redis documents them (<https://redis.io/docs/latest/develop/using-commands/transactions/>),
//! but for one thing: decisions of other clients may come between those of a transaction. Nothing
//! that could be read in between would matter to them.

use tokio::time::Instant;
use tollgate_listen::Connection;
use tollgate_resp::Command;

use super::command_table::CommandKind;

/// The error of a command that finds no room.
pub(super) const NO_ROOM: &str = "ERR no room for this command: too many bytes of unfinished \
    requests are held (`limits.buffer`); retry in a second, or send shorter commands";
/// The most bytes of a transaction's commands.
const BYTES_MAX: usize = 512 * 1024;
/// What a transaction may keep for as long as the client likes: enough for one that is typed.
const BYTES_KEPT: usize = 8 * 1024;

/// The commands since `MULTI`.
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
    commands: Vec<u8>,
    count: usize,
    /// Whether a command was rejected, so that none may be executed.
    is_rejected: bool,
    /// Since when it has had more than [`BYTES_KEPT`].
    large_since: Option<Instant>,
}

// === impl Transaction ===

impl<'c> Transaction<'c> {
    pub(super) const fn new(connection: &'c Connection) -> Transaction<'c> {
        Transaction {
            connection,
            commands: Vec::new(),
            count: 0,
            is_rejected: false,
            large_since: None,
        }
    }

    /// Since when it takes room that others may need.
    pub(super) const fn large_since(&self) -> Option<Instant> {
        self.large_since
    }

    /// The commands, one behind the other.
    pub(super) fn commands(&self) -> &[u8] {
        &self.commands
    }

    /// How many commands.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Whether none of its commands may be executed.
    pub(super) const fn is_rejected(&self) -> bool {
        self.is_rejected
    }

    /// None of its commands may be executed.
    pub(super) const fn reject(&mut self) {
        self.is_rejected = true;
    }

    /// Whether commands of this kind wait for `EXEC`.
    pub(super) const fn queues(kind: CommandKind) -> bool {
        !matches!(
            kind,
            CommandKind::Multi
                | CommandKind::Exec
                | CommandKind::Discard
                | CommandKind::Quit
                | CommandKind::Reset
        )
    }

    /// Adds a command.
    ///
    /// # Errors
    ///
    /// The kind and the text of an error: it may not be queued, or there is no room for it.
    pub(super) fn add(
        &mut self,
        kind: CommandKind,
        command: &Command<'_>,
    ) -> Result<(), (&'static str, String)> {
        if matches!(kind, CommandKind::Hello | CommandKind::Auth) {
            let text = "ERR Command not allowed inside a transaction";
            return Err(("bad_request", text.to_owned()));
        }
        if self.is_rejected {
            return Ok(());
        }
        let bytes = command.bytes();
        if self.commands.len() + bytes.len() > BYTES_MAX {
            let text = format!(
                "ERR the commands of a transaction have more than {BYTES_MAX} bytes; send fewer"
            );
            return Err(("bad_request", text));
        }
        if !self.connection.reserve(bytes.len()) {
            return Err(("no_room", NO_ROOM.to_owned()));
        }
        self.commands.extend_from_slice(bytes);
        self.count += 1;
        if self.commands.len() > BYTES_KEPT {
            self.large_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.connection.release(self.commands.len());
    }
}
