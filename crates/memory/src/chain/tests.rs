#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use super::*;

/// The chain and a plain queue agree under every mixture of pushes and cuts at both ends.
#[test]
fn a_chain_is_a_queue() {
    let arena = Arena::with_blocks(64);
    let mut chain = Chain::new(Spares::new(&arena));
    let mut model: VecDeque<u8> = VecDeque::new();
    let mut seed = 7u64;
    for round in 0..20_000u32 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let random = seed >> 33;
        let amount = usize::try_from(random >> 8).unwrap() % 150;
        match random % 4 {
            0 | 1 if model.len() < 2_000 => {
                for _ in 0..amount {
                    assert!(chain.spares.reserve(1));
                    chain.push(u8::try_from(round % 251).unwrap());
                    model.push_back(u8::try_from(round % 251).unwrap());
                }
            }
            2 => {
                let mut walk = chain.walk_forward();
                for _ in 0..amount.min(model.len()) {
                    assert_eq!(chain.next(&mut walk), model.pop_front());
                }
                chain.cut_front(walk);
            }
            _ => {
                let mut walk = chain.walk_backward();
                for _ in 0..amount.min(model.len()) {
                    assert_eq!(chain.previous(&mut walk), model.pop_back());
                }
                chain.cut_back(walk);
            }
        }
        let mut walk = chain.walk_forward();
        let all: Vec<u8> = std::iter::from_fn(|| chain.next(&mut walk)).collect();
        assert_eq!(all, Vec::from(model.clone()));
        assert_eq!(chain.is_empty(), model.is_empty());
    }
    drop(chain);
}

#[test]
fn an_emptied_chain_keeps_no_block() {
    let arena = Arena::with_blocks(8);
    let mut chain = Chain::new(Spares::new(&arena));
    for byte in 0..200u8 {
        assert!(chain.spares.reserve(1));
        chain.push(byte);
    }
    let end = chain.walk_backward();
    chain.cut_front(end);
    assert!(chain.is_empty());
    drop(chain);
    assert_eq!(arena.in_use(), 0);
}
