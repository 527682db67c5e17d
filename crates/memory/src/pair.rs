//! Two words that change together: who owns a slot, and what is remembered.

use crate::tag::Tag;

/// What a slot held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whose it is.
    pub(crate) tag: Tag,
    /// What is remembered: a moment from which on nothing is.
    pub(crate) word: u64,
}

/// A slot: a [`Seen`] that is read and replaced as a whole, so that a word is never changed without
/// proof whose it is.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Pair(cell::Cell);

// === impl Pair ===

impl Pair {
    /// The tag alone, as a hint that [`Pair::load`] confirms: half the price.
    #[inline]
    pub(crate) fn peek(&self) -> u64 {
        self.0.peek()
    }

    /// Tag and word of one moment; what was written before them is seen too.
    #[inline]
    pub(crate) fn load(&self) -> Seen {
        self.0.load()
    }

    /// Replaces `old` by `new`; says whether it was still there.
    #[inline]
    pub(crate) fn replace(&self, old: Seen, new: Seen) -> bool {
        self.0.replace(old, new)
    }
}

#[cfg(not(loom))]
mod cell {
    use std::sync::atomic::Ordering;

    use portable_atomic::AtomicU128;

    use super::Seen;
    use crate::tag::Tag;

    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(super) struct Cell(AtomicU128);

    impl Cell {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[inline]
        #[expect(
            unsafe_code,
            reason = "half of a 16-byte atomic cannot be read in safe Rust"
        )]
        pub(super) fn peek(&self) -> u64 {
            let tag: u64;
            // SAFETY: the pointer is valid and aligned for as long as `self` is borrowed. Rust has
            // no atomic access of half an atomic, so the block stands for a relaxed load of all 16
            // bytes of which one half is thrown away; the processor's aligned 8-byte load returns
            // the same half. Nothing is written, and no flags or stack are touched.
            unsafe {
                std::arch::asm!(
                    "mov {tag}, qword ptr [{at}]",
                    at = in(reg) self.0.as_ptr(),
                    tag = lateout(reg) tag,
                    options(nostack, preserves_flags, readonly),
                );
            }
            tag
        }

        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        #[inline]
        pub(super) fn peek(&self) -> u64 {
            self.load().tag.bits()
        }

        #[inline]
        pub(super) fn load(&self) -> Seen {
            // Acquire: a tag that says "wide" publishes the state in the arena.
            unpacked(self.0.load(Ordering::Acquire))
        }

        #[inline]
        pub(super) fn replace(&self, old: Seen, new: Seen) -> bool {
            // Release publishes the arena's part of a wide state; acquire takes over a lock.
            self.0
                .compare_exchange(
                    packed(old),
                    packed(new),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok()
        }
    }

    #[inline]
    fn packed(seen: Seen) -> u128 {
        u128::from(seen.word) << 64 | u128::from(seen.tag.bits())
    }

    #[inline]
    #[expect(
        clippy::as_conversions,
        reason = "both halves of a word of twice their width"
    )]
    const fn unpacked(bits: u128) -> Seen {
        Seen {
            tag: Tag::from_bits(bits as u64),
            word: (bits >> 64) as u64,
        }
    }
}

#[cfg(loom)]
mod cell {
    use loom::sync::Mutex;

    use super::Seen;

    /// The model checker has no 16-byte atomics; a mutex held for one access is one.
    #[derive(Debug)]
    pub(super) struct Cell(Mutex<Seen>);

    impl Default for Cell {
        fn default() -> Cell {
            Cell(Mutex::new(Seen::default()))
        }
    }

    impl Cell {
        pub(super) fn peek(&self) -> u64 {
            self.load().tag.bits()
        }

        pub(super) fn load(&self) -> Seen {
            *self
                .0
                .lock()
                .expect("no thread panics while it holds a slot")
        }

        pub(super) fn replace(&self, old: Seen, new: Seen) -> bool {
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
}
