//! Entries of lists that no client can have. They are warnings, not errors: lists are shared by
//! gateways with other identities, and values may have quotes.

use std::collections::{BTreeSet, HashMap};

use tollgate_http::{EntrySettings, IfMissing, ListedDescriptor, listed_descriptors};

use super::{InvalidList, Texts};
use crate::misspelling::find_meant;
use crate::settings::GatewaySettings;

/// The most entries of one file that are reported at once.
const DOUBTS_MAX: usize = 20;

/// The keys of the descriptors that the identities make.
pub(super) fn keys_of(settings: &GatewaySettings) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let descriptors = settings.identities();
    let descriptors = descriptors.flat_map(|(_, _, identity)| &identity.descriptors);
    for entry in descriptors.flat_map(|descriptor| &descriptor.entries) {
        add_keys(entry, &mut keys);
    }
    keys
}

/// The key of an entry, and those of the entries in its place if its value is missing.
fn add_keys(entry: &EntrySettings, keys: &mut BTreeSet<String>) {
    keys.insert(entry.key.clone());
    if let Some(IfMissing::Use(other)) = &entry.if_missing {
        add_keys(other, keys);
    }
}

/// The entries that are probably not meant as they are written: each key that no identity makes,
/// once for each file, and values in quotes.
pub(super) fn find_doubts(texts: &Texts, keys: &BTreeSet<String>) -> Vec<InvalidList> {
    let mut doubts = Vec::new();
    for (_, file, text) in texts {
        let Ok(text) = text else {
            continue;
        };
        let mut known: HashMap<&[u8], bool> = HashMap::new();
        let of_file = listed_descriptors(text).filter_map(|entry| {
            let is_first = !known.contains_key(entry.key);
            let is_known = *known
                .entry(entry.key)
                .or_insert_with(|| str::from_utf8(entry.key).is_ok_and(|key| keys.contains(key)));
            match is_known {
                true => find_quotes(&entry),
                false => is_first.then(|| describe_unknown(&entry, keys)),
            }
            .map(|(problem, instead)| InvalidList {
                file: file.clone(),
                place: Some((entry.line, entry.column)),
                problem,
                instead,
            })
        });
        doubts.extend(of_file.take(DOUBTS_MAX));
    }
    doubts
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
    let is_quoted = value.len() > 1 && matches!(ends, (b'"', b'"') | (b'\'', b'\''));
    let problem = "the quotes are a part of the value, so it lists nobody whose value has none";
    let bare = value.get(1..value.len() - 1)?;
    let instead = format!("write {}={}", entry.key.escape_ascii(), bare.escape_ascii());
    is_quoted.then(|| (problem.to_owned(), instead))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_http::Listing;

    use super::*;

    #[test]
    fn entries_that_list_nobody_are_found_with_their_places() {
        let settings: GatewaySettings = serde_json::from_str(
            r#"{"domain": "d", "routes": [{"identity": {"descriptors": [{"entries": [
                {"key": "user", "from": {"header": "x-user"}, "if_missing":
                    {"use": {"key": "session", "from": {"cookie": "s"}, "if_missing": "skip"}}}
            ]}]}}, {}]}"#,
        )
        .unwrap();
        let keys = keys_of(&settings);
        let text = "10.0.0.1\nuser=ann\n  usr=bob # why\nusr=eve\nuser=\"bob\"\nsession='x'\n\
            remote_address=10.0.0.2\ntenant=a\nuser=\"\n";
        let texts = vec![
            (Listing::Deny, "l.txt".into(), Ok(text.as_bytes().to_vec())),
            (Listing::Allow, "gone.txt".into(), Err("gone".to_owned())),
        ];
        let found: Vec<String> = find_doubts(&texts, &keys)
            .iter()
            .map(InvalidList::to_string)
            .collect();
        let unknown = "no descriptor of `identity` has the key";
        let quoted = "the quotes are a part of the value, so it lists nobody whose value has none";
        let expected = [
            format!("l.txt:3:3: {unknown} `usr`, so it lists nobody; did you mean `user`?"),
            format!("l.txt:5:1: {quoted}; write user=bob"),
            format!("l.txt:6:1: {quoted}; write session=x"),
            format!(
                "l.txt:8:1: {unknown} `tenant`, so it lists nobody; write one of \
                 `remote_address`, `session`, `user`, or remove it"
            ),
        ];
        assert_eq!(found, expected);
    }
}
