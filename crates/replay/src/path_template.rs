//! Templates of paths with identifiers: `/users/{id}/orders/{id}` for `/users/123/orders/9`.

/// What stands for an identifier.
const IDENTIFIER: &str = "{id}";
/// The most segments of a path that has a template.
const SEGMENTS_MAX: usize = 16;
/// The longest template, in bytes.
const TEMPLATE_BYTES_MAX: usize = 200;
/// The fewest digits of an identifier that has other characters too, and of which they are at least
/// half: `0001209784-17-000052`, `2015-05-17`.
const DIGITS_MIN: usize = 8;
/// The shortest hexadecimal number with letters that is an identifier.
const HEX_BYTES_MIN: usize = 8;
/// The shortest random text that is an identifier.
const RANDOM_BYTES_MIN: usize = 16;

/// The template of a path without its query, if a segment behind the first one is an identifier and
/// the others are plain: letters, digits and `-_.~+`.
///
/// A template that began with an identifier would match nearly every path.
pub(crate) fn template_of(path: &str) -> Option<String> {
    let mut template = String::new();
    let (mut segments, mut identifiers) = (0, 0);
    for segment in path.strip_prefix('/')?.split('/') {
        segments += 1;
        if segments > SEGMENTS_MAX || segment.is_empty() || !segment.bytes().all(is_plain) {
            return None;
        }
        template.push('/');
        if is_identifier(segment) {
            identifiers += 1;
            template.push_str(IDENTIFIER);
        } else {
            template.push_str(segment);
        }
        if template.len() > TEMPLATE_BYTES_MAX || (segments == 1 && identifiers == 1) {
            return None;
        }
    }
    (identifiers > 0).then_some(template)
}

/// Whether a byte needs no escape in a path, and has no meaning in a template or a rules file.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~+".contains(&byte)
}

/// Whether a segment names one of many: a number, a UUID, a long hexadecimal number, mostly digits,
/// or long random text.
fn is_identifier(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_hex = bytes.iter().all(u8::is_ascii_hexdigit);
    (digits > 0 && digits == bytes.len())
        || is_uuid(bytes)
        || (is_hex && digits > 0 && bytes.len() >= HEX_BYTES_MIN)
        || (digits >= DIGITS_MIN && digits * 2 >= bytes.len())
        || (bytes.len() >= RANDOM_BYTES_MIN && is_random(bytes))
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn is_uuid(bytes: &[u8]) -> bool {
    let groups = bytes.split(|byte| *byte == b'-');
    let lengths = groups.clone().map(<[u8]>::len);
    lengths.eq([8, 4, 4, 4, 12]) && groups.flatten().all(u8::is_ascii_hexdigit)
}

/// Whether the text changes between small letters, capitals and digits at every fourth character or
/// more often, as no words do.
fn is_random(bytes: &[u8]) -> bool {
    let class = |byte: &u8| match byte {
        b'0'..=b'9' => Some(0),
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        _ => None,
    };
    let has_digit = bytes.iter().any(u8::is_ascii_digit);
    let is_text = bytes
        .iter()
        .all(|byte| class(byte).is_some() || b"-_".contains(byte));
    let classes: Vec<_> = bytes.iter().filter_map(class).collect();
    let changes = classes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    has_digit && is_text && changes * 4 >= bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_uuids_hexadecimal_and_random_segments_are_identifiers() {
        for (path, expected) in [
            ("/users/123/orders/9", "/users/{id}/orders/{id}"),
            ("/v1/items/0", "/v1/items/{id}"),
            ("/f/6fa459ea-ee8a-3ca4-894e-db77e160355e", "/f/{id}"),
            ("/f/6FA459EA-EE8A-3CA4-894E-DB77E160355E/x", "/f/{id}/x"),
            ("/commit/9f0c525", "/commit/9f0c525"),
            ("/commit/9f0c5251", "/commit/{id}"),
            ("/o/507f1f77bcf86cd799439011", "/o/{id}"),
            ("/ulid/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/ulid/{id}"),
            ("/c/cus_9s6XKzkNRiz8i3", "/c/{id}"),
            ("/d/320193/0001209784-17-000052-index.htm", "/d/{id}/{id}"),
            ("/day/2015-05-17", "/day/{id}"),
        ] {
            let template = template_of(path);
            let template = template.as_deref().unwrap_or(path);
            assert_eq!(template, expected, "{path}");
        }
    }

    #[test]
    fn words_versions_and_files_are_none() {
        for path in [
            "/",
            "",
            "users/1",
            "/123",
            "/123/a",
            "/v2/users",
            "/deadbeef/deadbeef",
            "/blog/logstash-monitorama-2013",
            "/blog/installing-fedora-linux-via-pxe-x86-64",
            "/js/modernizr-2.8.3.min.js",
            "/js/jquery-1.7.2.min.js",
            "/img/jordan-80.png",
            "/Documentation/GettingStartedWithTheThing",
            "/a//1",
            "/a/1/",
            "/a/%31",
            "/a/{id}/1",
            "/a/*/1",
        ] {
            assert_eq!(template_of(path), None, "{path}");
        }
        let long = "/1".repeat(SEGMENTS_MAX);
        assert_eq!(template_of(&format!("/a{long}")), None);
        let long = "b".repeat(TEMPLATE_BYTES_MAX);
        assert_eq!(template_of(&format!("/a/{long}/1")), None);
    }
}
