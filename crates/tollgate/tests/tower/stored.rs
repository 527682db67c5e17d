//! Layers in fields of structs, and chosen at run time.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use http::request::Parts;
use tollgate::tower::{
    Classifier, ClientAddress, CostSettings, CostSource, CountWhenSettings, DescriptorSettings,
    EntrySettings, IdentitySettings, Problem, RateLimit, RateLimitLayer, SourceSettings,
};
use tollgate::{Limit, Limiter, RuleLimiter};
use tower::ServiceExt;

use crate::{limiter, peer, request};

const CLIENT: &str = "192.0.2.7";

/// What a program passes from where it reads its settings to where it builds its routes.
#[derive(Clone, Debug)]
struct Settings {
    layers: Vec<RateLimitLayer>,
    routes: Option<RateLimit<axum::routing::Route>>,
}

/// What a domain is borrowed from need not live as long as the layer.
fn of_domain(domain: &str) -> RateLimitLayer {
    let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: 1/hour}]}";
    let limiter = Arc::new(RuleLimiter::from_yaml(rules).unwrap());
    let classifier = Classifier::new(&IdentitySettings::default()).unwrap();
    RateLimitLayer::by_rules(limiter, domain, classifier, peer)
}

fn by_key() -> RateLimitLayer {
    let builder = Limiter::builder(Limit::per_hour(1)).max_keys(100);
    RateLimitLayer::by_key(Arc::new(builder.build()), |head: &Parts| {
        Ok::<_, Problem>(head.uri.path().to_owned())
    })
}

async fn allows_one(layer: RateLimitLayer) {
    let app: Router = Router::new().route("/", get(async || "hello")).layer(layer);
    for expected in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        let response = app.clone().oneshot(request(CLIENT)).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn layers_of_every_kind_have_one_type() {
    let by_address = {
        let limiter = limiter(Limit::per_hour(1));
        RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer)
    };
    let by_rules = {
        let domain = "shop".to_owned();
        of_domain(&domain)
    };
    let settings = Settings {
        layers: vec![by_address, by_key(), by_rules],
        routes: None,
    };
    assert!(settings.clone().routes.is_none());
    for layer in settings.layers {
        allows_one(layer).await;
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn the_store_is_chosen_at_run_time() {
    use tollgate::redis::{Config, Redis};

    let server = tollgate_testbed::Redis::start();
    let config = Config {
        timeout: tollgate::Span::from_secs(20),
        ..Config::single(server.address())
    };
    let redis = Redis::builder(config).local_keys(100).open().unwrap();
    assert!(redis.until_up(std::time::Duration::from_secs(60)).await);
    for is_shared in [false, true] {
        let (limit, addresses) = (Limit::per_hour(1), ClientAddress::default());
        let layer = if is_shared {
            let limiter = redis.limiter("per client", limit).unwrap();
            RateLimitLayer::by_client_address(Arc::new(limiter), addresses, peer)
        } else {
            RateLimitLayer::by_client_address(limiter(limit), addresses, peer)
        };
        allows_one(layer).await;
    }
}

/// As routers and servers demand it.
#[test]
fn a_layer_is_shared_between_threads() {
    fn check<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}
    check::<RateLimitLayer>();
    check::<RateLimit<axum::routing::Route>>();
}

/// A program names the type of every setting that it writes itself instead of reading a file.
#[tokio::test(start_paused = true)]
async fn every_setting_can_be_written_in_rust() {
    let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: 2/hour}]}";
    let limiter = Arc::new(RuleLimiter::from_yaml(rules).unwrap());
    let descriptor = DescriptorSettings {
        entries: vec![EntrySettings {
            key: "remote_address".to_owned(),
            from: SourceSettings::ClientAddress,
            if_missing: None,
            fold_case: false,
        }],
        cost: Some(CostSettings {
            from: CostSource::Constant(2),
            estimate: None,
        }),
        count_when: None::<CountWhenSettings>,
    };
    let identity = IdentitySettings {
        descriptors: vec![descriptor],
        ..IdentitySettings::default()
    };
    let classifier = Classifier::new(&identity).unwrap();
    allows_one(RateLimitLayer::by_rules(limiter, "shop", classifier, peer)).await;
}
