//! The proxies: their programs, and their files in `examples`.

use tollgate_testbed::tool::{CADDY, TRAEFIK};
use tollgate_testbed::{Folder, Process};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
/// What is behind Traefik: the examples of the others have a site of their own.
const UPSTREAM: &str = "daemon off; master_process off; error_log stderr notice; pid nginx.pid;\n\
    events {}\n\
    http { access_log off; client_body_temp_path nginx-body; proxy_temp_path nginx-proxy;\n\
    fastcgi_temp_path nginx-fastcgi; uwsgi_temp_path nginx-uwsgi; scgi_temp_path nginx-scgi;\n\
    client_max_body_size 0; server { listen 127.0.0.1:10001; return 200 \"hello\\n\"; } }\n";
/// What nginx logs last before it serves.
const NGINX_IS_READY: &str = "getrlimit";

/// A proxy that can ask before it passes a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Nginx,
    Caddy,
    Traefik,
}

// === impl Proxy ===

impl Proxy {
    /// Its files and Tollgate's, below `examples`.
    pub(crate) const fn files(self) -> &'static [&'static str] {
        match self {
            Proxy::Nginx => &[
                "nginx/nginx.conf",
                "nginx/site.conf",
                "nginx/tollgate.yaml",
                "nginx/rules.yaml",
            ],
            Proxy::Caddy => &["caddy/Caddyfile", "caddy/tollgate.yaml", "nginx/rules.yaml"],
            Proxy::Traefik => &[
                "traefik/traefik.yaml",
                "traefik/site.yaml",
                "caddy/tollgate.yaml",
                "nginx/rules.yaml",
            ],
        }
    }

    /// A file that no example has.
    pub(crate) const fn more(self) -> Option<(&'static str, &'static str)> {
        match self {
            Proxy::Traefik => Some(("upstream.conf", UPSTREAM)),
            Proxy::Nginx | Proxy::Caddy => None,
        }
    }

    /// Starts what serves, in a folder with the files; `None` if another process has taken a port.
    pub(crate) fn start(self, folder: &Folder) -> Option<Vec<Process>> {
        let home = folder.path().to_str().unwrap();
        let nginx = |file| start(home, &["nginx", "-p", home, "-c", file], NGINX_IS_READY);
        match self {
            Proxy::Nginx => Some(vec![nginx("nginx.conf")?]),
            Proxy::Caddy => {
                let caddy = CADDY.find(TMP);
                let run = [caddy.to_str().unwrap(), "run", "--config", "Caddyfile"];
                Some(vec![start(home, &run, "serving initial configuration")?])
            }
            Proxy::Traefik => {
                let upstream = nginx("upstream.conf")?;
                let traefik = TRAEFIK.find(TMP);
                let run = [traefik.to_str().unwrap(), "--configFile=traefik.yaml"];
                // It has bound its port by then.
                Some(vec![upstream, start(home, &run, "file.Provider")?])
            }
        }
    }
}

/// Starts a program that logs, in a folder. Debian has nginx where only root's shells look; Caddy
/// keeps files in its user's home.
pub(crate) fn start(home: &str, command: &[&str], ready: &str) -> Option<Process> {
    let script = r#"cd "$0" && HOME="$0" PATH="$PATH:/usr/sbin" exec "$@" 2>&1"#;
    let arguments = ["-c", script, home].into_iter();
    let arguments = arguments.chain(command.iter().copied());
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    Process::start("sh", &arguments, ready)
}
