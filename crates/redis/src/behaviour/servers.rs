//! The connections to the servers of the suite.

use tollgate_testbed as testbed;

use super::{ENCRYPTED, SENTINELS};
use crate::config::{Config, Secret, Servers, Tls};

/// Through the sentinels.
pub(super) fn sentinel() -> Config {
    Config::new(Servers::Sentinel {
        addresses: SENTINELS.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    })
}

/// As a user with access to keys of one prefix only, over TLS, by the server's name.
pub(super) fn tls() -> Config {
    let (certificates, redis) = &*ENCRYPTED;
    Config {
        tls: Some(Tls {
            authorities: Some(certificates.authority().into()),
            server_name: Some("localhost".to_owned()),
            ..Tls::default()
        }),
        username: Some(testbed::USER.to_owned()),
        password: Some(Secret::new(testbed::PASSWORD)),
        prefix: "limits:".to_owned(),
        ..Config::single(redis.address())
    }
}
