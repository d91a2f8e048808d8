//! Points in time: the notations that headers, certificates and logs use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970 of a civil date and time in UTC; `None` before 1970 or if a part is out of range.
pub(crate) fn from_civil(year: u64, month: u64, day: u64, hour: u64, minute: u64, second: u64) -> Option<u64> {
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    // Years that begin in March put the leap day last, so that the days before a month are a linear formula.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// `2026-11-30T21:50:00Z`.
pub(crate) fn format(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era_day = days % 146_097;
    let year_of_era = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form that RFC 9110 §5.6.7 lets a sender use.
pub(crate) fn parse_http(text: &str) -> Option<u64> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = words.next()?.parse().ok()?;
    let mut time = words.next()?.split(':').map(|part| part.parse().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if time.next().is_some() || words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    from_civil(year, month, day, hour, minute, second)
}

/// `2026-11-30T22:50:00.123456789+01:00`, as RFC 3339 §5.6 has it: any fraction or none, cut to nanoseconds, and `Z` or an
/// offset. `None` before 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once('T')?;
    let time_end = rest.find(['Z', '+', '-'])?;
    let (time, offset) = rest.split_at(time_end);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));

    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let local = from_civil(year, month, day, hour, minute, second)?;
    let utc = match offset.split_at(1) {
        ("Z", "") => local,
        (sign, offset) => {
            let [hours, minutes] = numbers(offset, ':')?;
            let seconds = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?;
            if sign == "+" { local.checked_sub(seconds)? } else { local.checked_add(seconds)? }
        }
    };
    let digits = fraction.len().min(9);
    let number: u64 = fraction.bytes().all(|byte| byte.is_ascii_digit()).then(|| fraction[..digits].parse().ok())??;
    let nanoseconds = number * 10_u64.pow(9 - digits as u32);
    UNIX_EPOCH.checked_add(Duration::from_secs(utc) + Duration::from_nanos(nanoseconds))
}

fn numbers<const COUNT: usize>(text: &str, separator: char) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    let mut parts = text.split(separator);
    for number in &mut numbers {
        *number = parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values are from `date -u -d … +%s`.
    #[test]
    fn http_dates() {
        assert_eq!(parse_http("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        for wrong in [
            "",
            "Sunday",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_http(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn time_stamps_of_logs() {
        for (text, seconds, nanoseconds) in [
            ("1994-11-06T08:49:37Z", 784_111_777, 0),
            ("1994-11-06T08:49:37.000000001Z", 784_111_777, 1),
            ("1994-11-06T10:19:37.25+01:30", 784_111_777, 250_000_000),
            ("1994-11-05T22:49:37.0123456789-10:00", 784_111_777, 12_345_678),
        ] {
            let expected = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
            assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "1994-11-06",
            "T08:49:37Z",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49Z",
            "1994-11-06T08:49:37.Z",
            "1994-11-06T08:49:37.é1Z",
            "1994-11-06T08:49:37.5 1Z",
            "1994-11-06T08:49:+7Z",
            "1994-11-06T08:49:37+01",
            "1994-11-06T08:49:37+99999999999999999:00",
            "1994-11-06T08:49:37Zulu",
            "1970-01-01T00:00:00+00:01",
        ] {
            assert_eq!(parse_rfc3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn formats_around_leap_days() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(format(seconds), text);
        }
    }
}
