use super::*;

fn parsed(format: &str) -> Template {
    Template::parse(format).unwrap()
}

fn wrong(format: &str) -> String {
    Template::parse(format).unwrap_err().to_string()
}

/// The fields of a line that are not empty, as `name=value`.
fn fields(format: &str, line: &str) -> Result<Vec<String>, String> {
    let record = parsed(format).read(line.as_bytes());
    let record = record.map_err(|bad| bad.to_string())?;
    let (_, fields) = record.read().map_err(|bad| bad.to_string())?;
    let all = Field::all().map(|field| (field.name(), fields.get(field)));
    let shown = all.filter(|(_, value)| !value.is_empty());
    Ok(shown
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
        .collect())
}

#[test]
fn formats_of_nginx_and_apache_find_the_values() {
    let time = "17/May/2015:10:05:03 +0000";
    let table = [
        (
            // Before nginx 1.21, and in many tutorials.
            concat!(
                r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "#,
                r#""$http_referer" "$http_user_agent" "$http_x_forwarded_for""#
            ),
            format!(
                r#"192.0.2.1 - ann [{time}] "GET /a?b HTTP/1.1" 200 5 "-" "x \" y" "{}""#,
                "1.2.3.4, 5.6.7.8"
            ),
            "client=192.0.2.1 user=ann method=GET path=/a query=b protocol=HTTP/1.1 status=200 \
             bytes=5 user_agent=x \\\" y forwarded_for=1.2.3.4, 5.6.7.8",
        ),
        (
            r#"$time_local|${remote_addr}|$request_method $uri|$host"#,
            format!("{time}|2001:db8::1|POST /a|h"),
            "client=2001:db8::1 method=POST path=/a host=h",
        ),
        (
            // A time with a blank in it, and an address with colons before its port.
            "$remote_addr:$remote_port $time_local $status $upstream_addr $host",
            format!("2001:db8::1:80 {time} 200 a, b h"),
            "client=2001:db8::1 status=200",
        ),
        (
            r#"%{X-Forwarded-For}i"%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\""#,
            format!(r#"1.2.3.4"h - - [{time}] "GET / HTTP/1.1" 304 - "http://r" "c""#),
            "client=h method=GET path=/ protocol=HTTP/1.1 status=304 referer=http://r \
             user_agent=c forwarded_for=1.2.3.4",
        ),
        (
            r#"%v:%p %{c}a %a %{msec}t %m %U%{x}e%q %H %!200,304{Host}i"#,
            "v:80 10.0.0.1 192.0.2.1 1431857103000 PUT /a(x)?b HTTP/2 h".to_owned(),
            "",
        ),
        (
            r#"%v:%p %{c}a %a %{msec}t "%m %U %q %H""#,
            "v:80 10.0.0.1 192.0.2.1 1431857103000 \"PUT /a ?b HTTP/2\"".to_owned(),
            "client=192.0.2.1 method=PUT path=/a query=b protocol=HTTP/2 host=v",
        ),
    ];
    for (format, line, expected) in table {
        if expected.is_empty() {
            assert!(
                wrong(format).contains("nothing is between %U and %{x}e"),
                "{format}"
            );
            continue;
        }
        assert_eq!(
            fields(format, &line).map(|all| all.join(" ")),
            Ok(expected.to_owned()),
            "{format}"
        );
    }
}

#[test]
fn a_format_that_cannot_be_used_says_why() {
    let table = [
        ("", "no variable of nginx"),
        ("- - -", "no variable of nginx"),
        ("$remote_port", "no variable of nginx"),
        ("$remote_addr $request_time", "it has no time"),
        (
            "$remote_addr$time_local",
            "nothing is between $remote_addr and $time_local",
        ),
        ("$remote_addr $ x", "$: no name of a variable follows"),
        (
            "${remote_addr $time_local",
            "$: no name of a variable follows",
        ),
        (
            "$remote_addr $request [$time_local]",
            "the time is behind $request, which may",
        ),
        (
            r#"{"ip": "$remote_addr"}"#,
            "it is JSON; write --format nginx-json",
        ),
        ("%h %Z %t", "%Z: Apache has no such directive"),
        ("%h %t %", "%: no letter follows"),
        ("%h %{Referer", "%{Referer: the brace is not closed"),
        (
            "%h %{%I:%M %p}t",
            "%{%I:%M %p}t: times in this form cannot be read; write %t, or one of",
        ),
        ("%h %r %t", "the time is behind %r"),
        ("$uri $time_iso8601", "the time is behind $uri"),
        ("$mine $time_iso8601", "the time is behind $mine"),
        ("%h %l", "it has no time"),
    ];
    for (format, why) in table {
        assert!(wrong(format).contains(why), "{format}: {}", wrong(format));
    }
    let lost = parsed("[$time_local] $remote_addr $http_cookie $host");
    assert_eq!(lost.lacks(Field::Client), None);
    let why = lost.lacks(Field::Host).unwrap();
    assert!(
        why.contains("no `host` before $http_cookie, which may have blanks"),
        "{why}"
    );
    assert_eq!(
        lost.lacks(Field::Path).unwrap(),
        why.replace("host", "path")
    );
    let all = parsed("%h %t \"%r\"");
    assert_eq!(
        all.lacks(Field::Status).unwrap(),
        "the log format has no `status`"
    );
    assert_eq!(all.lacks(Field::Query), None);
}

#[test]
fn a_line_that_is_not_in_the_format_says_where() {
    let format = "> $remote_addr [$time_local] \"$request\"";
    let table = [
        ("1.2.3.4", "it does not begin with `> `"),
        ("> 1.2.3.4 17", "no ` [` follows $remote_addr"),
        ("> 1.2.3.4 [17] x", "no `] \"` follows $time_local"),
        (
            "> a b [17/May/2015:10:05:03 +0000] \"x\"",
            "$remote_addr has a blank",
        ),
        (
            "> a [17/May/2015:10:05:03 +0000] \"x",
            "no `\"` follows $request",
        ),
        ("> a [17] \"x\"", "the time is finer than"),
    ];
    for (line, why) in table {
        let found = fields(format, line);
        assert!(
            found.clone().is_ok_and(|_| why.contains("finer"))
                || found.clone().is_err_and(|bad| bad.contains(why)),
            "{line}: {found:?}"
        );
    }
}

/// What a client chooses must not become the value behind it.
#[test]
fn a_client_cannot_choose_which_client_is_counted() {
    for (format, at) in [
        (
            "$time_local $request_method $uri $remote_addr $host",
            "$uri",
        ),
        ("$time_local $document_uri $remote_addr", "$document_uri"),
        ("$time_local $mine $remote_addr", "$mine"),
        (
            "$time_local $connection_upgrade $remote_addr",
            "$connection_upgrade",
        ),
        (
            "[$time_local] $remote_user \"$request\" $remote_addr",
            "$remote_user",
        ),
        ("$remote_user [$time_local] $remote_addr", "$remote_user"),
        ("[$time_local] $remote_user $remote_addr", "$remote_user"),
        ("[$time_local] \"$uri $remote_addr\"", "$uri"),
        ("%{sec}t %U %a", "%U"),
        ("%{sec}t %u %a", "%u"),
        ("%{sec}t %l %a", "%l"),
        ("%{sec}t %f %a", "%f"),
        ("%u %t %a", "%u"),
    ] {
        match Template::parse(format) {
            Ok(template) => {
                let why = template.lacks(Field::Client).unwrap();
                assert!(why.contains(&format!("before {at}, which may")), "{why}");
            }
            Err(why) => assert!(why.to_string().contains(&format!("behind {at}, ")), "{why}"),
        }
    }
}

/// Formats in which a blank makes a line one with too many words, which is skipped.
#[test]
fn words_before_a_time_or_in_quotes_have_no_blank() {
    let time = "17/May/2015:10:05:03 +0000";
    for (format, line, bad) in [
        (
            "$remote_addr - $remote_user [$time_local] \"$request\"",
            "192.0.2.1 - WORD [TIME] \"GET / HTTP/1.1\"",
            "$remote_user has a blank",
        ),
        (
            "%h %l %u %t \"%r\"",
            "192.0.2.1 - WORD [TIME] \"GET / HTTP/1.1\"",
            "the time is not in the form",
        ),
        (
            "%h %l %u %t \"%r\"",
            "192.0.2.1 WORD - [TIME] \"GET / HTTP/1.1\"",
            "the time is not in the form",
        ),
        (
            "$remote_addr [$time_local] \"$request_method $uri $server_protocol\" $status",
            "192.0.2.1 [TIME] \"GET /WORD HTTP/1.1\" 200",
            "$server_protocol has a blank",
        ),
        (
            "[$time_local] $remote_addr - $remote_user \"$request\" $status",
            "[TIME] 192.0.2.1 - WORD \"GET / HTTP/1.1\" 200",
            "$remote_user has a blank",
        ),
    ] {
        let read = |word| fields(format, &line.replace("TIME", time).replace("WORD", word));
        assert!(read("a").unwrap()[0] == "client=192.0.2.1", "{format}");
        let why = read("a 198.51.100.7").unwrap_err();
        assert!(why.contains(bad), "{format}: {why}");
    }
}
