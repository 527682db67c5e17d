//! Encodes several values as one byte string, injectively: only equal lists have equal strings.

/// Values, each with its length before it.
#[derive(Debug, Default)]
pub(crate) struct Values {
    bytes: Vec<u8>,
}

// === impl Values ===

impl Values {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds one value, made of parts.
    pub(crate) fn push<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]> + Clone) {
        let mut length: usize = parts.clone().map(<[u8]>::len).sum();
        // Seven bits per byte, the lowest first: one byte for nearly every value.
        while length >= 0x80 {
            self.bytes.push(0x80 | low_bits(length));
            length >>= 7;
        }
        self.bytes.push(low_bits(length));
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn low_bits(length: usize) -> u8 {
    u8::try_from(length & 0x7f).unwrap_or_default()
}

/// The values in a string that [`Values`] wrote.
pub(crate) fn values(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            length |= usize::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
        let (value, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_lists_stay_apart() {
        let long = vec![b'x'; 100_000];
        let lists: [&[&[u8]]; 6] = [
            &[],
            &[b""],
            &[b"", b""],
            &[b"ab", b"c"],
            &[b"a", b"bc"],
            &[&long, b"\x80\x00", &long[..128], &long[..127]],
        ];
        let mut seen = Vec::new();
        for list in lists {
            let mut written = Values::default();
            for value in list {
                let (start, end) = value.split_at(value.len() / 2);
                written.push([start, end].into_iter());
            }
            assert_eq!(values(written.as_bytes()).collect::<Vec<_>>(), list);
            assert!(!seen.contains(&written.as_bytes().to_vec()));
            seen.push(written.as_bytes().to_vec());
        }
    }
}
