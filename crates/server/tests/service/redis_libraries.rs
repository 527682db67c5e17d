//! Libraries of other languages, as they are published: `redis-py` and `node-redis`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tollgate_server::{ListenerKind, Password};
use tollgate_testbed::tool::{NODE_REDIS, REDIS_PY};

use crate::house::House;
use crate::redis_client::{redis_of, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";
const PASSWORD: &str = "correct horse battery";
const ADMIN_PASSWORD: &str = "staple of the admin";

/// A program that is ended with its test.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service that demands passwords, at this address or any free port.
async fn locked_house(address: Option<SocketAddr>) -> House {
    House::with(RULES, |config| {
        with_redis(config);
        config.redis_protocol.password = Password(Some(PASSWORD.to_owned()));
        config.redis_protocol.admin_password = Password(Some(ADMIN_PASSWORD.to_owned()));
        let mut listen = config.listen.iter_mut();
        let redis = listen.find(|one| one.kind == ListenerKind::Redis).unwrap();
        if let Some(address) = address {
            redis.address = address.into();
        }
    })
    .await
}

/// Runs a script, and starts the service again when it asks for that.
async fn run(mut command: Command) {
    let house = locked_house(None).await;
    let address = redis_of(&house);
    let port = address.port().to_string();
    command.args([&port, PASSWORD, ADMIN_PASSWORD]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = Script(command.spawn().expect("its interpreter is installed"));
    let mut input = script.0.stdin.take().unwrap();
    let mut output = BufReader::new(script.0.stdout.take().unwrap()).lines();
    let mut next_line = || {
        let line = tokio::task::block_in_place(|| output.next());
        line.expect("the script has failed, and said why").unwrap()
    };
    assert_eq!(next_line(), "restart");
    house.running.stop().await;
    let _house = locked_house(Some(address)).await;
    writeln!(input, "restarted").unwrap();
    assert_eq!(next_line(), "done");
    assert!(script.0.wait().unwrap().success());
}

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/redis_libraries");
    folder.join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_py_asks_in_both_versions_and_connects_again() {
    let library = REDIS_PY.find(env!("CARGO_TARGET_TMPDIR"));
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", library);
    python.arg(script("redis_py.py"));
    run(python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_redis_asks_in_both_versions_and_connects_again() {
    let library = NODE_REDIS.find(env!("CARGO_TARGET_TMPDIR"));
    let mut node = Command::new("node");
    node.arg(script("node_redis.mjs")).arg(library);
    run(node).await;
}
