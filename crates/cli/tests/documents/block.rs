//! The fenced blocks of a page, and how each is tested.

/// How a fenced block is tested, by the words after its fence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `sh`, `sh exit=1`: commands that end with this status; what they write is not compared.
    Run { status: i32 },
    /// `sh background`: one command that runs until the end of the page.
    Background,
    /// `console`, `console exit=1`, `console numbers-vary`: lines that begin with `$ ` are
    /// commands, the lines after each are its output. A line `...` stands for any lines.
    Session { status: i32, numbers_vary: bool },
    /// `yaml rules`: a rules file without errors and warnings.
    Rules,
    /// `yaml settings`: settings of a service, without errors.
    Settings,
    /// `yaml file=NAME`, in any language: written to a file, for the commands that follow.
    File(String),
    /// `yaml same=PATH`, in any language: the text of a file of the repository.
    Same(String),
    /// `rust`: compiled and run by the doc tests of `tollgate`.
    Rust,
    /// `text skip: REASON`: not tested, for this reason.
    Skipped,
}

/// A fenced block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) page: String,
    /// The line of the opening fence, from 1.
    line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The fewest characters of a reason.
const REASON_BYTES_MIN: usize = 10;

/// All fenced blocks of a page, in their order.
///
/// # Errors
///
/// The place of a block that has no known kind or no end.
pub(crate) fn blocks(page: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let place = format!("{page}:{}", index + 1);
        let indent = line.len() - line.trim_start().len();
        let mut text = String::new();
        loop {
            let Some((_, line)) = lines.next() else {
                return Err(format!("{place}: a block without an end"));
            };
            if line.trim() == "```" {
                break;
            }
            text.push_str(line.get(indent..).unwrap_or(""));
            text.push('\n');
        }
        blocks.push(Block {
            page: page.to_owned(),
            line: index + 1,
            kind: kind(info.trim()).ok_or_else(|| {
                format!("{place}: `{info}` says nothing known; see tests/documents/block.rs")
            })?,
            text,
        });
    }
    Ok(blocks)
}

fn kind(info: &str) -> Option<Kind> {
    if let Some((_, reason)) = info.split_once(" skip: ") {
        return (reason.len() >= REASON_BYTES_MIN).then_some(Kind::Skipped);
    }
    let (language, how) = info.split_once(' ').unwrap_or((info, ""));
    let status = match how.strip_prefix("exit=") {
        Some(status) => status.parse().ok()?,
        None => 0,
    };
    let has_status = how.is_empty() || how.starts_with("exit=");
    Some(match (language, how) {
        ("sh", "background") => Kind::Background,
        ("sh", _) if has_status => Kind::Run { status },
        ("console", "numbers-vary") => Kind::Session {
            status,
            numbers_vary: true,
        },
        ("console", _) if has_status => Kind::Session {
            status,
            numbers_vary: false,
        },
        ("yaml", "rules") => Kind::Rules,
        ("yaml", "settings") => Kind::Settings,
        ("rust", "") => Kind::Rust,
        (_, how) if how.starts_with("file=") => Kind::File(how["file=".len()..].to_owned()),
        _ => Kind::Same(how.strip_prefix("same=")?.to_owned()),
    })
}

// === impl Block ===

impl Block {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The commands of a session, each with its output.
    pub(crate) fn commands(&self) -> Vec<(String, String)> {
        let mut commands: Vec<(String, String)> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                // A command goes on behind a backslash.
                (None, Some((command, _))) if command.ends_with('\\') => {
                    command.push('\n');
                    command.push_str(line);
                }
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("{}: output before the first `$ `", self.place()),
            }
        }
        assert!(!commands.is_empty(), "{}: no command", self.place());
        commands
    }
}

#[test]
fn every_block_says_how_it_is_tested() {
    let page = "a\n```sh\ntrue\n```\n  ```console exit=1\n  $ x \\\n    y\n  z\n  ```\n";
    let found = blocks("p.md", page).unwrap();
    assert_eq!(found[0].kind, Kind::Run { status: 0 });
    assert_eq!(found[0].text, "true\n");
    assert_eq!(
        found[1].kind,
        Kind::Session {
            status: 1,
            numbers_vary: false
        }
    );
    assert_eq!(
        found[1].commands(),
        [("x \\\n  y".to_owned(), "z\n".to_owned())]
    );
    assert_eq!(found[1].place(), "p.md:5");
    for info in [
        "",
        "sh later",
        "yaml",
        "yaml x=y",
        "toml",
        "text skip: no",
        "rust ignore",
    ] {
        let error = blocks("p.md", &format!("```{info}\n```\n")).unwrap_err();
        assert!(error.starts_with("p.md:1: "), "{info}: {error}");
    }
    assert!(blocks("p.md", "```sh\n").is_err());
}
