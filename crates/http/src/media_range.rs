//! Which media type a client prefers: the header `Accept`.

use http::HeaderMap;
use http::header::ACCEPT;

/// The most media ranges of `Accept` that are looked at.
pub const MEDIA_RANGES_MAX: usize = 32;

/// The best quality, in thousandths.
const QUALITY_MAX: u16 = 1000;
/// How closely a range fits that is the media type itself.
const BY_NAME: u8 = 3;

/// The index of the offered media type that the client prefers; of equal ones, and if it accepts
/// none, the first.
pub(crate) fn preferred_offer<'a>(
    headers: &HeaderMap,
    offers: impl Iterator<Item = &'a str>,
) -> Option<usize> {
    let accept = media_ranges(headers);
    let qualities = offers.map(|offer| quality(&accept, offer).1);
    let mut best: Option<(usize, u16)> = None;
    for (index, quality) in qualities.enumerate() {
        if best.is_none_or(|(_, other)| quality > other) {
            best = Some((index, quality));
        }
    }
    best.map(|(index, _)| index)
}

/// Whether the client accepts `name` by that name, and prefers no other media type in `others`.
/// One of equal quality is not preferred.
pub fn accepts_by_name(headers: &HeaderMap, name: &str, others: &[&str]) -> bool {
    let accept = media_ranges(headers);
    let (closeness, wanted) = quality(&accept, name);
    let is_best = |other: &&str| quality(&accept, other).1 <= wanted;
    closeness == BY_NAME && wanted > 0 && others.iter().all(is_best)
}

fn media_ranges(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(ACCEPT).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .take(MEDIA_RANGES_MAX)
        .collect()
}

/// How much the client likes a media type: how closely the closest range fits, and its quality.
fn quality(accept: &[&str], offer: &str) -> (u8, u16) {
    let (kind, _) = offer.split_once('/').unwrap_or((offer, ""));
    let mut best = (0, 0);
    for range in accept {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let closeness = match name.split_once('/') {
            Some(("*", "*")) => 1,
            Some((other, "*")) if other.eq_ignore_ascii_case(kind) => 2,
            Some(_) if name.eq_ignore_ascii_case(offer) => BY_NAME,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = weight.map_or(QUALITY_MAX, thousandths);
        best = best.max((closeness, quality));
    }
    best
}

/// `0.8` is 800. What is not a quality is 0.
fn thousandths(weight: &str) -> u16 {
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" => QUALITY_MAX,
        "0" if is_number => format!("{fraction:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_client_chooses_and_the_first_offer_is_the_default() {
        let table = [
            ("", "problem"),
            ("*/*", "problem"),
            ("text/html,application/xhtml+xml,*/*;q=0.8", "html"),
            ("text/*", "html"),
            ("text/plain;q=0.5, text/html;q=0.4", "plain"),
            ("text/html;q=0.123;level=1, */*;q=0.122", "html"),
            ("TEXT/HTML", "html"),
            ("text/html;q=0, */*;q=0.1", "problem"),
            ("application/problem+json;q=0.2, text/plain;q=0.9", "plain"),
            ("image/png", "problem"),
            ("text/html;q=7", "problem"),
            ("text/html;q=0.1234", "problem"),
            (";;;,,,//,/", "problem"),
        ];
        let offers = ["application/problem+json", "text/html", "text/plain"];
        for (accept, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let index = preferred_offer(&headers, offers.into_iter()).unwrap();
            assert!(offers[index].contains(expected), "{accept}");
        }
        assert_eq!(
            preferred_offer(&HeaderMap::new(), offers.into_iter()),
            Some(0)
        );
        let late = format!("{}text/html", "image/png,".repeat(MEDIA_RANGES_MAX));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, late.parse().unwrap());
        assert_eq!(preferred_offer(&headers, offers.into_iter()), Some(0));
    }
}
