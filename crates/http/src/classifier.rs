//! Settings in, descriptors out: who asks for what.

use tollgate_core::{ChargeDenied, Cost, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Entry, Request};

use crate::client_address::{Client, ClientAddress};
use crate::entry_value::EntryValue;
use crate::head::Head;
use crate::path::PathSettings;
use crate::prefix::Prefix;
use crate::rejection::{Flaw, Rejection};
use crate::route::Routes;
use crate::setting::{InvalidSetting, InvalidSettings};
use crate::source::{Facts, Source, VALUE_BYTES_MAX, fold_case};
#[cfg(feature = "jwt")]
use crate::token::Token;

mod cost;
mod count_when;
mod settings;

pub use cost::{Cost as DescriptorCost, CostSettings, CostSource, ResponseCost, read_units};
pub use count_when::{CountWhenSettings, STATUS_RANGES_MAX, StatusRange};
pub use settings::{DescriptorSettings, EntrySettings, IdentitySettings, IfMissing};

/// The most entries in a chain of fallbacks, each used if the value of the one before is missing.
pub const FALLBACKS_MAX: usize = 4;

/// Describes requests.
#[derive(Clone, Debug)]
pub struct Classifier {
    addresses: ClientAddress,
    paths: PathSettings,
    routes: Routes,
    #[cfg(feature = "jwt")]
    token: Option<Token>,
    descriptors: Vec<Described>,
}

/// How a descriptor is made, and what it is charged.
#[derive(Clone, Debug)]
struct Described {
    rules: Vec<Rule>,
    /// `None` for one unit.
    cost: Option<DescriptorCost>,
}

/// How an entry is made.
#[derive(Clone, Debug)]
struct Rule {
    key: String,
    source: Source,
    fold_case: bool,
    if_missing: Missing,
}

/// What happens to a descriptor that lacks the value of an entry.
#[derive(Clone, Debug)]
enum Missing {
    Skip,
    Deny,
    Use(Box<Rule>),
}

/// A request, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The client, if a descriptor has its address, or if the caller had found it.
    pub client: Option<Client>,
    /// Each descriptor that was not skipped.
    pub descriptors: Vec<IdentityDescriptor<'a>>,
}

/// A descriptor of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityDescriptor<'a> {
    /// The index of its settings: [`IdentitySettings::descriptors`].
    pub index: usize,
    /// Its entries, in the order of the settings.
    pub entries: Vec<IdentityEntry<'a>>,
    /// The units that it is charged before there is a response.
    pub units: u64,
}

/// An entry of a descriptor: a key, and its value in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityEntry<'a> {
    /// The key, from the settings.
    pub key: &'a str,
    /// The value. Never empty.
    pub value: EntryValue<'a>,
}

// === impl Classifier ===

impl Classifier {
    /// For a program that sees no responses, so that no descriptor may have a `count_when`,
    /// or a `cost` that a response has.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn new(settings: &IdentitySettings) -> Result<Classifier, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        errors.take_each(
            "descriptors",
            &settings.descriptors,
            |descriptor| match descriptor.needs_response() {
                false => Ok(()),
                true => Err(InvalidSetting::new(
                    "",
                    "only the gateway sees responses, which its `count_when` or its `cost` needs",
                    "remove it, or send requests through the gateway",
                )),
            },
        );
        match errors.take(Classifier::with_responses(settings)) {
            Some(classifier) if errors.is_empty() => Ok(classifier),
            _ => Err(errors),
        }
    }

    /// For a program that also sees the responses, and settles what they say.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn with_responses(settings: &IdentitySettings) -> Result<Classifier, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let addresses = ClientAddress::new(&settings.client_address);
        let addresses = errors.take_below("client_address", addresses);
        let routes = errors.take(Routes::new(&settings.routes, &settings.path));
        let count = settings.descriptors.len();
        let counted = errors.take(check_count("descriptors", count, DESCRIPTORS_MAX));
        let descriptors = counted.map_or_else(Vec::new, |()| {
            // Descriptors are checked even if the settings of addresses are wrong.
            let prefix = addresses.as_ref().map(ClientAddress::prefix).cloned();
            let prefix = prefix.unwrap_or_default();
            let has_routes = !settings.routes.is_empty();
            errors.take_each("descriptors", &settings.descriptors, |descriptor| {
                Described::new(descriptor, &prefix, has_routes)
            })
        });
        #[cfg(feature = "jwt")]
        let token = errors.take(token(settings)).flatten();
        let (Some(addresses), Some(routes), true) = (addresses, routes, errors.is_empty()) else {
            return Err(errors);
        };
        Ok(Classifier {
            addresses,
            paths: settings.path,
            routes,
            #[cfg(feature = "jwt")]
            token,
            descriptors,
        })
    }

    /// What the descriptor with these settings is charged; `None` for one unit.
    pub fn cost(&self, index: usize) -> Option<&DescriptorCost> {
        self.descriptors.get(index)?.cost.as_ref()
    }

    /// How the client of a request is found, and which proxies are trusted.
    pub const fn client_address(&self) -> &ClientAddress {
        &self.addresses
    }

    /// Describes a request.
    ///
    /// # Errors
    ///
    /// [`Rejection`], if the request must be denied without asking any limit.
    pub fn identify<'a>(&'a self, head: Head<'a>) -> Result<Identity<'a>, Rejection> {
        self.describe(head, None)
    }

    /// Describes a request whose client [`ClientAddress::resolve`] has found.
    ///
    /// # Errors
    ///
    /// As [`Classifier::identify`].
    pub fn identify_of<'a>(
        &'a self,
        head: Head<'a>,
        client: Client,
    ) -> Result<Identity<'a>, Rejection> {
        self.describe(head, Some(client))
    }

    /// Describes a request, whose client may have been found before.
    fn describe<'a>(
        &'a self,
        head: Head<'a>,
        client: Option<Client>,
    ) -> Result<Identity<'a>, Rejection> {
        let facts = Facts::new(head, &self.addresses, &self.paths, &self.routes);
        #[cfg(feature = "jwt")]
        let facts = facts.with_token(self.token.as_ref());
        let facts = facts.with_client(client);
        let mut descriptors = Vec::with_capacity(self.descriptors.len());
        for (index, described) in self.descriptors.iter().enumerate() {
            let entries = described.rules.iter().map(|rule| rule.entry(&facts));
            // An entry that is `None` skips its descriptor.
            if let Some(entries) = entries.collect::<Result<Option<Vec<_>>, _>>()? {
                let cost = described.cost.as_ref();
                let units = cost.map_or(1, |cost| cost.estimate(head.headers));
                descriptors.push(IdentityDescriptor {
                    index,
                    entries,
                    units,
                });
            }
        }
        Ok(Identity {
            client: facts.known_client(),
            descriptors,
        })
    }
}

/// What reads tokens; there must be something if a claim is used.
#[cfg(feature = "jwt")]
fn token(settings: &IdentitySettings) -> Result<Option<Token>, InvalidSettings> {
    let entries = settings.descriptors.iter().flat_map(|one| &one.entries);
    if settings.token.is_none() && entries.clone().any(EntrySettings::uses_claim) {
        let problem = "a claim is used, and nothing says where the token is";
        let instead = "write `token: { verify: { keys_file: keys.json } }`";
        return Err(InvalidSetting::new("token", problem, instead).into());
    }
    let token = settings.token.as_ref().map(Token::new).transpose();
    token.map_err(|errors| errors.below("token"))
}

fn check_count(at: &str, count: usize, most: usize) -> Result<(), InvalidSetting> {
    match (1..=most).contains(&count) {
        true => Ok(()),
        false => {
            let problem = format!("{count} of them");
            Err(InvalidSetting::new(
                at,
                problem,
                format!("write 1 to {most}"),
            ))
        }
    }
}

// === impl Described ===

impl Described {
    /// Checks the entries of a descriptor, and what it is charged.
    fn new(
        settings: &DescriptorSettings,
        prefix: &Prefix,
        has_routes: bool,
    ) -> Result<Described, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let entries = &settings.entries;
        let counted = errors.take(check_count("entries", entries.len(), ENTRIES_MAX));
        let rules = counted.map_or_else(Vec::new, |()| {
            errors.take_each("entries", entries, |entry| {
                Rule::new(entry, prefix, has_routes, &[])
            })
        });
        let cost = settings.cost.as_ref().map(CostSettings::check).transpose();
        let cost = errors.take_below("cost", cost).flatten();
        let count_when = settings.count_when.as_ref();
        let checked = count_when.map(CountWhenSettings::check).transpose();
        errors.take_below("count_when", checked);
        errors.check()?;
        Ok(Described { rules, cost })
    }
}

// === impl Rule ===

impl Rule {
    /// Checks an entry and its fallbacks. It is itself a fallback of the entries with the keys in
    /// `before`.
    fn new(
        entry: &EntrySettings,
        prefix: &Prefix,
        has_routes: bool,
        before: &[&str],
    ) -> Result<Rule, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let key = &entry.key;
        if key.is_empty() {
            let invalid = InvalidSetting::new("key", "an empty key", "name it as the rules do");
            errors.push(invalid);
        }
        let source = Source::new(&entry.from, prefix, has_routes);
        let source = errors.take_below("from", source);
        let if_missing = Missing::new(entry, prefix, has_routes, before);
        let if_missing = errors.take_below("if_missing", if_missing);
        match (source, if_missing) {
            (Some(source), Some(if_missing)) if errors.is_empty() => Ok(Rule {
                key: key.clone(),
                source,
                fold_case: entry.fold_case,
                if_missing,
            }),
            _ => Err(errors),
        }
    }

    /// The entry; `None` to skip the descriptor.
    fn entry<'a>(&'a self, facts: &Facts<'a>) -> Result<Option<IdentityEntry<'a>>, Rejection> {
        let key = self.key.as_str();
        let reject = |flaw| Rejection {
            key: self.key.clone(),
            flaw,
        };
        match (self.source.read(facts).map_err(reject)?, &self.if_missing) {
            (Some(value), _) if self.fold_case => {
                let value = fold_case(&value);
                if value.len() > VALUE_BYTES_MAX {
                    return Err(reject(Flaw::TooLong));
                }
                let value = EntryValue::from(value);
                Ok(Some(IdentityEntry { key, value }))
            }
            (Some(value), _) => Ok(Some(IdentityEntry { key, value })),
            (None, Missing::Skip) => Ok(None),
            (None, Missing::Deny) => Err(reject(Flaw::Missing)),
            (None, Missing::Use(other)) => other.entry(facts),
        }
    }
}

// === impl Missing ===

impl Missing {
    /// What becomes of a request that lacks the value of `entry`, which is itself a fallback of the
    /// entries with the keys in `before`.
    fn new(
        entry: &EntrySettings,
        prefix: &Prefix,
        has_routes: bool,
        before: &[&str],
    ) -> Result<Missing, InvalidSettings> {
        let keys = [before, &[entry.key.as_str()]].concat();
        let (problem, instead) = match (&entry.if_missing, entry.from.may_be_missing()) {
            (None, false) => return Ok(Missing::Deny),
            (Some(_), false) => ("the value is never missing", "remove it"),
            (None, true) => (
                "nothing says what becomes of requests without the value",
                "write `deny`, `skip` (its limits do not count them), or `use: {key, from}`",
            ),
            (Some(IfMissing::Skip), true) => return Ok(Missing::Skip),
            (Some(IfMissing::Deny), true) => return Ok(Missing::Deny),
            (Some(IfMissing::Use(_)), true) if keys.len() > FALLBACKS_MAX => {
                let problem = "too many fallbacks";
                let instead = format!("{FALLBACKS_MAX} is the most");
                return Err(InvalidSetting::new("", problem, instead).into());
            }
            (Some(IfMissing::Use(other)), true) if keys.contains(&other.key.as_str()) => (
                "the fallback has the same key, so a client could name another's value",
                "give it a key of its own, and the rules a limit for that",
            ),
            (Some(IfMissing::Use(other)), true) => {
                let other = Rule::new(other, prefix, has_routes, &keys);
                let other = other.map_err(|errors| errors.below("use"))?;
                return Ok(Missing::Use(Box::new(other)));
            }
        };
        Err(InvalidSetting::new("", problem, instead).into())
    }
}

// === impl Identity ===

impl Identity<'_> {
    /// The request to the rules of a domain; `None` if all descriptors were skipped, so that there
    /// is nothing to ask.
    pub fn request<'s>(&'s self, domain: &'s [u8]) -> Option<Request<'s>> {
        let descriptors = self.descriptors.iter().map(|descriptor| Descriptor {
            entries: descriptor
                .entries
                .iter()
                .map(|entry| Entry {
                    key: entry.key.as_bytes(),
                    value: &entry.value,
                })
                .collect(),
            cost: (descriptor.units != 1).then_some(Cost::Take(descriptor.units)),
            ..Descriptor::default()
        });
        (!self.descriptors.is_empty()).then(|| Request {
            domain,
            descriptors: descriptors.collect(),
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Never,
        })
    }
}

#[cfg(test)]
mod tests;
