//! `reservations`: how many may be open at once, and for how long.

use tollgate_core::Span;
use tollgate_engine::ReservationBounds;
use tollgate_rules::Settings;

/// The most open reservations that can be allowed.
const OPEN_MAX: u32 = 10_000_000;
/// The longest time until a reservation expires.
const LIFETIME_MAX: Span = Span::DAY;

/// `reservations`.
pub(super) fn take(map: &Settings<'_>) -> ReservationBounds {
    let default = ReservationBounds::default();
    let max = u32::try_from(default.max).expect("the default is small");
    let max = map.count("max", max, (1, OPEN_MAX));
    ReservationBounds {
        max: usize::try_from(max).expect("32 bits fit"),
        lifetime: map.span("lifetime", default.lifetime, (Span::SECOND, LIFETIME_MAX)),
    }
}
