//! The commands that there are.

use tollgate_resp::Command;

use super::ask::AskKind;
use super::word::shown;

/// A command.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) kind: CommandKind,
    /// How many words it has at least and at most, its name included.
    words: (usize, usize),
    /// What its second word can be. None at all if that can be anything.
    subcommands: &'static [Subcommand],
    /// What to write behind the name, for commands that Redis does not have.
    arguments: &'static str,
    /// Whether a client that has not said who it is may send it.
    for_all: bool,
    /// Whether its second word is a key of `CL.THROTTLE`.
    pub(super) has_key: bool,
}

/// The name of a subcommand, and how many words there are at least and at most, those of both names
/// included.
struct Subcommand(&'static str, (usize, usize));

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
        subcommands: subcommands(kind),
        arguments: arguments(kind),
        for_all: matches!(
            kind,
            CommandKind::Hello | CommandKind::Auth | CommandKind::Quit | CommandKind::Reset
        ),
        has_key: matches!(kind, CommandKind::Throttle),
    }
}

/// As far as clients use them when they connect.
const fn subcommands(kind: CommandKind) -> &'static [Subcommand] {
    match kind {
        CommandKind::Client => &[
            Subcommand("GETNAME", (2, 2)),
            Subcommand("ID", (2, 2)),
            Subcommand("INFO", (2, 2)),
            Subcommand("NO-EVICT", (3, 3)),
            Subcommand("NO-TOUCH", (3, 3)),
            Subcommand("SETINFO", (4, 4)),
            Subcommand("SETNAME", (3, 3)),
        ],
        CommandKind::Command => &[
            Subcommand("COUNT", (2, 2)),
            Subcommand("DOCS", (2, MANY)),
            Subcommand("INFO", (2, MANY)),
            Subcommand("LIST", (2, MANY)),
        ],
        CommandKind::Config => &[Subcommand("GET", (3, MANY))],
        _ => &[],
    }
}

const fn arguments(kind: CommandKind) -> &'static str {
    match kind {
        CommandKind::Throttle => "key max_burst count period [quantity]",
        CommandKind::Ask(AskKind::Reset) => "domain key value [key value ...]",
        CommandKind::Ask(_) => "domain cost key value [key value ...]",
        _ => "",
    }
}

/// Every command.
pub(super) static COMMANDS: [Known; 19] = [
    command("CL.THROTTLE", CommandKind::Throttle, (5, 6)),
    command("TG.CHECK", CommandKind::Ask(AskKind::Check), (5, MANY)),
    command("TG.PEEK", CommandKind::Ask(AskKind::Peek), (5, MANY)),
    command("TG.REFUND", CommandKind::Ask(AskKind::Refund), (5, MANY)),
    command("TG.RESET", CommandKind::Ask(AskKind::Reset), (4, MANY)),
    command("PING", CommandKind::Ping, (1, MANY)),
    command("ECHO", CommandKind::Echo, (2, 2)),
    command("QUIT", CommandKind::Quit, (1, MANY)),
    command("SELECT", CommandKind::Select, (2, 2)),
    command("HELLO", CommandKind::Hello, (1, MANY)),
    command("AUTH", CommandKind::Auth, (2, MANY)),
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

    /// Checks its number of words and its subcommand.
    ///
    /// # Errors
    ///
    /// The text of Redis, and what to write.
    pub(super) fn check_words(&self, command: &Command<'_>) -> Result<(), String> {
        if !self.takes(command.len()) {
            let name = self.name.to_ascii_lowercase();
            let text = format!("ERR wrong number of arguments for '{name}' command");
            return Err(match self.arguments {
                "" => text,
                arguments => format!("{text}; write {} {arguments}", self.name),
            });
        }
        let Some(word) = command.word(1).filter(|_| !self.subcommands.is_empty()) else {
            return Ok(());
        };
        let mut subcommands = self.subcommands.iter();
        let found = subcommands.find(|one| one.0.as_bytes().eq_ignore_ascii_case(word));
        let Some(Subcommand(found, (least, most))) = found else {
            let known: Vec<&str> = self.subcommands.iter().map(|one| one.0).collect();
            let (word, known) = (shown(word), known.join(", "));
            return Err(format!(
                "ERR unknown subcommand '{word}'. {} knows {known}",
                self.name
            ));
        };
        if (*least..=*most).contains(&command.len()) {
            return Ok(());
        }
        let name = format!("{}|{found}", self.name).to_ascii_lowercase();
        Err(format!(
            "ERR wrong number of arguments for '{name}' command"
        ))
    }

    /// Its number of words as Redis writes it: negative if there may be more.
    pub(super) fn arity(&self) -> i64 {
        let (least, most) = self.words;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        if self.words.0 == most { least } else { -least }
    }
}
