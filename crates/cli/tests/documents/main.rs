//! The documents: their commands are run, and the output that they show is compared.
//!
//! Each fenced block of a page says after its language how it is tested; see [`Kind`]. A block
//! without a known kind is an error, so none is left out. The blocks of a page run in order, in a
//! folder of their own with a copy of `examples/`. Free ports replace those that the page names.
#![allow(clippy::unwrap_used)]

mod block;
mod compare;
mod deployment;
mod examples;
mod ground;
mod links;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use block::{Block, Kind, blocks};
use compare::compare;
use ground::Ground;

/// How often a page is tried when another process has taken a port.
const STARTS_TRIED: usize = 5;
/// The longest line of a page: pages are also read in terminals and in reviews.
const COLUMNS_MAX: usize = 200;
/// The names of stores and upstreams in `examples/tollgate.yaml`, which are not settings.
const NAMES: [&str; 4] = ["payments", "sessions", "local", "api"];
const PAGES_WITHOUT_A_COMMAND: [&str; 8] = [
    "docs/benchmarks.md",
    "docs/comparison.md",
    "docs/fault-tests.md",
    "docs/from-envoy.md",
    "docs/from-governor.md",
    "docs/identity.md",
    "docs/middleware.md",
    "docs/semantics.md",
];
/// Where the doc tests of `tollgate` include the pages that have Rust in them.
const RUST_PAGES: &str = "crates/tollgate/src/lib.rs";

#[test]
fn readme() {
    try_page("README.md");
}

#[test]
fn contributing() {
    try_page("CONTRIBUTING.md");
}

#[test]
fn rules() {
    try_page("docs/rules.md");
}

#[test]
fn operating() {
    try_page("docs/operating.md");
}

#[test]
fn deploying() {
    try_page("docs/deploying.md");
}

#[test]
fn explain() {
    try_page("docs/explain.md");
}

#[test]
fn dashboard() {
    try_page("docs/dashboard.md");
}

#[test]
fn reservations() {
    try_page("docs/reservations.md");
}

#[test]
fn forward_auth() {
    try_page("docs/forward-auth.md");
}

#[test]
fn gateway() {
    try_page("docs/gateway.md");
}

#[test]
fn redis() {
    try_page("docs/redis.md");
}

#[test]
fn redis_protocol() {
    try_page("docs/redis-protocol.md");
}

#[test]
fn replay() {
    try_page("docs/replay.md");
}

#[test]
fn replay_target() {
    try_page("docs/replay-target.md");
}

#[test]
fn simulate() {
    try_page("docs/simulate.md");
}

#[test]
fn from_nginx() {
    try_page("docs/from-nginx.md");
}

#[test]
fn plan() {
    try_page("docs/plan.md");
}

#[test]
fn log_formats() {
    try_page("docs/log-formats.md");
}

#[test]
fn suggest() {
    try_page("docs/suggest.md");
}

#[test]
fn telemetry() {
    try_page("docs/telemetry.md");
}

#[test]
fn tls() {
    try_page("docs/tls.md");
}

#[test]
fn list_of_examples() {
    try_page("examples/README.md");
}

#[test]
fn envoy() {
    try_page("examples/envoy/README.md");
}

#[test]
fn pages_without_a_command() {
    for page in PAGES_WITHOUT_A_COMMAND {
        try_page(page);
    }
}

#[test]
fn every_page_is_tried() {
    let tests = include_str!("main.rs");
    for page in pages() {
        let has_test = tests.contains(&format!("    try_page(\"{page}\");\n"));
        assert!(
            has_test || PAGES_WITHOUT_A_COMMAND.contains(&page.as_str()),
            "no test tries {page}"
        );
    }
}

#[test]
fn every_key_of_the_rules_is_described() {
    let (_, schema) = Ground::new().run("tollgate schema");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let page = read("docs/rules.md");
    // In the first column of a table.
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let cells: Vec<&str> = cells.collect();
    for (place, map) in schema["$defs"].as_object().unwrap() {
        for key in map["properties"].as_object().unwrap().keys() {
            let is_described = cells.iter().any(|cell| cell.contains(&format!("`{key}`")));
            assert!(is_described, "{place}: {key}");
        }
    }
}

#[test]
fn every_setting_is_described() {
    let pages = [
        "docs/operating.md",
        "docs/redis.md",
        "docs/gateway.md",
        "docs/redis-protocol.md",
        "docs/telemetry.md",
        "docs/tls.md",
    ];
    let pages = pages.map(read).concat();
    let is_word = |char: char| char.is_ascii_lowercase() || char == '_';
    let words: HashSet<&str> = pages.split(|char| !is_word(char)).collect();
    let settings = read("examples/tollgate.yaml");
    let keys = settings
        .lines()
        .filter_map(|line| setting(line)?.split_once(':'));
    for (key, _) in keys.filter(|(key, _)| key.chars().all(is_word)) {
        let is_described = words.contains(key) || NAMES.contains(&key);
        assert!(is_described, "{key}");
    }
}

/// A line of settings, also if it is commented out; `None` for a comment, which has one space after
/// its `#`.
fn setting(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let setting = match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(' ') && !rest.starts_with("  ") => return None,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    (!setting.starts_with('#')).then_some(setting)
}

#[test]
fn every_subcommand_is_described() {
    let (_, help) = Ground::new().run("tollgate --help");
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names = commands.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"serve"), "{names:?}");
    let pages: String = pages().iter().map(|page| read(page)).collect();
    for name in names {
        assert!(pages.contains(&format!("tollgate {name}")), "{name}");
    }
}

#[test]
fn every_chore_is_described() {
    let page = read("CONTRIBUTING.md");
    let mut chores = 0;
    for entry in fs::read_dir(root().join("xtask/src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let Some((_, chore)) = text.split_once("CHORE: Chore = Chore {") else {
            continue;
        };
        let name = chore.split('"').nth(1).unwrap();
        assert!(page.contains(&format!("cargo xtask {name}")), "{name}");
        chores += 1;
    }
    assert!(chores > 0, "no chore in xtask/src");
}

#[test]
fn lines_are_short() {
    for page in pages() {
        for (number, line) in read(&page).lines().enumerate() {
            let columns = line.chars().count();
            assert!(
                columns <= COLUMNS_MAX,
                "{page}:{}: {columns} columns",
                number + 1
            );
        }
    }
}

/// Runs the blocks of a page in their order.
fn try_page(page: &str) {
    let text = read(page);
    let blocks = blocks(page, &text).unwrap_or_else(|problem| panic!("{problem}"));
    let has_started = |_| {
        let mut ground = Ground::new();
        blocks.iter().all(|block| try_block(block, &mut ground))
    };
    let tried = (0..STARTS_TRIED).any(has_started);
    assert!(
        tried,
        "{page}: a server did not start, {STARTS_TRIED} times; its log is above"
    );
}

/// Runs a block; false if a server did not start, for example because its port was taken.
fn try_block(block: &Block, ground: &mut Ground) -> bool {
    let place = block.place();
    match &block.kind {
        Kind::Background => return ground.start(&block.text),
        Kind::Run { status } => {
            let (found, output) = ground.run(&block.text);
            assert_eq!(found, *status, "{place}: exit status; output:\n{output}");
        }
        Kind::Session {
            status,
            numbers_vary,
        } => {
            for (command, expected) in block.commands() {
                let (found, output) = ground.run(&command);
                assert_eq!(found, *status, "{place}: {command}\n{output}");
                if let Err(problem) = compare(&expected, &output, *numbers_vary) {
                    panic!("{place}: {command}\n{problem}\n--- what came out:\n{output}");
                }
            }
        }
        Kind::Rules => {
            let (status, output) = ground.check_rules(&block.text);
            assert_eq!(status, 0, "{place}: {output}");
            assert!(output.contains("0 errors, 0 warnings"), "{place}: {output}");
        }
        Kind::Settings => {
            let (status, output) = ground.check_settings(&block.text);
            assert_eq!(status, 0, "{place}: {output}");
        }
        Kind::File(name) => ground.write(name, &block.text),
        Kind::Same(name) => assert_eq!(block.text, read(name), "{place}: {name} differs"),
        Kind::Rust => {
            let page = Path::new(&block.page)
                .file_name()
                .unwrap()
                .to_str()
                .unwrap();
            let includes = read(RUST_PAGES);
            let mut includes = includes
                .lines()
                .filter(|line| line.contains("include_str!"));
            let is_compiled = includes.any(|line| line.contains(page));
            assert!(
                is_compiled,
                "{place}: {RUST_PAGES} does not include {page} as doc tests"
            );
        }
        Kind::Skipped => {}
    }
    true
}

/// Every tested page: those at the top, those in `docs`, and those of the examples.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "examples", "examples/envoy"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name)
                .extension()
                .is_some_and(|extension| extension == "md")
            {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

fn read(page: &str) -> String {
    let path = root().join(page);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.parent().unwrap().to_owned()
}
