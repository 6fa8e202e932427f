//! Functions on timestamps and durations.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::calls::error;
use super::eval::Outcome;
use super::value::Val;

pub(super) fn shift<'a>(time: Timestamp, nanos: i64) -> Outcome<'a> {
    let moved = time.checked_add(SignedDuration::from_nanos(nanos));
    moved.map(Val::Timestamp).map_err(|_| error("timestamp overflow"))
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let value = match args {
        [Val::Timestamp(time)] => {
            let zoned = time.to_zoned(TimeZone::UTC);
            match name {
                "getFullYear" => zoned.year().into(),
                "getMonth" => i64::from(zoned.month()) - 1,
                "getDayOfMonth" => i64::from(zoned.day()) - 1,
                "getDate" => zoned.day().into(),
                "getDayOfWeek" => zoned.weekday().to_sunday_zero_offset().into(),
                "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
                "getHours" => zoned.hour().into(),
                "getMinutes" => zoned.minute().into(),
                "getSeconds" => zoned.second().into(),
                "getMilliseconds" => zoned.millisecond().into(),
                _ => return None,
            }
        }
        [Val::Duration(nanos)] => match name {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(Val::Int(value)))
}
