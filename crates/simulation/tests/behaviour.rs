//! The simulated Redis behaves as the real one: it passes the suite of all stores, with our scripts
//! in the embedded Lua, and replies to random commands as a real server does.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_behaviour::{Random, Subject, Taste, check, store_behaves};
use tollgate_core::{Charge, Key, Now, Verdict};
use tollgate_simulation::{Bare, Simulated};
use tollgate_testbed as testbed;

/// The simulated Redis as a store under test.
struct Tested(Simulated);

impl Subject for Tested {
    fn key(&mut self, name: &str) -> Key {
        self.0.key(name)
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.0.decide(now, charges)
    }
}

store_behaves!(single, Taste::MICROSECONDS, Tested(Simulated::single()));
store_behaves!(cluster, Taste::MICROSECONDS, Tested(Simulated::cluster()));
store_behaves!(
    cluster_apart,
    Taste::MICROSECONDS,
    Tested(Simulated::apart())
);
store_behaves!(sentinel, Taste::MICROSECONDS, Tested(Simulated::sentinel()));

/// Runs a command as a script, so that both servers have the same time, and what scripts see is
/// compared as well. The commands on sorted sets, and expiry, are those of membership.
const RUN: &str = "local reply = redis.call(unpack(ARGV)) \
if type(reply) == 'table' then return reply.ok or table.concat(reply, ',') end return reply";

#[test]
fn a_random_trace_is_answered_as_by_a_real_server() {
    let real = testbed::Redis::start();
    let mut stream = TcpStream::connect(real.address()).unwrap();
    // No key expires during the comparison: it lives for a century or has already expired.
    check(
        "a_random_trace_is_answered_as_by_a_real_server",
        40,
        |random| {
            ask(&mut stream, &words(&["FLUSHALL"]));
            let mut simulated = Bare::new();
            let micros = 1_700_000_000_000_000;
            for step in 0..60 {
                let command = draw(random);
                let mut eval = words(&["EVAL", RUN, "0"]);
                // Half of the commands run in scripts, half of them directly.
                let command = match random.chance(50) {
                    true => {
                        eval.extend(command);
                        eval
                    }
                    false => command,
                };
                let got = simulated.ask(micros, &command);
                let want = ask(&mut stream, &command);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (got, want) = (text(&got), text(&want));
                // Only the code of an error is compared, not its text.
                let code = |reply: &str| reply.split(' ').next().map(str::to_owned);
                let same = match want.starts_with('-') {
                    true => code(&got) == code(&want),
                    false => got == want,
                };
                let shown: Vec<String> = command.iter().map(|word| text(word)).collect();
                assert!(
                    same,
                    "step {step}: {shown:?}: {got:?}, but a real server: {want:?}"
                );
            }
        },
    );
}

fn words(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A command that our scripts use, on one of a few keys of either type.
fn draw(random: &mut Random) -> Vec<Vec<u8>> {
    let key = random.pick(&["a", "b", "c", "z"]);
    let bytes = random.pick(&["", "x", "hello", "0123456789"]);
    let far = "4000000000000";
    let number = random.pick(&["0", "1", "3", "7", "-1", "-3", "20"]);
    let whole = random.pick(&["0", "1", "5"]);
    match random.between(0, 15) {
        0 => words(&["GET", key]),
        1 => words(&["MGET", key, "b", "none"]),
        2 => words(&["SET", key, bytes]),
        3 => words(&["SET", key, bytes, "PXAT", random.pick(&["1", far])]),
        4 => words(&["DEL", key]),
        5 => words(&["APPEND", key, bytes]),
        6 => words(&[
            "GETRANGE",
            key,
            number,
            random.pick(&["0", "2", "-1", "100"]),
        ]),
        7 => words(&["SETRANGE", key, whole, bytes]),
        8 => words(&["STRLEN", key]),
        9 => words(&["PEXPIREAT", key, random.pick(&["1", far])]),
        10 => words(&["ZADD", key, whole, bytes]),
        11 => words(&["ZREM", key, bytes]),
        12 => words(&["ZCARD", key]),
        13 => words(&["ZREMRANGEBYSCORE", key, "-inf", whole]),
        14 => words(&["PEXPIRE", key, random.pick(&["-5", "0"])]),
        _ => words(&["EVALSHA", "0000000000000000000000000000000000000000", "0"]),
    }
}

/// Sends a command to a real server, and returns its reply as it is sent.
fn ask(stream: &mut TcpStream, command: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    stream.write_all(&out).unwrap();
    let mut reply = Vec::new();
    read_reply(stream, &mut reply);
    reply
}

fn read_reply(stream: &mut TcpStream, reply: &mut Vec<u8>) {
    let from = reply.len();
    while !reply[from..].ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        reply.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&reply[from + 1..reply.len() - 2]).into_owned();
    match reply[from] {
        b'$' if line != "-1" => {
            let mut bulk = vec![0; line.parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut bulk).unwrap();
            reply.extend_from_slice(&bulk);
        }
        b'*' => {
            for _ in 0..line.parse().unwrap_or(0) {
                read_reply(stream, reply);
            }
        }
        _ => {}
    }
}
