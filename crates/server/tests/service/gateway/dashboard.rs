//! The dashboard of a service with a gateway, in a browser.

use std::fs;

use tempfile::TempDir;
use tollgate_testbed::Redis;

use crate::browser::Browser;
use crate::http_client::Client;

use super::upstream::Echo;
use super::{gateway, gateway_with, section};
use crate::over_redis::at;
use crate::page::{pass_second, seconds, take_picture};

/// What a minute of requests exceeds.
const BUSY: &str = "domain: api\ndescriptors: [{key: remote_address, rate_limit: \
    {window: 10s, requests_per_unit: 200, algorithm: sliding_log}}]\n";

/// A user, who may be on a list.
const IDENTITY: &str = "identity: {descriptors: [{entries: [{key: remote_address, from: \
    client_address}]}, {entries: [{key: user, from: {header: x-user}, if_missing: skip}]}]}";

#[tokio::test]
async fn the_page_shows_the_requests_of_routes_and_the_times_of_upstreams() {
    let (echo, directory) = (Echo::start().await, TempDir::new().unwrap());
    let deny = directory.path().join("deny");
    fs::write(&deny, "user=mal\n").unwrap();
    let lists = format!("lists: {{deny: ['{}']}}", deny.display());
    let house = gateway(echo.address, &format!("{IDENTITY}, {lists}")).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("http://{}/", house.admin())).await;
    let ready = "!document.querySelector('#gateway').hidden";
    browser.wait_for(ready).await;
    let mut client = Client::to(house.gateway()).await;
    for status in [200, 200, 429] {
        assert_eq!(client.get("/").await.status, status);
    }
    client
        .send(b"GET / HTTP/1.1\r\nhost: h\r\nx-user: mal\r\n\r\n")
        .await;
    assert_eq!(client.reply().await.unwrap().status, 403);
    let row = |table: &str, cells: &str| {
        format!(
            "[...document.querySelectorAll('#{table} tbody tr')].some((row) => {{
                const cells = [...row.cells].map((cell) => cell.textContent);
                return {cells};
            }})"
        )
    };
    // Route, rate, forwarded, denied by the limit or the list, canceled, failed.
    let routes = "cells.slice(2).join() === '2,2,0,0'";
    browser.wait_for(&row("routes", routes)).await;
    // Upstream, rate, p50, p99, answers, not answered.
    let upstreams = "cells[0] === 'api' && cells[3].startsWith('≤ ') && cells[4] === '2' \
        && cells[5] === '0'";
    browser.wait_for(&row("upstreams", upstreams)).await;
}

#[tokio::test]
async fn routes_upstreams_and_stores_fit_a_window_and_a_phone() {
    let (echo, redis) = (Echo::start().await, Redis::start());
    let identity = "identity: {descriptors: [{entries: [{key: remote_address, from: \
        client_address}]}]}";
    let house = gateway_with(BUSY, section(echo.address, identity), |config| {
        config.store = at(&redis);
    })
    .await;
    let mut browser = Browser::start().await;
    browser.show_as(1000, 820, "light").await;
    browser.open(&format!("http://{}/", house.admin())).await;
    let mut client = Client::to(house.gateway()).await;
    for second in 0..seconds() {
        for number in 0..(20 + second % 7) {
            let status = if number == 3 { "503" } else { "200" };
            client.get(&format!("/?status={status}")).await;
        }
        pass_second(&house, &mut browser).await;
    }
    let effect = "[...document.querySelectorAll('#reloads td')].some((cell) => \
        cell.textContent === 'in effect: 1 rule in 1 domain')";
    assert_eq!(browser.evaluate(effect).await, true);
    for (width, height, scheme, name) in [
        (1000, 820, "light", "dashboard-gateway"),
        (360, 780, "dark", "dashboard-gateway-phone"),
    ] {
        browser.show_as(width, height, scheme).await;
        let wide = browser
            .evaluate("document.documentElement.scrollWidth")
            .await;
        assert_eq!(wide, width);
        browser
            .evaluate("document.querySelector('#gateway').scrollIntoView()")
            .await;
        take_picture(&mut browser, name).await;
        // Each table of the gateway is as high as its rows, and no name of a row is broken.
        let heights = "['upstreams', 'routes'].every((id) => document.querySelector(`#${id}`) \
            .clientHeight < 90)";
        assert_eq!(browser.evaluate(heights).await, true, "{name}");
    }
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}
