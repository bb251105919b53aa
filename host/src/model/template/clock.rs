//! Dates for `strftime_now`, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Seconds since 1970; 0 for a clock before it.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// `format` with the fields of `seconds` since 1970, UTC; the character of a field that is not supported, if there is
/// one.
pub(super) fn format_time(format: &str, seconds: u64) -> Result<String, char> {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[((days + 4) % 7) as usize]);
    let hour12 = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (c, width) = match chars.next().unwrap_or('%') {
            '-' => (chars.next().unwrap_or('-'), 0),
            c => (c, 2),
        };
        match c {
            'Y' => out.push_str(&year.to_string()),
            'B' => out.push_str(month_name),
            'b' | 'h' => out.push_str(&month_name[..3]),
            'A' => out.push_str(day_name),
            'a' => out.push_str(&day_name[..3]),
            'p' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            'Z' => out.push_str("UTC"),
            'z' => out.push_str("+0000"),
            'F' => out.push_str(&format!("{year}-{month:02}-{day:02}")),
            'T' => out.push_str(&format!("{hour:02}:{minute:02}:{second:02}")),
            '%' => out.push('%'),
            _ => {
                let value = match c {
                    'm' => month,
                    'd' => day,
                    'H' => hour,
                    'I' => hour12,
                    'M' => minute,
                    'S' => second,
                    'y' => year % 100,
                    _ => return Err(c),
                };
                out.push_str(&format!("{value:0width$}"));
            }
        }
    }
    Ok(out)
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar. Years are taken to begin in March, so that
/// the day that only some have is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let day = days + 719_468; // days since 0000-03-01
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // 0 is March
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_come_out() {
        let format = "%Y-%m-%d %H:%M:%S %A %d %b %-d %B %I %p %y%%";
        let cases = [
            (0, "1970-01-01 00:00:00 Thursday 01 Jan 1 January 12 AM 70%"),
            (951_782_400, "2000-02-29 00:00:00 Tuesday 29 Feb 29 February 12 AM 00%"),
            (1_767_225_599, "2025-12-31 23:59:59 Wednesday 31 Dec 31 December 11 PM 25%"),
            (4_107_542_400, "2100-03-01 00:00:00 Monday 01 Mar 1 March 12 AM 00%"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(format_time(format, seconds).as_deref(), Ok(wanted));
        }
        assert_eq!(format_time("%Q", 0), Err('Q'));
        assert_eq!(format_time("100%", 0).as_deref(), Ok("100%"));
    }
}
