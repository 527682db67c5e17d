//! The rules of the house, held by scanning the sources line by line.
//!
//! A file that reads better over a budget says so, with its reason, in its first ten lines:
//! `// Over 400 lines: ...` or `// Over 70 lines: ...`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use xtask::function::{Function, functions};
use xtask::source::{Source, root, sources};
use xtask::workspace::crates;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;
/// From this length on, a function says in a doc comment what it is for.
const DOCUMENTED_FROM: usize = 20;
const SLEEP_CALLS: [&str; 3] = [
    concat!("sleep", "("),
    concat!("sleep_until", "("),
    concat!("park_timeout", "("),
];
const POLLS: &str = "waits for a condition of a real process, between looks, up to a deadline";
const VIRTUAL: &str = "in virtual time";
const LOAD: &str = "asks real servers at a given rate, or leaves a fault or a lease its time";
/// The files whose tests may sleep, and why.
const SLEEPS: [(&str, &str); 40] = [
    ("attack/src/client.rs", VIRTUAL),
    ("crates/cli/tests/envoy/mesh.rs", POLLS),
    ("crates/cli/tests/envoy/waiting.rs", LOAD),
    ("crates/engine/tests/fallback.rs", POLLS),
    ("crates/engine/tests/toy_store.rs", VIRTUAL),
    ("crates/dial/src/race.rs", VIRTUAL),
    ("crates/gateway/src/reservation/tests.rs", VIRTUAL),
    ("crates/listen/src/accept/tests/unread_streams.rs", VIRTUAL),
    ("crates/redis/src/connection_task/tests.rs", VIRTUAL),
    ("crates/redis/src/membership/tests.rs", VIRTUAL),
    ("crates/redis/src/session/tests.rs", VIRTUAL),
    ("crates/redis/src/trouble/tests.rs", VIRTUAL),
    ("crates/redis/tests/access.rs", POLLS),
    ("crates/redis/tests/cluster.rs", POLLS),
    ("crates/redis/tests/deaths/instance.rs", POLLS),
    ("crates/redis/tests/deaths/main.rs", LOAD),
    ("crates/redis/tests/denials.rs", POLLS),
    ("crates/redis/tests/errors.rs", POLLS),
    ("crates/redis/tests/exact.rs", POLLS),
    ("crates/redis/tests/faults/alone.rs", LOAD),
    ("crates/redis/tests/faults/clock.rs", LOAD),
    ("crates/redis/tests/faults/cluster.rs", LOAD),
    ("crates/redis/tests/faults/record.rs", LOAD),
    ("crates/redis/tests/faults/traffic.rs", LOAD),
    ("crates/redis/tests/leased.rs", LOAD),
    ("crates/redis/tests/overload.rs", POLLS),
    ("crates/redis/tests/without_redis.rs", POLLS),
    ("crates/redis/tests/write_back.rs", LOAD),
    ("crates/server/tests/service/bounded.rs", POLLS),
    ("crates/server/tests/service/journal.rs", POLLS),
    ("crates/server/tests/service/over_redis.rs", POLLS),
    ("crates/server/tests/service/reload.rs", POLLS),
    ("crates/server/tests/service/tls_client.rs", POLLS),
    ("crates/server/tests/service/without_redis.rs", POLLS),
    ("crates/simulation/src/fleet/pace.rs", VIRTUAL),
    ("crates/tollgate/tests/redis/main.rs", POLLS),
    ("crates/tollgate/tests/reservation/cancellation.rs", VIRTUAL),
    ("crates/tollgate/tests/tower/delays.rs", VIRTUAL),
    ("crates/tollgate/tests/tower/over_redis.rs", POLLS),
    ("crates/tollgate/tests/waiting.rs", VIRTUAL),
];
const ELAPSED: &str = concat!("elapsed", "()");
const DEADLINE: &str = "fails at a deadline, which is longer than anything takes";
const PROMISED: &str = "a real service, whose timeout is a promise and longer than what it bounds";
/// The files whose tests may assert how long something took, and why.
const DURATIONS: [(&str, &str); 23] = [
    ("crates/cli/tests/commands/keys.rs", DEADLINE),
    ("crates/cli/tests/commands/monitoring.rs", DEADLINE),
    ("crates/cli/tests/redis/killed.rs", DEADLINE),
    ("crates/cli/tests/redis/servers.rs", DEADLINE),
    ("crates/gateway/src/tunnel.rs", VIRTUAL),
    ("crates/listen/src/accept/tests.rs", VIRTUAL),
    ("crates/listen/src/accept/tests/upgrades.rs", VIRTUAL),
    ("crates/listen/src/linger.rs", VIRTUAL),
    ("crates/listen/src/socket.rs", VIRTUAL),
    ("crates/redis/src/connection_task/tests.rs", VIRTUAL),
    ("crates/redis/src/session/tests.rs", VIRTUAL),
    (
        "crates/redis/tests/errors.rs",
        "tells the time in its message",
    ),
    ("crates/redis/tests/exact.rs", DEADLINE),
    ("crates/redis/tests/faults/alone.rs", PROMISED),
    ("crates/redis/tests/write_back.rs", DEADLINE),
    ("crates/server/tests/service/redis_drain.rs", PROMISED),
    ("crates/telemetry/tests/exports.rs", VIRTUAL),
    (
        "crates/testbed/tests/servers.rs",
        "a delay is never shorter",
    ),
    ("crates/tollgate/tests/reservation/cancellation.rs", VIRTUAL),
    ("crates/tollgate/tests/tower/delays.rs", VIRTUAL),
    ("crates/tollgate/tests/tower/several_limits.rs", VIRTUAL),
    ("crates/tollgate/tests/waiting.rs", VIRTUAL),
    ("xtask/tests/tidy.rs", "the example of such an assertion"),
];
/// No nouns of the domain.
const BAD_NAMES: [&str; 8] = [
    "common", "helper", "helpers", "misc", "shared", "types", "util", "utils",
];
/// Where memory is touched without the compiler's proof.
const UNSAFE_IN: &str = "crates/memory/";

/// The crates by level, the lowest first: an arrow points to a lower level.
const LEVELS: [&[&str]; 7] = [
    &["core", "dial", "files"],
    &[
        "memory", "redis", "rules", "rls", "http", "resp", "listen", "fallback",
    ],
    &["engine", "telemetry"],
    &["backends", "gateway"],
    &["server", "replay", "tollgate"],
    &["simulation"],
    &["cli"],
];
/// Arrows that do not point to a lower level, and why they may be.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];
/// For tests and chores only: no crate with a level depends on them, except for its tests.
const LEVELLESS: [&str; 6] = ["attack", "behaviour", "bench", "fuzz", "testbed", "xtask"];

#[test]
fn modules_are_files_named_after_a_noun() {
    let mut problems = String::new();
    for source in sources() {
        let path = Path::new(&source.path);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem == Some("mod") {
            report(
                &mut problems,
                &source,
                1,
                "`foo.rs` and `foo/`, never `mod.rs`",
            );
        }
        let mut parts = source.path.split(['/', '.']);
        if let Some(bad) = parts.find(|part| BAD_NAMES.contains(part)) {
            let problem = format!("`{bad}` names nothing; say what is in there");
            report(&mut problems, &source, 1, &problem);
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut problems = String::new();
    for source in sources() {
        for (number, line) in source.lines() {
            // A link cannot be broken.
            if line.chars().count() > COLUMNS_MAX && !line.contains("://") {
                report(
                    &mut problems,
                    &source,
                    number,
                    "over 100 columns: break the line",
                );
            }
        }
        let lines = source.lines_without_tests();
        if lines > FILE_LINES_MAX && !source.opts_out(FILE_LINES_MAX) {
            let problem =
                format!("{lines} lines without tests, {FILE_LINES_MAX} at most: split it");
            report(&mut problems, &source, 1, &problem);
        }
        for function in functions(&source) {
            if function.lines > FUNCTION_LINES_MAX && !source.opts_out(FUNCTION_LINES_MAX) {
                let Function { name, lines, .. } = &function;
                let problem =
                    format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: split it");
                report(&mut problems, &source, function.line, &problem);
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn only_the_store_in_memory_is_unsafe() {
    let words = ["{", "fn ", "impl ", "extern ", "trait "];
    let unsafe_before: Vec<String> = words.iter().map(|word| format!("unsafe {word}")).collect();
    let mut problems = String::new();
    for source in sources() {
        if source.path.starts_with(UNSAFE_IN) || source.path.ends_with("tidy.rs") {
            continue;
        }
        for (number, line) in source.lines() {
            let code = line.split("//").next().unwrap_or(line);
            let allowed = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
            if allowed
                || unsafe_before
                    .iter()
                    .any(|word| code.contains(word.as_str()))
            {
                report(
                    &mut problems,
                    &source,
                    number,
                    "unsafe code lives in crates/memory",
                );
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn tests_sleep_only_where_listed() {
    let problem = "a test sleeps: wait for a condition or advance a virtual clock";
    assert_only_listed(&SLEEPS, "SLEEPS", problem, |code| {
        let lines = code.iter().zip(1..);
        let sleeping = lines.filter(|(line, _)| SLEEP_CALLS.iter().any(|call| calls(line, call)));
        sleeping.map(|(_, number)| number).collect()
    });
}

#[test]
fn tests_assert_how_long_something_took_only_where_listed() {
    let problem = "a test asserts how long something took: wait for an event up to a deadline, or \
                   let virtual time pass";
    assert_only_listed(&DURATIONS, "DURATIONS", problem, timed_assertions);
}

/// Asserts that only the listed files have tests with such lines, and that each of them has.
fn assert_only_listed(
    listed: &[(&str, &str)],
    list: &str,
    problem: &str,
    find: impl Fn(&[&str]) -> Vec<usize>,
) {
    let mut problems = String::new();
    let mut unused: BTreeSet<&str> = listed.iter().map(|(path, _)| *path).collect();
    for source in sources() {
        let tests_from = match source.is_test() {
            true => 0,
            false => source.lines_without_tests(),
        };
        let lines = source.lines().skip(tests_from);
        let code = lines.map(|(_, line)| line.split("//").next().unwrap_or(line));
        for number in find(&code.collect::<Vec<_>>()) {
            let is_listed = listed.iter().any(|(path, _)| *path == source.path);
            unused.remove(source.path.as_str());
            if !is_listed {
                report(&mut problems, &source, tests_from + number, problem);
            }
        }
    }
    for path in unused {
        writeln!(
            problems,
            "{path}: no such test there: remove it from {list}"
        )
        .expect("a string grows");
    }
    assert!(problems.is_empty(), "{problems}");
}

/// The numbers of the lines on which an assertion begins that has the time since an instant in it.
fn timed_assertions(code: &[&str]) -> Vec<usize> {
    let asserts =
        |line: &str| ["assert!(", "assert_eq!(", "assert_ne!("].map(|call| calls(line, call));
    let is_timed = |from: usize| {
        let rest = &code[from..];
        let end = rest.iter().position(|line| line.trim_end().ends_with(';'));
        let statement = &rest[..end.map_or(rest.len(), |end| end + 1)];
        statement.iter().any(|line| line.contains(ELAPSED))
    };
    let lines = code.iter().enumerate();
    let begin = lines.filter(|(_, line)| asserts(line).contains(&true));
    let timed = begin.filter(|(from, _)| is_timed(*from));
    timed.map(|(from, _)| from + 1).collect()
}

#[test]
fn an_assertion_of_a_time_is_found_over_several_lines() {
    let code = [
        "let latest = began.elapsed();",
        "assert!(true);",
        "    assert!(",
        "        began.elapsed() < LIMIT,",
        "    );",
        "my_assert!(began.elapsed());",
        "assert_eq!(began.elapsed(), LIMIT);",
    ];
    assert_eq!(timed_assertions(&code), [3, 7]);
}

/// Whether code calls this function: no longer name ends with it.
fn calls(code: &str, call: &str) -> bool {
    code.match_indices(call).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
            && !code[..at].ends_with("fn ")
    })
}

#[test]
fn long_functions_are_documented() {
    let mut missing = String::new();
    for source in sources() {
        for function in functions(&source) {
            if function.lines >= DOCUMENTED_FROM && !function.is_documented && !function.is_test {
                let Function { name, line, .. } = &function;
                writeln!(missing, "{}:{line}: {name}", source.path).expect("a string grows");
            }
        }
    }
    assert!(
        missing.is_empty(),
        "functions of {DOCUMENTED_FROM} lines or more need a doc comment:\n{missing}"
    );
}

#[test]
fn arrows_between_crates_point_down() {
    let level_of = |name: &str| LEVELS.iter().position(|level| level.contains(&name));
    let mut problems = String::new();
    for (name, uses) in arrows() {
        let Some(level) = level_of(&name) else {
            let problem = "has no level: give it one here and a row in ARCHITECTURE.md";
            assert!(LEVELLESS.contains(&name.as_str()), "{name} {problem}");
            continue;
        };
        for used in uses {
            let down = level_of(&used).is_some_and(|other| other < level);
            let excepted = |(from, to, _): &(&str, &str, &str)| *from == name && *to == used;
            if !down && !EXCEPTIONS.iter().any(excepted) {
                writeln!(problems, "{name} -> {used}: not a lower level").expect("a string grows");
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// ARCHITECTURE.md has a table `| crate | may use |`: the arrows that exist, no more and no fewer.
#[test]
fn the_architecture_page_has_every_arrow() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let documented = documented_arrows(&page);
    let mut real = arrows();
    real.retain(|name, _| !LEVELLESS.contains(&name.as_str()));
    let mut rows = String::from("| crate | may use |\n|---|---|\n");
    for (name, uses) in &real {
        let uses: Vec<String> = uses.iter().map(|used| format!("`{used}`")).collect();
        writeln!(rows, "| `{name}` | {} |", uses.join(", ")).expect("a string grows");
    }
    assert!(
        documented == real,
        "ARCHITECTURE.md must have this table (order and further columns are free):\n{rows}"
    );
}

/// The rows of the table whose first two headings are `crate` and `may use`.
fn documented_arrows(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_matches('|');
        line.split('|')
            .map(|cell| cell.trim().to_lowercase())
            .collect()
    };
    let rows = page.lines().map(cells);
    let table = rows
        .skip_while(|row| !row.starts_with(&["crate".to_owned(), "may use".to_owned()]))
        .skip(2)
        .take_while(|row| row.len() >= 2);
    let names = |cell: &str| -> BTreeSet<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let arrows = table.filter_map(|row| Some((names(&row[0]).pop_first()?, names(&row[1]))));
    arrows.collect()
}

/// For each crate of the workspace, the crates of the workspace that it uses outside its tests.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let crates = crates().into_values();
    crates.map(|one| (one.name, one.uses)).collect()
}

fn report(problems: &mut String, source: &Source, line: usize, problem: &str) {
    writeln!(problems, "{}:{line}: {problem}", source.path).expect("a string grows");
}

#[test]
fn the_table_of_the_architecture_page_is_read() {
    let page = "# A\n\n| crate | may use | why |\n|---|---|---|\n| `core` | nothing | x |\n\
                | `memory` | `core`, `x` | y |\n\nmore | text\n";
    let documented = documented_arrows(page);
    assert_eq!(documented["core"], BTreeSet::new());
    assert_eq!(
        documented["memory"],
        ["core", "x"].map(str::to_owned).into()
    );
    assert_eq!(documented.len(), 2);
}
