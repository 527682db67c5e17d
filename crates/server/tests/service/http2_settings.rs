//! What the service announces on a connection of HTTP/2, as docs/benchmarks.md has it in "Settings
//! of HTTP/2". How many bytes of a response wait is tested beside the code that sets it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::{Config, Limits};

use crate::bounded::{ACK, PING, SETTINGS, connect_to, frame};
use crate::gateway::{RULES, gateway_with, section};
use crate::house::House;

const PAGE: &str = include_str!("../../../../docs/benchmarks.md");
/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The other frame that opens a connection.
const WINDOW_UPDATE: u8 = 8;
/// The window of a connection before its first WINDOW_UPDATE (RFC 9113, 6.9.2).
const FIRST_WINDOW: u32 = 65_535;
const KIB: u32 = 1024;

/// SETTINGS by their numbers (RFC 9113, 6.5.2).
const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// What the service announces when a connection opens.
#[derive(Debug, Default, PartialEq, Eq)]
struct Announced {
    settings: BTreeMap<u16, u32>,
    /// The window of the connection.
    window: u32,
}

/// A gateway, which has the other listeners as well.
async fn house(change: impl FnOnce(&mut Config)) -> House {
    let nobody = "127.0.0.1:1".parse().unwrap();
    gateway_with(RULES, section(nobody, ""), change).await
}

/// The kind, the flags and the payload of the next frame.
async fn next_frame(stream: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let read = async {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        (head[3], head[4], payload)
    };
    timeout(TIMEOUT, read).await.unwrap()
}

/// Opens a connection and reads until it has had both frames.
async fn open(address: SocketAddr) -> Announced {
    let mut stream = connect_to(address, FIRST_WINDOW).await;
    let mut announced = Announced::default();
    while announced.settings.is_empty() || announced.window == 0 {
        match next_frame(&mut stream).await {
            (SETTINGS, 0, payload) => {
                let settings = payload.as_chunks::<6>().0.iter();
                announced.settings = settings
                    .map(|[a, b, value @ ..]| {
                        (u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value))
                    })
                    .collect();
            }
            (WINDOW_UPDATE, _, payload) => {
                let more = u32::from_be_bytes(payload.try_into().unwrap());
                announced.window = FIRST_WINDOW + more;
            }
            _ => {}
        }
    }
    announced
}

/// These windows, of a stream and of the connection, and what all listeners have in common.
fn expected(stream: u32, connection: u32, limits: &Limits) -> Announced {
    let settings = [
        (HEADER_TABLE_SIZE, KIB),
        (MAX_CONCURRENT_STREAMS, limits.streams_per_connection),
        (INITIAL_WINDOW_SIZE, stream),
        // What HTTP/2 has by default.
        (MAX_FRAME_SIZE, 16 * KIB),
        (MAX_HEADER_LIST_SIZE, limits.header_bytes),
    ];
    Announced {
        settings: settings.into(),
        window: connection,
    }
}

#[tokio::test]
async fn a_connection_has_the_settings_of_the_page() {
    for row in [
        "\n| window of a stream | 16 KiB | ",
        "The gateway's is 64 KiB,",
        "\n| window of a connection | 512 KiB | ",
        "The gateway's is 2 MiB,",
        "\n| dynamic table of header fields | 1 KiB | ",
        "\n| concurrent streams | at most `limits.streams_per_connection` | ",
    ] {
        assert!(PAGE.contains(row), "{row}");
    }
    let defaults = house(|_| ()).await;
    let others = Limits {
        streams_per_connection: 77,
        header_bytes: 20 * KIB,
        ..Limits::default()
    };
    let changed = house(|config| config.limits = others).await;
    for (house, limits) in [(defaults, Limits::default()), (changed, others)] {
        let short = expected(16 * KIB, 512 * KIB, &limits);
        for address in [house.grpc(), house.http()] {
            assert_eq!(open(address).await, short, "{address}");
        }
        let bodies = expected(64 * KIB, 2048 * KIB, &limits);
        assert_eq!(open(house.gateway()).await, bodies);
    }
}

#[tokio::test]
async fn a_connection_is_pinged_as_often_as_the_setting_says() {
    assert!(PAGE.contains("\n| ping | `limits.ping_interval` | "));
    assert!(PAGE.contains("; 30 s |"));
    assert_eq!(Limits::default().ping_interval, Duration::from_secs(30));
    let often = Duration::from_millis(20);
    let house = house(|config| config.limits.ping_interval = often).await;
    for address in [house.grpc(), house.gateway()] {
        let mut stream = connect_to(address, FIRST_WINDOW).await;
        let mut pings = 0;
        while pings < 2 {
            match next_frame(&mut stream).await {
                (PING, 0, payload) => {
                    pings += 1;
                    stream
                        .write_all(&frame(PING, ACK, 0, &payload))
                        .await
                        .unwrap();
                }
                (SETTINGS, 0, _) => {
                    stream
                        .write_all(&frame(SETTINGS, ACK, 0, &[]))
                        .await
                        .unwrap();
                }
                _ => {}
            }
        }
    }
}
