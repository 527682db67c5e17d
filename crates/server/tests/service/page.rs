//! The dashboard in a real browser, with traffic.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_core::Span;
use tollgate_server::Config;
use tollgate_testbed::Redis;

use crate::browser::Browser;
use crate::house::{House, demand_token, replace};
use crate::http_client::Client;
use crate::over_redis::at;

const RULES: &str = "domain: shop
descriptors:
  - {key: user, rate_limit: 3/hour}
  - {key: remote_address, rate_limit: {window: 10s, requests_per_unit: 40, algorithm: sliding_log}}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, rate_limit: {name: login, unit: minute, requests_per_unit: 5}}
";
const HOSTILE: &str = "<script>document.title='owned'</script><img src=x onerror=alert(1)>";
const TOKEN: &str = "0123456789abcdef";
/// Where the pictures of the documents are written, if it is set.
const PICTURES: &str = "TOLLGATE_PICTURES";
/// The largest picture: they are part of every clone.
const PICTURE_BYTES_MAX: usize = 150_000;
/// The seconds of traffic before a picture, so that the charts show some.
const PICTURE_SECONDS: u32 = 45;

/// A page of this service, and the service.
async fn open(change: impl FnOnce(&mut Config)) -> (House, Browser) {
    let house = House::with(RULES, change).await;
    let mut browser = Browser::start().await;
    browser.show_as(1200, 1400, "light").await;
    browser.open(&format!("http://{}/", house.admin())).await;
    (house, browser)
}

async fn check(client: &mut Client, descriptor: Value) -> u16 {
    let body = json!({"domain": "shop", "descriptors": [descriptor]});
    client.post("/v1/check", &body.to_string()).await.status
}

/// The text of the elements that match.
async fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let selector = json!(selector);
    let list = format!("[...document.querySelectorAll({selector})].map((one) => one.textContent)");
    serde_json::from_value(browser.evaluate(&list).await).unwrap()
}

#[tokio::test]
async fn the_page_shows_what_the_service_counts_and_hostile_keys_as_text() {
    let (house, mut browser) = open(|config| config.explain.show_values = true).await;
    browser
        .wait_for("document.querySelector('#state').textContent.startsWith('live')")
        .await;
    let mut client = Client::to(house.http()).await;
    for user in ["alice", HOSTILE, HOSTILE] {
        for _ in 0..10 {
            check(&mut client, json!({"user": user})).await;
        }
    }
    check(&mut client, json!({"unknown": "x"})).await;
    browser
        .wait_for("document.querySelector('#denied-note').textContent.startsWith('24 ')")
        .await;
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for (outcome, count) in [("allowed", "6"), ("denied", "24")] {
        let series = format!("rule=\"user\",outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&series), "{metrics}");
        let shown = texts(&mut browser, "#outcomes td").await;
        let row = shown.chunks(3).find(|row| row[0] == outcome).unwrap();
        assert_eq!(row[2], count);
    }
    let denied = texts(&mut browser, "#most-denied tbody tr:first-child td").await;
    assert_eq!(
        denied[..3],
        [
            format!("user={HOSTILE}"),
            "shop: user".to_owned(),
            "17".to_owned()
        ]
    );
    let rules = texts(&mut browser, "#rules tbody tr:first-child td").await;
    assert_eq!(rules[0], "shop: user");
    assert_eq!([rules[4].trim(), rules[5].trim()], ["24 of 30", "100 %"]);

    explain_by_keyboard(&mut browser).await;
    replace(
        &house.path("rules.yaml"),
        &format!("domain: shop\n'{HOSTILE}': 1\n"),
    );
    house.running.reload().await;
    browser
        .wait_for("document.querySelector('#reloads .bad') !== null")
        .await;
    let reloads = texts(&mut browser, "#reloads .bad").await.concat();
    assert!(
        reloads.contains("failed") && reloads.contains("rules.yaml:2:"),
        "{reloads}"
    );

    assert_eq!(browser.evaluate("document.title").await, "Tollgate");
    assert_eq!(
        browser
            .evaluate("document.querySelectorAll('main script, main img').length")
            .await,
        0
    );
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

/// Explains the most denied key, as without a mouse.
async fn explain_by_keyboard(browser: &mut Browser) {
    browser
        .evaluate("document.querySelector('#most-denied button').focus()")
        .await;
    let enter = json!({"type": "keyDown", "key": "Enter", "code": "Enter", "text": "\r"});
    browser.call("Input.dispatchKeyEvent", enter).await;
    browser
        .wait_for("document.querySelector('#explanation').textContent.includes('shop')")
        .await;
    let explanation = texts(browser, "#explanation").await.concat();
    assert!(
        explanation.contains("would be denied now, by user"),
        "{explanation}"
    );
    assert!(explanation.contains(HOSTILE), "{explanation}");
}

#[tokio::test]
async fn the_page_shows_the_circuit_breaker_of_a_store_and_why_it_is_open() {
    let redis = Redis::start();
    let (_house, mut browser) = open(|config| config.store = at(&redis)).await;
    let state = |state: &str| {
        format!(
            "[...document.querySelectorAll('#stores tr')].some((row) =>
                row.textContent === 'circuit breaker{state}')"
        )
    };
    browser.wait_for(&state("closed")).await;
    assert!(texts(&mut browser, "#stores .trouble").await.is_empty());
    redis.kill();
    browser.wait_for(&state("open")).await;
    let trouble = "document.querySelector('#stores .trouble') !== null";
    browser.wait_for(trouble).await;
    let trouble = texts(&mut browser, "#stores .trouble").await.concat();
    assert!(trouble.starts_with(&redis.address()), "{trouble}");
    redis.restart();
    browser.wait_for(&state("closed")).await;
}

#[tokio::test]
async fn a_page_does_not_grow() {
    let (_house, mut browser) = open(|_| ()).await;
    browser
        .wait_for("document.querySelector('#rules table') !== null")
        .await;
    // Ten minutes of snapshots, and then a restart of the service.
    let found = browser
        .evaluate(
            "(async () => {
                const { History, SECONDS } = await import('/dashboard/history.js');
                const { Chart } = await import('/dashboard/chart.js');
                const history = new History();
                const parent = document.createElement('div');
                const chart = new Chart(parent, ['allowed', 'denied', 'other'], String);
                const sizes = [];
                for (let second = 1; second <= 601; second += 1) {
                    const outcomes = { allowed: 7 * second, denied: 3 * second };
                    const uptimeMillis = second > 600 ? 1 : 1000 * second;
                    history.push({ uptimeMillis, outcomes, rules: [],
                        latency: { http: [[0.001, 9 * second], [0.002, 10 * second]] } });
                    chart.draw(history.chart('rates'), SECONDS);
                    const drawn = parent.querySelector('path').getAttribute('d').length;
                    sizes.push([history.points.length, history.snapshots.length,
                        parent.querySelectorAll('*').length, drawn, history.rates(),
                        history.percentiles([0.5, 0.99])]);
                }
                return [300, 450, 599, 600].map((index) => sizes[index]);
            })()",
        )
        .await;
    for index in [0, 1, 2] {
        let [points, snapshots, elements, drawn, rates, times] =
            [0, 1, 2, 3, 4, 5].map(|at| found[index][at].clone());
        assert_eq!((points, snapshots), (json!(300), json!(11)));
        assert_eq!(elements, found[0][2]);
        assert!(drawn.as_u64().unwrap() < 300 * 16, "{drawn}");
        assert_eq!((rates, times), (json!([7, 3, 0]), json!([0.001, 0.002])));
    }
    assert_eq!(
        found[3],
        json!([
            1,
            1,
            found[0][2],
            found[3][3],
            [null, null, null],
            [null, null]
        ])
    );
}

/// As `tollgate top`, whose tests have the same snapshots.
#[tokio::test]
async fn the_page_counts_denials_rates_and_restarts_as_top_does() {
    let (_house, mut browser) = open(|_| ()).await;
    let found = browser
        .evaluate(
            "(async () => {
                const { History } = await import('/dashboard/history.js');
                const after = (change) => {
                    const history = new History();
                    for (const second of [100, 101]) {
                        const one = { uptimeMillis: 1000 * second, outcomes: {}, rules: [],
                            latency: { http: [[0.001, second]] } };
                        history.push({ ...one, ...change(second) });
                    }
                    return history;
                };
                const unavailable = after((second) =>
                    ({ outcomes: { store_unavailable: 40 * second } }));
                const newcomer = (most) => after((second) => {
                    const names = Array.from({ length: most }, (_, number) => `n${number}`);
                    if (second === 101) names[0] = 'late';
                    return {
                        rules: names.map((rule) => ({ domain: 'd', rule, counts: { denied: 7 } })),
                        gateway: {
                            routes: names.map((route) => ({ route, counts: { denied: 7 } })),
                            upstreams: names.map((upstream) =>
                                ({ upstream, answers: 7, times: [[0.004, 7]] })),
                        },
                    };
                });
                const gateway = (history) => [history.routeRate('late'),
                    history.upstreamRate('late'), history.upstreamTimes('late', [0.5])[0]];
                const restarted = after((second) =>
                    ({ latency: { http: [[0.001, second === 100 ? 9 : 8]] } }));
                const reloaded = after((second) =>
                    ({ outcomes: { allowed: second === 100 ? 9 : 8 } }));
                return [unavailable.rates(), restarted.points.length, reloaded.points.length,
                    [99, 100].map((most) => newcomer(most).ruleRate('d', 'late', ['denied'])),
                    [49, 50].map((most) => gateway(newcomer(most)))];
            })()",
        )
        .await;
    assert_eq!(
        found,
        json!([
            [0, 40, 0],
            1,
            2,
            [7, null],
            [[7, 7, 0.004], [null, null, null]]
        ]),
        "{:?}",
        browser.errors
    );
}

#[tokio::test]
async fn the_page_asks_for_a_token_and_hides_values() {
    let (house, mut browser) = open(|config| {
        demand_token(config, TOKEN);
    })
    .await;
    browser
        .wait_for("!document.querySelector('#sign-in').hidden")
        .await;
    for (token, state) in [
        ("wrong-wrong-wrong", "this token is not accepted"),
        (TOKEN, "live"),
    ] {
        let token = json!(token);
        let enter = format!(
            "document.querySelector('#token').value = {token}; \
             document.querySelector('#sign-in button').click()"
        );
        browser.evaluate(&enter).await;
        let state = json!(state);
        let is_shown = format!("document.querySelector('#state').textContent.startsWith({state})");
        browser.wait_for(&is_shown).await;
    }
    assert_eq!(
        browser
            .evaluate("document.querySelector('#sign-in').hidden")
            .await,
        true
    );
    let mut client = Client::to(house.http()).await;
    for _ in 0..4 {
        check(&mut client, json!({"user": "hunter2"})).await;
    }
    browser
        .wait_for("document.querySelector('#most-denied td.number') !== null")
        .await;
    let page = texts(&mut browser, "body").await.concat();
    assert!(
        page.contains("user=#") && page.contains("explain.show_values is off"),
        "{page}"
    );
    assert!(!page.contains("hunter2") && !page.contains(TOKEN), "{page}");
    let kept = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])";
    assert_eq!(browser.evaluate(kept).await, "[{},{},\"\"]");
}

#[tokio::test]
async fn nothing_is_wider_than_a_phone_and_nothing_moves() {
    let (house, mut browser) = open(|config| config.explain.show_values = true).await;
    browser.show_as(360, 780, "dark").await;
    browser
        .evaluate(
            "window.shifts = 0; new PerformanceObserver((list) => { for (const one of \
             list.getEntries()) window.shifts += one.value; }).observe({ type: 'layout-shift', \
             buffered: false })",
        )
        .await;
    send_traffic(&house, &mut browser, seconds()).await;
    let wide = "document.documentElement.scrollWidth";
    assert_eq!(browser.evaluate(wide).await, 360);
    let shifts = browser.evaluate("window.shifts").await.as_f64().unwrap();
    assert!(shifts < 0.01, "{shifts}");
    browser.evaluate("scrollTo(0, 0)").await;
    take_picture(&mut browser, "dashboard-phone").await;
    browser
        .evaluate("document.querySelector('#most-denied button').click()")
        .await;
    browser
        .wait_for("document.querySelector('#explanation').textContent.includes('shop')")
        .await;
    for (scheme, background) in [("dark", "rgb(18, 21, 27)"), ("light", "rgb(244, 245, 247)")] {
        browser.show_as(1000, 820, scheme).await;
        let found = "getComputedStyle(document.body).backgroundColor";
        assert_eq!(browser.evaluate(found).await, background);
        browser.evaluate("scrollTo(0, 0)").await;
        take_picture(&mut browser, &format!("dashboard-{scheme}")).await;
    }
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

/// How many seconds of traffic a page shows.
pub(crate) fn seconds() -> u32 {
    match std::env::var_os(PICTURES) {
        Some(_) => PICTURE_SECONDS,
        None => 3,
    }
}

/// Traffic of some clients until the page has had so many snapshots.
async fn send_traffic(house: &House, browser: &mut Browser, seconds: u32) {
    let mut client = Client::to(house.http()).await;
    let users = ["alice", "bob", "alice", "carol", "alice", "<b>dave</b>"];
    for second in 0..seconds {
        for number in 0..(20 + second % 7) {
            let user = users[usize::try_from(number).unwrap() % users.len()];
            check(&mut client, json!({"user": user})).await;
            let address = format!("203.0.113.{}", number % 5);
            check(&mut client, json!({"remote_address": address})).await;
            let login = json!({"path": "/login", "remote_address": "198.51.100.7"});
            check(&mut client, login).await;
        }
        pass_second(house, browser).await;
    }
}

/// A second later by the service's clock, which stands still without this, and one snapshot later
/// on the page.
pub(crate) async fn pass_second(house: &House, browser: &mut Browser) {
    house.clock.advance(Span::SECOND);
    let seen = browser
        .evaluate("document.querySelector('#hot-note').textContent")
        .await;
    let changed = format!("document.querySelector('#hot-note').textContent !== {seen}");
    browser.wait_for(&changed).await;
}

/// Takes a picture of the window, and writes it for the documents if that is wanted.
pub(crate) async fn take_picture(browser: &mut Browser, name: &str) {
    let picture = STANDARD.decode(browser.picture().await).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    assert!(picture.len() < PICTURE_BYTES_MAX, "{}", picture.len());
    if let Some(directory) = std::env::var_os(PICTURES) {
        let path = std::path::Path::new(&directory).join(format!("{name}.png"));
        fs::write(path, picture).unwrap();
    }
}
