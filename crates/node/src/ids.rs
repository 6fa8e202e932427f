//! Users and groups of containers on the machine. All pods share one range, so that they share image layers.

use thane_executor::plan::IdRange;

/// What 0 inside is outside: above every range that distributions and service managers hand out.
pub(crate) const BASE: u32 = 0x7000_0000;
/// How many there are.
pub(crate) const COUNT: u32 = 65_536;
/// The range.
pub(crate) const RANGE: IdRange = IdRange { base: BASE, count: COUNT };
