//! The commands that there are.

use super::ask::AskKind;

/// A command.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) kind: CommandKind,
    /// How many words it has at least and at most, its name included.
    words: (usize, usize),
    /// Whether a client that has not said who it is may send it.
    for_all: bool,
    /// Whether its second word is a key of `CL.THROTTLE`.
    pub(super) has_key: bool,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Throttle,
    Ask(AskKind),
    Ping,
    Echo,
    Quit,
    Select,
    Hello,
    Auth,
    Client,
    Reset,
    Command,
    Info,
    Config,
    Multi,
    Exec,
    Discard,
}

const MANY: usize = usize::MAX;

const fn command(name: &'static str, kind: CommandKind, words: (usize, usize)) -> Known {
    Known {
        name,
        kind,
        words,
        for_all: matches!(
            kind,
            CommandKind::Hello | CommandKind::Auth | CommandKind::Quit | CommandKind::Reset
        ),
        has_key: matches!(kind, CommandKind::Throttle),
    }
}

/// Every command.
pub(super) static COMMANDS: [Known; 19] = [
    command("CL.THROTTLE", CommandKind::Throttle, (5, 6)),
    command("TG.CHECK", CommandKind::Ask(AskKind::Check), (5, MANY)),
    command("TG.PEEK", CommandKind::Ask(AskKind::Peek), (5, MANY)),
    command("TG.REFUND", CommandKind::Ask(AskKind::Refund), (5, MANY)),
    command("TG.RESET", CommandKind::Ask(AskKind::Reset), (4, MANY)),
    command("PING", CommandKind::Ping, (1, 2)),
    command("ECHO", CommandKind::Echo, (2, 2)),
    command("QUIT", CommandKind::Quit, (1, MANY)),
    command("SELECT", CommandKind::Select, (2, 2)),
    command("HELLO", CommandKind::Hello, (1, MANY)),
    command("AUTH", CommandKind::Auth, (2, 3)),
    command("CLIENT", CommandKind::Client, (2, MANY)),
    command("RESET", CommandKind::Reset, (1, 1)),
    command("COMMAND", CommandKind::Command, (1, MANY)),
    command("INFO", CommandKind::Info, (1, MANY)),
    command("CONFIG", CommandKind::Config, (2, MANY)),
    command("MULTI", CommandKind::Multi, (1, 1)),
    command("EXEC", CommandKind::Exec, (1, 1)),
    command("DISCARD", CommandKind::Discard, (1, 1)),
];

/// The command of this name, in any letter case.
pub(super) fn find(name: &[u8]) -> Option<&'static Known> {
    let mut commands = COMMANDS.iter();
    commands.find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

// === impl Known ===

impl Known {
    pub(super) const fn is_for_all(&self) -> bool {
        self.for_all
    }

    /// Whether it can have so many words.
    pub(super) fn takes(&self, words: usize) -> bool {
        let (least, most) = self.words;
        (least..=most).contains(&words)
    }

    /// Its number of words as Redis writes it: negative if there may be more.
    pub(super) fn arity(&self) -> i64 {
        let (least, most) = self.words;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        if self.words.0 == most { least } else { -least }
    }
}
