//! A suggested limit touches as many keys as the engine denies under it.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::ops::ControlFlow;

use tollgate_behaviour::{Random, check};
use tollgate_replay::{
    Format, KeyShape, LogKind, Options, ROUTE_EVENTS_MIN, ROUTES_MAX, SHARES, Study, StudyWarning,
    Traffic, WINDOWS, replay,
};
use tollgate_rules::{RuleSet, Source, TEXT_BYTES_MAX};

/// A log of this many requests by up to so many clients, out of order, within two hours.
fn random_log(random: &mut Random, clients: u64, requests: u64) -> String {
    let mut log = String::new();
    for _ in 0..requests {
        // A few clients have most of the requests.
        let client = random.between(0, clients).min(random.between(0, clients));
        let path = random.pick(&["/login", "/img/a.png", "/img/b.png?x", "/", "/a%20b"]);
        let (hour, minute) = (random.between(0, 1), random.between(0, 59));
        let second = random.between(0, 59);
        writeln!(
            log,
            "c{client} - - [01/Jan/2026:1{hour}:{minute:02}:{second:02} +0000] \"GET {path} \
             HTTP/1.1\" 200 1"
        )
        .unwrap();
    }
    log
}

fn traffic(log: &str) -> Traffic {
    let mut traffic = empty();
    traffic.read("log", log.as_bytes()).unwrap();
    traffic
}

fn empty() -> Traffic {
    Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "d".to_owned(),
        descriptors: vec![
            "client={client}".parse().unwrap(),
            "(route)={path}".parse().unwrap(),
        ],
    })
}

/// How many keys the engine denies under these rules.
fn denied_keys(log: &str, rules: &str) -> u64 {
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", rules)], &Default::default());
    assert!(!loaded.has_errors(), "{rules}: {:?}", loaded.diagnostics);
    let go_on = &mut |_| ControlFlow::Continue(());
    let options = Options::default();
    let report = replay(&mut traffic(log), &loaded.rules, options, None, go_on).unwrap();
    report.denied_keys.count
}

#[test]
fn a_limit_touches_the_keys_that_the_engine_denies() {
    let mut touched = 0;
    check("study", 6, |random| {
        let log = random_log(random, 300, 4_000);
        let study = Study::of(&mut traffic(&log));
        assert_eq!((study.all.events, study.routes.len()), (4_000, 4));
        for (part, window) in study.all.windows.iter().zip(WINDOWS) {
            for (limit, per_mille) in part.limits.iter().zip(SHARES) {
                let rules = format!(
                    "{{domain: d, descriptors: [{{key: client, rate_limit: {{requests_per_unit: \
                     {}, window: {window}}}}}]}}",
                    limit.limit
                );
                let denied = usize::try_from(denied_keys(&log, &rules)).unwrap();
                assert_eq!(denied, limit.touched, "{window} {limit:?}");
                assert!(limit.touched * 1000 <= study.all.keys * per_mille);
                // One less would touch too many, or is not a limit.
                touched += limit.touched;
            }
        }
    });
    assert!(touched > 0);
}

#[test]
fn the_rules_that_are_written_deny_the_keys_that_the_study_says_they_touch() {
    let mut touched = 0;
    check("written", 4, |random| {
        let logs = [random_log(random, 300, 4_000), log_of_api(random)];
        for log in logs {
            let study = Study::of(&mut traffic(&log));
            let routes = study.routes.iter().map(|(route, _)| route.clone());
            let templates: Vec<String> = routes.filter(|route| route.contains('{')).collect();
            for (index, per_mille) in SHARES.into_iter().enumerate() {
                let rules = study.to_rules("d", &["client".to_owned()], per_mille);
                let rules = load(&rules);
                let options = Options {
                    top_keys: 1000,
                    ..Options::default()
                };
                let go_on = &mut |_| ControlFlow::Continue(());
                let mut shaped = shaped_for_rules(&log, &templates);
                let report = replay(&mut shaped, &rules, options, None, go_on).unwrap();
                for (route, part) in &study.routes {
                    let of_route = |path: &str| path.contains(&format!("path_{route}."));
                    let denied = report.denied_keys.first.iter();
                    let denied = denied.filter(|key| of_route(&key.rule.path)).count();
                    let limit = part.windows[1].limits[index];
                    assert_eq!(denied, limit.touched, "{route}: {limit:?}");
                    touched += denied;
                }
            }
        }
    });
    assert!(touched > 0);
}

/// The rules of a file without errors or warnings.
fn load(rules: &str) -> RuleSet {
    let loaded = RuleSet::parse(&[Source::new("r.yaml", rules)], &Default::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.rules
}

/// Checks that by the rules of a study, each route counts the requests that were studied, over the
/// same log.
fn counts_what_was_studied(study: &Study, log: &str, templates: &[String]) {
    let rules = study.to_rules("d", &["client".to_owned()], 0);
    let go_on = &mut |_| ControlFlow::Continue(());
    let mut again = shaped_for_rules(log, templates);
    let report = replay(&mut again, &load(&rules), Options::default(), None, go_on).unwrap();
    for (route, part) in &study.routes {
        let of_route = |path: &str| path.ends_with(&format!("path_{route}.client"));
        let found = report
            .rules
            .iter()
            .find(|totals| of_route(&totals.rule.path));
        let judged = found.map(|totals| totals.judged);
        assert_eq!(judged, u64::try_from(part.events).ok(), "{route}\n{rules}");
    }
}

#[test]
fn rules_of_templates_that_are_given_count_what_was_studied() {
    let mut log = String::new();
    for index in 0..300 {
        // 100 or more of each route, but 10 of `/users/{id}`.
        let path = match index % 3 {
            0 if index < 30 => format!("/users/{index}"),
            0 | 1 => format!("/users/a/w{index}"),
            _ => format!("/files/a/{index}"),
        };
        writeln!(
            log,
            "c - - [01/Jan/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 1"
        )
        .unwrap();
    }
    for index in 0..100 {
        let path = format!("/files/w{index}");
        writeln!(
            log,
            "c - - [01/Jan/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 1"
        )
        .unwrap();
    }
    let templates = ["/users/{id}", "/files/a/{*rest}"].map(str::to_owned);
    let shape = KeyShape::default().with_templates(&templates).unwrap();
    let mut shaped = empty().with_shape(shape).unwrap();
    shaped.read("log", log.as_bytes()).unwrap();
    let study = Study::of(&mut shaped);
    let found = study.routes.iter().map(|(route, _)| route.as_str());
    let mut all: Vec<String> = found.map(str::to_owned).collect();
    all.extend(templates);
    all.sort_unstable();
    all.dedup();
    let given: Vec<String> = all
        .iter()
        .filter(|one| one.contains('{'))
        .cloned()
        .collect();
    counts_what_was_studied(&study, &log, &given);
    assert_eq!(study.routes.len(), 3, "{all:?}");
    assert_eq!(study.other_templates, ["/users/{id}"]);
}

#[test]
fn templates_beside_those_that_are_given_count_what_was_studied() {
    // More templates than are studied, with more requests than the one that is never given.
    let busy: Vec<String> = (0..ROUTES_MAX + 2)
        .map(|index| format!("/busy{index}/{{id}}"))
        .collect();
    let mut log = String::new();
    let mut add = |path: String| {
        writeln!(
            log,
            "c - - [01/Jan/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 1"
        )
        .unwrap();
    };
    for id in 0..200 {
        (0..busy.len()).for_each(|index| add(format!("/busy{index}/{id}")));
    }
    for id in 0..ROUTE_EVENTS_MIN {
        add(format!("/api/orders/{id}"));
        add(format!("/api/w{id}"));
    }
    for count in [0, 5, ROUTES_MAX - 1, ROUTES_MAX, busy.len()] {
        let given = &busy[..count];
        let shape = KeyShape::default().with_templates(given).unwrap();
        let mut shaped = empty().with_shape(shape).unwrap();
        shaped.read("log", log.as_bytes()).unwrap();
        let study = Study::of(&mut shaped);
        let routes = study.routes.iter().map(|(route, _)| route.clone());
        let mut templates: Vec<String> = routes.filter(|route| route.contains('{')).collect();
        assert_eq!(templates.len(), ROUTES_MAX, "{templates:?}");
        templates.extend_from_slice(given);
        templates.sort_unstable();
        templates.dedup();
        counts_what_was_studied(&study, &log, &templates);
    }
}

#[test]
fn rules_of_a_key_that_is_a_path_apply_to_every_request() {
    let log = random_log(&mut Random::new(1), 300, 4_000);
    let by = |descriptors: &[&str]| {
        let mut traffic = Traffic::new(Format::AccessLog {
            kind: LogKind::Common,
            domain: "d".to_owned(),
            descriptors: descriptors
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
        });
        traffic.read("log", log.as_bytes()).unwrap();
        traffic
    };
    for (key, names) in [
        ("path={path},client={client}", &["path", "client"][..]),
        ("path={path}", &["path"]),
    ] {
        let study = Study::of(&mut by(&[key, "(route)={path}"]));
        assert!(!study.routes.is_empty());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let text = study.to_rules("d", &names, 0);
        let go_on = &mut |_| ControlFlow::Continue(());
        let rules = load(&text);
        let report = replay(&mut by(&[key]), &rules, Options::default(), None, go_on).unwrap();
        let judged = report.rules.iter().map(|totals| totals.judged).sum::<u64>();
        assert_eq!((judged, report.without_limit), (4_000, 0), "{key}\n{text}");
        assert!(text.contains("\n# No limits of routes: "), "{text}");
    }
}

#[test]
fn routes_of_any_characters_are_rules_or_are_counted() {
    let longest = "y".repeat(TEXT_BYTES_MAX - "//*".len());
    let long_paths = [format!("/{longest}/x"), format!("/{longest}y/x")];
    let long_route = format!("/{longest}/*");
    let paths = [
        // As a route, and its value in the rules.
        ("/caf%C3%A9/x", Some("/caf%C3%A9/*")),
        ("/a%20b", Some("/a%20b")),
        ("/@types/node", Some("/@types/*")),
        ("/é\u{2028}: #/x", Some("/é\u{2028}: #/*")),
        ("/'&!|>%@/x", Some("/'&!|>%@/*")),
        ("//x", Some("//*")),
        ("/a*b/c", None),
        ("/{id}/c", None),
        ("*", None),
        ("example.com:443", None),
        (&long_paths[0], Some(&*long_route)),
        (&long_paths[1], None),
    ];
    let mut log = String::new();
    for (index, (path, _)) in paths.iter().enumerate() {
        for client in 0..100 + index {
            writeln!(
                log,
                "c{client} - - [01/Jan/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 1"
            )
            .unwrap();
        }
    }
    let study = Study::of(&mut traffic(&log));
    let mut routes: Vec<&str> = study.routes.iter().map(|(route, _)| &**route).collect();
    let mut expected: Vec<&str> = paths.iter().filter_map(|(_, route)| *route).collect();
    routes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(routes, expected);
    assert_eq!(study.without_rule, 106 + 107 + 108 + 109 + 111);
    assert_eq!(study.to_json()["eventsWithoutRule"], 541);
    let shown = study.to_string();
    let said = "\n541 requests are in routes that cannot be a rule: the path does not begin with";
    assert!(shown.contains(said), "{shown}");

    counts_what_was_studied(&study, &log, &[]);
}

#[test]
fn a_template_that_is_too_long_for_a_rule_is_counted() {
    let long = "y".repeat(TEXT_BYTES_MAX);
    let shape = KeyShape::default().with_templates(&[format!("/a/{{id}}/{long}")]);
    let mut traffic = empty().with_shape(shape.unwrap()).unwrap();
    let line = format!("c - - [01/Jan/2026:10:00:00 +0000] \"GET /a/1/{long} HTTP/1.1\" 200 1\n");
    traffic.read("log", line.repeat(100).as_bytes()).unwrap();
    let study = Study::of(&mut traffic);
    assert_eq!((study.routes.len(), study.without_rule), (0, 100));
}

#[test]
fn the_limits_of_the_first_half_are_checked_on_the_second() {
    let line = |client: &str, hour: u32, second: u32| {
        format!("{client} - - [01/Jan/2026:{hour}:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let mut log = String::new();
    for second in 0..4 {
        log += &line("a", 10, second);
        log += &line("b", 12, second);
    }
    log += &line("b", 12, 9);
    let study = Study::of(&mut traffic(&log));
    let limit = study.all.windows[1].limits[0];
    assert_eq!((limit.limit, limit.touched), (5, 0));
    assert_eq!((limit.of_first_half, limit.touched_later), (4, (1, 1)));
}

#[test]
fn rules_are_valid_without_a_warning_and_have_every_route() {
    check("rules", 3, |random| {
        let log = random_log(random, 50, 3_000);
        let study = Study::of(&mut traffic(&log));
        let keys = ["tenant: x".to_owned(), "client".to_owned()];
        for per_mille in SHARES {
            let text = study.to_rules("a \"b\"", &keys, per_mille);
            let loaded = RuleSet::parse(&[Source::new("r.yaml", &*text)], &Default::default());
            assert!(
                loaded.diagnostics.is_empty(),
                "{text}{:?}",
                loaded.diagnostics
            );
            assert_eq!(loaded.rules.rules().count(), 1 + study.routes.len());
        }
    });
}

#[test]
fn no_limit_is_suggested_for_a_window_of_which_none_is_wholly_in_the_log() {
    // Three requests in each second, from so many seconds after 10:00.
    let study = |from: u32, seconds: u32| {
        let line = |n: u32| {
            let second = from + n / 3;
            let (hour, minute, second) = (10 + second / 3600, second / 60 % 60, second % 60);
            format!(
                "a - - [01/Jan/2026:{hour}:{minute:02}:{second:02} +0000] \"GET / HTTP/1.1\" 200 \
                 1\n"
            )
        };
        let log: String = (0..3 * seconds).map(line).collect();
        Study::of(&mut traffic(&log))
    };
    for (from, seconds, partial, limit) in [
        (0, 1, &["1m", "5m", "1h"][..], "3/second"),
        (0, 6, &["1m", "5m", "1h"], "3/second"),
        (0, 59, &["1m", "5m", "1h"], "3/second"),
        (0, 60, &["5m", "1h"], "180/minute"),
        (30, 60, &["1m", "5m", "1h"], "3/second"),
        (1, 118, &["1m", "5m", "1h"], "3/second"),
        (1, 119, &["5m", "1h"], "180/minute"),
        (0, 300, &["1h"], "180/minute"),
        (30, 300, &["5m", "1h"], "180/minute"),
        (0, 3600, &[], "180/minute"),
        (1800, 5400, &[], "180/minute"),
        (1800, 5399, &["1h"], "180/minute"),
    ] {
        let study = study(from, seconds);
        let marked = study.all.windows.iter().filter(|part| part.is_partial);
        let marked: Vec<String> = marked.map(|part| part.window.to_string()).collect();
        assert_eq!(marked, partial, "{from} {seconds}");
        let has_warning = study.warnings.contains(&StudyWarning::ShortLog);
        assert_eq!(has_warning, !partial.is_empty(), "{from} {seconds}");
        let rules = study.to_rules("d", &["client".to_owned()], 0);
        assert!(
            rules.contains(&format!("  rate_limit: {limit}\n")),
            "{from} {seconds}: {rules}"
        );
        let is_short = rules.contains("# The log has only ");
        assert_eq!(is_short, limit == "3/second", "{rules}");
        let (_, unit) = limit.split_once('/').unwrap();
        let checked = format!("/{unit}, which touches none of the keys in the first half");
        assert!(study.to_string().contains(&checked), "{study}");
    }
    let shown = study(0, 6).to_string();
    let why =
        "warning[short-log]: the log has only 6s of requests. Rows with * (1m, 5m, 1h) are of";
    assert!(
        shown.contains(why) && shown.contains(" 1m*     18 "),
        "{shown}"
    );
}

/// A log of an API, with identifiers in its paths, and a few paths that are words.
fn log_of_api(random: &mut Random) -> String {
    let mut log = String::new();
    for second in 0..3000 {
        let (client, id) = (random.between(0, 20), random.between(0, 999));
        let path = match random.between(0, 9) {
            0..=2 => format!("/users/{id}/orders/{}?page=2", id + 1),
            3..=4 => format!("/users/{id}"),
            5 => "/users/me".to_owned(),
            6 => format!("/files/{:08x}-ee8a-3ca4-894e-db77e160355e/", 1_000_000 + id),
            7 => "/users/me/orders".to_owned(),
            8 => format!("/{id}"),
            _ if id % 3 == 0 => format!("/about/{id}"),
            _ => "/about/us".to_owned(),
        };
        let (minute, second) = (second / 60, second % 60);
        writeln!(
            log,
            "c{client} - - [01/Jan/2026:10:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" \
             200 1"
        )
        .unwrap();
    }
    log
}

#[test]
fn the_limits_of_templates_touch_the_keys_that_the_engine_denies() {
    let mut touched = 0;
    check("templates", 4, |random| {
        let log = log_of_api(random);
        let study = Study::of(&mut traffic(&log));
        let mut routes: Vec<&str> = study.routes.iter().map(|(route, _)| &**route).collect();
        routes.sort_unstable();
        // `/about/{id}` would match more paths without an identifier than with one, and `/{id}`
        // nearly every path.
        let templates = ["/files/{id}", "/users/{id}", "/users/{id}/orders/{id}"];
        assert_eq!(
            routes,
            [
                &["/about/*"],
                &templates[..1],
                &["/users/*"],
                &templates[1..]
            ]
            .concat()
        );
        let templates = templates.map(str::to_owned);
        let shaped = || {
            let shape = KeyShape::default().with_templates(&templates).unwrap();
            let mut shaped = empty().with_shape(shape).unwrap();
            shaped.read("log", log.as_bytes()).unwrap();
            shaped
        };
        let again = Study::of(&mut shaped());
        for ((route, part), (same, of_shaped)) in study.routes.iter().zip(&again.routes) {
            let (counts, again) = ([part.events, part.keys], [of_shaped.events, of_shaped.keys]);
            assert_eq!((route, counts), (same, again));
            // One unit less than what touches no key, so that some are denied.
            let limit = part.windows[1].limits[0].limit - 1;
            let others = templates.iter().filter(|other| *other != route);
            let others: String = others
                .map(|other| format!("{{key: path, value: '{other}'}}, "))
                .collect();
            let rules = format!(
                "{{domain: d, descriptors: [{others}{{key: path, value: '{route}', descriptors: \
                 [{{key: client, rate_limit: {limit}/minute}}]}}]}}",
            );
            let loaded = RuleSet::parse(&[Source::new("r.yaml", rules)], &Default::default());
            assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
            let go_on = &mut |_| ControlFlow::Continue(());
            let mut shaped = shaped_for_rules(&log, &templates);
            let options = Options::default();
            let report = replay(&mut shaped, &loaded.rules, options, None, go_on).unwrap();
            let judged = usize::try_from(report.rules[0].judged).unwrap();
            assert_eq!(judged, part.events, "{route}");
            touched += report.denied;
        }
    });
    assert!(touched > 0);
}

/// The log as a replay of the suggested rules reads it.
fn shaped_for_rules(log: &str, templates: &[String]) -> Traffic {
    let shape = KeyShape::default().with_templates(templates).unwrap();
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "d".to_owned(),
        descriptors: vec!["path={path},client={client}".parse().unwrap()],
    })
    .with_shape(shape)
    .unwrap();
    traffic.read("log", log.as_bytes()).unwrap();
    traffic
}

#[test]
fn hostile_paths_are_bounded_and_no_template_is_invalid() {
    let mut log = String::new();
    for index in 0..150_000_u32 {
        let path = match index % 5 {
            0 => format!("/a{index}/1"),
            1 => "/{*rest}/1/*".to_owned(),
            2 => "/%7Bid%7D/%00/1".to_owned(),
            3 => format!("/a/{{id}}/{}", index % 7),
            _ => format!("/deep{}", "/1".repeat(200)),
        };
        writeln!(
            log,
            "c - - [01/Jan/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 1"
        )
        .unwrap();
    }
    let study = Study::of(&mut traffic(&log));
    let routes: Vec<&str> = study.routes.iter().map(|(route, _)| &**route).collect();
    assert_eq!(routes, ["/%7Bid%7D/*", "/a/*", "/deep/*"]);
    // `/{*rest}/1/*` is not a value for its paths.
    assert_eq!(study.without_rule, 30_000);
}

#[test]
fn a_proxy_and_a_useless_key_are_recognised() {
    let line = |client: String| {
        format!("{client} - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    // All requests are of one second.
    let warnings = |log: &str| {
        let mut warnings = Study::of(&mut traffic(log)).warnings;
        assert_eq!(warnings.pop(), Some(StudyWarning::ShortLog));
        warnings
    };
    let own: String = (0..1_000).map(|index| line(format!("c{index}"))).collect();
    assert_eq!(warnings(&own), [StudyWarning::OwnKeys]);
    let one: String = (0..100)
        .map(|index| line(format!("c{}", index % 100 / 90)))
        .collect();
    assert_eq!(
        warnings(&one),
        [StudyWarning::OneKey, StudyWarning::FewKeys]
    );
    let shown = Study::of(&mut traffic(&one)).to_string();
    let both = "90 of 100 requests have one key, c0. If it is a proxy that stands for many \
        clients, limits by it are of no use: take the client from a header that the proxy is \
        trusted to set. If it is one client that sends most of the traffic, such as a scanner, \
        a limit is right\n";
    assert!(shown.contains(both), "{shown}");
    let two: String = (0..100)
        .map(|index| line(format!("c{}", index / 89)))
        .collect();
    assert_eq!(warnings(&two), [StudyWarning::FewKeys]);
}
