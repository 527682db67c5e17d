//! Caddy and Traefik, which forward a request's head to be judged.

use crate::proxy::Proxy;
use crate::site::Site;

const PROXIES: [Proxy; 2] = [Proxy::Caddy, Proxy::Traefik];

#[test]
fn denials_are_passed_on_unchanged() {
    for proxy in PROXIES {
        let site = Site::start(proxy);
        assert_eq!(site.statuses(2, &["/"; 5], &[]), [200; 5]);
        let denied = site.ask(2, "/", &[]);
        let media_type = Some("application/problem+json");
        assert_eq!(denied.header("Content-Type"), media_type);
        assert!(denied.body.contains("is exceeded"), "{denied:?}");
    }
}

#[test]
fn without_tollgate_requests_fail() {
    for proxy in PROXIES {
        let site = Site::start(proxy);
        assert_eq!(site.ask(2, "/", &[]).status, 200);
        site.tollgate.signal("KILL");
        let reply = site.ask(3, "/", &[]);
        assert!((500..=504).contains(&reply.status), "{proxy:?}: {reply:?}");
        assert_ne!(reply.body, "hello\n");
    }
}
