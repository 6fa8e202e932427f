//! `CronWorkflows`.

use crate::spec::{CronWorkflowSpec, duration};

pub(super) fn check(spec: &CronWorkflowSpec) -> Result<(), String> {
    if spec.schedules.is_empty() {
        return Err("cron workflow must have at least one schedule".to_owned());
    }
    for schedule in &spec.schedules {
        check_schedule(schedule).map_err(|error| format!("cron schedule {schedule} is malformed: {error}"))?;
    }
    if !spec.timezone.is_empty() && jiff::tz::TimeZone::get(&spec.timezone).is_err() {
        return Err(format!("invalid timezone {:?}: unknown time zone {}", spec.timezone, spec.timezone));
    }
    if !["", "Allow", "Forbid", "Replace"].contains(&spec.concurrency_policy.as_str()) {
        return Err(format!("'{}' is not a valid concurrencyPolicy", spec.concurrency_policy));
    }
    if spec.starting_deadline_seconds.is_some_and(|seconds| seconds < 0) {
        return Err("startingDeadlineSeconds must be positive".to_owned());
    }
    Ok(())
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

fn check_schedule(schedule: &str) -> Result<(), String> {
    let mut text = schedule;
    if let Some(zoned) = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        let (zone, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
        jiff::tz::TimeZone::get(zone).map_err(|_| format!("provided bad location {zone}"))?;
        text = rest.trim();
    }
    if let Some(every) = text.strip_prefix("@every ") {
        return duration(every).map(drop).ok_or_else(|| format!("failed to parse duration {text}"));
    }
    if text.starts_with('@') {
        let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
        return if known.contains(&text) { Ok(()) } else { Err(format!("unrecognized descriptor: {text}")) };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: {fields:?}", fields.len()));
    }
    let bounds: [(u32, u32, &[&str]); 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    for (field, (low, high, names)) in fields.iter().zip(bounds) {
        field.split(',').try_for_each(|part| check_part(part, low, high, names))?;
    }
    Ok(())
}

fn check_part(part: &str, low: u32, high: u32, names: &[&str]) -> Result<(), String> {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if let Some(step) = step {
        let step: u32 = step.parse().map_err(|_| format!("failed to parse int from {step}"))?;
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
    }
    if matches!(range, "*" | "?") {
        return Ok(());
    }
    let number = |text: &str| -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        match names.iter().position(|name| *name == lower) {
            Some(index) => Ok(u32::try_from(index).unwrap_or(0) + low),
            None => text.parse().map_err(|_| format!("failed to parse int from {text}")),
        }
    };
    let (start, end) = match range.split_once('-') {
        Some((start, end)) => (number(start)?, number(end)?),
        None => (number(range)?, number(range)?),
    };
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    Ok(())
}
