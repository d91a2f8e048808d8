//! Points in time by the server's clock, and spans in whole seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 in UTC.
///
/// Verdicts and ages use the time of the server that reported them, never the local clock.
///
/// ```
/// use scheduler_core::Timestamp;
/// let time: Timestamp = "2026-11-30T21:42:38Z".parse()?;
/// assert_eq!(time.to_string(), "2026-11-30T21:42:38Z");
/// # Ok::<(), scheduler_core::TimestampError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time such as 2026-11-30T21:42:38Z (RFC 3339)")]
pub struct TimestampError(String);

impl Timestamp {
    /// So many milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it was not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time and `span` more.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

// Days and dates by the proleptic Gregorian calendar, counted in eras of 400 years from 0000-03-01.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        let (year, month, day) = date_of(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)?;
        if millis != 0 {
            write!(f, ".{millis:03}")?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse(text).map(Self).ok_or_else(|| TimestampError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>, least: i64, most: i64| -> Option<i64> {
        let digits = text.get(range)?;
        let value = digits.chars().all(|c| c.is_ascii_digit()).then(|| digits.parse::<i64>().ok())??;
        (least..=most).contains(&value).then_some(value)
    };
    for (at, mark) in [(4, "-"), (7, "-"), (13, ":"), (16, ":")] {
        (text.get(at..=at)? == mark).then_some(())?;
    }
    matches!(text.get(10..11)?, "T" | "t" | " ").then_some(())?;
    let (year, month, day) = (number(0..4, 0, 9999)?, number(5..7, 1, 12)?, number(8..10, 1, 31)?);
    let days = days_of(year, month, day);
    (date_of(days) == (year, month, day)).then_some(())?;
    // A leap second (60) counts as the first of the next minute.
    let seconds = days * 86_400 + number(11..13, 0, 23)? * 3600 + number(14..16, 0, 59)? * 60 + number(17..19, 0, 60)?;
    let mut rest = text.get(19..)?;
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit())?;
        let (digits, after) = fraction.split_at(end);
        (!digits.is_empty()).then_some(())?;
        millis = format!("{:0<3}", digits.get(..3).unwrap_or(digits)).parse::<i64>().ok()?;
        rest = after;
    }
    let offset = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let at = text.len() - rest.len();
            (rest.len() == 6 && rest.get(3..4)? == ":").then_some(())?;
            sign * (number(at + 1..at + 3, 0, 23)? * 60 + number(at + 4..at + 6, 0, 59)?) * 60
        }
    };
    Some((seconds - offset) * 1000 + millis)
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;
    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

/// A span in whole seconds, the grain of both Kubernetes' and Nomad's time-outs. A plain number in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(u32);

impl Seconds {
    /// So many seconds.
    #[must_use]
    pub const fn new(seconds: u32) -> Self {
        Self(seconds)
    }

    /// How many seconds.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The same span as a [`Duration`].
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl From<Seconds> for Duration {
    fn from(span: Seconds) -> Self {
        span.duration()
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_rfc_3339() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-30T21:42:38.123456Z", 1_796_074_958_123),
            ("2026-11-30T22:42:38+01:00", 1_796_074_958_000),
            ("1969-12-31T23:59:59.500Z", -500),
        ] {
            assert_eq!(text.parse::<Timestamp>().map(Timestamp::millis), Ok(millis), "{text}");
        }
        for text in [
            "",
            "2026-11-30",
            "2026-02-30T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T00:00:00",
            "2026-11-30T00:00:00.Z",
            "2026-11-30T00:00:00+1:00",
            "+026-11-30T00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,32}") {
            let _ = text.parse::<Timestamp>();
        }

        #[test]
        fn times_survive_a_round_trip(millis in -62_167_219_200_000_i64..253_402_300_800_000) {
            let time = Timestamp::from_millis(millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
