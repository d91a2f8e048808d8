use std::{
    fmt,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::Pace;

/// A moment by the cluster's clock, in nanoseconds since the Unix epoch, as Nomad writes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) i64);

impl Time {
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// How long it is until a later moment. Zero when that is past.
    pub(crate) fn until(self, later: Self) -> Duration {
        Duration::from_nanos(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl fmt::Display for Time {
    /// As Go writes a time in JSON: RFC 3339 without trailing zeros in the fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // The civil date of a day number, by counting from 1 March of the year 0 in eras of 400 years.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A duration from the nanoseconds that a job gives. A negative one is none.
pub(crate) fn from_nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A duration as Go prints it: `1m0s`, `1.5s`, `554.695827ms`.
pub(crate) struct GoDuration(pub(crate) Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_nanos();
        let (unit, scale, width) = match total {
            0 => return f.write_str("0s"),
            1..1_000 => ("ns", 1, 0),
            1_000..1_000_000 => ("µs", 1_000, 3),
            1_000_000..1_000_000_000 => ("ms", 1_000_000, 6),
            _ => ("s", 1_000_000_000, 9),
        };
        let (mut whole, fraction) = (total / scale, total % scale);
        if unit == "s" {
            let (hours, minutes) = (whole / 3600, whole / 60 % 60);
            if hours > 0 {
                write!(f, "{hours}h")?;
            }
            if whole >= 60 {
                write!(f, "{minutes}m")?;
            }
            whole %= 60;
        }
        write!(f, "{whole}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:0width$}").trim_end_matches('0'))?;
        }
        f.write_str(unit)
    }
}

/// Reads a duration as Go writes it: a number with a unit, or several in a row.
pub(crate) fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

/// The cluster's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    origin: Time,
    pace: Pace,
}

impl Clock {
    /// Starts at the wall clock's time. One that only a test moves starts at a whole second, so that each run is like
    /// the last one.
    pub(crate) fn start(pace: Pace) -> Self {
        let mut origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if pace == Pace::Manual {
            origin = Duration::from_secs(origin.as_secs());
        }
        Self { started: Instant::now(), origin: Time(nanos(origin)), pace }
    }

    pub(crate) fn origin(&self) -> Time {
        self.origin
    }

    /// What time it is, or none when only a test knows.
    pub(crate) fn now(&self) -> Option<Time> {
        match self.pace {
            Pace::Times(speed) => Some(self.origin.after(self.started.elapsed().saturating_mul(speed.get()))),
            Pace::Manual => None,
        }
    }

    /// Waits. For ever, when only a test moves the clock: who waits is then woken by the test.
    pub(crate) async fn sleep_until(&self, until: Time) {
        match (self.now(), self.pace) {
            (Some(now), Pace::Times(speed)) => tokio::time::sleep(now.until(until) / speed.get()).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_written_as_recorded() {
        assert_eq!(Time(1_796_073_195_639_007_254).to_string(), "2026-11-30T21:13:15.639007254Z");
        assert_eq!(Time(1_796_073_155_073_850_930).to_string(), "2026-11-30T21:12:35.07385093Z");
        assert_eq!(Time(951_782_400_000_000_000).to_string(), "2000-02-29T00:00:00Z");
        for (nanos, text) in [
            (5_000_000_000, "5s"),
            (60_000_000_000, "1m0s"),
            (1_246_651_033, "1.246651033s"),
            (554_695_827, "554.695827ms"),
            (100_000_000, "100ms"),
            (5_400_000_000_000, "1h30m0s"),
        ] {
            assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
            assert_eq!(parse_go_duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for wrong in ["", "banana", "5", "s", "5 s", "-1s"] {
            assert_eq!(parse_go_duration(wrong), None, "{wrong}");
        }
    }
}
