//! Numbers that an option accepts, and those that it does not.

use tempfile::TempDir;

use crate::house::{RULES, directory, run, text};

const LINE: &str = "192.0.2.1 - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";

fn scene() -> TempDir {
    directory(&[("rules.yaml", RULES), ("x.log", LINE)])
}

const SIMULATE: [&str; 5] = [
    "simulate",
    "--rules",
    "rules.yaml",
    "--traffic",
    "constant 1/s for 3s",
];

#[test]
fn times_of_instances_have_the_bounds_of_the_service() {
    let directory = scene();
    let simulate = |option: &str, time: &str, status: i32| {
        let instances = ["--instances", "2", "--mode", "write_back", option, time];
        let arguments = [&SIMULATE[..], &instances].concat();
        text(&run(directory.path(), &arguments), status)
    };
    for (option, least, most) in [("--sync", "10ms", "10s"), ("--timeout", "1ms", "10s")] {
        for time in [least, most] {
            simulate(option, time, 0);
        }
    }
    for (option, time, bounds) in [
        ("--sync", "0ms", "from 10ms to 10s"),
        ("--sync", "1ms", "from 10ms to 10s"),
        ("--sync", "9ms", "from 10ms to 10s"),
        ("--sync", "10001ms", "from 10ms to 10s"),
        ("--timeout", "0ms", "from 1ms to 10s"),
        ("--timeout", "10001ms", "from 1ms to 10s"),
        ("--timeout", "1m", "from 1ms to 10s"),
        ("--delay", "61s", "from 0ms to 1m"),
    ] {
        let shown = simulate(option, time, 2);
        assert!(shown.starts_with(&format!("error: {option} ")), "{shown}");
        assert!(shown.ends_with(&format!(": must be {bounds}\n")), "{shown}");
    }
}

#[test]
fn more_keys_than_the_memory_has_room_for_are_an_error_before_anything_is_read() {
    let directory = scene();
    // More than the address space of any machine, whatever the system promises.
    let keys = ["--max-keys", "9999999999999999"];
    let replay = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "k={client}",
    ];
    for (command, rest) in [
        (&SIMULATE[..], &[][..]),
        (&SIMULATE, &["--report", "page.html"]),
        (&SIMULATE, &["--decisions", "out"]),
        (&replay, &["missing.log"]),
        (&replay, &["--decisions", "out", "x.log"]),
    ] {
        let shown = text(&run(directory.path(), &[command, &keys, rest].concat()), 2);
        let bytes = shown.strip_prefix("error: --max-keys 9999999999999999: the store would take ");
        let (bytes, rest) = bytes.unwrap().split_once(' ').unwrap();
        assert!(
            bytes.parse::<u64>().unwrap() > 9_999_999_999_999_999,
            "{shown}"
        );
        assert!(
            rest.starts_with("bytes, which the system does not have; "),
            "{shown}"
        );
        assert!(
            shown.contains("set --max-keys to a smaller number"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 1, "{shown}");
    }
    let names = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 2, "nothing is written");
}
