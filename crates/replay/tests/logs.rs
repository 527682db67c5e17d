//! Every real log in `../shared/data/logs`, against facts known beforehand and plain models.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;

use tollgate_replay::{
    FieldNames, Format, Layout, LogKind, Options, Report, Traffic, Warning, replay,
};
use tollgate_rules::{RuleSet, Source};

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/logs");

/// Each log with the events and the skipped lines that it has, as its manifest says; of the two
/// CSV files and the malformed lines, as counted by hand.
const FACTS: [(&str, usize, u64); 15] = [
    ("cpsc318_internet_noise_combined.log", 74, 0),
    ("edgar_20170630_common.log", 1999, 0),
    ("edgar_20170630_first2000.csv", 0, 2000),
    ("elastic_apache_combined_10k.log", 10_000, 0),
    ("govapp_proxycollapsed_common.log", 13_610, 0),
    ("hackers_combined.log", 3456, 0),
    ("monitorware_2004_common.log", 1539, 0),
    ("nasa_aug95_head_common.log", 1841, 89),
    ("nasa_insight_first2k_common.log", 2000, 0),
    ("parser_torture.log", 32, 73),
    ("ruetoj_common.log", 15_789, 0),
    ("ruetoj_weblog.csv", 0, 16_062),
    ("scan_acunetix_combined.log", 6539, 0),
    ("scan_netsparker_combined.log", 7314, 0),
    ("scan_w3af_combined.log", 3996, 0),
];

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

fn traffic(name: &str, kind: LogKind, descriptors: &[&str]) -> Traffic {
    let mut traffic = Traffic::new(Format::AccessLog {
        kind,
        domain: "web".to_owned(),
        descriptors: descriptors
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
    });
    traffic.read(name, open(name)).unwrap();
    traffic
}

fn by_client(limit: &str) -> RuleSet {
    let text = format!("{{domain: web, descriptors: [{{key: client, rate_limit: {limit}}}]}}");
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.rules
}

/// The report, and for each decision in order its line and whether the request passed.
fn replayed(traffic: &mut Traffic, rules: &RuleSet) -> (Report, Vec<(usize, bool)>) {
    let mut decisions = Vec::new();
    let out: Option<&mut dyn std::io::Write> = Some(&mut decisions);
    let report = replay(traffic, rules, Options::default(), out, &mut go_on).unwrap();
    let decisions = String::from_utf8(decisions).unwrap();
    let decided = decisions.lines().map(|decision| {
        let decision = decision.strip_prefix("{\"version\":1,\"line\":").unwrap();
        let (line, rest) = decision.split_once(',').unwrap();
        (line.parse().unwrap(), rest.contains("\"allowed\":true,"))
    });
    (report, decided.collect())
}

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn one_address_for_all_clients_is_a_warning() {
    let warnings = |name: &str, descriptor: &str, limit: &str| {
        let mut traffic = traffic(name, LogKind::Combined, &[descriptor]);
        let rules = by_client(limit);
        let report = replay(&mut traffic, &rules, Options::default(), None, &mut go_on).unwrap();
        let codes: Vec<_> = report.warnings.iter().map(Warning::code).collect();
        (codes, report.warnings.first().map(ToString::to_string))
    };
    let proxied = "govapp_proxycollapsed_common.log";
    let (codes, first) = warnings(proxied, "client={client}", "5/minute");
    assert_eq!(codes, ["one-key"]);
    let expected = "13608 of 13610 events of `client` have one key (client=192.0.2.";
    assert!(first.as_ref().unwrap().starts_with(expected), "{first:?}");
    assert_eq!(
        warnings("hackers_combined.log", "client={client}", "5/minute").0,
        [""; 0]
    );
    assert_eq!(
        warnings("hackers_combined.log", "user={user}", "5/minute").0,
        ["no-rule"]
    );
}

#[test]
fn prefixes_of_other_programs_change_no_decision() {
    let rules = by_client("5/minute");
    let name = "hackers_combined.log";
    let mut plain = traffic(name, LogKind::Combined, &["client={client}"]);
    let (expected, decided) = replayed(&mut plain, &rules);
    let text = unpacked(name);
    for prefix in [
        "example.com:443 ",
        "2015-10-25T03:11:25.123456789Z ",
        "<134>Oct 25 03:11:25 web1 nginx[7]: ",
    ] {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let prefixed: Vec<u8> = lines
            .flat_map(|line| [prefix.as_bytes(), line].concat())
            .collect();
        let mut traffic = Traffic::new(Format::AccessLog {
            kind: LogKind::Combined,
            domain: "web".to_owned(),
            descriptors: vec!["client={client}".parse().unwrap()],
        });
        traffic.read(name, &prefixed[..]).unwrap();
        let (report, with_prefix) = replayed(&mut traffic, &rules);
        assert!(report == expected && with_prefix == decided, "{prefix}");
    }
}

#[test]
fn every_log_has_the_events_that_are_known_of_it() {
    for (name, events, skipped) in FACTS {
        for kind in [LogKind::Common, LogKind::Combined] {
            let descriptors = ["client={client}", "agent={referer}{user_agent}"];
            let mut traffic = traffic(name, kind, &descriptors);
            assert_eq!(
                (traffic.events(), traffic.skipped_lines().count),
                (events, skipped),
                "{name}"
            );
            let rules = by_client("5/minute");
            let report =
                replay(&mut traffic, &rules, Options::default(), None, &mut go_on).unwrap();
            assert_eq!(report.events, u64::try_from(events).unwrap(), "{name}");
            assert_eq!(report.allowed + report.denied, report.events, "{name}");
        }
    }
}

#[test]
fn a_log_in_columns_is_decided_as_the_same_log_in_the_common_format() {
    let columns = "client,time,request,status".split(',').map(str::to_owned);
    let table = [
        (
            "edgar_20170630_first2000.csv",
            None,
            1999,
            0,
            "edgar_20170630_common.log",
        ),
        (
            "ruetoj_weblog.csv",
            Some(columns.collect()),
            15_789,
            273,
            "ruetoj_common.log",
        ),
    ];
    let rules = by_client("2/second");
    for (name, columns, events, skipped, twin) in table {
        let layout = Layout::csv(FieldNames::common(), columns);
        let mut columns = traffic(name, LogKind::Layout(layout), &["client={client}"]);
        assert_eq!(
            (columns.events(), columns.skipped_lines().count),
            (events, skipped),
            "{name}"
        );
        let (report, decided) = replayed(&mut columns, &rules);
        let mut common = traffic(twin, LogKind::Common, &["client={client}"]);
        let (expected, of_twin) = replayed(&mut common, &rules);
        assert!(
            report.denied > 0 && report.denied == expected.denied,
            "{name}"
        );
        let allowed = |decided: &[(usize, bool)]| -> Vec<bool> {
            decided.iter().map(|(_, allowed)| *allowed).collect()
        };
        assert!(allowed(&decided) == allowed(&of_twin), "{name}");
        assert_eq!(report.denied_keys, expected.denied_keys, "{name}");
    }
}

#[test]
fn a_sliding_log_decides_every_log_as_a_plain_list_does() {
    for (limit, count, window) in [
        (
            "{algorithm: sliding_log, unit: minute, requests_per_unit: 10}",
            10,
            MINUTE,
        ),
        (
            "{algorithm: sliding_log, unit: second, requests_per_unit: 2}",
            2,
            SECOND,
        ),
    ] {
        agree(limit, || {
            let mut allowed: Vec<u64> = Vec::new();
            Box::new(move |now| {
                allowed.retain(|at| now - at < window);
                let fits = allowed.len() < count;
                allowed.extend(fits.then_some(now));
                fits
            })
        });
    }
}

#[test]
fn a_token_bucket_decides_every_log_as_a_fraction_does() {
    for (limit, count, window, burst) in [
        (
            "{algorithm: token_bucket, unit: minute, requests_per_unit: 30, burst: 10}",
            30,
            MINUTE,
            10,
        ),
        (
            "{algorithm: token_bucket, unit: second, requests_per_unit: 1, burst: 3}",
            1,
            SECOND,
            3,
        ),
    ] {
        assert_eq!(
            window % count,
            0,
            "the model is exact only where the interval is"
        );
        // A token is `window` parts; `count` parts come back in a nanosecond.
        let full = u128::from(burst * window);
        agree(limit, || {
            let (mut parts, mut last) = (full, 0);
            Box::new(move |now| {
                parts = full.min(parts + u128::from(now - last) * u128::from(count));
                last = now;
                let fits = parts >= u128::from(window);
                parts -= if fits { u128::from(window) } else { 0 };
                fits
            })
        });
    }
}

/// Whether a request of one client at a moment passes.
type Model = Box<dyn FnMut(u64) -> bool>;

fn agree(limit: &str, model: impl Fn() -> Model) {
    let rules = by_client(limit);
    for (name, ..) in FACTS {
        let mut traffic = traffic(name, LogKind::Combined, &["client={client}"]);
        let (report, decided) = replayed(&mut traffic, &rules);
        let mut events = plainly_read(name);
        events.sort_by_key(|(_, at, _)| *at);
        let mut models: HashMap<Vec<u8>, Model> = HashMap::new();
        let expected: Vec<(usize, bool)> = events
            .into_iter()
            .map(|(line, at, client)| (line, models.entry(client).or_insert_with(&model)(at)))
            .collect();
        assert!(decided == expected, "{name} under {limit}");
        let allowed = expected.iter().filter(|(_, allowed)| *allowed).count();
        assert_eq!(
            report.allowed,
            u64::try_from(allowed).unwrap(),
            "{name} under {limit}"
        );
    }
}

fn unpacked(name: &str) -> Vec<u8> {
    let file = open(name);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut text)
        .unwrap();
    text
}

fn open(name: &str) -> File {
    let path = format!("{LOGS}/{name}.gz");
    File::open(&path).unwrap_or_else(|error| panic!("{path}, which this test needs: {error}"))
}

/// The line, the moment and the client of each event of a log, read as simply as can be.
fn plainly_read(name: &str) -> Vec<(usize, u64, Vec<u8>)> {
    let text = unpacked(name);
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let events = lines.filter_map(|(index, line)| {
        let line = String::from_utf8_lossy(line).replace("\\\"", "escaped");
        let (at, client) = plain_event(line.trim_end())?;
        Some((index + 1, at, client))
    });
    events.collect()
}

fn plain_event(line: &str) -> Option<(u64, Vec<u8>)> {
    let (who, rest) = line.split_once(" [")?;
    let [client, _, _] = who.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (time, rest) = rest.split_once("] \"")?;
    let (_, outcome) = rest.split_once("\" ")?;
    let mut outcome = outcome.split(' ');
    let (status, size) = (outcome.next()?, outcome.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_whole = status.len() == 3 && is_number(status) && (size == "-" || is_number(size));
    is_whole.then(|| (plain_time(time), client.as_bytes().to_vec()))
}

/// `17/May/2015:10:05:03 +0000`, by counting days one month at a time.
fn plain_time(text: &str) -> u64 {
    const MONTHS: [(&str, i64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let is_leap = |year: i64| year % 4 == 0;
    let year = number(7..11);
    let mut days: i64 = (1970..year)
        .map(|year| 365 + i64::from(is_leap(year)))
        .sum();
    for (month, length) in MONTHS.iter().take_while(|(name, _)| *name != &text[3..6]) {
        days += length + i64::from(*month == "Feb" && is_leap(year));
    }
    days += number(0..2) - 1;
    let local = ((days * 24 + number(12..14)) * 60 + number(15..17)) * 60 + number(18..20);
    let ahead = (number(22..24) * 60 + number(24..26)) * 60;
    let utc = if &text[21..22] == "-" {
        local + ahead
    } else {
        local - ahead
    };
    u64::try_from(utc).unwrap() * SECOND
}
