//! When a periodic job is due.

use jiff::{
    Timestamp,
    civil::{Date, Time as Clock},
    tz::{AmbiguousOffset, TimeZone},
};

use crate::time::Time;

/// How far ahead a launch is looked for.
const YEARS: i16 = 8;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// An expression of five fields, or of seven: with seconds before and years after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cron {
    seconds: Vec<i8>,
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    /// Both kinds of days are restricted: either is enough.
    either: bool,
}

/// Why an expression is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CronError {
    /// In the server's words.
    Refused(String),
    Unrecorded,
}

impl Cron {
    pub(crate) fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<_> = text.split_whitespace().collect();
        let (seconds, five) = match fields.as_slice() {
            five if five.len() == 5 => (None, five),
            [second, five @ .., "*"] if five.len() == 5 => (Some(*second), five),
            few if few.len() < 5 => return Err(CronError::Refused("missing field(s)".to_owned())),
            _ => return Err(CronError::Unrecorded),
        };
        let [minutes, hours, days, months, weekdays] = five else { return Err(CronError::Unrecorded) };
        let read =
            |text: &str, low: i8, high: i8, names: &[&str]| field(text, low, high, names).ok_or(CronError::Unrecorded);
        let mut weekday_numbers = read(weekdays, 0, 7, &WEEKDAYS)?;
        weekday_numbers.iter_mut().for_each(|day| *day %= 7);
        Ok(Self {
            seconds: seconds.map_or(Ok(vec![0]), |text| read(text, 0, 59, &[]))?,
            minutes: read(minutes, 0, 59, &[])?,
            hours: read(hours, 0, 23, &[])?,
            days: read(days, 1, 31, &[])?,
            months: read(months, 1, 12, &MONTHS)?,
            weekdays: weekday_numbers,
            either: *days != "*" && *weekdays != "*",
        })
    }

    /// The first moment after this one that it names in the zone. One that the clocks skip is left out; one that they
    /// repeat is taken the first time.
    pub(crate) fn next(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        let after = Timestamp::from_nanosecond(i128::from(after.0)).ok()?;
        let mut date = zone.to_datetime(after).date();
        let last = date.year() + YEARS;
        while date.year() <= last {
            if let Some(found) = self.on(date, after, zone) {
                return i64::try_from(found.as_nanosecond()).ok().map(Time);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn on(&self, date: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let day = self.days.contains(&date.day());
        let weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let due = if self.either { day || weekday } else { day && weekday };
        if !due || !self.months.contains(&date.month()) {
            return None;
        }
        let clocks = self.hours.iter().flat_map(|hour| {
            self.minutes.iter().flat_map(move |minute| self.seconds.iter().map(move |second| (*hour, *minute, *second)))
        });
        let moments = clocks.filter_map(|(hour, minute, second)| {
            let local = date.to_datetime(Clock::new(hour, minute, second, 0).ok()?);
            let ambiguous = zone.to_ambiguous_timestamp(local);
            match ambiguous.offset() {
                AmbiguousOffset::Gap { .. } => None,
                _ => ambiguous.earlier().ok(),
            }
        });
        moments.filter(|moment| *moment > after).min()
    }
}

/// A field: numbers, names, ranges and steps, in a list with commas.
fn field(text: &str, low: i8, high: i8, names: &[&str]) -> Option<Vec<i8>> {
    let number = |text: &str| -> Option<i8> {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name)).and_then(|at| i8::try_from(at).ok());
        named.map(|at| at + low).or_else(|| text.parse().ok())
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(range)?, if step.is_some() { high } else { number(range)? }),
        };
        if from < low || to > high || from > to {
            return None;
        }
        all.extend((from..=to).step_by(step.unwrap_or(1)));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, after: &str, zone: &str) -> String {
        let after: Timestamp = after.parse().expect("a time");
        let zone = TimeZone::get(zone).expect("a zone");
        let after = Time(i64::try_from(after.as_nanosecond()).expect("in range"));
        Cron::parse(expression).expect("an expression").next(after, &zone).map_or_else(String::new, |at| at.to_string())
    }

    #[test]
    fn the_next_launch_is_the_first_that_the_expression_names() {
        let after = "2026-11-27T12:00:30Z";
        assert_eq!(next("* * * * *", after, "UTC"), "2026-11-27T12:01:00Z");
        assert_eq!(next("*/2 * * * * * *", after, "UTC"), "2026-11-27T12:00:32Z");
        assert_eq!(next("0 0 1 1 *", after, "UTC"), "2027-01-01T00:00:00Z");
        assert_eq!(next("30 2 * * mon-fri", after, "Europe/Berlin"), "2026-11-30T01:30:00Z");
        assert_eq!(next("0 12 13 * fri", after, "UTC"), "2026-12-04T12:00:00Z", "either day");
        assert_eq!(next("0 0 30 2 *", after, "UTC"), "", "there is no such day");
    }

    #[test]
    fn a_time_that_the_clocks_skip_is_left_out() {
        // 29 March 2026, 02:00 to 03:00 does not exist there.
        assert_eq!(next("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin"), "2026-03-30T00:30:00Z");
        // 25 October 2026, 02:30 comes twice.
        assert_eq!(next("30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Berlin"), "2026-10-25T00:30:00Z");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        assert_eq!(Cron::parse("every day").err(), Some(CronError::Refused("missing field(s)".to_owned())));
        for unknown in ["@daily", "* * * * * *", "61 * * * *", "5-1 * * * *", "* * L * *", "*/0 * * * *"] {
            assert!(Cron::parse(unknown).is_err(), "{unknown}");
        }
    }
}
