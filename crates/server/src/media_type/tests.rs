#![allow(clippy::unwrap_used)]

use http::HeaderValue;

use super::*;

type Judge = fn(&HeaderMap) -> Result<(), Failure>;

/// What `judge` says of a request with these headers.
fn judged(judge: Judge, headers: &[(&'static str, &'static str)]) -> Result<(), StatusCode> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    judge(&map).map_err(|failure| failure.problem.status)
}

#[test]
fn json_by_any_of_its_usual_media_types_is_accepted() {
    assert!(is_json(&HeaderMap::new()).is_ok());
    for taken in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/problem+json",
        "application/x-www-form-urlencoded",
    ] {
        assert_eq!(
            judged(is_json, &[("content-type", taken)]),
            Ok(()),
            "{taken}"
        );
    }
    for rejected in ["application/xml", "application/grpc", "multipart/form-data"] {
        let expected = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let judged = judged(is_json, &[("content-type", rejected)]);
        assert_eq!(judged, expected, "{rejected}");
    }
}

#[test]
fn what_any_page_can_make_a_browser_send_is_rejected() {
    let unsupported = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for origin in [("origin", "https://elsewhere.example"), ("origin", "null")] {
        let judges: [Judge; 2] = [is_json, is_not_from_page];
        for judge in judges {
            assert_eq!(judged(judge, &[origin]), unsupported);
            for safelisted in [
                "text/plain",
                "text/plain;charset=UTF-8",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
            ] {
                let headers = [origin, ("content-type", safelisted)];
                assert_eq!(judged(judge, &headers), unsupported, "{safelisted}");
            }
            for asked_first in ["application/json", "application/json; charset=utf-8"] {
                let headers = [origin, ("content-type", asked_first)];
                assert_eq!(judged(judge, &headers), Ok(()), "{asked_first}");
            }
        }
    }
}

#[test]
fn envoys_messages_need_no_media_type_without_a_page() {
    assert_eq!(judged(is_not_from_page, &[]), Ok(()));
    let xml = [("content-type", "application/xml")];
    assert_eq!(judged(is_not_from_page, &xml), Ok(()));
}
