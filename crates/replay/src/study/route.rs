//! The route of a path: its first segment.

/// Requests whose paths are equal, if they have one segment, or begin with the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Route(String);

// === impl Route ===

impl Route {
    /// `None` for a path that is not named in a rules file: one that is empty, or whose first
    /// segment has characters such as stars and escapes.
    pub(super) fn of(path: &[u8]) -> Option<Route> {
        let rest = path.strip_prefix(b"/")?;
        let end = rest.iter().position(|byte| *byte == b'/');
        let segment = &rest[..end.unwrap_or(rest.len())];
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~+".contains(byte);
        if !segment.iter().all(is_plain) || (end.is_some() && segment.is_empty()) {
            return None;
        }
        let segment = std::str::from_utf8(segment).ok()?;
        Some(Route(match end {
            Some(_) => format!("/{segment}/*"),
            None => format!("/{segment}"),
        }))
    }

    /// The value in a rules file that matches its paths.
    pub(super) fn pattern(&self) -> String {
        self.0.clone()
    }
}
