//! The state that a limit stores for a key, and the operations on it.

use crate::limit::Limit;
use crate::moment::{Moment, Timeline};
use crate::span::Span;

/// The state that one limit stores for one key: the consumed units that still count.
///
/// Every algorithm implements this trait as pure functions: the caller provides the time and the
/// atomicity. Call [`Usage::settle`] first, and pass the same `now` to the other methods. `Default`
/// is the state of a key that was never seen.
pub trait Usage {
    /// The clock that the moments of a `limit` with such states come from: always
    /// [`Limit::timeline`], but known when it is compiled where all such limits have one.
    #[inline]
    fn timeline(limit: &Limit) -> Timeline
    where
        Self: Sized,
    {
        limit.timeline()
    }

    /// Drops units that no longer count at `now`.
    ///
    /// State written by a clock ahead of `now` is shifted back as a whole, so that its newest part
    /// is at `now`. The skew then neither allows more, nor denies for longer than the limit's
    /// window or refill time.
    fn settle(&mut self, limit: &Limit, now: Moment);

    /// The earliest moment at which this state can have been written.
    fn not_before(&self, limit: &Limit) -> Moment;

    /// Whether this was written by a clock ahead of `now`, which [`Usage::settle`] would correct. A
    /// store with a monotonic clock reads the clock again instead.
    #[inline]
    fn is_ahead(&self, limit: &Limit, now: Moment) -> bool {
        self.not_before(limit) > now
    }

    /// The time until `units` fit; zero if they fit now. `units` must not exceed
    /// [`Limit::available`].
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span;

    /// The largest cost that fits now, rounded down.
    fn remaining(&self, limit: &Limit, now: Moment) -> u32;

    /// See [`crate::Grant::reset`].
    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.wait(limit, now, limit.available())
    }

    /// Whether the consumed units exceed the nominal limit.
    #[inline]
    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        if limit.capacity() <= limit.nominal() {
            return false;
        }
        let whole = limit.whole();
        whole.capacity() - self.remaining(&whole, now) > limit.nominal()
    }

    /// How long to hold a request that is allowed now; only a leaky bucket holds requests.
    fn delay(&self, _limit: &Limit, _now: Moment) -> Span {
        Span::ZERO
    }

    /// Consumes `units`. The caller has checked that they fit.
    fn take(&mut self, limit: &Limit, now: Moment, units: u32);

    /// Charges `units` of a denied request: as many as fit now.
    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        let left = self.remaining(limit, now);
        self.take(limit, now, units.min(left));
    }

    /// Refunds up to `units`, the most recently consumed first.
    fn refund(&mut self, limit: &Limit, now: Moment, units: u64);

    /// The moment from which this state equals that of a key never seen.
    fn expires_at(&self, limit: &Limit) -> Moment;
}

/// Implements [`Usage`] for an enum whose variants each hold one usage.
///
/// # Example
///
/// ```
/// use tollgate_core::{Bucket, FixedWindow, Limit, Moment, Usage};
///
/// enum Either {
///     Bucket(Bucket),
///     Window(FixedWindow),
/// }
///
/// tollgate_core::impl_usage_for_variants!([] Either { Bucket, Window });
///
/// let limit = Limit::per_second(5);
/// let usages = [Either::Bucket(Bucket::default()), Either::Window(FixedWindow::default())];
/// assert!(usages.iter().all(|usage| usage.remaining(&limit, Moment::ZERO) == 5));
/// ```
#[macro_export]
macro_rules! impl_usage_for_variants {
    ([$($generics:tt)*] $enum:ty { $($variant:ident),+ $(,)? }) => {
        impl<$($generics)*> $crate::Usage for $enum {
            $crate::impl_usage_for_variants! { @variants [$($variant),+]
                fn settle(&mut self, limit: &$crate::Limit, now: $crate::Moment);
                fn not_before(&self, limit: &$crate::Limit) -> $crate::Moment;
                fn wait(&self, limit: &$crate::Limit, now: $crate::Moment, units: u32)
                    -> $crate::Span;
                fn remaining(&self, limit: &$crate::Limit, now: $crate::Moment) -> u32;
                fn reset(&self, limit: &$crate::Limit, now: $crate::Moment) -> $crate::Span;
                fn is_over_nominal(&self, limit: &$crate::Limit, now: $crate::Moment) -> bool;
                fn delay(&self, limit: &$crate::Limit, now: $crate::Moment) -> $crate::Span;
                fn take(&mut self, limit: &$crate::Limit, now: $crate::Moment, units: u32);
                fn penalise(&mut self, limit: &$crate::Limit, now: $crate::Moment, units: u32);
                fn refund(&mut self, limit: &$crate::Limit, now: $crate::Moment, units: u64);
                fn expires_at(&self, limit: &$crate::Limit) -> $crate::Moment;
            }
        }
    };
    (@variants $variants:tt $(
        fn $method:ident(&$($this:ident)+ $(, $name:ident: $type:ty)*) $(-> $answer:ty)?;
    )+) => {
        $($crate::impl_usage_for_variants! {
            @method $variants fn $method(&$($this)+ $(, $name: $type)*) $(-> $answer)?;
        })+
    };
    (@method $variants:tt
        fn $method:ident(&$this:ident $(, $name:ident: $type:ty)*) $(-> $answer:ty)?;
    ) => {
        #[inline]
        fn $method(&$this $(, $name: $type)*) $(-> $answer)? {
            $crate::impl_usage_for_variants!(@match $this $method $variants ($($name),*))
        }
    };
    (@method $variants:tt
        fn $method:ident(&mut $this:ident $(, $name:ident: $type:ty)*) $(-> $answer:ty)?;
    ) => {
        #[inline]
        fn $method(&mut $this $(, $name: $type)*) $(-> $answer)? {
            $crate::impl_usage_for_variants!(@match $this $method $variants ($($name),*))
        }
    };
    (@match $this:ident $method:ident [$($variant:ident),+] $arguments:tt) => {
        match $this {
            $(Self::$variant(usage) => {
                $crate::impl_usage_for_variants!(@call $method usage $arguments)
            })+
        }
    };
    (@call $method:ident $usage:ident ($($argument:ident),*)) => {
        $crate::Usage::$method($usage $(, $argument)*)
    };
}
