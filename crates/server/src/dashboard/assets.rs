//! The files of the page, from the binary. They show nothing of the service, so they need no token.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::reply::reply;

/// Each file: its path, its media type, and its text.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    (
        "/dashboard/style.css",
        "text/css; charset=utf-8",
        include_str!("style.css"),
    ),
    (
        "/dashboard/icon.svg",
        "image/svg+xml",
        include_str!("icon.svg"),
    ),
    ("/dashboard/chart.js", SCRIPT, include_str!("chart.js")),
    ("/dashboard/tables.js", SCRIPT, include_str!("tables.js")),
    ("/dashboard/history.js", SCRIPT, include_str!("history.js")),
    ("/dashboard/page.js", SCRIPT, include_str!("page.js")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the browser may do: use the files above and this listener, and nothing else. No text that
/// comes with the data can become a script, a style or a request elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-cache"),
];

/// The routes of the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let add = |routes: Router<S>, (path, media_type, text): (&'static str, _, _)| {
        routes.route(
            path,
            get(move || std::future::ready(file(media_type, text))),
        )
    };
    FILES.into_iter().fold(Router::new(), add)
}

fn file(media_type: &'static str, text: &'static str) -> Response {
    let mut response = reply(StatusCode::OK, media_type, text);
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
