//! Checks in the form that nearly every client sends, read without serde, which takes three times
//! as long. Whatever is unusual - an escape, a number, `entries`, an error - is left to serde, so
//! there is one place that says what is valid and what is wrong.

use std::borrow::Cow;

use super::batch::CHECKS_MAX;
use super::described::{Described, Pairs};
use super::{Check, Descriptors, one};

/// The most members of a descriptor that are compared with each other here.
const MEMBERS_MAX: usize = 8;
/// Digits of which every number fits.
const DIGITS_MAX: usize = 18;

/// What follows an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Element,
    End,
}

/// A text of JSON, and what is left of it.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// Reads a check; `None` if serde has to.
pub(super) fn read_check(body: &[u8]) -> Option<Check<'_>> {
    let mut reader = Reader::new(body)?;
    let check = reader.check()?;
    reader.is_at_end().then_some(check)
}

/// Reads a list of checks; `None` if serde has to.
pub(super) fn read_checks(body: &[u8]) -> Option<Vec<Check<'_>>> {
    let mut reader = Reader::new(body)?;
    reader.expect(b'[')?;
    let mut checks = Vec::new();
    loop {
        checks.push(reader.check()?);
        match reader.next(b']')? {
            Next::End => break,
            Next::Element if checks.len() >= CHECKS_MAX => return None,
            Next::Element => {}
        }
    }
    reader.is_at_end().then_some(checks)
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn new(body: &'a [u8]) -> Option<Reader<'a>> {
        let text = str::from_utf8(body).ok()?;
        Some(Reader { text, at: 0 })
    }

    /// A check, in whichever order its members are.
    fn check(&mut self) -> Option<Check<'a>> {
        self.expect(b'{')?;
        let (mut domain, mut descriptors) = (None, None);
        let (mut cost, mut peek, mut reserve) = (None, None, None);
        loop {
            let name = self.text()?;
            self.expect(b':')?;
            match name {
                "domain" if domain.is_none() => domain = Some(self.text()?),
                "descriptors" if descriptors.is_none() => descriptors = Some(self.descriptors()?),
                "cost" if cost.is_none() => cost = Some(self.number()?),
                "peek" if peek.is_none() => peek = Some(self.flag()?),
                "reserve" if reserve.is_none() => reserve = Some(self.flag()?),
                _ => return None,
            }
            if self.next(b'}')? == Next::End {
                break;
            }
        }
        Some(Check {
            domain: Cow::Borrowed(domain?),
            descriptors: descriptors?,
            cost: cost.unwrap_or_else(one),
            peek: peek.unwrap_or_default(),
            reserve: reserve.unwrap_or_default(),
        })
    }

    fn descriptors(&mut self) -> Option<Descriptors<'a>> {
        self.expect(b'[')?;
        let mut descriptors = Descriptors::new();
        loop {
            descriptors.push(self.descriptor()?);
            if self.next(b']')? == Next::End {
                return Some(descriptors);
            }
        }
    }

    /// A descriptor in its short form.
    fn descriptor(&mut self) -> Option<Described<'a>> {
        self.expect(b'{')?;
        let mut pairs = Pairs::new();
        loop {
            let name = self.text()?;
            let is_known = || pairs.iter().any(|(known, _)| known == name);
            if name == "entries" || pairs.len() >= MEMBERS_MAX || is_known() {
                return None;
            }
            self.expect(b':')?;
            let value = self.text()?;
            pairs.push((Cow::Borrowed(name), Cow::Borrowed(value)));
            if self.next(b'}')? == Next::End {
                break;
            }
        }
        Some(Described {
            pairs,
            is_unordered: true,
        })
    }

    /// What is left.
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Whether a comma follows, or what ends the list or the object.
    fn next(&mut self, end: u8) -> Option<Next> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(Next::Element),
            byte if byte == end => Some(Next::End),
            _ => None,
        }
    }

    /// A text without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
        let length = self.rest().iter().position(is_end)?;
        let (start, end) = (self.at, self.at + length);
        self.at = end;
        // Not after spaces: another byte is no part of the text either.
        (self.rest().first() == Some(&b'"')).then(|| self.at += 1)?;
        self.text.get(start..end)
    }

    /// A whole number that is not negative.
    fn number(&mut self) -> Option<i64> {
        let first = self.peek()?;
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.count();
        if length > DIGITS_MAX || (first == b'0' && length > 1) {
            return None;
        }
        let number = self.text.get(self.at..self.at + length)?.parse().ok()?;
        self.at += length;
        Some(number)
    }

    fn flag(&mut self) -> Option<bool> {
        self.peek()?;
        let (flag, word) = match self.rest() {
            [b't', ..] => (true, "true"),
            _ => (false, "false"),
        };
        self.rest().starts_with(word.as_bytes()).then(|| {
            self.at += word.len();
            flag
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::read_json;

    const CHECK: &str = r#"{"domain":"shop","descriptors":[{"user":"ann","path":"/x"},{"k":""}]}"#;
    const OTHERS: [&str; 4] = [
        r#" { "descriptors" : [ { "user" : "ünn" } ] , "cost" : 12, "domain" : "d" } "#,
        r#"{"cost":0,"peek":true,"reserve":false,"domain":"","descriptors":[{"a":"b"}]}"#,
        "{\r\n\t\"domain\": \"d\",\n\"descriptors\": [{\"a\": \"b\"}]\n}\n",
        r#"{"domain":"d","descriptors":[{"k":"entries"}],"cost":999999999999999999}"#,
    ];

    /// Reads it in both ways, which must agree; whether it is read without serde.
    fn is_plain(body: &[u8]) -> bool {
        let shown = String::from_utf8_lossy(body);
        let list = [b"[", body, b", ", body, b"]"].concat();
        let plain = read_check(body);
        if let Some(plain) = &plain {
            let expected: Result<Check<'_>, _> = read_json(body);
            assert_eq!(expected.as_ref().ok(), Some(plain), "{shown}");
        }
        let in_list = read_checks(&list);
        assert_eq!(in_list.is_some(), plain.is_some(), "{shown}");
        if let (Some(list), Some(plain)) = (in_list, &plain) {
            assert!(
                list.len() == 2 && list.iter().all(|one| one == plain),
                "{shown}"
            );
        }
        plain.is_some()
    }

    #[test]
    fn plain_checks_are_read_as_serde_reads_them() {
        for body in [CHECK].iter().chain(&OTHERS) {
            assert!(is_plain(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_serde() {
        for body in [
            r#"{"domain":"d","descriptors":[{"k":1}]}"#,
            r#"{"domain":"d","descriptors":[{"k":"a\n"}]}"#,
            r#"{"domain":"d","descriptors":[{"entries":[]}]}"#,
            r#"{"domain":"d","descriptors":[{"entries":"x"}]}"#,
            r#"{"domain":"d","descriptors":[{"k":"v","k":"v"}]}"#,
            r#"{"domain":"d","domain":"d","descriptors":[{"k":"v"}]}"#,
            r#"{"domain":"d","descriptors":[]}"#,
            r#"{"domain":"d","descriptors":[{}]}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":-1}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":01}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":1.0}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":1e2}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":1000000000000000000}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"peek":null}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}],"other":1}"#,
            r#"{"domain":"d","descriptors":[{"k":"v"}]}x"#,
            r#"{"domain":"d"}"#,
            "{}",
            "[]",
            "",
        ] {
            assert!(!is_plain(body.as_bytes()), "{body}");
        }
        let members: Vec<String> = (0..=MEMBERS_MAX).map(|n| format!("\"{n}\":\"\"")).collect();
        let many = |count: usize| {
            let members = members[..count].join(",");
            format!(r#"{{"domain":"d","descriptors":[{{{members}}}]}}"#)
        };
        assert!(is_plain(many(MEMBERS_MAX).as_bytes()));
        assert!(!is_plain(many(MEMBERS_MAX + 1).as_bytes()));
    }

    #[test]
    fn as_many_checks_as_a_list_may_have_are_read() {
        let list = |count| format!("[{}]", vec![CHECK; count].join(","));
        let read = |count| read_checks(list(count).as_bytes()).map(|checks| checks.len());
        assert_eq!(read(CHECKS_MAX), Some(CHECKS_MAX));
        assert_eq!(read(CHECKS_MAX + 1), None);
    }

    /// Every change of one byte, and every byte less or more.
    #[test]
    fn changed_checks_are_read_as_serde_reads_them_or_not_at_all() {
        let others = b"\"\\{}[]:,. \t\n0123-eE+tfnab\x00\x1f\x7f\x80\xc3\xa4\xff";
        for body in [CHECK].iter().chain(&OTHERS).map(|body| body.as_bytes()) {
            for at in 0..body.len() {
                let (before, after) = body.split_at(at);
                is_plain(before);
                is_plain(&[before, &after[1..]].concat());
                for other in others {
                    is_plain(&[before, &[*other], &after[1..]].concat());
                    is_plain(&[before, &[*other], after].concat());
                }
            }
        }
    }
}
