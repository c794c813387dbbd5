//! Days of the calendar, and the nights of a stay.

use crate::error::Error;

/// The most nights of a stay.
pub const NIGHTS_MAX: usize = 31;

/// A night: from one day to the next, both as `YYYY-MM-DD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Night {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl Day {
    fn parse(text: &str) -> Option<Day> {
        let is_form = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_form {
            return None;
        }
        let (year, month) = (text[..4].parse().ok()?, text[5..7].parse().ok()?);
        let day = Day { year, month, day: text[8..].parse().ok()? };
        let is_there = (1..=12).contains(&month) && day.day >= 1 && day.day <= day.month_days();
        is_there.then_some(day)
    }

    fn month_days(self) -> u8 {
        let is_leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn next(self) -> Day {
        match self {
            Day { day, .. } if day < self.month_days() => Day { day: day + 1, ..self },
            Day { month, .. } if month < 12 => Day { month: month + 1, day: 1, ..self },
            Day { year, .. } => Day { year: year + 1, month: 1, day: 1 },
        }
    }

    fn text(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// The nights between two days.
///
/// # Errors
/// A day is none, there is no night between them, or there are too many.
pub fn nights(in_date: &str, out_date: &str) -> Result<Vec<Night>, Error> {
    let day = |text: &str| Day::parse(text).ok_or_else(|| Error::invalid("not a day: YYYY-MM-DD"));
    let (mut from, until) = (day(in_date)?, day(out_date)?);
    let mut nights = Vec::new();
    while from < until {
        if nights.len() == NIGHTS_MAX {
            return Err(Error::invalid(format!("a stay has at most {NIGHTS_MAX} nights")));
        }
        let to = from.next();
        nights.push(Night { from: from.text(), to: to.text() });
        from = to;
    }
    match nights.is_empty() {
        true => Err(Error::invalid("a stay has at least one night")),
        false => Ok(nights),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nights_are_between_days() {
        let two = nights("2015-04-29", "2015-05-01").expect("two nights");
        assert_eq!(two.len(), 2);
        assert_eq!((&*two[0].from, &*two[0].to), ("2015-04-29", "2015-04-30"));
        assert_eq!((&*two[1].from, &*two[1].to), ("2015-04-30", "2015-05-01"));
        let leap = nights("2016-02-28", "2016-03-01").expect("two nights");
        assert_eq!(leap[0].to, "2016-02-29");
        let year = nights("2015-12-31", "2016-01-01").expect("one night");
        assert_eq!(year[0].to, "2016-01-01");
    }

    #[test]
    fn what_is_no_stay_is_refused() {
        let all = [
            ("2015-04-10", "2015-04-10"),
            ("2015-04-10", "2015-04-09"),
            ("2015-02-29", "2015-03-01"),
            ("2015-13-01", "2015-13-02"),
            ("2015-4-1", "2015-04-02"),
            ("2015-00-01", "2015-01-02"),
            ("", "2015-04-02"),
            ("2015-04-0é", "2015-04-02"),
            ("0000-01-01", "9999-12-31"),
        ];
        for (from, to) in all {
            assert!(nights(from, to).is_err(), "{from} {to}");
        }
        assert_eq!(nights("2015-01-01", "2015-02-01").map(|all| all.len()), Ok(NIGHTS_MAX));
        assert!(nights("2015-01-01", "2015-02-02").is_err());
    }
}
