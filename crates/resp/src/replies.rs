//! Replies, in the version of the protocol that the client has chosen.

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// What every client speaks until it asks for another one.
    #[default]
    Two,
    /// With maps, sets, texts and a null of its own.
    Three,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Replies<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

// === impl Replies ===

impl<'o> Replies<'o> {
    /// Replies of this version, behind what `out` contains.
    pub const fn new(out: &'o mut Vec<u8>, version: Version) -> Replies<'o> {
        Replies { out, version }
    }

    /// A short text, such as `OK`. Line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: a word in capitals, such as `ERR`, and a text. Line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// An array of numbers.
    #[inline]
    pub fn integers(&mut self, numbers: &[i64]) {
        self.array(numbers.len());
        for number in numbers {
            self.integer(*number);
        }
    }

    /// Bytes of any kind.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A text for people: in version 2, bytes of any kind.
    pub fn text(&mut self, text: &str) {
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            Version::Three => {
                const FORMAT: &[u8] = b"txt:";
                self.header(b'=', FORMAT.len() + text.len());
                self.out.extend_from_slice(FORMAT);
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// Begins an array of so many replies.
    #[inline]
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length);
    }

    /// Begins a map of so many pairs of replies: in version 2, an array of twice as many.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.header(b'*', pairs * 2),
            Version::Three => self.header(b'%', pairs),
        }
    }

    /// Begins a set of so many replies: in version 2, an array.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Two => self.header(b'*', length),
            Version::Three => self.header(b'~', length),
        }
    }

    #[inline]
    fn header(&mut self, mark: u8, length: usize) {
        self.number(mark, i64::try_from(length).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, mark: u8, number: i64) {
        if let Ok(digit @ 0..=9) = u8::try_from(number) {
            self.out
                .extend_from_slice(&[mark, b'0' + digit, b'\r', b'\n']);
            return;
        }
        let mut digits = itoa::Buffer::new();
        self.out.push(mark);
        self.out.extend_from_slice(digits.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, mark: u8, text: &str) {
        self.out.push(mark);
        let bytes = text.bytes().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            byte => byte,
        });
        self.out.extend(bytes);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl FnOnce(&mut Replies<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Replies::new(&mut out, version));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn replies_have_the_form_of_their_version() {
        let all = |replies: &mut Replies<'_>| {
            replies.simple("OK");
            replies.error("ERR two\r\nlines");
            replies.integers(&[0, 10, -1, i64::MIN, i64::MAX]);
            replies.bulk(b"\r\n");
            replies.null();
            replies.text("a\r\n");
            replies.text("");
            replies.map(1);
            replies.bulk(b"");
            replies.array(0);
        };
        let same = "+OK\r\n-ERR two  lines\r\n*5\r\n:0\r\n:10\r\n:-1\r\n:-9223372036854775808\r\n\
                    :9223372036854775807\r\n$2\r\n\r\n\r\n";
        let (two, three) = (
            "$-1\r\n$3\r\na\r\n\r\n$0\r\n\r\n*2\r\n$0\r\n\r\n*0\r\n",
            "_\r\n=7\r\ntxt:a\r\n\r\n=4\r\ntxt:\r\n%1\r\n$0\r\n\r\n*0\r\n",
        );
        assert_eq!(written(Version::Two, all), format!("{same}{two}"));
        assert_eq!(written(Version::Three, all), format!("{same}{three}"));
    }
}
