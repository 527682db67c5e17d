//! Requests that count only if their responses say so: failed logins.

use std::net::SocketAddr;

use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tollgate_server::Place;
use tollgate_testbed::Redis;

use super::reload::start_with;
use super::upstream::{Actor, Echo, Stage};
use super::{gateway_with, remaining, section};
use crate::eventually::eventually;
use crate::house::{House, replace};
use crate::http_client::Client;
use crate::over_redis::at;

/// Of each address ten requests an hour, and of each account and address three that fail.
const RULES: &str = "
domain: api
mode: MODE
descriptors:
  - {key: remote_address, rate_limit: 10/hour}
  - key: account
    descriptors: [{key: remote_address, rate_limit: 3/hour}]
";

const IDENTITY: &str = "identity: {descriptors: [
    {entries: [{key: remote_address, from: client_address}]},
    {entries: [{key: account, from: {query: account}, if_missing: skip},
               {key: remote_address, from: client_address}],
     count_when: {status: [401, 403, 420-429]}}]}";

const ADDRESS: &str = r#""remote_address": "127.0.0.1""#;

/// A gateway that limits failed logins.
struct Logins {
    house: House,
    counting: Counting,
}

/// Where limits are counted, and how.
enum Counting {
    Memory,
    Redis(Redis, &'static str),
}

// === impl Counting ===

impl Counting {
    /// Every one that can reserve.
    fn all() -> [Counting; 3] {
        [
            Counting::Memory,
            Counting::Redis(Redis::start(), "strict"),
            Counting::Redis(Redis::start(), "leased"),
        ]
    }

    /// A gateway with these rules in front of `upstream`.
    async fn gateway(self, upstream: SocketAddr, rules: &str) -> Logins {
        let (place, mode) = match &self {
            Counting::Memory => (Place::Memory, "strict"),
            Counting::Redis(redis, mode) => (at(redis), *mode),
        };
        let settings = section(upstream, IDENTITY);
        let rules = rules.replace("MODE", mode);
        let house = gateway_with(&rules, settings, |config| config.store = place).await;
        Logins {
            house,
            counting: self,
        }
    }
}

// === impl Logins ===

impl Logins {
    /// In front of `upstream`, with [`RULES`].
    async fn over(redis: Redis, mode: &'static str, upstream: SocketAddr) -> Logins {
        let counting = Counting::Redis(redis, mode);
        counting.gateway(upstream, RULES).await
    }

    /// The server that keeps the reservations.
    fn redis(&self) -> &Redis {
        match &self.counting {
            Counting::Redis(redis, _) => redis,
            Counting::Memory => panic!("limits are counted in memory"),
        }
    }

    /// Logs in, and returns the status.
    async fn log_in(&self, account: &str, status: u16) -> u16 {
        let path = format!("/login?account={account}&status={status}");
        let mut client = Client::to(self.house.gateway()).await;
        client.post(&path, "").await.status
    }

    /// The same from an address of this machine.
    async fn log_in_from(&self, client: &str, account: &str, status: u16) -> u16 {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::new(client.parse().unwrap(), 0))
            .unwrap();
        let stream = socket.connect(self.house.gateway()).await.unwrap();
        let path = format!("/login?account={account}&status={status}");
        Client(stream).post(&path, "").await.status
    }

    /// Sends the login of an account to an upstream that the test plays, up to its head there.
    async fn begin(&self, account: &str, stage: &Stage) -> (Client, Actor) {
        let mut client = Client::to(self.house.gateway()).await;
        let request = format!("GET /login?account={account} HTTP/1.1\r\nhost: h\r\n\r\n");
        client.send(request.as_bytes()).await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        (client, upstream)
    }

    /// The units that a descriptor with these members has left.
    async fn remaining(&self, descriptor: &str) -> u64 {
        remaining(&self.house, descriptor).await
    }

    async fn failures_left(&self, account: &str) -> u64 {
        let account = format!(r#""account": "{account}", {ADDRESS}"#);
        self.remaining(&account).await
    }

    /// Reservations that were not settled by a response, for this reason.
    async fn unsettled(&self, reason: &str) -> u64 {
        let mut client = Client::to(self.house.admin()).await;
        let metrics = client.get("/metrics").await.body;
        let name =
            format!(r#"tollgate_gateway_unsettled_total{{route="default",reason="{reason}"}} "#);
        let count = metrics.lines().find_map(|line| line.strip_prefix(&*name));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// Replaces the rules, and waits until they are loaded or rejected.
    async fn reload(&self, rules: &str) {
        replace(&self.house.path("rules.yaml"), rules);
        self.house.running.reload().await;
    }

    /// Waits until Redis keeps no reservation: what is counted is settled in the background.
    async fn wait_until_settled(&self) {
        if let Counting::Redis(redis, _) = &self.counting {
            while count_reservations(redis) > 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn count_reservations(redis: &Redis) -> usize {
    let keys = redis.ask(&["KEYS", "*"]);
    let keys = keys.split_whitespace().filter(|key| key.starts_with("tg:"));
    keys.filter(|key| redis.ask(&["GETRANGE", key, "0", "0"]) == "R")
        .count()
}

#[tokio::test]
async fn three_failed_logins_are_allowed_and_any_number_that_succeed() {
    for counting in Counting::all() {
        let upstream = Echo::start().await;
        let logins = counting.gateway(upstream.address, RULES).await;
        for (account, status, answered) in [
            ("ann", 200, 200),
            ("ann", 200, 200),
            ("ann", 401, 401),
            ("ann", 200, 200),
            ("ann", 422, 422),
            ("ann", 500, 500),
            ("ann", 403, 403),
            ("ann", 200, 429),
            ("bob", 201, 201),
        ] {
            let before = upstream.requests().len();
            assert_eq!(logins.log_in(account, status).await, answered, "{account}");
            // A client that is limited does not learn whether its password is right.
            let asked = upstream.requests().len() - before;
            assert_eq!(asked, usize::from(answered != 429));
        }
        assert_eq!(logins.failures_left("ann").await, 0);
        assert_eq!(logins.failures_left("bob").await, 3);
        // Everything that was allowed counts for the address, whatever was answered.
        assert_eq!(logins.remaining(ADDRESS).await, 2);
        assert_eq!(logins.log_in("eve", 401).await, 401);
        let mut client = Client::to(logins.house.gateway()).await;
        assert_eq!(client.get("/").await.status, 200);
        // Denied by the address: nothing is reserved of the account.
        assert_eq!(logins.log_in("bob", 401).await, 429);
        assert_eq!(logins.failures_left("bob").await, 3);
        logins.wait_until_settled().await;
    }
}

/// Otherwise, a client that knows the name of an account could lock its owner out.
#[tokio::test]
async fn failed_logins_of_another_address_lock_no_owner_out() {
    const ATTACKER: &str = "127.0.0.3";
    const OWNER: &str = "127.0.0.1";
    for counting in Counting::all() {
        let upstream = Echo::start().await;
        let logins = counting.gateway(upstream.address, RULES).await;
        for (client, account, status, answered) in [
            (ATTACKER, "ann", 401, 401),
            (ATTACKER, "ann", 401, 401),
            (ATTACKER, "ann", 401, 401),
            (ATTACKER, "ann", 401, 429),
            (OWNER, "ann", 401, 401),
            (OWNER, "ann", 200, 200),
            // Nor does a right password help the attacker, or the owner's success.
            (ATTACKER, "ann", 200, 429),
            (ATTACKER, "bob", 401, 401),
        ] {
            let status = logins.log_in_from(client, account, status).await;
            assert_eq!(status, answered, "{client} as {account}");
        }
        assert_eq!(logins.failures_left("ann").await, 2);
        logins.wait_until_settled().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_at_once_do_not_slip_through() {
    for counting in Counting::all() {
        let upstream = Echo::start().await;
        let rules = RULES.replace("10/hour", "1000/hour");
        let logins = counting.gateway(upstream.address, &rules).await;
        let address = logins.house.gateway();
        let mut clients = JoinSet::new();
        for _ in 0..60 {
            clients.spawn(async move {
                let mut client = Client::to(address).await;
                client
                    .post("/login?account=ann&status=401", "")
                    .await
                    .status
            });
        }
        let statuses = clients.join_all().await;
        let failed = statuses.iter().filter(|status| **status == 401).count();
        let denied = statuses.iter().filter(|status| **status == 429).count();
        assert_eq!((failed, denied), (3, 57));
        assert_eq!(upstream.requests().len(), 3);
        assert_eq!(logins.remaining(ADDRESS).await, 997);
    }
}

/// Otherwise, clients would hang up on responses that they expect to count.
#[tokio::test]
async fn a_client_that_goes_away_does_not_take_its_attempt_with_it() {
    for counting in Counting::all() {
        let stage = Stage::open().await;
        let logins = counting.gateway(stage.address(), RULES).await;
        for left in [2, 1, 0] {
            let (client, mut upstream) = logins.begin("ann", &stage).await;
            assert_eq!(logins.failures_left("ann").await, left);
            drop(client);
            upstream.wait_for_end().await;
        }
        assert_eq!(logins.log_in("ann", 200).await, 429);
        assert_eq!(logins.failures_left("ann").await, 0);
        // The last one is dropped after its upstream has seen the end.
        eventually(async || logins.unsettled("no_response").await >= 3).await;
        logins.wait_until_settled().await;
        assert_eq!(logins.failures_left("ann").await, 0);
    }
}

#[tokio::test]
async fn an_attempt_without_an_answer_counts_if_the_upstream_may_have_seen_it() {
    for counting in Counting::all() {
        let stage = Stage::open().await;
        let logins = counting.gateway(stage.address(), RULES).await;
        for answer in ["", "HTTP/1.1 401 Unauth"] {
            let (mut client, mut upstream) = logins.begin("ann", &stage).await;
            upstream.send(answer).await;
            drop(upstream);
            client.reply().await.unwrap().problem(502);
        }
        assert_eq!(logins.failures_left("ann").await, 1);
        assert_eq!(logins.unsettled("no_response").await, 2);
        drop(stage);
        for _ in 0..5 {
            let reply = Client::to(logins.house.gateway())
                .await
                .get("/login?account=ann")
                .await;
            reply.problem(502);
            // What the attempt has reserved is released after its answer.
            eventually(async || logins.failures_left("ann").await >= 1).await;
        }
        assert_eq!(logins.remaining(ADDRESS).await, 8);
        assert_eq!(logins.unsettled("no_response").await, 2);
        logins.wait_until_settled().await;
    }
}

#[tokio::test]
async fn a_response_does_not_wait_for_what_it_only_counts() {
    let stage = Stage::open().await;
    let logins = Logins::over(Redis::start(), "strict", stage.address()).await;
    let (mut client, mut upstream) = logins.begin("ann", &stage).await;
    logins.redis().pause();
    upstream
        .send("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
        .await;
    // Redis would answer within ten seconds, or not at all.
    assert_eq!(client.reply().await.unwrap().status, 401);
    logins.redis().go_on();
    logins.wait_until_settled().await;
    assert_eq!(logins.failures_left("ann").await, 2);
}

#[tokio::test]
async fn what_a_store_does_not_release_stays_charged_and_is_counted() {
    let stage = Stage::open().await;
    let counting = Counting::Redis(Redis::start(), "strict");
    let rules = RULES.replace("mode: MODE", "on_store_error: deny");
    let logins = counting.gateway(stage.address(), &rules).await;
    let (mut client, mut upstream) = logins.begin("ann", &stage).await;
    logins.redis().kill();
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        .await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, &*reply.body), (200, "hi"));
    assert_eq!(logins.unsettled("store_error").await, 1);
}

#[tokio::test]
async fn a_reload_to_a_mode_that_reserves_nothing_is_rejected() {
    let upstream = Echo::start().await;
    let logins = Logins::over(Redis::start(), "leased", upstream.address).await;
    assert_eq!(logins.log_in("ann", 401).await, 401);
    logins.reload(&RULES.replace("MODE", "write_back")).await;
    assert_eq!(logins.log_in("ann", 401).await, 401);
    assert_eq!(logins.failures_left("ann").await, 1);
    // What no descriptor of the gateway meets may be written back.
    let other = RULES.replace("MODE", "leased")
        + "  - {key: other, rate_limit: {unit: hour, requests_per_unit: 5, mode: write_back}}\n";
    logins.reload(&other.replace("3/hour", "9/hour")).await;
    assert_eq!(logins.failures_left("ann").await, 7);
}

/// Settings change without their rules: they may need what these rules do not allow.
#[tokio::test]
async fn a_reload_of_settings_that_need_what_no_limit_reserves_is_rejected() {
    let (upstream, redis) = (Echo::start().await, Redis::start());
    let text = |more: &str| {
        format!(
            "rules: [rules.yaml]\nstore: redis://{}\nlisten: {{gateway: '127.0.0.1:0', admin: \
             '127.0.0.1:0', grpc: null, http: '127.0.0.1:0'}}\ngateway:\n  domain: api\n  \
             upstreams: {{api: {{addresses: ['{}']}}}}\n  identity:\n    descriptors:\n      \
             - entries: [{{key: remote_address, from: client_address}}]\n{more}",
            redis.address(),
            upstream.address
        )
    };
    let house = start_with(&RULES.replace("MODE", "write_back"), &text("")).await;
    let counting = text("        count_when: {status: [401]}\n");
    let logins = Logins {
        house,
        counting: Counting::Redis(redis, "write_back"),
    };
    replace(&logins.house.path("tollgate.yaml"), &counting);
    logins.house.running.reload().await;
    // Otherwise nothing could be reserved, and this were a 503.
    assert_eq!(logins.log_in("ann", 401).await, 401);
    let strict = RULES.replace("MODE", "strict").replace("10/hour", "9/hour");
    logins.reload(&strict).await;
    logins.house.running.reload().await;
    let before = logins.remaining(ADDRESS).await;
    assert_eq!(logins.log_in("ann", 200).await, 200);
    assert_eq!(logins.remaining(ADDRESS).await, before);
}
