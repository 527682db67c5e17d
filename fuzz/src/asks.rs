//! Commands of the Redis protocol that ask for decisions, of arbitrary words.

use std::collections::HashSet;

use tollgate_core::{COST_MAX, Cost, ENTRIES_MAX, Limit, Request, Span};
use tollgate_resp::{Command, Parser};

/// Reads each command of the input, writes what it asks for as a command, and reads that.
///
/// # Panics
///
/// If reading panics, if a request has other words than its command, if it exceeds its bounds, or
/// if the second one differs from the first.
pub fn asks(input: &[u8]) {
    let (mut parser, mut rest) = (Parser::default(), input);
    while let Ok(Some(command)) = parser.next(rest) {
        ask(&command);
        throttle(&command);
        rest = &rest[command.length()..];
    }
}

/// A command that the rules decide.
fn ask(command: &Command<'_>) {
    let written = |request: &Request<'_>| {
        assert_is_of(request, command);
        write_request(request)
    };
    match tollgate_server::fuzzed::ask(command, written) {
        None => {}
        Some(Err(text)) => assert_is_an_error(&text),
        Some(Ok(words)) => {
            let again = read(&words, |command| {
                tollgate_server::fuzzed::ask(command, write_request)
            });
            assert_eq!(again, Some(Ok(words)));
        }
    }
}

/// A command with its limit.
fn throttle(command: &Command<'_>) {
    match tollgate_server::fuzzed::throttle(command) {
        None => {}
        Some(Err(text)) => assert_is_an_error(&text),
        Some(Ok((limit, cost))) => {
            assert_eq!(number(command, 2), Some(i64::from(limit.capacity()) - 1));
            assert_eq!(number(command, 3), Some(i64::from(limit.count())));
            let period = number(command, 4).and_then(|secs| u64::try_from(secs).ok());
            assert_eq!(period.map(Span::from_secs), Some(limit.window()));
            let words = write_throttle(&limit, cost);
            let again = read(&words, tollgate_server::fuzzed::throttle);
            assert_eq!(again, Some(Ok((limit, cost))));
        }
    }
}

/// The request has the words of the command, and is within its bounds.
fn assert_is_of(request: &Request<'_>, command: &Command<'_>) {
    assert_eq!(request.check_bounds(), Ok(()));
    assert_eq!(Some(request.domain), command.word(1));
    let [descriptor] = &*request.descriptors else {
        panic!("{} descriptors", request.descriptors.len());
    };
    assert!(descriptor.is_unordered);
    assert!((1..=ENTRIES_MAX).contains(&descriptor.entries.len()));
    let entries = descriptor.entries.iter();
    let words = entries.clone().flat_map(|entry| [entry.key, entry.value]);
    let name = command.name();
    let first = match name.eq_ignore_ascii_case(b"TG.RESET") {
        true => 2,
        false => 3,
    };
    assert!(words.eq(command.words(first)));
    let mut keys = HashSet::new();
    assert!(entries.into_iter().all(|entry| keys.insert(entry.key)));
    let stated = || str::from_utf8(command.word(2)?).ok()?.parse().ok();
    let expected = match &*name.to_ascii_uppercase() {
        b"TG.CHECK" => stated().map(Cost::Take),
        b"TG.PEEK" => stated().map(Cost::Peek),
        b"TG.REFUND" => stated().map(Cost::Refund),
        _ => Some(Cost::Refund(COST_MAX)),
    };
    assert_eq!(Some(request.cost), expected);
}

fn write_request(request: &Request<'_>) -> Vec<Vec<u8>> {
    let (name, cost) = match request.cost {
        Cost::Take(units) => ("TG.CHECK", Some(units)),
        Cost::Peek(units) => ("TG.PEEK", Some(units)),
        Cost::Refund(COST_MAX) => ("TG.RESET", None),
        Cost::Refund(units) => ("TG.REFUND", Some(units)),
    };
    let mut words = vec![name.as_bytes().to_vec(), request.domain.to_vec()];
    words.extend(cost.map(|units| units.to_string().into_bytes()));
    let entries = request.descriptors.iter().flat_map(|one| &one.entries);
    let entries = entries.flat_map(|entry| [entry.key, entry.value]);
    words.extend(entries.map(<[u8]>::to_vec));
    words
}

fn write_throttle(limit: &Limit, cost: Cost) -> Vec<Vec<u8>> {
    let quantity = match cost {
        Cost::Take(units) => units.to_string(),
        Cost::Peek(_) => "0".to_owned(),
        Cost::Refund(units) => format!("-{units}"),
    };
    let max_burst = limit.capacity() - 1;
    let terms = [max_burst, limit.count()].map(|term| term.to_string());
    let period = limit.window().as_secs_ceil().to_string();
    let names = ["CL.THROTTLE", "key"].map(str::to_owned);
    let words = names.into_iter().chain(terms).chain([period, quantity]);
    words.map(String::into_bytes).collect()
}

/// Reads the only command of these words.
fn read<T>(words: &[Vec<u8>], look: impl FnOnce(&Command<'_>) -> T) -> T {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    let mut parser = Parser::default();
    let command = parser.next(&bytes).expect("it is written as Redis does");
    look(&command.expect("it is complete"))
}

/// A word of the command as a number, if it is one.
fn number(command: &Command<'_>, index: usize) -> Option<i64> {
    str::from_utf8(command.word(index)?).ok()?.parse().ok()
}

/// A client can tell its kind, and what is wrong.
fn assert_is_an_error(text: &str) {
    let detail = text.strip_prefix("ERR ");
    assert!(detail.is_some_and(|detail| !detail.is_empty()), "{text}");
}
