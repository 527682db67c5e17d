//! A client of HTTP/2 that does not take one of its responses.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::bounded::{END_STREAM, HEADERS, answer_frame, connect_to, frame, metric};
use crate::house::House;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const CHECK: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
/// The checks of a list: the answer is longer than 1 KiB.
const CHECKS: usize = 50;
/// Longer than the test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

const RST_STREAM: u8 = 3;
const END_HEADERS: u8 = 4;
/// POST and http, of the static table, and their path.
const HEAD: &[u8] = b"\x83\x86\x04\x09/v1/check\x01\x01h";
const JSON: &[u8] = b"\x00\x0ccontent-type\x10application/json";

/// Another request of the connection, whose body does not come, is still to be answered.
#[tokio::test]
async fn a_response_that_is_not_taken_is_reset_and_counted() {
    let house = House::with(RULES, |config| {
        config.limits.write_timeout = Duration::from_millis(200);
    })
    .await;
    let mut stream = connect_to(house.http(), 1).await;
    let head = [HEAD, JSON].concat();
    let list = format!("[{}]", [CHECK; CHECKS].join(","));
    let sent = [
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(HEADERS, END_HEADERS, 3, &head),
        frame(0, END_STREAM, 3, list.as_bytes()),
    ];
    stream.write_all(&sent.concat()).await.unwrap();
    let reset = async {
        loop {
            let head = answer_frame(&mut stream).await.expect("it stays open");
            if head[3] == RST_STREAM {
                return head;
            }
        }
    };
    let head = timeout(TIMEOUT, reset).await.expect("it is reset");
    assert_eq!(head[5..], 3_u32.to_be_bytes());
    let line = r#"tollgate_responses_reset_total{listener="http"} 1"#;
    assert!(metric(&house, line).await);
}
