//! The keys of one simulated server: strings and sorted sets, with expiry, and the commands on them
//! that our scripts use.

use std::collections::BTreeMap;

use crate::resp::Reply;

/// A server's keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Keys that were changed since the changes were last taken.
    changed: Vec<Vec<u8>>,
}

/// A value, and when it expires: the last millisecond in which it exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    value: Value,
    expires: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(Vec<u8>),
    Sorted(BTreeMap<Vec<u8>, i64>),
}

/// The answer of a replica to a command that may change something.
pub(crate) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The commands that need memory, and fail with `OOM` when there is none.
const NEED_MEMORY: [&str; 5] = ["SET", "APPEND", "SETRANGE", "ZADD", "SETEX"];

/// Whether a full server rejects the command.
pub(crate) fn needs_memory(name: &str) -> bool {
    NEED_MEMORY.contains(&name)
}

/// Whether the command may change something.
pub(crate) fn writes(name: &str) -> bool {
    needs_memory(name)
        || matches!(
            name,
            "DEL" | "GETEX" | "PEXPIREAT" | "PEXPIRE" | "ZREM" | "ZREMRANGEBYSCORE"
        )
}

// === impl Keyspace ===

impl Keyspace {
    /// The names of the keys that exist at `millis`.
    pub(crate) fn names(&self, millis: u64) -> Vec<String> {
        let live = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_live(millis));
        live.map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// All keys, also those that have expired.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        let entries = self.entries.iter();
        entries.map(|(name, entry)| (name.as_slice(), entry))
    }

    pub(crate) fn has(&self, key: &[u8], millis: u64) -> bool {
        self.entries
            .get(key)
            .is_some_and(|entry| entry.is_live(millis))
    }

    /// Takes the changes since the last call: each key and its present value.
    pub(crate) fn take_changes(&mut self) -> Vec<(Vec<u8>, Option<Entry>)> {
        let changed = std::mem::take(&mut self.changed);
        let with_entry = |key: Vec<u8>| {
            let entry = self.entries.get(&key).cloned();
            (key, entry)
        };
        changed.into_iter().map(with_entry).collect()
    }

    /// Sets one key to its value on another server.
    pub(crate) fn apply(&mut self, key: Vec<u8>, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.entries.insert(key, entry),
            None => self.entries.remove(&key),
        };
    }

    /// Removes and returns the keys for which `belongs` holds.
    pub(crate) fn split_off(&mut self, belongs: impl Fn(&[u8]) -> bool) -> Keyspace {
        let names: Vec<Vec<u8>> = self
            .entries
            .keys()
            .filter(|key| belongs(key))
            .cloned()
            .collect();
        let mut taken = Keyspace::default();
        for name in names {
            if let Some(entry) = self.entries.remove(&name) {
                self.changed.push(name.clone());
                taken.entries.insert(name, entry);
            }
        }
        taken
    }

    /// Adds the keys of another keyspace.
    pub(crate) fn append(&mut self, other: Keyspace) {
        for (key, entry) in other.entries {
            self.changed.push(key.clone());
            self.entries.insert(key, entry);
        }
    }

    /// The first key that has not expired at `millis`, and that `belongs` holds for.
    pub(crate) fn first_live(
        &self,
        millis: u64,
        belongs: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let is_meant = |(key, entry): &(&Vec<u8>, &Entry)| belongs(key) && entry.is_live(millis);
        let (key, _) = self.entries.iter().find(is_meant)?;
        Some(key.clone())
    }

    /// Executes a command on keys at `micros` of the server's clock.
    pub(crate) fn execute(&mut self, name: &str, words: &[Vec<u8>], micros: u64) -> Reply {
        let millis = micros / 1_000;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match (name, &words[..]) {
            ("TIME", []) => Reply::Array(vec![
                Reply::bulk((micros / 1_000_000).to_string()),
                Reply::bulk((micros % 1_000_000).to_string()),
            ]),
            ("GET" | "GETEX", [key]) => self
                .text(key, millis)
                .map_or(wrong(), |text| text.map_or(Reply::Nil, Reply::bulk)),
            ("MGET", keys) => {
                let get = |key: &&[u8]| match self.text(key, millis) {
                    Some(Some(text)) => Reply::bulk(text),
                    _ => Reply::Nil,
                };
                Reply::Array(keys.iter().map(get).collect())
            }
            ("SET", [key, value]) => self.set(key, value, None),
            ("SET", [key, value, option, at]) if option.eq_ignore_ascii_case(b"PXAT") => {
                let at = number(at).and_then(|at| u64::try_from(at).ok());
                match at.filter(|at| *at > 0) {
                    Some(at) => self.set(key, value, Some(at)),
                    None => Reply::error("ERR invalid expire time in 'set' command"),
                }
            }
            ("DEL", keys) => {
                let mut gone = 0;
                for key in keys {
                    gone += usize::from(self.has(key, millis));
                    self.remove(key);
                }
                Reply::count(gone)
            }
            ("STRLEN", [key]) => self
                .text(key, millis)
                .map_or(wrong(), |text| Reply::count(text.map_or(0, <[u8]>::len))),
            ("APPEND", [key, more]) => self.append_text(key, more, millis),
            ("GETRANGE", [key, from, to]) => self.range(key, from, to, millis),
            ("SETRANGE", [key, from, value]) => self.set_range(key, from, value, millis),
            ("PEXPIREAT", [key, at]) => match number(at) {
                Some(at) => self.expire(key, at, millis),
                None => not_integer(),
            },
            ("PEXPIRE", [key, lasts]) => match number(lasts) {
                Some(lasts) => self.expire(key, to_signed(millis) + lasts, millis),
                None => not_integer(),
            },
            ("PTTL", [key]) => Reply::Integer(match self.live_entry(key, millis) {
                None => -2,
                Some(entry) => entry
                    .expires
                    .map_or(-1, |at| to_signed(at) - to_signed(millis)),
            }),
            _ => self.execute_sorted(name, &words, millis),
        }
    }

    /// The commands on sorted sets.
    fn execute_sorted(&mut self, name: &str, words: &[&[u8]], millis: u64) -> Reply {
        match (name, words) {
            ("ZADD", [key, score, member]) => match number(score) {
                Some(score) => self.add(key, score, member, millis),
                None => Reply::error("ERR value is not a valid float"),
            },
            ("ZREM", [key, member]) => self.change_sorted_set(key, millis, |sorted| {
                usize::from(sorted.remove(*member).is_some())
            }),
            ("ZCARD", [key]) => self.change_sorted_set(key, millis, |sorted| sorted.len()),
            ("ZREMRANGEBYSCORE", [key, from, to]) => {
                let (Some(from), Some(to)) = (score(from), score(to)) else {
                    return Reply::error("ERR min or max is not a float");
                };
                self.change_sorted_set(key, millis, |sorted| {
                    let before = sorted.len();
                    sorted.retain(|_, score| !(from..=to).contains(score));
                    before - sorted.len()
                })
            }
            _ => Reply::error(format!("ERR the simulation does not know {name}")),
        }
    }

    fn live_entry(&self, key: &[u8], millis: u64) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.is_live(millis))
    }

    /// The string at a key: `Some(None)` if there is no key, `None` if its value is not a string.
    fn text(&self, key: &[u8], millis: u64) -> Option<Option<&[u8]>> {
        match self.live_entry(key, millis).map(|entry| &entry.value) {
            Some(Value::Text(text)) => Some(Some(text)),
            Some(Value::Sorted(_)) => None,
            None => Some(None),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Reply {
        let value = Value::Text(value.to_vec());
        self.put(key, Entry { value, expires });
        Reply::ok()
    }

    fn put(&mut self, key: &[u8], entry: Entry) {
        self.changed.push(key.to_vec());
        self.entries.insert(key.to_vec(), entry);
    }

    fn remove(&mut self, key: &[u8]) {
        if self.entries.remove(key).is_some() {
            self.changed.push(key.to_vec());
        }
    }

    /// Changes a string, keeps its expiry, and returns its length.
    fn edit(&mut self, key: &[u8], millis: u64, edit: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let (mut text, expires) = match self.live_entry(key, millis) {
            None => (Vec::new(), None),
            Some(entry) => match &entry.value {
                Value::Text(text) => (text.clone(), entry.expires),
                Value::Sorted(_) => return wrong(),
            },
        };
        edit(&mut text);
        let length = text.len();
        let value = Value::Text(text);
        self.put(key, Entry { value, expires });
        Reply::count(length)
    }

    fn append_text(&mut self, key: &[u8], more: &[u8], millis: u64) -> Reply {
        self.edit(key, millis, |text| text.extend_from_slice(more))
    }

    fn set_range(&mut self, key: &[u8], from: &[u8], value: &[u8], millis: u64) -> Reply {
        let Some(from) = number(from).and_then(|from| usize::try_from(from).ok()) else {
            return not_integer();
        };
        if value.is_empty() {
            return self.execute("STRLEN", &[key.to_vec()], millis * 1_000);
        }
        self.edit(key, millis, |text| {
            let end = from + value.len();
            if text.len() < end {
                text.resize(end, 0);
            }
            text[from..end].copy_from_slice(value);
        })
    }

    fn range(&self, key: &[u8], from: &[u8], to: &[u8], millis: u64) -> Reply {
        let (Some(from), Some(to)) = (number(from), number(to)) else {
            return not_integer();
        };
        let Some(text) = self.text(key, millis) else {
            return wrong();
        };
        let text = text.unwrap_or_default();
        let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
        let place = |at: i64| if at < 0 { (length + at).max(0) } else { at };
        let (from, to) = (place(from), place(to).min(length - 1));
        if from > to || length == 0 {
            return Reply::bulk("");
        }
        let index = |at: i64| usize::try_from(at).unwrap_or(0);
        Reply::bulk(&text[index(from)..=index(to)])
    }

    fn expire(&mut self, key: &[u8], at: i64, millis: u64) -> Reply {
        if !self.has(key, millis) {
            return Reply::Integer(0);
        }
        self.changed.push(key.to_vec());
        match u64::try_from(at) {
            Ok(at) if at > millis => {
                if let Some(entry) = self.entries.get_mut(key) {
                    entry.expires = Some(at);
                }
            }
            _ => {
                self.entries.remove(key);
            }
        }
        Reply::Integer(1)
    }

    fn add(&mut self, key: &[u8], score: i64, member: &[u8], millis: u64) -> Reply {
        if !self.has(key, millis) {
            let value = Value::Sorted(BTreeMap::new());
            let expires = None;
            self.entries.insert(key.to_vec(), Entry { value, expires });
        }
        self.change_sorted_set(key, millis, |sorted| {
            usize::from(sorted.insert(member.to_vec(), score).is_none())
        })
    }

    /// Changes a sorted set, which is deleted with its last member.
    fn change_sorted_set(
        &mut self,
        key: &[u8],
        millis: u64,
        work: impl FnOnce(&mut BTreeMap<Vec<u8>, i64>) -> usize,
    ) -> Reply {
        if !self.has(key, millis) {
            return Reply::Integer(0);
        }
        let Some(entry) = self.entries.get_mut(key) else {
            return Reply::Integer(0);
        };
        let Value::Sorted(sorted) = &mut entry.value else {
            return wrong();
        };
        let count = work(sorted);
        let is_empty = sorted.is_empty();
        self.changed.push(key.to_vec());
        if is_empty {
            self.entries.remove(key);
        }
        Reply::count(count)
    }
}

// === impl Entry ===

impl Entry {
    /// The bytes of a string; `None` of a sorted set.
    pub(crate) const fn text_length(&self) -> Option<usize> {
        match &self.value {
            Value::Text(text) => Some(text.len()),
            Value::Sorted(_) => None,
        }
    }

    /// The last millisecond in which it exists.
    pub(crate) const fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// As in Redis, a key still exists in the millisecond of its expiry.
    fn is_live(&self, millis: u64) -> bool {
        self.expires.is_none_or(|expires| millis <= expires)
    }
}

fn wrong() -> Reply {
    Reply::error(WRONG_TYPE)
}

fn not_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn score(word: &[u8]) -> Option<i64> {
    match word {
        b"-inf" => Some(i64::MIN),
        b"+inf" => Some(i64::MAX),
        word => number(word),
    }
}

fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
