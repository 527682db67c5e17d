#![allow(clippy::unwrap_used)]

use tollgate_behaviour::check;

use super::*;

fn normal(settings: &PathSettings, path: &str) -> Result<String, InvalidPath> {
    let path = settings.normalize(path.as_bytes())?;
    Ok(path.as_str().to_owned())
}

#[test]
fn every_spelling_of_a_path_is_one_path() {
    let spellings = [
        "/api/login",
        "/api/login/",
        "//api///login",
        "/./api/./login/.",
        "/x/../api/login",
        "/../api/login",
        "/api/login;x=1",
        "/api;v=2/login",
        "/api%2flogin",
        "/api\\login",
        "/%5Capi%5clogin",
        "/api/%6cogin",
        "/%61%70%69/login",
        "/api/login%20",
        "/%20api/login",
        "/api/%2e/login",
        "/api/x/%2E%2e/login",
        "api/login",
        "/api/login;a%2eb",
    ];
    for spelling in spellings {
        let path = normal(&PathSettings::default(), spelling);
        assert_eq!(path.as_deref(), Ok("/api/login"), "{spelling}");
    }
}

#[test]
fn other_paths_stay_apart() {
    let table = [
        ("", "/"),
        ("/", "/"),
        ("*", "*"),
        ("/..", "/"),
        ("/Login", "/Login"),
        ("/a%252e%252e/b", "/a%252e%252e/b"),
        ("/%25%32%65", "/%252e"),
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/a b\"{}", "/a%20b%22%7B%7D"),
        ("/a%3fb%23c", "/a%3Fb%23c"),
        ("/...", "/..."),
        ("/a!$&'()*+,=:@~b", "/a!$&'()*+,=:@~b"),
    ];
    for (path, expected) in table {
        let normal = normal(&PathSettings::default(), path);
        assert_eq!(normal.as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn what_servers_understand_in_different_ways_is_an_error() {
    use InvalidPath::{Ambiguous, BadEscape, ControlCharacter, TooLong};
    let long = "/a".repeat(PATH_BYTES_MAX / 2 + 1);
    let table = [
        ("/a%", BadEscape),
        ("/a%2", BadEscape),
        ("/a%zz", BadEscape),
        ("/a%+1", BadEscape),
        ("/login%00", ControlCharacter),
        ("/login%0a", ControlCharacter),
        ("/login%7f", ControlCharacter),
        ("/login;%00", ControlCharacter),
        ("/login//../health", Ambiguous),
        ("/login/;/../health", Ambiguous),
        ("/login/..;/health", Ambiguous),
        ("/login/..%20/health", Ambiguous),
        ("/login/..%2fhealth", Ambiguous),
        ("/a%2fb/../c", Ambiguous),
        ("/a1\\..\\login", Ambiguous),
        ("/a1%5c../login", Ambiguous),
        ("/login;x%2f1", Ambiguous),
        ("/login;x\\1", Ambiguous),
        ("/login;%2F", Ambiguous),
        (&long, TooLong),
    ];
    for (path, error) in table {
        assert_eq!(
            normal(&PathSettings::default(), path),
            Err(error),
            "{path:.40}"
        );
    }
}

#[test]
fn settings_change_what_is_equal() {
    let settings = |json: serde_json::Value| serde_json::from_value::<PathSettings>(json);
    let fold = settings(serde_json::json!({"fold_case": true})).unwrap();
    assert_eq!(
        normal(&fold, "/LOGIN/%4C/%C3%89").as_deref(),
        Ok("/login/l/%C3%89")
    );
    let keep = settings(serde_json::json!({
        "encoded_slash": "keep", "path_parameters": "keep", "trailing_slash": "keep",
    }))
    .unwrap();
    assert_eq!(
        normal(&keep, "/a%2fb;x=1/c/").as_deref(),
        Ok("/a%2Fb;x=1/c/")
    );
    assert_eq!(normal(&keep, "/a/b/..").as_deref(), Ok("/a/"));
    let keep_slash = settings(serde_json::json!({"encoded_slash": "keep"})).unwrap();
    assert_eq!(normal(&keep_slash, "/a;x%2f1").as_deref(), Ok("/a"));
    let keep_parameters = settings(serde_json::json!({"path_parameters": "keep"})).unwrap();
    assert_eq!(
        normal(&keep_parameters, "/a;x%2f1").as_deref(),
        Ok("/a;x/1")
    );
    assert_eq!(normal(&keep, "/a/..%2fb").as_deref(), Ok("/a/..%2Fb"));
    let reject = settings(serde_json::json!({"encoded_slash": "reject"})).unwrap();
    for path in ["/a%2Fb", "/a\\b", "/a%5cb"] {
        assert_eq!(normal(&reject, path), Err(InvalidPath::EncodedSlash));
    }
    assert_eq!(
        normal(&keep, "/a\\..\\b%5c").as_deref(),
        Ok("/a%5C..%5Cb%5C")
    );
    let unknown = settings(serde_json::json!({"fold": true})).unwrap_err();
    assert!(
        unknown.to_string().contains("unknown field `fold`"),
        "{unknown}"
    );
}

fn any_settings(choice: u64) -> PathSettings {
    PathSettings {
        fold_case: choice & 1 == 1,
        encoded_slash: match choice & 2 {
            0 => EncodedSlash::Decode,
            _ => EncodedSlash::Keep,
        },
        path_parameters: match choice & 4 {
            0 => PathParameters::Strip,
            _ => PathParameters::Keep,
        },
        trailing_slash: match choice & 8 {
            0 => TrailingSlash::Strip,
            _ => TrailingSlash::Keep,
        },
    }
}

/// And any bytes, text or not, have a normal form or an error.
#[test]
fn normalising_is_idempotent() {
    const PIECES: [&[u8]; 18] = [
        b"/", b"/", b".", b"..", b"%2e", b"%2F", b"%25", b"%20", b";", b"a", b"Z", b"\xff", b"%C3",
        b"?", b"%", b"2f", b"\\", b"%5c",
    ];
    let mut normalised = 0;
    check("path", 50_000, |random| {
        let settings = any_settings(random.word());
        let mut path = b"/".to_vec();
        for _ in 0..random.between(0, 10) {
            path.extend(PIECES[usize::try_from(random.between(0, 17)).unwrap()]);
        }
        let Ok(once) = settings.normalize(&path) else {
            return;
        };
        normalised += 1;
        let twice = settings.normalize(once.as_str().as_bytes());
        assert_eq!(twice.as_ref(), Ok(&once), "{path:?}");
        assert!(once.as_str().is_ascii() && !once.as_str().contains("//"));
        assert!(!once.as_str().contains("/../") && !once.as_str().ends_with("/.."));
    });
    assert!(normalised > 5_000, "{normalised}");
}

/// A server that resolves no dots sees what was matched.
#[test]
fn a_path_without_its_dot_segments_has_the_same_normal_form() {
    const PIECES: [&str; 14] = [
        "/", "/", "/", ".", ".", "..", "%2e", "%2E", "%2f", "%20", ";", "a", "b", "\\",
    ];
    let mut changed = 0;
    check("dot segments", 50_000, |random| {
        let settings = any_settings(random.word());
        let mut path = "/".to_owned();
        for _ in 0..random.between(0, 10) {
            path.push_str(PIECES[usize::try_from(random.between(0, 13)).unwrap()]);
        }
        let Ok(normal) = settings.normalize(path.as_bytes()) else {
            return;
        };
        let Some(removed) = remove_dot_segments(&path) else {
            return;
        };
        changed += 1;
        let again = settings.normalize(removed.as_bytes());
        assert_eq!(again.as_ref(), Ok(&normal), "{path} {removed}");
        assert_eq!(remove_dot_segments(&removed), None, "{path} {removed}");
    });
    assert!(changed > 5_000, "{changed}");
}
