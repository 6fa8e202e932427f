//! Functions on timestamps and durations.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::calls::error;
use super::eval::{Outcome, Stop};
use super::value::Val;

pub(super) fn shift<'a>(time: Timestamp, nanos: i64) -> Outcome<'a> {
    let moved = time.checked_add(SignedDuration::from_nanos(nanos));
    moved.map(Val::Timestamp).map_err(|_| error("timestamp overflow"))
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let value = match args {
        [Val::Timestamp(time)] => part_of_time(name, *time, TimeZone::UTC)?,
        [Val::Timestamp(time), Val::Text(zone)] if name.starts_with("get") => match zone_of(zone) {
            Ok(zone) => part_of_time(name, *time, zone)?,
            Err(stop) => return Some(Err(stop)),
        },
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

fn part_of_time(name: &str, time: Timestamp, zone: TimeZone) -> Option<i64> {
    let zoned = time.to_zoned(zone);
    Some(match name {
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
    })
}

/// A zone by its name, or by how far it is from UTC: `-05:30`.
fn zone_of(text: &str) -> Result<TimeZone, Stop> {
    if matches!(text, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    let Some((hours, minutes)) = text.split_once(':') else {
        return TimeZone::get(text).map_err(|_| error(format!("unknown time zone {text}")));
    };
    let number =
        |text: &str| text.parse::<i32>().map_err(|_| error(format!("strconv.Atoi: parsing {text:?}: invalid syntax")));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if text.starts_with('-') { minutes.saturating_neg() } else { minutes };
    let seconds = hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60));
    Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| error(format!("unknown time zone {text}")))
}
