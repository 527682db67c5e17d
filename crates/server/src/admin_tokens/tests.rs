#![allow(clippy::unwrap_used)]

use std::fs;

use http::HeaderValue;
use tempfile::TempDir;

use super::*;

const OLD: &str = "old-token-0123456789";
const NEW: &str = "new-token-0123456789/+=";

fn in_file(directory: &TempDir, text: &str) -> TokenSources {
    let path = directory.path().join("tokens");
    fs::write(&path, text).unwrap();
    TokenSources {
        file: Some(path),
        env: None,
    }
}

fn authorize(tokens: &AdminTokens, values: &[&[u8]]) -> Result<(), Unauthorized> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
    }
    tokens.authorize(&headers)
}

#[test]
fn one_header_with_one_of_the_tokens_is_accepted_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let sources = in_file(&directory, &format!("# of people\n{OLD}\n\n  {NEW}\r\n"));
    let tokens = AdminTokens::load(&sources).unwrap().unwrap();
    let old = format!("Bearer {OLD}").into_bytes();
    let new = format!("bEARER   {NEW} ").into_bytes();
    assert_eq!(authorize(&tokens, &[&old]), Ok(()));
    assert_eq!(authorize(&tokens, &[&new]), Ok(()));
    let long = [b"Bearer ", &[b'x'; 6000][..]].concat();
    let (missing, wrong) = (Err(Unauthorized::Missing), Err(Unauthorized::Wrong));
    type Case<'a> = (&'a [&'a [u8]], Result<(), Unauthorized>);
    let table: [Case<'_>; 12] = [
        (&[], missing),
        (&[b""], missing),
        (&[b"Bearer"], missing),
        (&[OLD.as_bytes()], missing),
        (&[b"Basic dXNlcjpwYXNz"], missing),
        (&[&old, &old], missing),
        (&[b"Bearer "], wrong),
        (&[b"Bearer old-token-012345678"], wrong),
        (&[b"Bearer old-token-01234567890"], wrong),
        (&[b"Bearer # of people"], wrong),
        (&[b"Bearer \xff\xfe\xc3\xa9"], wrong),
        (&[&long], wrong),
    ];
    for (values, expected) in table {
        let found = authorize(&tokens, values);
        assert_eq!(found, expected, "{values:?}");
    }
    assert!(!format!("{tokens:?} {sources:?}").contains(OLD));
}

#[test]
fn a_changed_file_is_in_effect_and_an_invalid_one_is_not() {
    let directory = TempDir::new().unwrap();
    let sources = in_file(&directory, OLD);
    let tokens = AdminTokens::load(&sources).unwrap().unwrap();
    let [old, new] = [OLD, NEW].map(|token| format!("Bearer {token}").into_bytes());
    in_file(&directory, &format!("{OLD}\n{NEW}\n"));
    assert_eq!(authorize(&tokens, &[&new]), Err(Unauthorized::Wrong));
    tokens.reload(Why::Noticed);
    assert_eq!(authorize(&tokens, &[&old]), Ok(()));
    assert_eq!(authorize(&tokens, &[&new]), Ok(()));
    in_file(&directory, NEW);
    tokens.reload(Why::Noticed);
    assert_eq!(authorize(&tokens, &[&old]), Err(Unauthorized::Wrong));
    for invalid in ["", "short\n", "# nothing\n"] {
        in_file(&directory, invalid);
        tokens.reload(Why::Noticed);
        assert_eq!(authorize(&tokens, &[&new]), Ok(()), "{invalid}");
    }
}

#[test]
fn what_is_wrong_is_said_without_the_token() {
    let directory = TempDir::new().unwrap();
    let many: String = (0..=TOKENS_MAX)
        .map(|n| format!("token-number-{n:08}\n"))
        .collect();
    let cases = [
        ("", "has none"),
        ("# only a comment\n", "has none"),
        ("\nhunter2\n", "of 7 bytes in line 2; a token has 16 to 512"),
        (&"hunter2".repeat(100), "of 700 bytes in line 1"),
        ("hunter2 and more words", "in line 1 with other characters"),
        ("hunter2hunter2-\u{e9}", "in line 1 with other characters"),
        (&many, "more than 64 tokens"),
        (&many.repeat(100), "more than 65536 bytes"),
    ];
    for (text, expected) in cases {
        let invalid = AdminTokens::load(&in_file(&directory, text)).unwrap_err();
        assert_eq!(invalid.key, "token_file");
        assert!(invalid.problem.contains(expected), "{text}: {invalid:?}");
        assert!(!format!("{invalid:?}").contains("hunter2"), "{invalid:?}");
    }
    fs::write(directory.path().join("tokens"), b"\xff\xfe").unwrap();
    let sources = TokenSources {
        file: Some(directory.path().join("tokens")),
        env: None,
    };
    let invalid = AdminTokens::load(&sources).unwrap_err();
    assert!(invalid.problem.contains("UTF-8"), "{invalid:?}");
    let sources = TokenSources {
        file: None,
        env: Some("hunter2hunter2hunter2".to_owned()),
    };
    let invalid = AdminTokens::load(&sources).unwrap_err();
    assert_eq!(invalid.key, "token_env");
    assert!(invalid.problem.contains("is not set"), "{invalid:?}");
    assert!(!invalid.problem.contains("hunter2"), "{invalid:?}");
    assert!(matches!(
        AdminTokens::load(&TokenSources::default()),
        Ok(None)
    ));
}
