//! Dates and times in texts, in the forms that programs write: those of ISO 8601 and RFC 9110, of
//! .NET, Java and Python.

use super::variable_parts::Text;

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
const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
/// Letters of a shortened name.
const SHORT: usize = 3;
const ZONES: [&str; 10] = [
    "UTC", "GMT", "CEST", "CET", "EST", "EDT", "CST", "PST", "PDT", "Z",
];

/// The end of a date, a time, or both, that begins at a place.
pub(super) fn date_or_time(text: &Text<'_>, from: usize) -> Option<usize> {
    if !text.begins(from) {
        return None;
    }
    let c = text.at(from);
    if !c.is_ascii_alphanumeric() {
        return None;
    }
    if let Some(end) = date(text, from) {
        return Some(time_behind(text, end).unwrap_or(end));
    }
    time(text, from)
}

fn date(text: &Text<'_>, from: usize) -> Option<usize> {
    let end = in_numbers(text, from)
        .or_else(|| compact(text, from))
        .or_else(|| in_words(text, from))?;
    // The `T` in front of a time goes on without a bound.
    let is_bound = text.ends(end) || time_behind(text, end).is_some();
    is_bound.then_some(end)
}

/// A date like `2024-01-05`, `2024/1/5`, `05.01.2024`, `1/5/24`.
fn in_numbers(text: &Text<'_>, from: usize) -> Option<usize> {
    let separated = |widths: [(usize, usize); 3]| {
        let mut end = from;
        let mut separator = None;
        for (index, (min, max)) in widths.into_iter().enumerate() {
            if index > 0 {
                let found = text.at(end);
                if !matches!(found, '-' | '/' | '.') || *separator.get_or_insert(found) != found {
                    return None;
                }
                end += 1;
            }
            end = text.digits(end, min, max)?;
        }
        Some((end, separator))
    };
    let year_first = separated([(4, 4), (1, 2), (1, 2)]);
    let year_last = || separated([(1, 2), (1, 2), (4, 4)]);
    let short = || separated([(1, 2), (1, 2), (2, 2)]).filter(|(_, it)| *it == Some('/'));
    let found = year_first.or_else(year_last).or_else(short);
    found.map(|(end, _)| end)
}

/// A date like `20240105`, in front of a time like `T123456`: alone it is a number.
fn compact(text: &Text<'_>, from: usize) -> Option<usize> {
    let day = text.digits(from, 8, 8)?;
    let second = text.digits(text.word(day, "T")?, 6, 6)?;
    let end = fraction(text, second);
    Some(text.word(end, "Z").unwrap_or(end))
}

/// A date like `Fri, 05 Jan 2024`, `January 5, 2024`, `Fri Jan 5`.
fn in_words(text: &Text<'_>, from: usize) -> Option<usize> {
    let weekday = name(text, from, &WEEKDAYS);
    let begin = weekday.map_or(from, |end| {
        let end = text.word(end, ",").unwrap_or(end);
        text.word(end, " ").unwrap_or(end)
    });
    if let Some(month) = name(text, begin, &MONTHS) {
        let day = text.digits(text.word(month, " ")?, 1, 2)?;
        let year = text.word(day, ",").unwrap_or(day);
        let year = text.word(year, " ").and_then(|at| text.digits(at, 4, 4));
        return Some(year.unwrap_or(day));
    }
    let day = text.digits(begin, 1, 2)?;
    let month = name(text, gap(text, day)?, &MONTHS)?;
    text.digits(gap(text, month)?, 4, 4)
}

fn gap(text: &Text<'_>, from: usize) -> Option<usize> {
    text.word(from, " ").or_else(|| text.word(from, "-"))
}

/// The end of one of these names, in whole or shortened.
fn name(text: &Text<'_>, from: usize, names: &[&str]) -> Option<usize> {
    let found = names.iter().find_map(|name| {
        let whole = text.word(from, name).filter(|end| text.ends(*end));
        let short = || text.word(from, name.get(..SHORT)?);
        whole.or_else(short)
    });
    found.filter(|end| text.ends(*end))
}

/// The end of the time behind a date, and of a year behind that time, as Java writes them.
fn time_behind(text: &Text<'_>, date: usize) -> Option<usize> {
    let separators = ["T", ", ", " at ", " ", "_"];
    let mut begins = separators.iter().filter_map(|it| text.word(date, it));
    let end = begins.find_map(|at| time(text, at))?;
    let year = text.word(end, " ").and_then(|at| text.digits(at, 4, 4));
    Some(year.filter(|end| text.ends(*end)).unwrap_or(end))
}

/// A time like `12:34`, `12:34:56.789`, `1:02:03 PM`, `12:34:56+01:00`, `12:34:56 UTC`.
fn time(text: &Text<'_>, from: usize) -> Option<usize> {
    let hour = text.digits(from, 1, 2)?;
    let minute = text.digits(text.word(hour, ":")?, 2, 2)?;
    let second = text
        .word(minute, ":")
        .and_then(|at| text.digits(at, 2, 2))
        .map_or(minute, |second| fraction(text, second));
    let end = half_of_day(text, second).unwrap_or(second);
    let end = zone(text, end).unwrap_or(end);
    let goes_on = text.at(end) == ':' && text.at(end + 1).is_ascii_alphanumeric();
    (text.ends(end) && !goes_on).then_some(end)
}

/// The end of the fraction of a second, if there is one.
fn fraction(text: &Text<'_>, second: usize) -> usize {
    let fraction = text.word(second, ".").or_else(|| text.word(second, ","));
    let fraction = fraction.and_then(|at| text.digits(at, 1, 9));
    fraction.unwrap_or(second)
}

fn half_of_day(text: &Text<'_>, from: usize) -> Option<usize> {
    let from = text.word(from, " ").unwrap_or(from);
    let end = text.word(from, "AM").or_else(|| text.word(from, "PM"))?;
    text.ends(end).then_some(end)
}

fn zone(text: &Text<'_>, from: usize) -> Option<usize> {
    let begin = text.word(from, " ").unwrap_or(from);
    let named = ZONES.iter().filter_map(|zone| text.word(begin, zone));
    let named = named.filter(|end| text.ends(*end));
    named.chain(offset(text, begin)).next()
}

/// An offset like `+01:00`, `-0800`.
fn offset(text: &Text<'_>, from: usize) -> Option<usize> {
    let hours = text.word(from, "+").or_else(|| text.word(from, "-"))?;
    if let Some(end) = text.digits(hours, 4, 4) {
        return text.ends(end).then_some(end);
    }
    let minutes = text.word(text.digits(hours, 2, 2)?, ":")?;
    let end = text.digits(minutes, 2, 2)?;
    text.ends(end).then_some(end)
}
