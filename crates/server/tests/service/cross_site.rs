//! Pages of other addresses, in a real browser.

use serde_json::json;

use crate::browser::Browser;
use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "domain: shop
descriptors:
  - {key: user, rate_limit: 3/hour}
";

/// What a page can make its reader's browser send, and one request that needs leave.
const ATTEMPTS: &str = r#"(async () => {
    const check = '{"domain": "shop", "descriptors": [{"user": "ann"}]}';
    const envoys = '{"domain": "shop", "descriptors": \
        [{"entries": [{"key": "user", "value": "ann"}]}]}';
    const send = (path, body, headers, mode) =>
        fetch(`http://ADDRESS${path}`, {method: 'POST', mode, body, headers})
            .then((response) => response.type, () => 'failed');
    const form = {'content-type': 'application/x-www-form-urlencoded'};
    const results = [
        await send('/v1/check', check, {}, 'no-cors'),
        await send('/v1/check', new Blob([check]), {}, 'no-cors'),
        await send('/v1/check', check, form, 'no-cors'),
        await send('/json', envoys, {}, 'no-cors'),
        await send('/v1/check', check, {'content-type': 'application/json'}, 'cors'),
    ];
    navigator.sendBeacon('http://ADDRESS/v1/check', check);
    return results.join(' ');
})()"#;

#[tokio::test]
async fn a_page_of_another_address_consumes_nothing() {
    let house = House::on(RULES).await;
    let mut browser = Browser::start().await;
    // Another port is another origin.
    browser
        .open(&format!("http://{}/healthz", house.admin()))
        .await;
    let attempts = ATTEMPTS.replace("ADDRESS", &house.http().to_string());
    let results = browser.evaluate(&attempts).await;
    assert_eq!(results, "opaque opaque opaque opaque failed");

    let mut client = Client::to(house.http()).await;
    let peek = json!({"domain": "shop", "descriptors": [{"user": "ann"}], "peek": true});
    let reply = client.post("/v1/check", &peek.to_string()).await;
    assert!(reply.body.contains("\"remaining\":3"), "{reply:?}");
}

#[tokio::test]
async fn a_page_learns_what_to_send_instead() {
    let house = House::on(RULES).await;
    let body = json!({"domain": "shop", "descriptors": [{"user": "ann"}]}).to_string();
    for path in ["/v1/check", "/v1/settle", "/json"] {
        let mut client = Client::to(house.http()).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\norigin: http://elsewhere.example\r\n\
             content-type: text/plain\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.send((head + &body).as_bytes()).await;
        let detail = client.reply().await.unwrap().problem(415);
        assert!(detail.contains("`origin`"), "{path}: {detail}");
    }
}
