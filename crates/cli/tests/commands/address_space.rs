//! `tollgate serve` in a limited address space.

use std::fs;

use crate::house::{RULES, SETTINGS, Service, directory};

/// glibc reserves this much at a time for every arena but the first, aligned to as much.
const RESERVED: u64 = 64 << 20;

/// How many blocks are reserved for further arenas: each begins in use and ends unreadable.
fn reserved_blocks(maps: &str) -> usize {
    let unused = maps.lines().filter(|line| line.contains("---p"));
    let ends = unused.filter_map(|line| line.split(['-', ' ']).nth(1));
    ends.filter(|end| u64::from_str_radix(end, 16).is_ok_and(|end| end % RESERVED == 0))
        .count()
}

/// The first thread that allocates takes an arena, and the log has a thread: the number is limited
/// before.
#[test]
fn no_further_arena_is_reserved_in_512_mib() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let arenas = |mib: u64| {
        let limit = format!("ulimit -v {}", mib << 10);
        let mut service = Service::start_under(&limit, directory.path());
        let line = service.logged(|line| line["message"] == "the address space is limited");
        service.address("http");
        let maps = fs::read_to_string(format!("/proc/{}/maps", service.process.id())).unwrap();
        (line["arenas"].as_u64().unwrap(), reserved_blocks(&maps))
    };
    assert_eq!(arenas(512), (1, 0));
    // What is looked for is there if more are allowed.
    let (allowed, reserved) = arenas(4096);
    assert!(allowed == 8 && reserved > 0, "{allowed} {reserved}");
}
