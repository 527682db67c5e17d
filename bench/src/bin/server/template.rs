//! A request as bytes, and where in it the keys are.

/// Where the number of a key is written: as long as the largest one.
const MARK: &[u8] = b"~~~~~~~";
/// [`MARK`] as text, for requests that are written as such.
pub(crate) const KEY: &str = "~~~~~~~";

/// The bytes of a request.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where each key is, those of a decision together.
    keys: Vec<usize>,
    decisions: u64,
    keys_per_decision: usize,
}

// === impl Template ===

impl Template {
    /// A request for one decision, in which [`KEY`] stands for the number of a key.
    pub(crate) fn new(bytes: Vec<u8>) -> Template {
        Template::with_decisions(bytes, 1)
    }

    /// A request for so many decisions, each with as many keys as the others.
    pub(crate) fn with_decisions(bytes: Vec<u8>, decisions: u32) -> Template {
        let windows = bytes.windows(MARK.len()).enumerate();
        let marks = windows.filter(|(_, window)| *window == MARK);
        let keys: Vec<usize> = marks.map(|(at, _)| at).collect();
        let decisions_size = usize::try_from(decisions).unwrap_or(usize::MAX);
        Template {
            keys_per_decision: (keys.len() / decisions_size).max(1),
            keys,
            bytes,
            decisions: decisions.into(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many decisions it asks for.
    pub(crate) const fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Appends the request; each of its decisions is on the next key.
    pub(crate) fn write(&self, next_key: &mut dyn FnMut() -> u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for places in self.keys.chunks(self.keys_per_decision) {
            let mut digits = [b'0'; MARK.len()];
            let mut rest = next_key();
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
                rest /= 10;
            }
            for at in places {
                out[start + at..start + at + MARK.len()].copy_from_slice(&digits);
            }
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
        template.write(&mut || 1_203, &mut out);
        assert_eq!(out, b"xGET a0001203 b0001203");
    }

    #[test]
    fn every_decision_has_the_next_key() {
        let one = format!("{KEY}-{KEY};");
        let template = Template::with_decisions(one.repeat(3).into_bytes(), 3);
        let mut out = Vec::new();
        let mut key = 0;
        let mut next = || {
            key += 1;
            key
        };
        template.write(&mut next, &mut out);
        assert_eq!(out, b"0000001-0000001;0000002-0000002;0000003-0000003;");
        assert_eq!(template.decisions(), 3);
    }
}
