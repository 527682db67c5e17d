//! Keys that are the same in every process.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::{Key, KeyHasher};

/// A key of a limiter over Redis: its parts are the same in every process, and in every version of
/// a program.
///
/// Text and bytes are one part: the bytes. A whole number, a `bool`, a `char` and an address are
/// one part: the text that `Display` writes. A tuple has the parts of its elements, `()` has none.
/// Two keys share a counter if they have the same parts, so `7_u32`, `7_u64` and `"7"` do, but
/// `("a", "bc")` and `("ab", "c")` do not.
///
/// # Example
///
/// ```
/// use tollgate::redis::{KeyParts, SharedKey};
///
/// struct Account {
///     tenant: String,
///     number: u64,
/// }
///
/// impl SharedKey for Account {
///     fn add_to(&self, parts: &mut KeyParts) {
///         parts.add(&self.tenant).add_text(self.number);
///     }
/// }
///
/// let account = Account { tenant: "shop".to_owned(), number: 7 };
/// assert_eq!(KeyParts::of(&account), KeyParts::of(&("shop", 7)));
/// ```
pub trait SharedKey {
    /// Adds the parts of this key.
    ///
    /// A type whose values can have different numbers of parts must add one that says which, or two
    /// of them can be the same key.
    fn add_to(&self, parts: &mut KeyParts);
}

/// The parts of a [`SharedKey`]. The boundaries between them count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyParts {
    bytes: Vec<u8>,
    /// Where each part ends in `bytes`.
    ends: Vec<usize>,
}

// === impl KeyParts ===

impl KeyParts {
    /// The parts of a key.
    pub fn of<K: SharedKey + ?Sized>(key: &K) -> KeyParts {
        let mut parts = KeyParts::default();
        key.add_to(&mut parts);
        parts
    }

    /// Adds a part with these bytes.
    pub fn add(&mut self, part: impl AsRef<[u8]>) -> &mut KeyParts {
        self.bytes.extend_from_slice(part.as_ref());
        self.ends.push(self.bytes.len());
        self
    }

    /// Adds a part with the text of a value.
    pub fn add_text(&mut self, value: impl Display) -> &mut KeyParts {
        // A vector takes all that is written; an error could only be one of `Display`.
        let _written = write!(self.bytes, "{value}");
        self.ends.push(self.bytes.len());
        self
    }

    /// The key of these parts for a limiter, which `kind` and `name` identify.
    pub(super) fn key(&self, hasher: &impl KeyHasher, kind: &[u8], name: &[u8]) -> Key {
        let begins = std::iter::once(&0).chain(&self.ends);
        let parts = begins.zip(&self.ends);
        let parts = parts.map(|(begin, end)| &self.bytes[*begin..*end]);
        hasher.key([kind, name].into_iter().chain(parts))
    }
}

// === impl SharedKey ===

macro_rules! bytes {
    ($($type:ty),*) => {$(
        impl SharedKey for $type {
            fn add_to(&self, parts: &mut KeyParts) {
                parts.add(self);
            }
        }
    )*};
}

bytes!(str, String, [u8], Vec<u8>);

impl<const N: usize> SharedKey for [u8; N] {
    fn add_to(&self, parts: &mut KeyParts) {
        parts.add(self);
    }
}

#[cfg(feature = "tower")]
impl SharedKey for http::HeaderValue {
    fn add_to(&self, parts: &mut KeyParts) {
        parts.add(self);
    }
}

macro_rules! text {
    ($($type:ty),*) => {$(
        impl SharedKey for $type {
            fn add_to(&self, parts: &mut KeyParts) {
                parts.add_text(self);
            }
        }
    )*};
}

text!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char
);
text!(
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6
);

macro_rules! pointers {
    ($($type:ty),*) => {$(
        impl<K: SharedKey + ?Sized> SharedKey for $type {
            fn add_to(&self, parts: &mut KeyParts) {
                K::add_to(self, parts);
            }
        }
    )*};
}

pointers!(&K, &mut K, Box<K>, Rc<K>, Arc<K>);

impl<K: SharedKey + ToOwned + ?Sized> SharedKey for Cow<'_, K> {
    fn add_to(&self, parts: &mut KeyParts) {
        K::add_to(self, parts);
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*)),*) => {$(
        impl<$($name: SharedKey),*> SharedKey for ($($name,)*) {
            fn add_to(&self, _parts: &mut KeyParts) {
                $(self.$index.add_to(_parts);)*
            }
        }
    )*};
}

tuples!(
    (),
    (A 0),
    (A 0, B 1),
    (A 0, B 1, C 2),
    (A 0, B 1, C 2, D 3)
);

#[cfg(test)]
mod tests {
    use super::*;

    /// As a store of a fixed kind: the parts, each with its length.
    struct Plain;

    impl KeyHasher for Plain {
        fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
            let mut bits = 0_u128;
            for part in parts {
                for byte in [part.len().to_le_bytes().as_slice(), part].concat() {
                    bits = bits
                        .wrapping_mul(0x0100_0000_01B3)
                        .wrapping_add(byte.into());
                }
            }
            Key::from_bits(bits)
        }
    }

    fn key<K: SharedKey + ?Sized>(key: &K) -> Key {
        KeyParts::of(key).key(&Plain, b"kind", b"name")
    }

    #[test]
    fn equal_values_of_different_types_are_one_key() {
        let ip = Ipv4Addr::new(192, 0, 2, 7);
        assert_eq!(key(&7_u8), key(&7_i64));
        assert_eq!(key(&7_u8), key("7"));
        assert_eq!(key(&ip), key(&IpAddr::from(ip)));
        assert_eq!(key(&ip), key("192.0.2.7"));
        assert_eq!(key("ann"), key(&"ann".to_owned()));
        assert_eq!(key("ann"), key(&Arc::<str>::from("ann")));
        assert_eq!(key("ann"), key(&Cow::Borrowed("ann")));
        assert_eq!(key(&b"ann"[..]), key(b"ann"));
        assert_eq!(key(&("ann", 7)), key(&("ann".to_owned(), "7")));
        assert_eq!(key(&("ann",)), key("ann"));
    }

    #[test]
    fn boundaries_between_parts_count() {
        let keys = [
            key(&("a", "bc")),
            key(&("ab", "c")),
            key("abc"),
            key(&("abc", "")),
            key(&("", "abc")),
            key(""),
            key(&()),
            key(&b"\xff\0"[..]),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
    }

    /// What is stored in Redis depends on these bytes: a change starts all counters over.
    #[test]
    fn the_parts_stay_as_they_are() {
        let parts = KeyParts::of(&("ann", 7_u32, IpAddr::from([192, 0, 2, 7]), true));
        assert_eq!(parts.bytes, b"ann7192.0.2.7true");
        assert_eq!(parts.ends, [3, 4, 13, 17]);
    }
}
