//! The processor time of a decision by allow and deny lists: `cargo xtask bench lists`.
//!
//! Half of the entries are networks of IPv4 (/16 to /32), a quarter networks of IPv6 (/32 to /128),
//! a quarter users. A decision is what the gateway asks for one request: an address, and a user.
//! Half of the requests are from a listed client. Clients come in random order, from more of them
//! than caches hold.

#![allow(
    clippy::float_arithmetic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "computes figures for people; nothing here decides"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::time::{ClockId, clock_gettime};
use tollgate_behaviour::Random;
use tollgate_http::{AccessList, Listing};

/// Clients that take turns.
const CLIENTS: usize = 1 << 17;
/// How often each of them asks.
const ROUNDS: usize = 20;

struct Client {
    address: IpAddr,
    user: String,
}

fn main() {
    println!("processor time of a decision: an address and an entry of a descriptor");
    println!(
        "{:>9} {:>12} {:>12} {:>8}",
        "entries", "ns", "of 1 us", "listed"
    );
    for entries in [0, 1_000, 10_000, 100_000, 1_000_000] {
        measure(entries);
    }
}

/// Prints the row of lists with so many entries.
fn measure(entries: u32) {
    let mut random = Random::new(1);
    let listed: Vec<Client> = (0..entries).map(|_| client(&mut random)).collect();
    let mut text = String::new();
    for (index, client) in listed.iter().enumerate() {
        text.push_str(&match (index % 4, client.address) {
            (3, _) => format!("user={}\n", client.user),
            (_, IpAddr::V4(address)) => {
                let bits = random.small(16, 32);
                format!("{}\n", network(address.into(), bits))
            }
            (_, IpAddr::V6(address)) => {
                let bits = random.small(32, 128);
                format!("{}\n", network(address.into(), bits))
            }
        });
    }
    let mut list = AccessList::default();
    list.add(Listing::Deny, text.as_bytes()).unwrap();
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| match random.chance(50) && !listed.is_empty() {
            true => {
                let last = u64::from(entries) - 1;
                let one = &listed[usize::try_from(random.between(0, last)).unwrap()];
                Client {
                    address: one.address,
                    user: one.user.clone(),
                }
            }
            false => client(&mut random),
        })
        .collect();
    let mut denied = 0_u32;
    let begin = processor_nanos();
    for _ in 0..ROUNDS {
        for client in &clients {
            let of_address = list.find_address(black_box(client.address));
            let of_user = list.find_entry(b"user", black_box(client.user.as_bytes()));
            denied += u32::from(of_address.or(of_user).is_some());
        }
    }
    let took = processor_nanos() - begin;
    let decisions = f64::from(u32::try_from(CLIENTS * ROUNDS).unwrap());
    let nanos = took / decisions;
    let (ratio, share) = (nanos / 1000.0, f64::from(denied) / decisions * 100.0);
    println!("{entries:>9} {nanos:>12.1} {ratio:>12.3} {share:>7.0}%");
}

fn client(random: &mut Random) -> Client {
    let word = random.word();
    let address = match word % 4 {
        0 => {
            let high = 0x2000_u128 << 112;
            Ipv6Addr::from_bits(high | u128::from(random.word()) << 50).into()
        }
        _ => Ipv4Addr::from_bits(u32::try_from(word >> 32).unwrap()).into(),
    };
    Client {
        address,
        user: format!("user-{:012x}", random.word() >> 16),
    }
}

/// The text of the network with so many bits that has the address.
fn network(address: IpAddr, bits: u32) -> String {
    let address = match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(bits).unwrap_or(0);
            IpAddr::from(Ipv4Addr::from_bits(address.to_bits() & !host))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(bits).unwrap_or(0);
            IpAddr::from(Ipv6Addr::from_bits(address.to_bits() & !host))
        }
    };
    format!("{address}/{bits}")
}

/// Of this thread.
fn processor_nanos() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let secs = f64::from(i32::try_from(now.tv_sec).unwrap());
    let nanos = f64::from(i32::try_from(now.tv_nsec).unwrap());
    secs * 1e9 + nanos
}
