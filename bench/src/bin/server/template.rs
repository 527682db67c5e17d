//! A request as bytes, and where in it the key is.

/// Where the number of a key is written: as long as the largest one.
const MARK: &[u8] = b"~~~~~~~";
/// [`MARK`] as text, for requests that are written as such.
pub(crate) const KEY: &str = "~~~~~~~";

/// The bytes of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    keys: Vec<usize>,
}

// === impl Template ===

impl Template {
    /// A request in which [`KEY`] stands for the number of a key.
    pub(crate) fn new(bytes: Vec<u8>) -> Template {
        let windows = bytes.windows(MARK.len()).enumerate();
        let marks = windows.filter(|(_, window)| *window == MARK);
        Template {
            keys: marks.map(|(at, _)| at).collect(),
            bytes,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for this key.
    pub(crate) fn write(&self, key: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let mut digits = [b'0'; MARK.len()];
        let mut rest = key;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        for at in &self.keys {
            out[start + at..start + at + MARK.len()].copy_from_slice(&digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_becomes_the_key() {
        let template = Template::new(format!("GET a{KEY} b{KEY}").into_bytes());
        let mut out = b"x".to_vec();
        template.write(1_203, &mut out);
        assert_eq!(out, b"xGET a0001203 b0001203");
    }
}
