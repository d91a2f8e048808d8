//! The one notation of time in headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form that RFC 9110 §5.6.7 lets a sender use.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let mut time = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let whole = time.next().is_none() && words.next() == Some("GMT") && words.next().is_none();
    let fits = (1970..=9999).contains(&year) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !whole || !fits {
        return None;
    }
    // Years that begin in March put the leap day last, so that the days before a month are a linear formula.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = (365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1).checked_sub(719_468)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + hour * 3_600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_headers() {
        // By `date -u -d … +%s`.
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2028 23:59:59 GMT", 1_835_481_599),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ] {
            assert_eq!(parse(text), UNIX_EPOCH.checked_add(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "x, 1 Jan 1 0:0:0 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
