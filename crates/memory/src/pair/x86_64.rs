//! A slot on x86-64: inline assembly.
//!
//! `portable-atomic` has the same instructions behind a call through a pointer, because it cannot
//! know at compile time which of them the processor has; and nothing in Rust compares four atomics
//! at once. Both together are a quarter of a decision's time.
//!
//! In the terms of Rust's memory model every block below is an atomic access of all 16 bytes of a
//! slot, of which [`Pair::matches`] uses a part.

#![expect(
    unsafe_code,
    reason = "atomics that the standard library does not have"
)]

use std::arch::asm;
use std::cell::UnsafeCell;

use super::SlotValue;
use crate::tag::Tag;

/// The tag in the lower half, the word in the upper.
#[repr(C, align(16))]
pub(crate) struct Pair(UnsafeCell<[u64; 2]>);

// SAFETY: the bytes are accessed by the atomic accesses below and by nothing else.
unsafe impl Sync for Pair {}

impl Default for Pair {
    fn default() -> Pair {
        Pair(UnsafeCell::new([0; 2]))
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.load().fmt(f)
    }
}

impl Pair {
    /// Whether this processor has the instructions: nearly every one since 2011.
    pub(crate) fn is_supported() -> bool {
        is_x86_feature_detected!("cmpxchg16b") && is_x86_feature_detected!("avx")
    }

    /// Which of four slots have a tag with these lower 32 bits: a hint that `load` confirms.
    #[inline]
    pub(crate) fn matches(slots: &[Pair; 4], low: u32) -> u32 {
        let found: u32;
        // SAFETY: the pointer is valid for four slots of 16 bytes, aligned to 16, while they are
        // borrowed. Each is loaded by one aligned 16-byte access, as in `load`. The lower quarters
        // of all four are gathered, compared at once and packed to one bit each. Nothing is
        // written; neither flags nor stack are touched.
        unsafe {
            asm!(
                "vmovd {wanted}, {low:e}",
                "vpshufd {wanted}, {wanted}, 0",
                "vmovdqa {a}, xmmword ptr [{at}]",
                "vmovdqa {b}, xmmword ptr [{at} + 32]",
                "vpunpckldq {a}, {a}, xmmword ptr [{at} + 16]",
                "vpunpckldq {b}, {b}, xmmword ptr [{at} + 48]",
                "vpunpcklqdq {a}, {a}, {b}",
                "vpcmpeqd {a}, {a}, {wanted}",
                "vmovmskps {found:e}, {a}",
                at = in(reg) slots.as_ptr(),
                low = in(reg) low,
                found = lateout(reg) found,
                wanted = out(xmm_reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                options(nostack, preserves_flags, readonly),
            );
        }
        found
    }

    /// Loads tag and word at once, with acquire ordering.
    #[inline]
    pub(crate) fn load(&self) -> SlotValue {
        let (tag, word): (u64, u64);
        // SAFETY: the pointer is valid and aligned to 16 bytes while `self` is borrowed; Intel and
        // AMD guarantee that an aligned 16-byte load is atomic on processors with AVX, which
        // `is_supported` has checked before a table was built. On this architecture every load
        // has acquire ordering. Not `pure`: each one must read memory.
        unsafe {
            asm!(
                "vmovdqa {pair}, xmmword ptr [{at}]",
                "vmovq {tag}, {pair}",
                "vpextrq {word}, {pair}, 1",
                at = in(reg) self.0.get(),
                pair = out(xmm_reg) _,
                tag = lateout(reg) tag,
                word = lateout(reg) word,
                options(nostack, preserves_flags, readonly),
            );
        }
        SlotValue {
            tag: Tag::from_bits(tag),
            word,
        }
    }

    /// Stores tag and word at once, with release ordering: for the thread that has locked the slot.
    #[inline]
    pub(crate) fn store(&self, new: SlotValue) {
        // SAFETY: as for `load`, and the bytes may be written through, as they are in an
        // `UnsafeCell`; an aligned 16-byte store is as atomic as such a load. On this architecture
        // every store has release ordering.
        unsafe {
            asm!(
                "vmovq {pair}, {tag}",
                "vpinsrq {pair}, {pair}, {word}, 1",
                "vmovdqa xmmword ptr [{at}], {pair}",
                at = in(reg) self.0.get(),
                tag = in(reg) new.tag.bits(),
                word = in(reg) new.word,
                pair = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Replaces `old` by `new` (compare-and-swap); returns whether `old` was still there.
    #[inline]
    pub(crate) fn replace(&self, old: SlotValue, new: SlotValue) -> bool {
        let replaced: u8;
        // SAFETY: the pointer is valid, aligned to 16 bytes and may be written through, as the
        // bytes are in an `UnsafeCell`; the instruction is locked, which is both acquire and
        // release, and `is_supported` has checked that it is there. LLVM keeps `rbx` for itself,
        // so it is saved and restored around the instruction that needs it; every operand is in
        // another.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, rsi",
                in("rdi") self.0.get(),
                inout("rsi") new.tag.bits() => _,
                out("r8b") replaced,
                in("rcx") new.word,
                inout("rax") old.tag.bits() => _,
                inout("rdx") old.word => _,
                options(nostack),
            );
        }
        replaced != 0
    }
}
