//! The value of a descriptor's entry.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Deref;

use ipnet::IpNet;
use smallvec::SmallVec;

use crate::address_text::Ipv4Text;
use crate::prefix::Prefix;

/// An IPv4 address has at most 15 bytes, and most paths are short.
const INLINE_BYTES: usize = 24;

/// The value of an entry in a request: bytes of the request or of the settings, or made from them.
/// Addresses of IPv4 and paths of up to 24 bytes need no allocation.
#[derive(Clone, Debug)]
pub struct EntryValue<'a>(Bytes<'a>);

#[derive(Clone, Debug)]
enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Made(SmallVec<[u8; INLINE_BYTES]>),
}

// === impl EntryValue ===

impl EntryValue<'_> {
    /// A copy of these bytes.
    pub(crate) fn copy_of(bytes: &[u8]) -> EntryValue<'static> {
        EntryValue(Bytes::Made(SmallVec::from_slice(bytes)))
    }

    /// The network of an address, see [`Prefix::key`].
    pub(crate) fn network(prefix: &Prefix, address: IpAddr) -> EntryValue<'static> {
        match prefix.network(address) {
            IpNet::V4(network) if network.prefix_len() == network.max_prefix_len() => {
                EntryValue::copy_of(Ipv4Text::new(network.addr()).as_bytes())
            }
            _ => prefix.key(address).into_bytes().into(),
        }
    }
}

impl<'a> From<&'a [u8]> for EntryValue<'a> {
    fn from(bytes: &'a [u8]) -> EntryValue<'a> {
        EntryValue(Bytes::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for EntryValue<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        EntryValue(Bytes::Made(bytes.into()))
    }
}

impl<'a> From<Cow<'a, [u8]>> for EntryValue<'a> {
    fn from(bytes: Cow<'a, [u8]>) -> EntryValue<'a> {
        match bytes {
            Cow::Borrowed(bytes) => bytes.into(),
            Cow::Owned(bytes) => bytes.into(),
        }
    }
}

impl Deref for EntryValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Made(bytes) => bytes,
        }
    }
}

impl PartialEq for EntryValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for EntryValue<'_> {}
