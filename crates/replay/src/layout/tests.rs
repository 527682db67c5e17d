use tollgate_behaviour::{Random, check};

use super::columns::COLUMN_CHARS_MAX;
use super::*;
use crate::timestamp::Utc;

type Sample = (Layout, &'static str, &'static str);

/// What a line is said to be that says something about those that follow.
const HEADING: &str = "a heading";

/// Each format, with a log of one line as its documentation shows it, and that line's fields.
fn samples() -> Vec<Sample> {
    let preset = |preset: Preset| preset.layout(None).unwrap();
    let mut samples = vec![
        (
            preset(Preset::Nginx),
            include_str!("samples/nginx.log"),
            "2026-01-31T10:00:00Z client=192.0.2.1 method=GET path=/a query=b=1 protocol=HTTP/1.1 \
             status=200 bytes=5 user_agent=c \"x\" host=h",
        ),
        (
            preset(Preset::Envoy),
            include_str!("samples/envoy.log"),
            "2026-01-31T10:00:00.25Z client=192.0.2.1 method=GET path=/a query=b protocol=HTTP/2 \
             status=200 bytes=5 user_agent=c host=h forwarded_for=203.0.113.9",
        ),
        (
            preset(Preset::Caddy),
            include_str!("samples/caddy.log"),
            "2026-01-31T10:00:00.25Z client=192.0.2.1 method=GET path=/a query=b=1&c \
             protocol=HTTP/2.0 status=200 bytes=5 user_agent=c host=h \
             forwarded_for=192.0.2.1, 10.0.0.2",
        ),
        (
            preset(Preset::Traefik),
            include_str!("samples/traefik.log"),
            "2026-01-31T10:00:00.5Z client=192.0.2.1 method=GET path=/a query=b protocol=HTTP/1.1 \
             status=200 bytes=5 user_agent=c host=h",
        ),
        (
            // What our own gateway writes.
            Layout::json(FieldNames::common()),
            include_str!("samples/gateway.log"),
            "2026-01-31T10:00:00.007Z client=192.0.2.1 method=GET path=/a query=b \
             protocol=HTTP/1.1 status=200 bytes=5 host=h",
        ),
    ];
    samples.extend(samples_without_json());
    samples
}

/// Those that are not JSON.
fn samples_without_json() -> [Sample; 6] {
    let preset = |preset: Preset| preset.layout(None).unwrap();
    let columns = ["client", "time", "request", "status"].map(str::to_owned);
    [
        (
            preset(Preset::W3c),
            include_str!("samples/iis.log"),
            "2026-01-31T10:00:00Z client=192.0.2.1 method=GET path=/a query=b=1 status=200 \
             user_agent=c+x",
        ),
        (
            preset(Preset::W3c),
            include_str!("samples/cloudfront.log"),
            "2026-01-31T10:00:00Z client=192.0.2.1 method=GET path=/a query=b=1 protocol=HTTP/2.0 \
             status=200 bytes=5 user_agent=c%20x host=h",
        ),
        (
            preset(Preset::Alb),
            include_str!("samples/alb.log"),
            "2026-01-31T10:00:00.186641Z client=192.0.2.1 method=GET path=/a query=b=1 \
             protocol=HTTP/2.0 status=200 bytes=366 user_agent=c x",
        ),
        (
            preset(Preset::Haproxy),
            include_str!("samples/haproxy.log"),
            "2026-01-31T10:00:00.655Z client=192.0.2.1 method=GET path=/a query=b \
             protocol=HTTP/1.1 status=200 bytes=2750",
        ),
        (
            Layout::csv(FieldNames::common(), None),
            include_str!("samples/csv.log"),
            "2026-01-31T10:00:00Z client=192.0.2.1 path=/a;\"b\" status=200 user_agent=c",
        ),
        (
            Layout::csv(FieldNames::common(), Some(columns.to_vec())),
            include_str!("samples/bare.log"),
            "2026-01-31T10:00:00Z client=192.0.2.1 method=GET path=/a protocol=HTTP/1.1 status=200",
        ),
    ]
}

/// The last line's time and fields that are not empty, or why it is not an event.
fn read(layout: &Layout, needed: &[Field], text: &[u8]) -> Result<String, String> {
    let mut reader = layout.reader(needed);
    let mut last = Err("nothing".to_owned());
    for line in text.split(|byte| *byte == b'\n') {
        last = match reader.read(line) {
            Ok(None) => Ok(HEADING.to_owned()),
            Err(bad) => Err(bad.to_string()),
            Ok(Some(record)) => match record.read() {
                Err(bad) => Err(bad.to_string()),
                Ok((at, fields)) => {
                    let mut shown = Utc(at).to_string();
                    for field in Field::all().filter(|field| !fields.get(*field).is_empty()) {
                        let value = String::from_utf8_lossy(fields.get(field)).into_owned();
                        shown += &format!(" {}={value}", field.name());
                    }
                    Ok(shown)
                }
            },
        };
    }
    last
}

#[test]
fn a_line_of_each_program_is_read_as_its_documentation_says() {
    for (layout, log, expected) in samples() {
        let text = log.trim_end();
        assert_eq!(
            read(&layout, &[], text.as_bytes()),
            Ok(expected.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn the_client_of_a_load_balancer_loses_its_port_whatever_its_address() {
    let haproxy = "CLIENT [31/Jan/2026:10:00:00.655] in web/srv1 10/0/30/69/109 200 2750 - - ---- \
        1/1/1/1/0 0/0 \"GET /a HTTP/1.1\"";
    let alb = "h2 2026-01-31T10:00:00Z app/lb/1 CLIENT 10.0.0.1:80 0.0 0.1 0.0 200 200 34 366 \
        \"GET https://h:443/a HTTP/2.0\" \"curl/8\" - -";
    for (preset, line) in [(Preset::Haproxy, haproxy), (Preset::Alb, alb)] {
        let layout = preset.layout(None).unwrap();
        for (client, expected) in [
            ("192.0.2.1:4242", "192.0.2.1"),
            ("2001:db8::5:33001", "2001:db8::5"),
            ("::ffff:192.0.2.7:4242", "::ffff:192.0.2.7"),
            ("::1:4242", "::1"),
            ("2001:db8:1:2:3:4:5:6:443", "2001:db8:1:2:3:4:5:6"),
            ("[2001:db8::5]:33001", "2001:db8::5"),
        ] {
            let line = line.replace("CLIENT", client);
            let found = read(&layout, &[], line.as_bytes()).unwrap();
            let client = format!(" client={expected} ");
            assert!(found.contains(&client), "{line}: {found}");
        }
    }
    // The time before a line has colons, too, and is not a client; nor is a tag without a host.
    let layout = Preset::Haproxy.layout(None).unwrap();
    for header in [
        "2026-01-31T10:00:00.123Z web1 haproxy[7]: ",
        "<134>Jan 31 10:00:00 haproxy[14389]: ",
        "Jan 31 10:00:00 haproxy: ",
        "<134>1 2026-01-31T10:00:00.123456+00:00 - haproxy 14389 - [x y=\"1\"] ",
    ] {
        for client in ["2001:db8::5", "::1"] {
            let line = format!("{header}{haproxy}");
            let line = line.replace("CLIENT", &format!("{client}:4242"));
            let found = read(&layout, &[], line.as_bytes());
            let client = format!(" client={client} ");
            let has_client = found.as_ref().is_ok_and(|line| line.contains(&client));
            assert!(has_client, "{line}: {found:?}");
        }
    }
}

#[test]
fn any_bytes_are_an_event_or_have_a_reason_and_never_panic() {
    let samples = samples();
    let index = |random: &mut Random, below: usize| {
        usize::try_from(random.between(0, u64::try_from(below).unwrap())).unwrap()
    };
    check("layouts", 3000, |random: &mut Random| {
        let (layout, log, _) = &samples[index(random, samples.len() - 1)];
        let mut bytes = log.trim_end().as_bytes().to_vec();
        // Most changes are in the last line, so that its columns keep their names.
        let last = log.trim_end().rfind('\n').map_or(0, |end| end + 1);
        let from = if random.chance(80) { last } else { 0 };
        for _ in 0..random.between(1, 8) {
            let at = from.min(bytes.len()) + index(random, bytes.len().saturating_sub(from));
            let byte = u8::try_from(random.between(0, 255)).unwrap();
            match random.between(0, 5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes.insert(at, random.pick(b"\"\\{}[]:,; \t%$-#\n")),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        let found = read(layout, &[Field::Client, Field::Path], &bytes);
        let is_heading = found.as_deref() == Ok(HEADING);
        let may_be_heading = may_end_with_heading(layout, &bytes);
        assert!(!is_heading || may_be_heading, "{}", bytes.escape_ascii());
    });
}

/// Whether the last line may be one that says something about those that follow.
fn may_end_with_heading(layout: &Layout, text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').rev();
    let last = lines.next().unwrap();
    match &layout.0 {
        Kind::Columns {
            syntax: Syntax::W3c,
            ..
        } => last.starts_with(b"#"),
        // The first line that is not blank.
        Kind::Columns { columns: None, .. } => lines.all(|line| line.trim_ascii().is_empty()),
        _ => false,
    }
}

/// Checks why the last line of each text is not an event.
fn check_reasons(layout: &Layout, needed: &[Field], table: &[(&str, &str)]) {
    for (text, why) in table {
        let found = read(layout, needed, text.as_bytes()).unwrap_err();
        assert!(found.contains(why), "{text}: {found}");
    }
}

#[test]
fn a_line_of_json_that_is_no_event_says_why() {
    let table = [
        ("  ", "the line is blank"),
        (r#"{"ts":1,"msg":"serving"}"#, "there is no client"),
        (r#"{"request":{}}"#, "there is no time"),
        (r#"{"ts":"x"}"#, "the time is not in the form"),
        (r#"{"ts":1,"#, "EOF while parsing a value at column 8"),
        ("[1]", "it is not a JSON object"),
        (r#"192.0.2.1 - - [x] "GET /""#, "it is not a JSON object"),
    ];
    check_reasons(&Preset::Caddy.layout(None).unwrap(), &[], &table);
}

#[test]
fn a_line_of_columns_that_is_no_event_says_why() {
    let table = [
        ("a b", "no #Fields line is before it"),
        (
            "#Fields: date time c-ip\na b",
            "it has 2 values, and #Fields names 3",
        ),
        (
            "#Date: 2026-01-31 10:00:00\n#Fields: time c-ip\na b",
            "there is a column `time` and none `date`, so the day of a line is not known; let the",
        ),
        ("#Fields: c-ip\na", "no column is known to be `time`"),
    ];
    check_reasons(&Preset::W3c.layout(None).unwrap(), &[], &table);
    let many = format!("{}\n1,2", "a,".repeat(1100));
    let table = [
        ("time,ip\n1,\"a", "a quoted column does not end in its line"),
        ("time,ip\n1", "there is no client"),
        (
            "time,ip\n1,x,192.0.2.1",
            "it has 3 columns, and the first line has 2",
        ),
        ("ip,path\na,b", "say which with `--fields time=COLUMN`"),
        (&many, "cannot be read: it has more than 1024 columns"),
    ];
    let csv = Layout::csv(FieldNames::common(), None);
    check_reasons(&csv, &[], &table);
    check_reasons(
        &csv,
        &[Field::Path],
        &[("time,ip\n1,a", "known to be `path`")],
    );
    let named = Layout::csv(
        FieldNames::common(),
        Some(["time", "ip"].map(str::to_owned).to_vec()),
    );
    let why = "it has 4 columns, and the first line has 3";
    check_reasons(&named, &[], &[("1,192.0.2.1,\n1,x,192.0.2.1,", why)]);
}

#[test]
fn a_column_that_is_chosen_and_missing_is_named() {
    for (chosen, needed, why) in [
        (
            "client=NOPE",
            Field::Client,
            "there is no column `NOPE`, which `--fields` names for `client`; say which with \
             `--fields client=COLUMN`, or with --columns if these are not names: time, ip, x",
        ),
        (
            "time=day+hour",
            Field::Client,
            "`day+hour`, which `--fields` names for `time`; ",
        ),
        (
            "client=a|b",
            Field::Client,
            "there is no column `a` or `b`, which `--fields`",
        ),
        (
            "request=line",
            Field::Path,
            "column `line`, which `--fields` names for `request`; ",
        ),
        (
            "client=ip",
            Field::Host,
            "no column is known to be `host`; say which with",
        ),
    ] {
        let names: FieldNames = chosen.parse().unwrap();
        let csv = Layout::csv(names.or(FieldNames::common()), None);
        check_reasons(&csv, &[needed], &[("time,ip,x\n1,a,b", why)]);
    }
}

/// The reason is made again for each line.
#[test]
fn long_names_of_columns_are_cut_in_a_reason() {
    let (long, cut) = ("x".repeat(10_000), "x".repeat(COLUMN_CHARS_MAX) + "…");
    let text = format!("time,{}\n1,a", format!("{long},").repeat(100));
    let csv = Layout::csv(FieldNames::common(), None);
    let why = read(&csv, &[Field::Path], text.as_bytes()).unwrap_err();
    let expected = format!("not names: time, {cut}, {cut}, ");
    assert!(why.contains(&expected), "{why}");
    assert!(why.len() < 2000, "{}", why.len());
}

#[test]
fn members_of_json_are_found_by_their_path_or_by_a_name_with_dots() {
    let names = "time=t,client=a.b.c|x,path=p";
    let layout = Layout::json(names.parse().unwrap());
    for (line, client) in [
        (&br#"{"t":1,"a":{"b":{"c":"1"}}}"#[..], "1"),
        (br#"{"t":1,"a.b.c":"1"}"#, "1"),
        (br#"{"t":1,"a":{"b.c":7.50}}"#, "7.50"),
        (br#"{"t":1,"a":null,"x":"2"}"#, "2"),
        (br#"{"t":1,"a":{"b":[1]},"x":true}"#, "true"),
        (b"{\"t\":1,\"x\":\"\\u00e4\xff\"}", "\u{e4}\\xff"),
    ] {
        let expected = format!("1970-01-01T00:00:01Z client={client}");
        assert_eq!(
            read(&layout, &[], line),
            Ok(expected),
            "{}",
            String::from_utf8_lossy(line)
        );
    }
    assert_eq!(layout.lacks(Field::Path), None);
    let why = layout.lacks(Field::User).unwrap();
    assert!(
        why.contains("which member is `user`; add `user=NAME`"),
        "{why}"
    );
}

#[test]
fn names_that_cannot_be_used_say_why() {
    for (text, why) in [
        ("", "`` is not `field=name`"),
        ("client", "`client` is not `field=name`"),
        ("client=", "`client=` is not `field=name`"),
        ("client=a|", "`client=a|` is not `field=name`"),
        (
            "colour=a",
            "there is no field `colour`; fields: time, request, client, user,",
        ),
        ("client=a,client=b", "`client` is given twice"),
        (
            &format!("client={}x", "a|".repeat(40)),
            "more than 32 names",
        ),
    ] {
        let found = text.parse::<FieldNames>().unwrap_err().to_string();
        assert!(found.contains(why), "{found}");
    }
}
