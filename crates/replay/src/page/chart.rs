//! Charts as SVG, in whole coordinates, which the page stretches to its width.

use std::fmt;

use crate::page::escape::{Number, Text};
use crate::survey::{Slot, Timeline};
use crate::timestamp::Utc;

/// The height of a chart in its own coordinates.
const HEIGHT: u64 = 1000;
/// The width of a slot.
const SLOT: u64 = 10;

/// Stacked bars over the slots of a timeline.
pub(super) struct Bars<'a> {
    pub(super) class: &'static str,
    pub(super) label: &'a str,
    pub(super) timeline: &'a Timeline,
    /// From the bottom up.
    pub(super) layers: Vec<Layer<'a>>,
}

/// A layer of stacked bars.
pub(super) struct Layer<'a> {
    pub(super) name: &'a str,
    /// The class of its colour.
    pub(super) colour: String,
    /// Its value in each slot.
    pub(super) values: Vec<u64>,
}

/// A horizontal bar: a part of the longest one.
pub(super) struct Bar {
    pub(super) value: u64,
    pub(super) most: u64,
    pub(super) colour: &'static str,
}

// === impl Layer ===

impl<'a> Layer<'a> {
    /// The denied requests above the others, which have this name; above both, those without an
    /// answer, if there are any.
    pub(super) fn outcomes(others: &'a str, slots: &[Slot]) -> Vec<Layer<'a>> {
        let answered = slots.iter().map(|slot| slot.offered - slot.failed);
        let allowed = answered.zip(slots).map(|(count, slot)| count - slot.denied);
        let denied = slots.iter().map(|slot| slot.denied);
        let failed: Vec<u64> = slots.iter().map(|slot| slot.failed).collect();
        let mut layers = vec![
            Layer {
                name: others,
                colour: "allowed".to_owned(),
                values: allowed.collect(),
            },
            Layer {
                name: "denied",
                colour: "denied".to_owned(),
                values: denied.collect(),
            },
        ];
        if failed.iter().any(|count| *count > 0) {
            layers.push(Layer {
                name: "without an answer",
                colour: "failed".to_owned(),
                values: failed,
            });
        }
        layers
    }
}

// === impl Bars ===

impl Bars<'_> {
    /// The largest sum of a slot.
    pub(super) fn most(&self) -> u64 {
        let sum = |slot: usize| -> u64 { self.layers.iter().map(|layer| layer.values[slot]).sum() };
        let slots = 0..self.timeline.slots.len();
        slots.map(sum).max().unwrap_or(0).max(1)
    }

    /// Writes one slot: a group with a tooltip and a bar for each layer that is not zero.
    fn slot(&self, slot: usize, most: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layers.iter().all(|layer| layer.values[slot] == 0) {
            return Ok(());
        }
        write!(f, "<g><title>{}", Utc(self.timeline.start(slot)))?;
        for layer in &self.layers {
            write!(f, "\n{}: {}", Text(layer.name), Number(layer.values[slot]))?;
        }
        f.write_str("</title>")?;
        let x = u64::try_from(slot).unwrap_or(0) * SLOT;
        let mut below = 0;
        for layer in &self.layers {
            let value = layer.values[slot];
            // From sums, so that rounding leaves no gap; one unit is visible however small it is.
            let (from, to) = (scale(below, most), scale(below + value, most));
            if value > 0 {
                let height = (to - from).max(HEIGHT / 90);
                let y = HEIGHT - (from + height).min(HEIGHT);
                let (width, colour) = (SLOT - 1, &layer.colour);
                write!(
                    f,
                    "<rect class=\"{colour}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
                     height=\"{height}\"/>"
                )?;
            }
            below += value;
        }
        f.write_str("</g>")
    }
}

impl fmt::Display for Bars<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, slots) = (self.most(), self.timeline.slots.len());
        let width = u64::try_from(slots).unwrap_or(1) * SLOT;
        write!(
            f,
            "<svg class=\"{}\" viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" \
             role=\"img\" aria-label=\"{}\">",
            self.class,
            Text(self.label)
        )?;
        for slot in 0..slots {
            self.slot(slot, most, f)?;
        }
        f.write_str("</svg>")
    }
}

fn scale(value: u64, most: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(HEIGHT) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(HEIGHT).min(HEIGHT)
}

// === impl Bar ===

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = u64::from(self.value > 0) * (HEIGHT / 200);
        let width = scale(self.value, self.most).max(least);
        write!(
            f,
            "<svg viewBox=\"0 0 {HEIGHT} 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect class=\"{}\" width=\"{width}\" height=\"1\"/></svg>",
            self.colour
        )
    }
}
