//! Paths without dot segments, for a server that is sent what was matched.

/// The path of a target without its segments `.` and `..`, whose dots may be written `%2e` (RFC
/// 3986, section 5.2.4); all other bytes stay what they are. `None` if it has no such segment.
///
/// A path has the same normal form before and after, whatever [`PathSettings`] say, unless it has
/// none before.
///
/// [`PathSettings`]: crate::PathSettings
pub fn remove_dot_segments(path: &str) -> Option<String> {
    let segments = path.strip_prefix('/')?.split('/');
    // Nearly all have none.
    if !segments.clone().any(|segment| count_dots(segment) > 0) {
        return None;
    }
    let mut kept = Vec::new();
    let mut ends_with_slash = false;
    for segment in segments {
        let dots = count_dots(segment);
        ends_with_slash = dots > 0;
        match dots {
            0 => kept.push(segment),
            1 => {}
            _ => drop(kept.pop()),
        }
    }
    if ends_with_slash {
        kept.push("");
    }
    Some(format!("/{}", kept.join("/")))
}

/// 1 for the segment `.`, 2 for `..`, 0 for any other.
fn count_dots(segment: &str) -> usize {
    let mut rest = segment;
    let mut dots = 0;
    while !rest.is_empty() {
        let escaped = rest.get(..3).filter(|dot| dot.eq_ignore_ascii_case("%2e"));
        let is_dot = rest.starts_with('.') || escaped.is_some();
        if !is_dot || dots == 2 {
            return 0;
        }
        dots += 1;
        rest = &rest[escaped.map_or(1, str::len)..];
    }
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_removed_and_all_else_stays() {
        let table = [
            ("/ai/../x", "/x"),
            ("/ai/%2e%2e/x", "/x"),
            ("/ai/.%2E/x", "/x"),
            ("/a/./b/%2e/c", "/a/b/c"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a/b/c/./../../g", "/a/g"),
            ("/A;x=1/%41/%2f//b/../c", "/A;x=1/%41/%2f//c"),
        ];
        for (path, expected) in table {
            assert_eq!(
                remove_dot_segments(path).as_deref(),
                Some(expected),
                "{path}"
            );
        }
        for path in [
            "/",
            "*",
            "",
            "/a.b/.c/d./...",
            "/a/..;/b",
            "/%2e%2e%2e",
            "/%252e/a",
            "//a/",
        ] {
            assert_eq!(remove_dot_segments(path), None, "{path}");
        }
    }
}
