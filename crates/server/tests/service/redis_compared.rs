//! The same bytes to the listener `redis` and to a real Redis: the replies are the same.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tollgate_testbed::Redis;

use crate::house::House;
use crate::redis_client::{RedisClient, redis_of, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";

/// Bytes that are no command, or the beginning of one.
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
    "AUTH",
    "AUTH x",
    "AUTH a b c",
    "HELLO a",
    "HELLO ''",
    "HELLO 4",
    "HELLO 0",
    "HELLO 99999999999999999999",
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
    "COMMAND COUNT a",
    "CONFIG",
    "CONFIG GET",
    "CONFIG GET save",
    "RESET a",
    "RESET",
    "MULTI a",
    "EXEC",
    "DISCARD",
    "DISCARD a",
    "MULTI\r\nPING\r\nECHO a\r\nEXEC",
    "MULTI\r\nECHO\r\nPING\r\nEXEC\r\nEXEC",
    "MULTI\r\nNONSENSE\r\nEXEC",
    "MULTI\r\nCLIENT SETNAME\r\nPING\r\nEXEC",
    "MULTI\r\nCOMMAND COUNT a\r\nEXEC",
    "MULTI\r\nPING\r\nDISCARD\r\nPING",
    "MULTI\r\nSELECT a\r\nPING\r\nEXEC",
    "QUIT\r\nPING",
    "QUIT a\r\nPING",
    "POST / HTTP/1.1\r\nPING",
    "Host: x\r\nPING",
];

/// Everything that is answered to these bytes, until the other side closes the connection.
async fn replies(mut client: RedisClient, bytes: &[u8]) -> String {
    client.send(bytes).await;
    client.0.shutdown().await.unwrap();
    client.rest().await
}

#[tokio::test]
async fn replies_are_those_of_redis() {
    let house = House::with(RULES, with_redis).await;
    let redis = Redis::start();
    let lines = COMMANDS.iter().map(|line| format!("{line}\r\n"));
    let lines: Vec<Vec<u8>> = lines.map(String::into_bytes).collect();
    let malformed = MALFORMED.iter().map(|bytes| bytes.to_vec());
    let mut different = Vec::new();
    for bytes in malformed.chain(lines) {
        let ours = TcpStream::connect(redis_of(&house)).await.unwrap();
        let theirs = TcpStream::connect(redis.address()).await.unwrap();
        let ours = replies(RedisClient(ours), &bytes).await;
        let theirs = replies(RedisClient(theirs), &bytes).await;
        if ours != theirs {
            let bytes = bytes.escape_ascii();
            different.push(format!(
                "{bytes}\n  redis:    {theirs:?}\n  tollgate: {ours:?}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
