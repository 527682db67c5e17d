//! The dashboard of a service with a gateway, in a browser.

use crate::browser::Browser;
use crate::http_client::Client;

use super::gateway;
use super::upstream::Echo;

#[tokio::test]
async fn the_page_shows_the_requests_of_routes_and_the_times_of_upstreams() {
    let echo = Echo::start().await;
    let house = gateway(echo.address, "").await;
    let mut browser = Browser::start().await;
    browser.open(&format!("http://{}/", house.admin())).await;
    let ready = "!document.querySelector('#gateway').hidden";
    browser.wait_for(ready).await;
    let mut client = Client::to(house.gateway()).await;
    for status in [200, 200, 429] {
        assert_eq!(client.get("/").await.status, status);
    }
    let row = |table: &str, cells: &str| {
        format!(
            "[...document.querySelectorAll('#{table} tbody tr')].some((row) => {{
                const cells = [...row.cells].map((cell) => cell.textContent);
                return {cells};
            }})"
        )
    };
    // Route, rate, forwarded, denied, canceled, failed.
    let routes = "cells.slice(2).join() === '2,1,0,0'";
    browser.wait_for(&row("routes", routes)).await;
    // Upstream, rate, p50, p99, answers, not answered.
    let upstreams = "cells[0] === 'api' && cells[3].startsWith('≤ ') && cells[4] === '2' \
        && cells[5] === '0'";
    browser.wait_for(&row("upstreams", upstreams)).await;
}
