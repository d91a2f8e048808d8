//! Schedules of periodic jobs: the syntax that every backend reads alike, and when they are due.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::time::Timestamp;

/// A schedule in the five fields of cron: minute, hour, day of the month, month, day of the week.
///
/// Each field is `*` or a list of numbers and ranges, each of which may have a step: `*/15`, `1,15`, `8-18/2`. Months and
/// days of the week may be three-letter names. Sunday is 0. If both days are restricted, either one is enough. That is what
/// Kubernetes and Nomad read alike; seconds, years, `@daily`, `?`, `L`, `W`, `#` and `7` for Sunday are refused.
///
/// Where the clocks go forward or back, platforms differ in whether a run within the hour in question is left out, or
/// repeated; none starts more than two. Here one that the clocks skip is left out, and one in a doubled hour is started the
/// first time. `UTC` has no such hours.
///
/// ```
/// use scheduler_core::Cron;
/// let nightly: Cron = "30 2 * * mon-fri".parse()?;
/// let next = nightly.next("2026-11-27T12:00:00Z".parse()?, "Europe/Berlin");
/// assert_eq!(next.unwrap().to_string(), "2026-11-30T01:30:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both kinds of days are restricted, so that either is enough.
    either_day: bool,
}

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no schedule: {problem}")]
#[non_exhaustive]
pub struct CronError {
    /// The text that was refused.
    pub text: String,
    /// What is wrong with it.
    pub problem: CronProblem,
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronProblem {
    /// It has more or fewer fields.
    #[error("it has {0} fields; there are five: minute, hour, day of the month, month, day of the week")]
    Fields(usize),
    /// A part of a field cannot be read.
    #[error("{part:?} in the field for the {field} is none of *, a number, a range, each with a step or without")]
    Part {
        /// The field.
        field: &'static str,
        /// The part.
        part: String,
    },
    /// A number is outside of what the field allows.
    #[error("{number} in the field for the {field} is not within {least}-{most}")]
    Range {
        /// The field.
        field: &'static str,
        /// The number.
        number: u32,
        /// The least that it may be.
        least: u32,
        /// The most that it may be.
        most: u32,
    },
    /// No day has this date.
    #[error("no month that it names has such a day")]
    Never,
}

struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: MONTHS },
    Field { name: "day of the week", least: 0, most: 6, names: WEEKDAYS },
];

impl Field {
    /// The numbers that a text allows, as bits.
    fn bits(&self, text: &str) -> Result<u64, CronProblem> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    fn part(&self, part: &str) -> Result<u64, CronProblem> {
        let unreadable = || CronProblem::Part { field: self.name, part: part.to_owned() };
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, number(step).filter(|step| *step > 0).ok_or_else(unreadable)?),
            None => (part, 1),
        };
        let value = |text: &str| {
            let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
            let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + self.least);
            let number = named.or_else(|| number(text)).ok_or_else(unreadable)?;
            if !(self.least..=self.most).contains(&number) {
                return Err(CronProblem::Range { field: self.name, number, least: self.least, most: self.most });
            }
            Ok(number)
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (value(first)?, value(last)?),
            None if range == "*" => (self.least, self.most),
            // `5/15` means something else on each platform.
            None if part.contains('/') => return Err(unreadable()),
            None => (value(range)?, value(range)?),
        };
        if first > last {
            return Err(unreadable());
        }
        Ok((first..=last).step_by(step.max(1) as usize).fold(0, |bits, number| bits | 1 << number))
    }
}

impl std::str::FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let fail = |problem| CronError { text: text.to_owned(), problem };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(fail(CronProblem::Fields(fields.len())));
        };
        let [a, b, c, d, e] = FIELDS;
        let cron = Self {
            minutes: a.bits(minutes).map_err(fail)?,
            hours: b.bits(hours).map_err(fail)?,
            days: c.bits(days).map_err(fail)?,
            months: d.bits(months).map_err(fail)?,
            weekdays: e.bits(weekdays).map_err(fail)?,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        let longest = |month: u32| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let possible = (1..=12)
            .filter(|month| has(cron.months, *month))
            .any(|month| (1..=longest(month)).any(|day| has(cron.days, day)) || cron.either_day);
        if possible { Ok(cron) } else { Err(fail(CronProblem::Never)) }
    }
}

fn has(bits: u64, number: u32) -> bool {
    bits & (1 << number) != 0
}

/// So far ahead there is a 29th of February on each day of the week.
const HORIZON_DAYS: u32 = 366 * 41;

impl Cron {
    /// The first time after `after` at which a run is due in this time zone. `None` if there is no such zone, or never one.
    #[must_use]
    pub fn next(&self, after: Timestamp, time_zone: &str) -> Option<Timestamp> {
        let zone = TimeZone::get(time_zone).ok()?;
        let after = jiff::Timestamp::from_millisecond(after.millis()).ok()?;
        let mut date = after.to_zoned(zone.clone()).date();
        for _ in 0..HORIZON_DAYS {
            if self.on(date)
                && let Some(due) =
                    self.times().filter_map(|time| occurrence(&zone, date, time)).find(|due| *due > after)
            {
                return Some(Timestamp::from_millis(due.as_millisecond()));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn on(&self, date: Date) -> bool {
        let of = |bits, number: i8| u32::try_from(number).is_ok_and(|number| has(bits, number));
        let day = of(self.days, date.day());
        let weekday = of(self.weekdays, date.weekday().to_sunday_zero_offset());
        of(self.months, date.month()) && if self.either_day { day || weekday } else { day && weekday }
    }

    fn times(&self) -> impl Iterator<Item = Time> {
        let (hours, minutes) = (self.hours, self.minutes);
        let all = (0..24_i8).flat_map(|hour| (0..60_i8).map(move |minute| (hour, minute)));
        let of = |bits, number: i8| u32::try_from(number).is_ok_and(|number| has(bits, number));
        all.filter(move |(hour, minute)| of(hours, *hour) && of(minutes, *minute))
            .filter_map(|(hour, minute)| Time::new(hour, minute, 0, 0).ok())
    }
}

/// When the clocks show this for the first time; `None` if they skip it.
fn occurrence(zone: &TimeZone, date: Date, time: Time) -> Option<jiff::Timestamp> {
    let shown = zone.to_ambiguous_timestamp(date.to_datetime(time));
    match shown.offset() {
        AmbiguousOffset::Gap { .. } => None,
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => shown.compatible().ok(),
    }
}

/// Whether there is a time zone of this name.
pub(crate) fn is_zone(name: &str) -> bool {
    TimeZone::get(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(cron: &str, after: &str, zone: &str) -> String {
        let cron: Cron = cron.parse().unwrap();
        cron.next(after.parse().unwrap(), zone).map_or_else(|| "never".to_owned(), |due| due.to_string())
    }

    #[test]
    fn fields_are_read_as_cron_reads_them() {
        let after = "2026-01-30T10:07:30Z";
        for (cron, due) in [
            ("* * * * *", "2026-01-30T10:08:00Z"),
            ("*/15 * * * *", "2026-01-30T10:15:00Z"),
            ("7 10 * * *", "2026-01-31T10:07:00Z"),
            ("0 8-18/4 * * *", "2026-01-30T12:00:00Z"),
            ("0 0 1,31 * *", "2026-01-31T00:00:00Z"),
            ("0 0 * feb *", "2026-02-01T00:00:00Z"),
            ("0 0 * * SUN", "2026-02-01T00:00:00Z"),
            // Both days restricted: a Monday, or the 13th.
            ("0 0 13 * mon", "2026-02-02T00:00:00Z"),
            // `*/2` does not restrict: an odd day of the month that is also a Monday.
            ("0 0 */2 * mon", "2026-02-09T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ] {
            assert_eq!(next(cron, after, "UTC"), due, "{cron}");
        }
    }

    #[test]
    fn what_no_platform_or_only_one_reads_is_refused() {
        for cron in [
            "",
            "* * * *",
            "* * * * * *",
            "@daily",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5/15 * * * *",
            "*/0 * * * *",
            "9-5 * * * *",
            "? * * * *",
            "* * L * *",
            "* * * * 1#2",
            "+5 * * * *",
            "0 0 31 2,4 *",
            ", * * * *",
            "1,,2 * * * *",
            "* * * * monday",
            "TZ=UTC * * * *",
        ] {
            assert!(cron.parse::<Cron>().is_err(), "{cron}");
        }
    }

    #[test]
    fn an_hour_that_is_skipped_starts_nothing_and_a_doubled_one_starts_one() {
        // In 2027 Berlin's clocks go from 02:00 to 03:00 on 28 March, and from 03:00 to 02:00 on 31 October.
        let zone = "Europe/Berlin";
        assert_eq!(next("30 2 * * *", "2027-03-27T12:00:00Z", zone), "2027-03-29T00:30:00Z");
        let first = next("30 2 * * *", "2027-10-30T12:00:00Z", zone);
        assert_eq!(first, "2027-10-31T00:30:00Z");
        assert_eq!(next("30 2 * * *", &first, zone), "2027-11-01T01:30:00Z");
    }

    #[test]
    fn an_unknown_zone_has_no_next_run() {
        assert_eq!(next("* * * * *", "2026-01-30T10:07:30Z", "Europe/Pariss"), "never");
        assert!(is_zone("Europe/Paris") && !is_zone("Europe/Pariss") && !is_zone(""));
    }
}
