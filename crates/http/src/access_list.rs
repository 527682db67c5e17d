//! Allow and deny lists: clients that no limit applies to, and clients that are always denied.
//!
//! An entry is an address, a network, or a key and a value of a descriptor. Among networks that
//! contain an address, the longest prefix counts, so that a list can have exceptions from the other
//! one: all of a network but one host. Everywhere else, a denial counts: for the same network in
//! both lists, and for an address and a descriptor that disagree, because who is denied by one of
//! its names must not be able to choose another.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// The most entries of all lists together.
pub const LIST_ENTRIES_MAX: usize = 1_000_000;
/// The longest line of a list, in bytes.
pub const LIST_LINE_BYTES_MAX: usize = 8192;
/// The most invalid lines that are reported at once.
pub const LIST_ERRORS_MAX: usize = 20;

/// The length of the prefix that all mapped IPv4 addresses have.
const MAPPED_PREFIX: u8 = 96;

/// What becomes of a client on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// No limit applies to it.
    Allow,
    /// It is denied, whatever its limits say.
    Deny,
}

/// The entries of all lists.
#[derive(Debug, Default)]
pub struct AccessList {
    ipv4: PrefixMap<Ipv4Net, Listing>,
    ipv6: PrefixMap<Ipv6Net, Listing>,
    /// By key, and then by value.
    descriptors: HashMap<Box<[u8]>, Values>,
    counts: [usize; 2],
}

/// The values of a key.
type Values = HashMap<Box<[u8]>, Listing>;

/// A line that is not an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEntry {
    /// Its number, from 1.
    pub line: usize,
    /// Where the entry begins in it, in bytes from 1.
    pub column: usize,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub instead: String,
}

/// A line that names a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedDescriptor<'a> {
    /// Its number, from 1.
    pub line: usize,
    /// Where the entry begins in it, in bytes from 1.
    pub column: usize,
    /// The key of an entry of a descriptor.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// What a line names.
enum Subject<'a> {
    Network(IpNet),
    Descriptor(&'a [u8], &'a [u8]),
}

// === impl AccessList ===

impl AccessList {
    /// Adds the lines of a list. Each is an address such as `192.0.2.7`, a network such as
    /// `2001:db8::/32`, or `KEY=VALUE`, an entry of a descriptor. Empty lines are skipped, and what
    /// follows `#` or `;` at the beginning of a line or after white space.
    ///
    /// # Errors
    ///
    /// The first [`LIST_ERRORS_MAX`] lines that are none of these.
    pub fn add(&mut self, listing: Listing, text: &[u8]) -> Result<(), Vec<InvalidEntry>> {
        let mut errors = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if errors.len() == LIST_ERRORS_MAX {
                break;
            }
            let added = parse(line).and_then(|subject| match subject {
                Some(subject) => self.insert(listing, subject),
                None => Ok(()),
            });
            if let Err((problem, instead)) = added {
                errors.push(InvalidEntry {
                    line: index + 1,
                    column: column(line),
                    problem,
                    instead,
                });
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Adds an entry, unless there are too many.
    fn insert(&mut self, listing: Listing, subject: Subject<'_>) -> Result<(), Invalid> {
        if self.counts[0] + self.counts[1] == LIST_ENTRIES_MAX {
            return Err((
                format!("the lists have more than {LIST_ENTRIES_MAX} entries"),
                "join neighbouring networks, or deny them in a firewall".to_owned(),
            ));
        }
        // In both lists: it is denied, whatever comes first.
        if listing == Listing::Allow && self.is_denied(&subject) {
            return Ok(());
        }
        let before = match subject {
            Subject::Network(IpNet::V4(network)) => self.ipv4.insert(network, listing),
            Subject::Network(IpNet::V6(network)) => self.ipv6.insert(network, listing),
            Subject::Descriptor(key, value) => {
                let values = self.descriptors.entry(key.into()).or_default();
                values.insert(value.into(), listing)
            }
        };
        if let Some(before) = before {
            self.counts[place(before)] -= 1;
        }
        self.counts[place(listing)] += 1;
        Ok(())
    }

    /// Whether exactly this is in a list of denials.
    fn is_denied(&self, subject: &Subject<'_>) -> bool {
        let found = match subject {
            Subject::Network(IpNet::V4(network)) => self.ipv4.get(network).copied(),
            Subject::Network(IpNet::V6(network)) => self.ipv6.get(network).copied(),
            Subject::Descriptor(key, value) => self.find_entry(key, value),
        };
        found == Some(Listing::Deny)
    }

    /// Where the longest prefix that contains an address is listed. A mapped address is the IPv4
    /// address in it.
    pub fn find_address(&self, address: IpAddr) -> Option<Listing> {
        let found = match address.to_canonical() {
            IpAddr::V4(address) => self.ipv4.get_lpm(&address.into()).map(|(_, one)| one),
            IpAddr::V6(address) => self.ipv6.get_lpm(&address.into()).map(|(_, one)| one),
        };
        found.copied()
    }

    /// Where an entry of a descriptor is listed.
    pub fn find_entry(&self, key: &[u8], value: &[u8]) -> Option<Listing> {
        self.descriptors.get(key)?.get(value).copied()
    }

    /// How many entries a list has. One that is in both counts as denied.
    pub const fn count(&self, listing: Listing) -> usize {
        self.counts[place(listing)]
    }
}

const fn place(listing: Listing) -> usize {
    match listing {
        Listing::Allow => 0,
        Listing::Deny => 1,
    }
}

/// The entries of a list that are a key and a value, with their lines, from 1, and columns. Lines
/// that are invalid are left out.
pub fn listed_descriptors(text: &[u8]) -> impl Iterator<Item = ListedDescriptor<'_>> {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let named = lines.filter(|(_, line)| line.contains(&b'='));
    named.filter_map(|(index, line)| match parse(line) {
        Ok(Some(Subject::Descriptor(key, value))) => Some(ListedDescriptor {
            line: index + 1,
            column: column(line),
            key,
            value,
        }),
        _ => None,
    })
}

/// Where the entry of a line begins, in bytes from 1.
fn column(line: &[u8]) -> usize {
    line.len() - line.trim_ascii_start().len() + 1
}

/// A problem, and what to do.
type Invalid = (String, String);

/// What a line names; `None` if it is empty.
fn parse(line: &[u8]) -> Result<Option<Subject<'_>>, Invalid> {
    let instead = "write an address, a network such as 192.0.2.0/24, or KEY=VALUE";
    if line.len() > LIST_LINE_BYTES_MAX {
        let problem = format!("the line has more than {LIST_LINE_BYTES_MAX} bytes");
        return Err((problem, instead.to_owned()));
    }
    let entry = strip_comment(line).trim_ascii();
    if entry.is_empty() {
        return Ok(None);
    }
    if let Some(at) = entry.iter().position(|byte| *byte == b'=') {
        let (key, value) = (entry[..at].trim_ascii_end(), entry[at + 1..].trim_ascii());
        return match key.is_empty() || value.is_empty() {
            false => Ok(Some(Subject::Descriptor(key, value))),
            true => {
                let problem = "a key or a value is missing".to_owned();
                Err((problem, "write KEY=VALUE, as in user=alice".to_owned()))
            }
        };
    }
    let text = String::from_utf8_lossy(entry);
    let Some(network) = parse_network(&text) else {
        let shown: String = text.chars().take(80).collect();
        let problem = format!("{shown:?} is not an address, a network or KEY=VALUE");
        return Err((problem, instead.to_owned()));
    };
    let whole = network.trunc();
    if whole != network {
        let problem = format!("{network} has bits beyond its prefix");
        let address = network.addr();
        return Err((problem, format!("write {whole}, or {address} alone")));
    }
    Ok(Some(Subject::Network(unmap(network))))
}

/// What is before a comment: `#` or `;` at the beginning or behind white space.
fn strip_comment(line: &[u8]) -> &[u8] {
    let is_comment = |at: &usize| {
        let begins = *at == 0 || line[at - 1].is_ascii_whitespace();
        begins && matches!(line[*at], b'#' | b';')
    };
    let end = (0..line.len()).find(is_comment).unwrap_or(line.len());
    &line[..end]
}

fn parse_network(text: &str) -> Option<IpNet> {
    match text.contains('/') {
        true => text.parse().ok(),
        false => text.parse::<IpAddr>().ok().map(IpNet::from),
    }
}

/// The IPv4 network that a network of mapped addresses is.
fn unmap(network: IpNet) -> IpNet {
    let IpNet::V6(ipv6) = network else {
        return network;
    };
    let (bits, address) = (ipv6.prefix_len(), ipv6.addr().to_ipv4_mapped());
    match (bits.checked_sub(MAPPED_PREFIX), address) {
        (Some(bits), Some(address)) => Ipv4Net::new(address, bits).map_or(network, IpNet::V4),
        _ => network,
    }
}

// === impl InvalidEntry ===

impl fmt::Display for InvalidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidEntry {
            line,
            column: _,
            problem,
            instead,
        } = self;
        write!(f, "line {line}: {problem}; {instead}")
    }
}

#[cfg(test)]
mod tests;
