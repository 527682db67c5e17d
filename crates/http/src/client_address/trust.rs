//! Which proxies are ours.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{AddressSource, Unusable};
use crate::setting::{InvalidSetting, InvalidSettings};

/// The most entries of a list that are looked at, and so the most `trusted_hops`.
pub const HOPS_MAX: usize = 32;
/// The most `trusted_proxies`. Content delivery networks publish a few hundred.
pub const TRUSTED_PROXIES_MAX: usize = 4096;

/// The word for peers of a Unix socket among `trusted_proxies`.
const UNIX: &str = "unix";

/// Which proxies are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// So many, whatever their addresses; 0 is none.
    Hops(usize),
    /// Those in these networks.
    Networks {
        /// Sorted, and none contains another.
        networks: Vec<IpNet>,
        /// Peers of a Unix socket as well.
        unix: bool,
    },
}

// === impl Trust ===

impl Trust {
    /// Checks that the settings say who may name an address, and only once.
    pub(super) fn new(
        source: AddressSource,
        proxies: &[String],
        hops: Option<usize>,
    ) -> Result<Trust, InvalidSettings> {
        let hops_at = "trusted_hops";
        let wrong = |at: &str, problem: &str, instead: &str| {
            Err(InvalidSetting::new(at, problem, instead).into())
        };
        if source == AddressSource::Peer && (!proxies.is_empty() || hops.is_some()) {
            return wrong(
                "source",
                "proxies are trusted, and nothing that they say is used",
                "write which header they set, such as `source: x-forwarded-for`",
            );
        }
        match (hops, proxies) {
            (Some(_), [_, ..]) => wrong(
                hops_at,
                "`trusted_proxies` is set as well",
                "keep `trusted_proxies` if the proxies' addresses are known, or else this",
            ),
            (Some(hops @ 2..=HOPS_MAX), []) if !source.is_list() => wrong(
                hops_at,
                &format!("{hops} hops, and the source has one address"),
                "write 1",
            ),
            (Some(hops), []) => {
                InvalidSetting::check_at_most(hops_at, hops, "hops", HOPS_MAX)?;
                Ok(Trust::Hops(hops))
            }
            (None, []) if source == AddressSource::Peer => Ok(Trust::Hops(0)),
            (None, []) => wrong(
                "trusted_proxies",
                "nothing says whose word is taken, so any client could name its own address",
                "write the networks of your proxies, or `trusted_hops: 1` if there is one",
            ),
            (None, proxies) => Trust::networks(proxies),
        }
    }

    /// Merges the networks, so that a search finds the only one that can contain an address.
    fn networks(proxies: &[String]) -> Result<Trust, InvalidSettings> {
        let (at, count) = ("trusted_proxies", proxies.len());
        InvalidSetting::check_at_most(at, count, "networks", TRUSTED_PROXIES_MAX)?;
        let mut errors = InvalidSettings::default();
        let networks = errors.take_each(at, proxies, |text| match text == UNIX {
            true => Ok(None),
            false => network(text).map(Some),
        });
        errors.check()?;
        let unix = networks.contains(&None);
        let networks: Vec<IpNet> = networks.into_iter().flatten().collect();
        let mut networks = IpNet::aggregate(&networks);
        networks.sort_unstable();
        if networks.iter().any(|network| network.prefix_len() == 0) {
            let problem = "together, the networks trust every client to name its own address";
            let instead = "write the networks of your proxies, or `trusted_hops` instead";
            return Err(InvalidSetting::new(at, problem, instead).into());
        }
        Ok(Trust::Networks { networks, unix })
    }

    /// Whether no proxy is trusted.
    pub(super) const fn is_nobody(&self) -> bool {
        matches!(self, Trust::Hops(0))
    }

    /// Whether the peer is a trusted proxy; `None` is a Unix socket.
    pub(super) fn has_peer(&self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Trust::Hops(_), _) => true,
            (Trust::Networks { unix, .. }, None) => *unix,
            (Trust::Networks { .. }, Some(address)) => self.contains(address),
        }
    }

    /// Whether it is in one of the networks, if there are any.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let Trust::Networks { networks, .. } = self else {
            return false;
        };
        let behind = networks.partition_point(|network| network.network() <= address);
        networks[..behind]
            .last()
            .is_some_and(|network| network.contains(&address))
    }

    /// The client in a list whose last entry comes first; `None` is an entry that is not an
    /// address.
    ///
    /// The entry that our outermost proxy wrote. If all entries are trusted proxies, the leftmost
    /// of them sent the request itself.
    pub(super) fn client(
        &self,
        mut entries: impl Iterator<Item = Option<IpAddr>>,
    ) -> Result<IpAddr, Unusable> {
        if let Trust::Hops(hops) = self {
            let entry = entries.nth(hops.saturating_sub(1));
            return entry.ok_or(Unusable::FewHops)?.ok_or(Unusable::Unreadable);
        }
        let mut leftmost = Err(Unusable::Absent);
        for (hop, entry) in entries.enumerate() {
            if hop >= HOPS_MAX {
                return Err(Unusable::ManyHops);
            }
            let address = entry.ok_or(Unusable::Unreadable)?;
            if !self.contains(address) {
                return Ok(address);
            }
            leftmost = Ok(address);
        }
        leftmost
    }
}

/// Reads a network, or an address as the network of that address alone.
fn network(text: &str) -> Result<IpNet, InvalidSetting> {
    let parsed = text.parse::<IpNet>();
    let Ok(network) = parsed.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) else {
        return Err(InvalidSetting::new(
            "",
            format!("\"{text}\" is not a valid network"),
            "write one such as 10.0.0.0/8 or 2001:db8::/32, an address, or `unix`",
        ));
    };
    if network != network.trunc() {
        return Err(InvalidSetting::new(
            "",
            format!("{text} has bits behind its prefix"),
            format!("write {}, or {} alone", network.trunc(), network.addr()),
        ));
    }
    let network = unmap(network);
    if network.prefix_len() == 0 {
        return Err(InvalidSetting::new(
            "",
            format!("{text} trusts every client to name its own address"),
            "write the networks of your proxies, or `trusted_hops` instead",
        ));
    }
    Ok(network)
}

/// An IPv4 network that is written as an IPv6 one, because addresses are compared unmapped.
fn unmap(network: IpNet) -> IpNet {
    match (network.addr().to_canonical(), network.prefix_len()) {
        (IpAddr::V4(address), bits @ 96..) if network.addr().is_ipv6() => {
            IpNet::new_assert(IpAddr::V4(address), bits - 96)
        }
        _ => network,
    }
}
