//! Entries of lists that no client can have. They are warnings, not errors: lists are shared by
//! gateways with other identities, and values may have quotes.

use std::collections::{BTreeSet, HashSet};

use tollgate_http::{InvalidEntry, ListedDescriptor, listed_descriptors};

use crate::misspelling::find_meant;

/// The most entries of one file that are reported at once.
const DOUBTS_MAX: usize = 20;

/// The entries of a file that are probably not meant as they are written: each key that no identity
/// makes, once, and values in quotes.
pub(super) fn find_doubts(text: &[u8], keys: &BTreeSet<String>) -> Vec<InvalidEntry> {
    let mut unknown: HashSet<&[u8]> = HashSet::new();
    let doubts = listed_descriptors(text).filter_map(|entry| {
        let is_known = str::from_utf8(entry.key).is_ok_and(|key| keys.contains(key));
        let (problem, instead) = match is_known {
            true => find_quotes(&entry)?,
            false if unknown.insert(entry.key) => describe_unknown(&entry, keys),
            false => return None,
        };
        Some(InvalidEntry {
            line: entry.line,
            column: entry.column,
            problem,
            instead,
        })
    });
    doubts.take(DOUBTS_MAX).collect()
}

/// What is wrong with an entry whose key no identity makes, and what to write.
fn describe_unknown(entry: &ListedDescriptor<'_>, keys: &BTreeSet<String>) -> (String, String) {
    let key = entry.key.escape_ascii();
    let problem = format!("no descriptor of `identity` has the key `{key}`, so it lists nobody");
    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
    let meant = str::from_utf8(entry.key).ok();
    let instead = match meant.and_then(|text| find_meant(text, &known)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("write one of `{}`, or remove it", known.join("`, `")),
    };
    (problem, instead)
}

fn find_quotes(entry: &ListedDescriptor<'_>) -> Option<(String, String)> {
    let value = entry.value;
    let ends = value.first().zip(value.last())?;
    if !matches!(ends, (b'"', b'"') | (b'\'', b'\'')) {
        return None;
    }
    // A single quotation mark is not a pair.
    let bare = value.get(1..value.len() - 1)?;
    let problem = "the quotes are a part of the value, so it lists nobody whose value has none";
    let instead = format!("write {}={}", entry.key.escape_ascii(), bare.escape_ascii());
    Some((problem.to_owned(), instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_list_nobody_are_found_with_their_places() {
        let keys = ["user", "session", "remote_address"]
            .map(str::to_owned)
            .into();
        let text = "10.0.0.1\nuser=ann\n  usr=bob # why\nusr=eve\nuser=\"bob\"\nsession='x'\n\
            remote_address=10.0.0.2\ntenant=a\nuser=\"\n";
        let found = find_doubts(text.as_bytes(), &keys);
        let found: Vec<String> = found.iter().map(InvalidEntry::to_string).collect();
        let unknown = "no descriptor of `identity` has the key";
        let quoted = "the quotes are a part of the value, so it lists nobody whose value has none";
        let expected = [
            format!("line 3: {unknown} `usr`, so it lists nobody; did you mean `user`?"),
            format!("line 5: {quoted}; write user=bob"),
            format!("line 6: {quoted}; write session=x"),
            format!(
                "line 8: {unknown} `tenant`, so it lists nobody; write one of `remote_address`, \
                 `session`, `user`, or remove it"
            ),
        ];
        assert_eq!(found, expected);
    }
}
