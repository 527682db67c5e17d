//! Settings in, descriptors out: who asks for what.

use std::borrow::Cow;

use tollgate_core::{ChargeDenied, Cost, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Entry, Request};

use crate::client_address::{Client, ClientAddress};
use crate::head::Head;
use crate::path::PathSettings;
use crate::rejection::{Flaw, Rejection};
use crate::route::Routes;
use crate::setting::InvalidSetting;
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
    pub value: Cow<'a, [u8]>,
}

// === impl Classifier ===

impl Classifier {
    /// For a program that sees no responses, so that no descriptor may have a `count_when`,
    /// or a `cost` that a response has.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] is the first setting that cannot be used.
    pub fn new(settings: &IdentitySettings) -> Result<Classifier, InvalidSetting> {
        let mut descriptors = settings.descriptors.iter();
        if let Some(index) = descriptors.position(DescriptorSettings::needs_response) {
            return Err(InvalidSetting::new(
                format!("descriptors[{index}]"),
                "only the gateway sees responses, which its `count_when` or its `cost` needs",
                "remove it, or send requests through the gateway",
            ));
        }
        Classifier::with_responses(settings)
    }

    /// For a program that also sees the responses, and settles what they say.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] is the first setting that cannot be used.
    pub fn with_responses(settings: &IdentitySettings) -> Result<Classifier, InvalidSetting> {
        let addresses = ClientAddress::new(&settings.client_address)
            .map_err(|error| error.below("client_address"))?;
        let routes = Routes::new(&settings.routes, &settings.path)?;
        check_count("descriptors", settings.descriptors.len(), DESCRIPTORS_MAX)?;
        let mut descriptors = Vec::new();
        for (index, descriptor) in settings.descriptors.iter().enumerate() {
            let at = format!("descriptors[{index}].entries");
            check_count(&at, descriptor.entries.len(), ENTRIES_MAX)?;
            let entries = descriptor.entries.iter().enumerate();
            let rules = entries.map(|(index, entry)| {
                Rule::new(entry, &addresses, &routes, &[])
                    .map_err(|error| error.below(&format!("{at}[{index}]")))
            });
            let rules = rules.collect::<Result<_, _>>()?;
            let cost = descriptor.cost.as_ref().map(CostSettings::check);
            let cost = cost.transpose();
            let cost = cost.map_err(|error| error.below(&format!("descriptors[{index}].cost")))?;
            descriptors.push(Described { rules, cost });
            let checked = descriptor.count_when.as_ref().map(CountWhenSettings::check);
            checked
                .transpose()
                .map_err(|error| error.below(&format!("descriptors[{index}].count_when")))?;
        }
        Ok(Classifier {
            addresses,
            paths: settings.path,
            routes,
            #[cfg(feature = "jwt")]
            token: token(settings)?,
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
fn token(settings: &IdentitySettings) -> Result<Option<Token>, InvalidSetting> {
    let entries = settings.descriptors.iter().flat_map(|one| &one.entries);
    if settings.token.is_none() && entries.clone().any(EntrySettings::uses_claim) {
        return Err(InvalidSetting::new(
            "token",
            "a claim is used, and nothing says where the token is",
            "write `token: { verify: { keys_file: keys.json } }`",
        ));
    }
    let token = settings.token.as_ref().map(Token::new).transpose();
    token.map_err(|error| error.below("token"))
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

// === impl Rule ===

impl Rule {
    /// Checks an entry and its fallbacks. It is itself a fallback of the entries with the keys in
    /// `before`.
    fn new(
        entry: &EntrySettings,
        addresses: &ClientAddress,
        routes: &Routes,
        before: &[&str],
    ) -> Result<Rule, InvalidSetting> {
        let EntrySettings { key, from, .. } = entry;
        let keys = [before, &[key.as_str()]].concat();
        if key.is_empty() {
            return Err(InvalidSetting::new(
                "key",
                "an empty key",
                "name it as the rules do",
            ));
        }
        let source = Source::new(from, addresses, !routes.is_empty())
            .map_err(|error| error.below("from"))?;
        let wrong =
            |problem: &str, instead: &str| Err(InvalidSetting::new("if_missing", problem, instead));
        let if_missing = match (&entry.if_missing, source.may_be_missing()) {
            (None, false) => Missing::Deny,
            (Some(_), false) => return wrong("the value is never missing", "remove it"),
            (None, true) => {
                return wrong(
                    "nothing says what becomes of requests without the value",
                    "write `deny`, `skip` (its limits do not count them), or `use: {key, from}`",
                );
            }
            (Some(IfMissing::Skip), true) => Missing::Skip,
            (Some(IfMissing::Deny), true) => Missing::Deny,
            (Some(IfMissing::Use(_)), true) if keys.len() > FALLBACKS_MAX => {
                return wrong(
                    "too many fallbacks",
                    &format!("{FALLBACKS_MAX} is the most"),
                );
            }
            (Some(IfMissing::Use(other)), true) if keys.contains(&other.key.as_str()) => {
                return wrong(
                    "the fallback has the same key, so a client could name another's value",
                    "give it a key of its own, and the rules a limit for that",
                );
            }
            (Some(IfMissing::Use(other)), true) => {
                let other = Rule::new(other, addresses, routes, &keys)
                    .map_err(|error| error.below("if_missing.use"))?;
                Missing::Use(Box::new(other))
            }
        };
        Ok(Rule {
            key: key.clone(),
            source,
            fold_case: entry.fold_case,
            if_missing,
        })
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
                let value = Cow::Owned(value);
                Ok(Some(IdentityEntry { key, value }))
            }
            (Some(value), _) => Ok(Some(IdentityEntry { key, value })),
            (None, Missing::Skip) => Ok(None),
            (None, Missing::Deny) => Err(reject(Flaw::Missing)),
            (None, Missing::Use(other)) => other.entry(facts),
        }
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
