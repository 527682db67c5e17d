//! Fixed windows in which instances with local counts may have over-admitted.
//!
//! The units beyond the limit are owed: each window that follows starts with the units still owed,
//! and pays back as many as the limit allows. If there are several versions of a limit, the largest
//! counts, also for decisions under a smaller one: units that it allows are not owed, and each
//! window pays back as many.

use tollgate_core::{FixedWindow, Limit, Moment, Span, Usage};

/// A window, and how many of its units are not owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkedWindow {
    window: FixedWindow,
    /// The capacity of the largest limit that has charged the window.
    mark: u32,
}

// === impl MarkedWindow ===

impl MarkedWindow {
    pub(crate) const fn new(window: FixedWindow, mark: u32) -> MarkedWindow {
        MarkedWindow { window, mark }
    }

    /// A window without debt: some limit has allowed all units used in it.
    pub(crate) const fn without_debt(window: FixedWindow) -> MarkedWindow {
        MarkedWindow::new(window, window.used())
    }

    pub(crate) const fn window(&self) -> FixedWindow {
        self.window
    }

    /// Adds units that `limit` has allowed in the window that ends at `end`, whether they fit or
    /// not.
    pub(crate) fn add(&mut self, limit: &Limit, units: u32, end: Moment) {
        let used = self.window.used().saturating_add(units);
        self.window = FixedWindow::new(end, used);
        self.mark = self.mark.max(limit.capacity());
    }

    const fn owed(&self) -> u32 {
        self.window.used().saturating_sub(self.mark)
    }

    /// How many windows it takes to pay this many units back.
    fn windows(&self, units: u32) -> u64 {
        u64::from(units.div_ceil(self.mark.max(1)))
    }
}

impl Usage for MarkedWindow {
    /// Starts the window that contains `now`, with what those before it owe.
    fn settle(&mut self, limit: &Limit, now: Moment) {
        let (owed, end) = (self.owed(), self.window.end());
        if owed > 0 && end <= now {
            let passed = now.since(end).as_nanos() / limit.window().as_nanos();
            let paid = passed.saturating_mul(u64::from(self.mark));
            let owed = owed.saturating_sub(u32::try_from(paid).unwrap_or(u32::MAX));
            self.window = FixedWindow::new(end + limit.window().times(passed + 1), owed);
        }
        self.window.settle(limit, now);
    }

    fn not_before(&self, limit: &Limit) -> Moment {
        self.window.not_before(limit)
    }

    /// Until the end of the window, and of as many more as it takes to pay the debt.
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        let wait = self.window.wait(limit, now, units);
        if wait.is_zero() {
            return wait;
        }
        let beyond = self.window.used() - (limit.available() - units);
        wait + limit.window().times(self.windows(beyond) - 1)
    }

    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        self.window.remaining(limit, now)
    }

    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.window.reset(limit, now)
    }

    fn take(&mut self, limit: &Limit, now: Moment, units: u32) {
        self.window.take(limit, now, units);
        self.mark = self.mark.max(limit.capacity());
    }

    fn refund(&mut self, limit: &Limit, now: Moment, units: u64) {
        self.window.refund(limit, now, units);
    }

    fn expires_at(&self, limit: &Limit) -> Moment {
        let windows = self.windows(self.owed());
        self.window.expires_at(limit) + limit.window().times(windows)
    }
}
