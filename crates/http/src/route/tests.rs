#![allow(clippy::unwrap_used)]

use super::*;

fn routes(templates: &[&str]) -> Result<Routes, String> {
    let templates: Vec<String> = templates.iter().map(|text| (*text).to_owned()).collect();
    Routes::new(&templates, &PathSettings::default()).map_err(|error| error.to_string())
}

#[test]
fn a_path_has_the_template_with_the_most_fixed_segments() {
    let routes = routes(&[
        "/users/{id}",
        "/users/me",
        "/users/{id}/posts/{post}",
        "/files/{*p}",
    ]);
    let routes = routes.unwrap();
    let table = [
        ("/users/7", Some("/users/{id}")),
        ("/users/me", Some("/users/me")),
        ("//users/x/../%6de/", Some("/users/me")),
        ("/users/7/posts/8", Some("/users/{id}/posts/{post}")),
        ("/users/7/posts", None),
        ("/files/a/b/c", Some("/files/{*p}")),
        ("/files", None),
        ("/users/%7Bid%7D", Some("/users/{id}")),
        ("*", None),
    ];
    for (path, expected) in table {
        let path = PathSettings::default().normalize(path.as_bytes()).unwrap();
        assert_eq!(routes.find(&path), expected, "{path:?}");
    }
}

#[test]
fn errors_say_which_template_and_what_to_write() {
    let wrong = |templates: &[&str]| routes(templates).unwrap_err();
    assert_eq!(
        wrong(&["/a", "users"]),
        "routes[1]: \"users\" does not begin with a slash; write /users"
    );
    for (template, instead) in [
        ("/a/", "/a"),
        ("/api/{version}/", "/api/{version}"),
        ("/{a}//x/./{*b}/", "/{a}/x/{*b}"),
    ] {
        let error = wrong(&[template]);
        let advice = format!("write it as {instead}");
        assert!(error.ends_with(&advice), "{error}");
    }
    assert!(wrong(&["/a%2"]).contains("two hexadecimal digits"));
    assert!(wrong(&["/v{n}"]).contains("only a part of the segment \"v{n}\""));
    assert!(wrong(&["/{a}", "/{b}"]).contains("matches the same paths as /{a}"));
    assert!(wrong(&["/{*a}/b"]).contains("is not a valid template"));
    assert!(wrong(&["/{}"]).contains("is not a valid template"));
    assert!(wrong(&vec!["/a"; ROUTES_MAX + 1]).contains("4096 is the most"));
}

/// Templates, what is wrong with them, and what to write: how the two begin.
const OTHER_SYNTAX: &str = r"
/api/* => `*` is an ordinary character here => write `/api/{*rest}`;
/z/** => `*` is an ordinary => write `/z/{*rest}`; a star that is meant itself is `%2A`
* => `*` is an ordinary => write `/{*rest}`;
/*/x => `*` is an ordinary => write `/{name}/x`;
/**/x => `*` is an ordinary => write `{id}` for a whole segment, `{*rest}`
/login* => `*` is an ordinary => write `/login` and `/login/{*rest}`: a parameter
/img/*.png => `*` is an ordinary => write `{id}` for a whole segment
/files/*path => `*` is an ordinary => write `/files/{*path}`;
/u/:id => `:id` is literal text here => write `/u/{id}`; a colon that is meant
/u/:id/x/* => `:id` is literal text here => write `/u/{id}/x/{*rest}`;
/u/:id(\d+)? => `:id(\d+)?` is literal text here => write `/u/{id}`;
/u/:id.json => `:id.json` is literal => write `{id}` for a whole
/@:user => `@:user` has no parameter here => write `{id}` for a whole segment
/f/:path* => `:path*` is literal text here => write `/f/{*path}`;
/d/<id> => `<id>` is literal text here => write `/d/{id}`
/d/<int:id>/x => `<int:id>` is literal => write `/d/{id}/x`
/d/<path:p> => `<path:p>` is literal => write `/d/{*p}`
/u/{id:[0-9]+} => a parameter takes no pattern, and {id:[0-9]+} => write `{id}`
/u/{id:[0-9]{2}/}/x => a parameter takes no pattern => write `{id}`
/u/{id:int} => a parameter takes no pattern => write `{id}`
/u/{id?} => a parameter takes no pattern => write `{id}`
/f/{rest:.*} => a parameter takes no pattern => write `{*rest}`
/f/{rest:path} => a parameter takes no pattern => write `{*rest}`
/f/{rest...} => a parameter takes no pattern => write `{*rest}`
/f/{**rest} => a parameter takes no pattern => write `{*rest}`
^/re.*$ => ^/re.*$ looks like a regular expression => write `{id}` for a whole
/rx/[0-9]+ => /rx/[0-9]+ looks like a regular => write `{id}` for a whole
/rx/\d+ => /rx/\d+ looks like a regular => write `{id}` for a whole
/rx/[0-9]{2,3} => /rx/[0-9]{2,3} looks like a regular => write `{id}` for a whole
/login$ => /login$ looks like a regular => write `{id}` for a whole
/x/.+ => /x/.+ looks like a regular => write `{id}` for a whole
/q?x=1 => /q?x=1 has a query => write `/q`; what is in the query
/q? => /q? has a query => write `/q`
https://h/login => https://h/login is a URL => write `/login`
";

/// Each of these was taken literally, and matched no path that was meant.
#[test]
fn the_syntax_of_other_products_is_an_error_that_says_what_to_write() {
    for line in OTHER_SYNTAX.trim().lines() {
        let parts: Vec<&str> = line.split(" => ").collect();
        let found = routes(&parts[..1]).unwrap_err();
        let found = found.strip_prefix("routes[0]: ").unwrap();
        assert!(found.starts_with(parts[1]), "{line}: {found}");
        let (_, instead) = found.split_once("; ").unwrap();
        assert!(instead.starts_with(parts[2]), "{line}: {instead}");
    }
}

#[test]
fn characters_of_other_syntax_can_be_meant_themselves() {
    for (template, path) in [
        ("/a%2A", "/a*"),
        ("/%2a/%2A%2A", "/%2A/**"),
        ("/u/%3Aid", "/u/:id"),
        ("/v1/users:batch", "/v1/users:batch"),
        ("/v1/{user}/x:y", "/v1/7/x%3Ay"),
        ("/$metadata", "/$metadata"),
        ("/x%24", "/x$"),
        ("/c/.%2B", "/c/.+"),
        ("/g++", "/g++"),
        ("/a(1)", "/a(1)"),
        ("/x%5B1%5D", "/x[1]"),
        ("/{a-b}/{c.d}/{*é}", "/1/2/3"),
    ] {
        let routes = routes(&[template]).unwrap();
        let path = PathSettings::default().normalize(path.as_bytes()).unwrap();
        assert_eq!(routes.find(&path), Some(template), "{template}");
    }
    let error = routes(&["/a:b", "/a%3Ab"]).unwrap_err();
    assert!(error.contains("matches the same paths as /a:b"), "{error}");
}
