//! A report with charts, for every real log: its sums are those of the decisions.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::fs::{File, read_dir};
use std::io::{Read, Write};
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tollgate_replay::{
    DeniedPattern, Distribution, Error, FieldNames, Format, Layout, LogKind, Options, PATTERNS_MAX,
    Page, RULES_SHOWN_MAX, Report, SLOTS_MAX, Survey, Traffic, replay, survey,
};
use tollgate_rules::{RuleSet, Source};

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/logs");
const RULES: &str = "{domain: web, descriptors: [{key: client, rate_limit: 30/minute}, \
    {key: path, descriptors: [{key: client, rate_limit: {name: same-path, unit: minute, \
    requests_per_unit: 10}}]}]}";
/// Logs in CSV, which need a mapping of their columns.
const CSV: &str = ".csv.gz";

fn rules(text: &str) -> RuleSet {
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

fn traffic(name: &str, log: impl Read) -> Traffic {
    traffic_in(LogKind::Combined, name, log)
}

fn traffic_in(kind: LogKind, name: &str, log: impl Read) -> Traffic {
    let descriptors = ["client={client}", "path={path},client={client}"];
    let format = Format::AccessLog {
        kind,
        domain: "web".to_owned(),
        descriptors: descriptors.map(|text| text.parse().unwrap()).to_vec(),
    };
    let mut traffic = Traffic::new(format).with_clients().with_details();
    traffic.read(name, log).unwrap();
    traffic
}

fn log(name: &str) -> File {
    let path = format!("{LOGS}/{name}");
    File::open(&path).unwrap_or_else(|error| panic!("{path}, which this test needs: {error}"))
}

struct Found {
    traffic: Traffic,
    report: Report,
    survey: Survey,
    decisions: Vec<Value>,
}

fn find(mut traffic: Traffic, rules: &RuleSet) -> Found {
    let mut lines = Vec::new();
    let out: Option<&mut dyn Write> = Some(&mut lines);
    let go_on = &mut |_| ControlFlow::Continue(());
    let (report, survey) = survey(&mut traffic, rules, Options::default(), out, go_on).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let decisions = text.lines().map(|line| serde_json::from_str(line).unwrap());
    Found {
        decisions: decisions.collect(),
        traffic,
        report,
        survey,
    }
}

impl Found {
    fn page(&self) -> String {
        let Found {
            traffic,
            report,
            survey,
            ..
        } = self;
        Page {
            report,
            survey,
            traffic,
            simulation: None,
        }
        .to_string()
    }

    fn denials(&self) -> impl Iterator<Item = &Value> {
        self.decisions
            .iter()
            .filter(|line| line["allowed"] == false)
    }
}

/// The count that the page shows.
fn shown(page: &str, id: &str) -> u64 {
    let (_, rest) = page
        .split_once(&format!("id=\"{id}\" data-count=\""))
        .unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn the_sums_of_every_log_are_those_of_its_decisions() {
    let mut tried = 0;
    for entry in read_dir(LOGS).expect("the logs in ../shared/data, which this test needs") {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(CSV) {
            continue;
        }
        tried += 1;
        let rules = rules(RULES);
        let found = find(traffic(&name, log(&name)), &rules);
        let mut again = traffic(&name, log(&name));
        let go_on = &mut |_| ControlFlow::Continue(());
        let plain = replay(&mut again, &rules, Options::default(), None, go_on).unwrap();
        assert_eq!(found.report, plain, "{name}: as without a survey");
        sums(&name, &found);
        for pattern in &found.survey.denied {
            follow(&name, pattern, &found);
        }
        let page = found.page();
        let (events, denied) = (found.decisions.len(), found.denials().count());
        assert_eq!(
            shown(&page, "offered"),
            u64::try_from(events).unwrap(),
            "{name}"
        );
        assert_eq!(
            shown(&page, "denied"),
            u64::try_from(denied).unwrap(),
            "{name}"
        );
    }
    assert_eq!(tried, 13);
}

#[test]
fn stopped_in_the_second_pass_all_events_are_decided_and_written() {
    const EVENTS: usize = 20_000;
    let line = "192.0.2.1 - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let rules = rules(RULES);
    let stop_at = |pass: u32| {
        let mut traffic = traffic("x.log", line.repeat(EVENTS).as_bytes());
        let mut lines = Vec::new();
        let out: Option<&mut dyn Write> = Some(&mut lines);
        let mut passes = 0;
        let progress = &mut |decided: u64| {
            passes += u32::from(decided == 0);
            match passes == pass && decided > 0 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let stopped = survey(&mut traffic, &rules, Options::default(), out, progress);
        let Err(Error::Stopped { decided }) = stopped else {
            panic!("not stopped in pass {pass}");
        };
        let written = lines.split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(decided, u64::try_from(written).unwrap(), "pass {pass}");
        written
    };
    assert!(stop_at(1) < EVENTS);
    assert_eq!(stop_at(2), EVENTS);
}

fn sums(name: &str, found: &Found) {
    let (survey, report) = (&found.survey, &found.report);
    let slots = &survey.timeline.slots;
    assert!(slots.len() <= SLOTS_MAX);
    let offered: u64 = slots.iter().map(|slot| slot.offered).sum();
    let denied: u64 = slots.iter().map(|slot| slot.denied).sum();
    assert_eq!((offered, denied), (report.events, report.denied), "{name}");
    let denials = u64::try_from(found.denials().count()).unwrap();
    assert_eq!(denied, denials, "{name}");
    let by_rule: u64 = survey.denied_by_rule.iter().flatten().sum();
    assert_eq!(by_rule, denials, "{name}");
    for (totals, slots) in report.rules.iter().zip(&survey.denied_by_rule) {
        let of_rule = |line: &&Value| line["deniedBy"] == totals.rule.shown();
        let expected = u64::try_from(found.denials().filter(of_rule).count()).unwrap();
        assert_eq!(slots.iter().sum::<u64>(), expected, "{name}");
        assert_eq!(totals.denied, expected, "{name}");
    }
    let up_to_a_second = found.denials().filter(|line| {
        let wait = line["retryAfter"].as_str().unwrap().trim_end_matches('s');
        wait != "never" && (wait == "1" || wait.starts_with("0."))
    });
    let quick = survey.waits[0] + survey.waits[1];
    assert_eq!(
        quick,
        u64::try_from(up_to_a_second.count()).unwrap(),
        "{name}"
    );
    assert_eq!(
        survey.waits.iter().sum::<u64>() + survey.never,
        denials,
        "{name}"
    );
    for (found, totals) in survey.distributions.iter().zip(&report.rules) {
        let least = |(place, count): (usize, &u64)| Distribution::range(place).0 * count;
        let most = |(place, count): (usize, &u64)| Distribution::range(place).1 * count;
        let least: u64 = found.counts.iter().enumerate().map(least).sum();
        let most: u64 = found.counts.iter().enumerate().map(most).sum();
        assert!(least <= totals.judged && totals.judged <= most, "{name}");
    }
}

/// Follows a key through the decisions.
fn follow(name: &str, pattern: &DeniedPattern, found: &Found) {
    let (key, value) = pattern.descriptor.last().unwrap();
    let depth = pattern.descriptor.len();
    let is_met = |line: &&Value| {
        let descriptor = line["descriptors"].as_array().unwrap().iter();
        let mut descriptor = descriptor.map(|descriptor| descriptor["entries"].as_array().unwrap());
        descriptor.any(|entries| {
            let pairs = entries.iter().zip(&pattern.descriptor);
            entries.len() == depth
                && pairs
                    .into_iter()
                    .all(|(entry, (key, value))| entry["key"] == **key && entry["value"] == **value)
        })
    };
    let met: Vec<&Value> = found.decisions.iter().filter(is_met).collect();
    let what = format!("{name} {key}={value}");
    assert_eq!(pattern.offered, u64::try_from(met.len()).unwrap(), "{what}");
    let of_rule = |line: &&&Value| line["deniedBy"] == pattern.rule.shown();
    let denied: Vec<_> = met.iter().filter(of_rule).collect();
    assert_eq!(
        pattern.denied,
        u64::try_from(denied.len()).unwrap(),
        "{what}"
    );
    let at = |line: &Value| tollgate_replay::parse_moment(line["at"].as_str().unwrap()).unwrap();
    assert_eq!(pattern.first, at(denied[0]), "{what}");
    assert_eq!(pattern.last, at(denied[denied.len() - 1]), "{what}");
    let mut minutes = HashMap::new();
    for line in &met {
        *minutes
            .entry(at(line).as_nanos() / 60_000_000_000)
            .or_insert(0) += 1;
    }
    assert_eq!(
        pattern.peak_minute,
        *minutes.values().max().unwrap(),
        "{what}"
    );
    let runs = met.chunk_by(|one, other| one["allowed"] == other["allowed"]);
    let longest = runs
        .filter(|run| run[0]["allowed"] == false)
        .map(<[_]>::len)
        .max();
    let longest = u64::try_from(longest.unwrap()).unwrap();
    assert_eq!(pattern.longest_run.requests, longest, "{what}");
    let offered: u64 = pattern.slots.iter().map(|slot| slot.offered).sum();
    assert_eq!(offered, pattern.offered, "{what}");
    let paths = pattern
        .paths
        .first
        .iter()
        .map(|(_, count)| count)
        .sum::<u64>();
    assert_eq!(paths + pattern.paths.others, pattern.offered, "{what}");
}

#[test]
fn the_attackers_are_at_the_top_and_a_proxy_is_named() {
    // The clients with the most lines, by `cut -d' ' -f1 | sort | uniq -c | sort -rn`; the brute
    // force of Acunetix is one search and two logins, each from one address.
    for (name, client, agent) in [
        (
            "scan_netsparker_combined.log.gz",
            "192.168.4.164",
            "Mozilla/5.0 (Windows NT 6.3",
        ),
        (
            "scan_acunetix_combined.log.gz",
            "192.168.4.25",
            "Mozilla/5.0 (Windows NT 6.1",
        ),
        ("scan_w3af_combined.log.gz", "192.168.4.163", "w3af.org"),
        ("ruetoj_common.log.gz", "10.128.2.1", ""),
    ] {
        let found = find(traffic(name, log(name)), &rules(RULES));
        let top = &found.survey.denied[0];
        let (key, value) = top.descriptor.last().unwrap();
        assert_eq!((key.as_str(), value.as_str()), ("client", client), "{name}");
        let (most, _) = &top.user_agents.first[0];
        assert!(most.starts_with(agent), "{name}: {most}");
        let page = found.page();
        let who = page.split_once("Who is denied").unwrap().1;
        let first = who
            .split_once("<h3>")
            .unwrap()
            .1
            .split_once("</h3>")
            .unwrap()
            .0;
        assert!(
            first.ends_with(&format!("client={client}")),
            "{name}: {first}"
        );
    }
    let name = "scan_acunetix_combined.log.gz";
    let found = find(traffic(name, log(name)), &rules(RULES));
    let paths: Vec<_> = found
        .survey
        .denied
        .iter()
        .map(|key| key.descriptor[0].1.as_str())
        .collect();
    for path in ["/index.php/component/search/", "/administrator/index.php"] {
        assert!(paths[..4].contains(&path), "{paths:?}");
    }
    let name = "govapp_proxycollapsed_common.log.gz";
    let page = find(traffic(name, log(name)), &rules(RULES)).page();
    let warning = page.split_once("id=\"warning-one-key\">").unwrap().1;
    let warning = warning.split_once("</p>").unwrap().0;
    let expected = "Warning: 13608 of 13610 events of `client` have one key (client=192.0.2.200";
    assert!(warning.starts_with(expected), "{warning}");
    // A log does not tell which of the two it is.
    for case in [
        "). If it is a proxy that stands for many clients, limits by it are of no use",
        ". If it is one client that sends most of the traffic, such as a scanner, a limit is right",
    ] {
        assert!(warning.contains(case), "{warning}");
    }
}

#[test]
fn who_shadow_rules_would_deny_is_in_the_page() {
    let name = "hackers_combined.log.gz";
    let enforced = "{domain: web, descriptors: [{key: client, rate_limit: 5/minute}]}";
    let shadow = enforced.replace("client,", "client, shadow_mode: true,");
    let found = find(traffic(name, log(name)), &rules(&shadow));
    let page = found.page();
    let keys = &found.report.shadow_keys;
    assert!(keys.count > 0);
    let (_, table) = page
        .split_once("<h2>Who shadow rules would deny</h2>")
        .unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    for key in keys.first.iter().take(PATTERNS_MAX) {
        assert!(
            table.contains(&format!("client={}</td>", key.descriptor[0].1)),
            "{table}"
        );
    }
    let none = find(traffic(name, log(name)), &rules(enforced));
    assert!(!none.page().contains("shadow rules"));
}

#[test]
fn nothing_from_a_log_or_the_rules_is_markup() {
    let hostile = "<script>alert(1)</script>";
    let line = |client: &str| {
        // The combined format has no such clients.
        let line = json!({"time": 1_431_857_103, "client": client,
            "path": format!("/{hostile}'onload=x"),
            "user_agent": "<img src=x onerror=alert(2)>&"});
        format!("{line}\n")
    };
    let log = line(hostile).repeat(20) + "<b>no line</b>\n" + &line("a\u{202e}b").repeat(20);
    let name = "<script>name.log";
    let layout = Layout::json(FieldNames::common());
    let mut read = traffic_in(LogKind::Layout(layout), name, log.as_bytes());
    read.read("other.log", "<i>none</i>\n".as_bytes()).unwrap();
    let rules = rules(
        "{domain: web, descriptors: [{key: client, rate_limit: {name: \"<svg onload=x>\", \
         unit: minute, requests_per_unit: 1}}]}",
    );
    let page = find(read, &rules).page();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let known = [
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "h3",
        "p",
        "dl",
        "div",
        "dt",
        "dd",
        "small",
        "figure",
        "figcaption",
        "svg",
        "g",
        "rect",
        "span",
        "i",
        "table",
        "tr",
        "th",
        "td",
        "article",
        "code",
        "b",
        "ul",
        "li",
    ];
    let body = page.split_once("</style>").unwrap().1;
    for tag in body.split('<').skip(1) {
        let name = tag
            .trim_start_matches('/')
            .split([' ', '>'])
            .next()
            .unwrap();
        assert!(known.contains(&name), "<{tag}");
        assert!(!tag.split('>').next().unwrap().contains("=x"), "<{tag}");
    }
    let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'";
    assert!(page.contains(policy));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
}

#[test]
fn many_rules_and_paths_are_bounded_and_the_page_says_so() {
    let log: String = (0..2000)
        .map(|index| {
            format!("c - - [17/May/2015:10:05:03 +0000] \"GET /{index} HTTP/1.1\" 200 1\n")
        })
        .collect();
    let descriptors: String = (0..20)
        .map(|index| format!("{{key: k{index}, rate_limit: 1/day}}, "))
        .collect();
    let rules = rules(&format!(
        "{{domain: web, descriptors: [{descriptors}{{key: client, rate_limit: 1/day}}]}}"
    ));
    let found = find(traffic("a.log", log.as_bytes()), &rules);
    assert_eq!(found.survey.denied_by_rule.len(), RULES_SHOWN_MAX + 1);
    assert_eq!(
        found.survey.denied_by_rule[RULES_SHOWN_MAX]
            .iter()
            .sum::<u64>(),
        1999
    );
    assert!(found.survey.denied.len() <= PATTERNS_MAX);
    let page = found.page();
    let bounds = page.split_once("<ul id=\"bounds\">").unwrap().1;
    assert!(
        bounds.contains("Of 21 rules, the first 12 are in the charts one by one."),
        "{bounds}"
    );
    assert!(
        bounds.contains("1 denied keys have more than 1000 paths or user agents"),
        "{bounds}"
    );
    assert!(page.contains("other rules"));
}
