//! A slot under the model checker, which has no 16-byte atomics: a mutex held for one access is one.

use loom::sync::Mutex;

use super::Seen;

#[derive(Debug)]
pub(crate) struct Pair(Mutex<Seen>);

impl Default for Pair {
    fn default() -> Pair {
        Pair(Mutex::new(Seen::default()))
    }
}

impl Pair {
    pub(crate) const fn is_supported() -> bool {
        true
    }

    pub(crate) fn matches<const SLOTS: usize>(slots: &[Pair; SLOTS], low: u32) -> u8 {
        let bit = |(at, slot): (usize, &Pair)| u8::from(slot.load().tag.has_low(low)) << at;
        slots
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |found, bit| found | bit)
    }

    pub(crate) fn load(&self) -> Seen {
        *self
            .0
            .lock()
            .expect("no thread panics while it holds a slot")
    }

    pub(crate) fn replace(&self, old: Seen, new: Seen) -> bool {
        let mut seen = self
            .0
            .lock()
            .expect("no thread panics while it holds a slot");
        let same = *seen == old;
        if same {
            *seen = new;
        }
        same
    }
}
