//! The proxies: their programs, and their files in `examples`.

use std::path::{Path, PathBuf};

use tollgate_testbed::{Folder, Process};

/// The versions that `cargo xtask ci` brings.
const CADDY: &str = "2.11.7";
const TRAEFIK: &str = "3.7.15";
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
                let caddy = program("TOLLGATE_CADDY", "caddy", CADDY);
                let run = [caddy.to_str().unwrap(), "run", "--config", "Caddyfile"];
                Some(vec![start(home, &run, "serving initial configuration")?])
            }
            Proxy::Traefik => {
                let upstream = nginx("upstream.conf")?;
                let traefik = program("TOLLGATE_TRAEFIK", "traefik", TRAEFIK);
                let run = [traefik.to_str().unwrap(), "--configFile=traefik.yaml"];
                // It has bound its port by then.
                Some(vec![upstream, start(home, &run, "file.Provider")?])
            }
        }
    }
}

/// Where a program is: what the variable says, or where `cargo xtask ci` puts it.
fn program(variable: &str, name: &str, version: &str) -> PathBuf {
    let from_ci = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        target.join(format!("tools/{name}-{version}/bin/{name}"))
    };
    let path = std::env::var_os(variable).map_or_else(from_ci, PathBuf::from);
    assert!(
        path.is_file(),
        "there is no {name} at {}. Get one: `cargo xtask ci` brings it, or \
         `pip install {name}-bin=={version}` and {variable}=<its path>",
        path.display()
    );
    path
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
