//! `RateLimit` and `RateLimit-Policy` of responses, as a parser of structured fields reads them.

use sfv::{BareItem, List, ListEntry, Parser};

use super::upstream::Echo;
use super::{gateway_with, section};
use crate::http_client::{Client, Reply};

/// Rules whose names have everything that a string of structured fields must escape.
const RULES: &str = r#"
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: 'a "b" \c, d;e=1', window: 90s, requests_per_unit: 1}
  - key: k
    rate_limit: {name: 'größe 100 %', unit: second, requests_per_unit: 5, algorithm: token_bucket,
      burst: 9}
"#;
const IDENTITY: &str = "identity: {descriptors: [
    {entries: [{key: remote_address, from: client_address}]},
    {entries: [{key: k, from: {constant: v}}]}]}";

/// The items of a header: each a string with integers as parameters.
fn items(reply: &Reply, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list: List = Parser::new(reply.header(name).unwrap()).parse().unwrap();
    let items = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else {
            panic!("no item: {entry:?}");
        };
        let BareItem::String(name) = item.bare_item else {
            panic!("no string: {:?}", item.bare_item);
        };
        let parameters = item.params.iter().map(|(key, value)| {
            let value = value.as_integer().unwrap();
            (key.as_str().to_owned(), i64::from(value))
        });
        (name.as_str().to_owned(), parameters.collect())
    });
    items.collect()
}

fn item(name: &str, parameters: &[(&str, i64)]) -> (String, Vec<(String, i64)>) {
    let parameters = parameters.iter();
    let parameters = parameters.map(|(key, value)| ((*key).to_owned(), *value));
    (name.to_owned(), parameters.collect())
}

#[tokio::test]
async fn headers_of_allowed_and_denied_requests_are_lists_of_structured_fields() {
    let upstream = Echo::start().await;
    let house = gateway_with(RULES, section(upstream.address, IDENTITY), |_| ()).await;
    let mut client = Client::to(house.gateway()).await;
    let (address, constant) = (r#"a "b" \c, d;e=1"#, "gr%c3%b6%c3%9fe 100 %25");
    for status in [200, 429] {
        let reply = client.get("/").await;
        assert_eq!(reply.status, status);
        let policies = [
            item(address, &[("q", 1), ("w", 90)]),
            item(constant, &[("q", 5), ("w", 1), ("tollgate-burst", 9)]),
        ];
        assert_eq!(items(&reply, "ratelimit-policy"), policies);
        let left = items(&reply, "ratelimit");
        let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [address, constant]);
        assert_eq!(left[0].1, [("r".to_owned(), 0), ("t".to_owned(), 90)]);
    }
}
