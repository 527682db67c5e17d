//! The same bytes to the listener `redis` and to a real Redis: the replies are the same.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tollgate_behaviour::check;
use tollgate_server::Password;
use tollgate_testbed::{Redis, Setup};

use crate::house::House;
use crate::redis_client::{RedisClient, redis_of, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";

/// Bytes that are not a command, or the beginning of one.
const MALFORMED: &[&[u8]] = &[
    b"*x\r\nPING\r\n",
    b"*\r\nPING\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"* 1\r\n$4\r\nPING\r\n",
    b"*1 \r\n$4\r\nPING\r\n",
    b"*0\r\nPING\r\n",
    b"*-1\r\nPING\r\n",
    b"*-9\r\nPING\r\n",
    b"*99999999999999999999\r\nPING\r\n",
    b"*9223372036854775807\r\nPING\r\n",
    b"*1\r\n$-1\r\nPING\r\n",
    b"*1\r\n$x\r\nPING\r\n",
    b"*1\r\n$\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$99999999999999999999\r\nPING\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n:4\r\nPING\r\n",
    b"*1\r\n+PING\r\n",
    b"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n",
    b"*1\n$4\nPING\n",
    b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPIN",
    b"PING\r\n*1\r\n$-5\r\n\r\nPING\r\n",
    b"$4\r\nPING\r\n",
    b"+OK\r\n",
    b"\r\n\n\r\nPING\r\n",
    b" \t PING\t\r\n",
    b"ECHO a\x0bb\r\n\x0b\x0cECHO \x0c\x0bc\r\n",
    b"ECHO \"a\\x41\\n\\q\" \r\nECHO 'it\\'s'\r\nECHO 'a\\n'\r\n",
    b"ECHO \"a\r\nPING\r\n",
    b"ECHO 'a\r\nPING\r\n",
    b"ECHO \"a\"b\r\nPING\r\n",
    b"ECHO a\"b c\"\r\nECHO \"\"\r\nECHO ''\r\n",
];

/// Commands that are wrong, or that clients send when they connect.
const COMMANDS: &[&str] = &[
    "NONSENSE",
    "NONSENSE a b",
    "nonsense 'a b' \"c\"",
    "PING a b",
    "ECHO",
    "ECHO a b",
    "SELECT",
    "SELECT 0",
    "SELECT a",
    "SELECT ''",
    "SELECT 99999999999999999999",
    "SELECT -1",
    "SELECT 00",
    "SELECT +0",
    "SELECT -0",
    "SELECT ' 0'",
    "SELECT 2147483647",
    "SELECT 2147483648",
    "SELECT -2147483648",
    "SELECT -2147483649",
    "AUTH",
    "AUTH x",
    "AUTH a b c",
    "HELLO a",
    "HELLO ''",
    "HELLO 4",
    "HELLO 0",
    "HELLO 99999999999999999999",
    "HELLO 03",
    "HELLO +3",
    "HELLO 3 FOO",
    "HELLO 3 AUTH default",
    "HELLO 3 SETNAME",
    "HELLO 3 SETNAME 'a b'",
    "CLIENT",
    "CLIENT ID a",
    "CLIENT GETNAME",
    "CLIENT GETNAME a",
    "CLIENT SETNAME",
    "CLIENT SETNAME a b",
    "CLIENT SETNAME 'a b'",
    "CLIENT NO-EVICT",
    "CLIENT NO-EVICT on",
    "CLIENT NO-EVICT OFF",
    "CLIENT NO-EVICT a",
    "CLIENT NO-EVICT ''",
    "COMMAND COUNT a",
    "COMMAND LIST a",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY PATTERN",
    "COMMAND LIST FILTERBY PATTERN ping a",
    "COMMAND LIST FILTERBY a ping",
    "COMMAND LIST FILTERBY PATTERN PIN?",
    "COMMAND LIST filterby pattern e[cd]h*",
    "COMMAND LIST FILTERBY PATTERN ''",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY MODULE nosuch",
    "CONFIG",
    "CONFIG GET",
    "CONFIG GET save",
    "CONFIG GET SAVE",
    "CONFIG GET save SAVE",
    "CONFIG GET SAVE sav*",
    "CONFIG GET sav* SAVE",
    "CONFIG GET appendonl? nosuch ''",
    "CONFIG GET sav[",
    "CONFIG GET \\\\save",
    "INFO nosuch",
    "INFO Cluster",
    "INFO nosuch cluster CLUSTER",
    "RESET a",
    "RESET",
    "MULTI a",
    "EXEC",
    "EXEC a",
    "DISCARD",
    "DISCARD a",
    "MULTI\r\nPING\r\nECHO a\r\nEXEC",
    "MULTI\r\nECHO\r\nPING\r\nEXEC\r\nEXEC",
    "MULTI\r\nNONSENSE\r\nEXEC",
    "MULTI\r\nCLIENT SETNAME\r\nPING\r\nEXEC",
    "MULTI\r\nCOMMAND COUNT a\r\nEXEC",
    "MULTI\r\nPING\r\nDISCARD\r\nPING",
    "MULTI\r\nSELECT a\r\nPING\r\nEXEC",
    "MULTI\r\nPING a b\r\nPING\r\nEXEC",
    "MULTI\r\nPING\r\nEXEC a\r\nPING\r\nEXEC",
    "MULTI\r\nNONSENSE\r\nEXEC a b\r\nEXEC",
    "MULTI\r\nDISCARD a\r\nEXEC",
    "MULTI\r\nCLIENT NO-EVICT a\r\nPING\r\nEXEC",
    "QUIT\r\nPING",
    "QUIT a\r\nPING",
    "POST / HTTP/1.1\r\nPING",
    "Host: x\r\nPING",
];

/// Commands that do not exist, with words of which errors repeat only the beginning.
fn long_commands() -> Vec<String> {
    let word = |length: usize| "a".repeat(length);
    vec![
        format!("{} b", word(130)),
        format!("NONSENSE{}", " bc".repeat(60)),
        format!("NONSENSE {}", word(200)),
        format!("NONSENSE {} b", word(127)),
        format!("NONSENSE {} bcdef", word(124)),
        format!("NONSENSE {} bcdef g", word(120)),
        format!("NONSENSE {} b c", word(122)),
    ]
}

/// What a client asks of both.
struct Both {
    ours: String,
    theirs: String,
}

impl Both {
    /// Everything that each answers to these bytes, until it closes the connection.
    async fn answer(house: &House, redis: &Redis, bytes: &[u8]) -> Both {
        let ours = TcpStream::connect(redis_of(house)).await.unwrap();
        let theirs = TcpStream::connect(redis.address()).await.unwrap();
        Both {
            ours: replies(RedisClient(ours), bytes).await,
            theirs: replies(RedisClient(theirs), bytes).await,
        }
    }
}

/// Everything that is answered to these bytes, until the other side closes the connection.
async fn replies(mut client: RedisClient, bytes: &[u8]) -> String {
    client.send(bytes).await;
    client.0.shutdown().await.unwrap();
    client.rest().await
}

/// Expects the same replies to each of these inputs.
async fn compare(house: &House, redis: &Redis, inputs: impl Iterator<Item = Vec<u8>>) {
    let mut different = Vec::new();
    for bytes in inputs {
        let Both { ours, theirs } = Both::answer(house, redis, &bytes).await;
        if ours != theirs {
            let bytes = bytes.escape_ascii();
            different.push(format!(
                "{bytes}\n  redis:    {theirs:?}\n  tollgate: {ours:?}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test]
async fn replies_are_those_of_redis() {
    let house = House::with(RULES, with_redis).await;
    let redis = Redis::start();
    let lines = COMMANDS.iter().map(|line| (*line).to_owned());
    let lines = lines.chain(long_commands());
    let lines = lines.map(|line| format!("{line}\r\n").into_bytes());
    let malformed = MALFORMED.iter().map(|bytes| bytes.to_vec());
    compare(&house, &redis, malformed.chain(lines)).await;
}

/// What may not run yet is an error, and `EXEC` is one that ends a transaction.
#[tokio::test]
async fn without_the_password_replies_are_those_of_redis() {
    const PASSWORD: &str = "correct horse battery";
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.redis_protocol.password = Password(Some(PASSWORD.to_owned()));
    });
    let house = house.await;
    let redis = Redis::start_with(&Setup::with(&["--requirepass", PASSWORD]));
    let lines = [
        "PING",
        "MULTI",
        "EXEC",
        "DISCARD",
        "NONSENSE a",
        "HELLO 4",
        "AUTH a",
        "RESET",
        "QUIT",
        "AUTH 'correct horse battery'\r\nMULTI\r\nPING\r\nRESET\r\nEXEC\r\nPING",
    ];
    let lines = lines.map(|line| format!("{line}\r\n").into_bytes());
    compare(&house, &redis, lines.into_iter()).await;
}

/// The names of settings in a reply to `CONFIG GET`, in any letter case, as far as there are such
/// settings here.
fn settings_in(reply: &str) -> Vec<String> {
    // Lines are lengths and texts in turn, and every other text is a value.
    let names = reply.split("\r\n").skip(2).step_by(4);
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.retain(|name| {
        let name = name.to_ascii_lowercase();
        ["save", "appendonly", "databases"].contains(&name.as_str())
    });
    names.sort_unstable();
    names
}

/// Redis has more settings, in an order that is random, and other values.
#[tokio::test]
async fn config_get_finds_the_settings_that_redis_finds() {
    let mut patterns: Vec<String> = [
        "save databases",
        "data* appendonl?",
        "* SAVE",
        "SAVE * Databases",
        "s*e *s",
        "[^x]ave",
        "[^]ave",
        "sav[e-",
        "sav[^",
        "[z-a]ave",
        "[R-T]ave",
        "[Z-a]ave",
        "sav[\\\\e]",
        "sav[\\\\E]",
        "s\\\\*",
        "\\\\s*",
        "sav*\\\\",
    ]
    .map(str::to_owned)
    .into();
    check("patterns", 2_000, |random| {
        let name = random.pick(&["save", "SAVE", "databases", "appendonly"]);
        let mut pattern = name.as_bytes().to_vec();
        for _change in 0..random.small(1, 3) {
            let at = usize::try_from(random.small(0, 9))
                .unwrap()
                .min(pattern.len());
            match random.chance(50) && at < pattern.len() {
                true => pattern[at] = random.pick(b"**?[]^-\\sae"),
                false => pattern.insert(at, random.pick(b"**?[]^-\\sae")),
            }
        }
        let pattern = String::from_utf8(pattern).unwrap();
        patterns.push(pattern.replace('\\', "\\\\"));
    });
    let house = House::with(RULES, with_redis).await;
    let redis = Redis::start();
    let mut found = 0;
    for pattern in patterns {
        let line = format!("CONFIG GET \"{}\"\r\n", pattern.replace(' ', "\" \""));
        let Both { ours, theirs } = Both::answer(&house, &redis, line.as_bytes()).await;
        let (ours, theirs) = (settings_in(&ours), settings_in(&theirs));
        assert_eq!(ours, theirs, "{line}");
        found += usize::from(!ours.is_empty());
    }
    assert!(found > 100, "{found}");
}

/// The lines of a reply to `INFO` that name its sections, as far as there are such sections here.
fn sections_in(reply: &str) -> Vec<&str> {
    let here = ["# Server", "# Persistence", "# Replication", "# Cluster"];
    let mut lines: Vec<&str> = reply.split("\r\n").collect();
    lines.retain(|line| here.contains(line));
    lines
}

#[tokio::test]
async fn info_has_the_sections_that_redis_has() {
    let house = House::with(RULES, with_redis).await;
    let redis = Redis::start();
    for (words, count) in [
        ("", 4),
        ("all", 4),
        ("DEFAULT", 4),
        ("everything", 4),
        ("nosuch all", 4),
        ("server", 1),
        ("Replication persistence", 2),
        ("cluster nosuch server", 2),
        ("nosuch", 0),
    ] {
        let line = format!("INFO {words}\r\n");
        let both = Both::answer(&house, &redis, line.as_bytes()).await;
        let sections = sections_in(&both.ours);
        assert_eq!(sections, sections_in(&both.theirs), "{words}");
        assert_eq!(sections.len(), count, "{words}");
    }
}

/// A text for people has a type of its own in version 3.
#[tokio::test]
async fn texts_have_the_type_that_redis_gives_them() {
    let house = House::with(RULES, with_redis).await;
    let redis = Redis::start();
    for (hello, mark) in [("", '$'), ("HELLO 3\r\n", '=')] {
        for command in ["INFO", "INFO nosuch", "CLIENT INFO"] {
            let line = format!("{hello}{command}\r\n");
            let Both { ours, theirs } = Both::answer(&house, &redis, line.as_bytes()).await;
            for reply in [ours, theirs] {
                let reply = reply.rsplit("modules\r\n*0\r\n").next().unwrap();
                assert!(reply.starts_with(mark), "{line}: {reply}");
                let (length, text) = reply[1..].split_once("\r\n").unwrap();
                assert_eq!(text.len(), length.parse::<usize>().unwrap() + 2, "{line}");
                assert_eq!(text.starts_with("txt:"), mark == '=', "{line}: {text}");
            }
        }
    }
}
