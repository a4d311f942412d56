//! Addresses of networks in texts: IPv4, IPv6, and those of hardware.

use super::variable_parts::Text;

/// Characters of an IPv6 address, at most: one with an IPv4 address in it. [RFC 5952]
const IPV6_CHARS_MAX: usize = 45;
/// Pairs of digits in an address of hardware.
const HARDWARE_PAIRS: usize = 6;
/// Parts of an IPv6 address of which none is left out.
const IPV6_PARTS: usize = 8;

/// The end of an IP address that begins at a place, with a port behind it.
pub(super) fn address(text: &Text<'_>, from: usize) -> Option<usize> {
    if !text.begins(from) || matches!(text.before(from), '.' | ':') {
        return None;
    }
    if let Some(end) = ipv4(text, from) {
        let port = text.word(end, ":").and_then(|at| text.digits(at, 1, 5));
        let length = || text.word(end, "/").and_then(|at| text.digits(at, 1, 2));
        let whole = port.or_else(length).filter(|end| text.ends(*end));
        return Some(whole.unwrap_or(end));
    }
    ipv6(text, from)
}

fn ipv4(text: &Text<'_>, from: usize) -> Option<usize> {
    let mut end = text.digits(from, 1, 3)?;
    for _ in 0..3 {
        end = text.digits(text.word(end, ".")?, 1, 3)?;
    }
    let goes_on = text.at(end) == '.' && text.at(end + 1).is_ascii_digit();
    (text.ends(end) && !goes_on).then_some(end)
}

/// An IPv6 address: with parts left out, or all of them, and with a digit, so that `Std::Add` is
/// none.
fn ipv6(text: &Text<'_>, from: usize) -> Option<usize> {
    let is_part = |place: &usize| {
        let c = text.at(*place);
        c.is_ascii_hexdigit() || matches!(c, ':' | '.')
    };
    let behind = from + IPV6_CHARS_MAX + 1;
    let mut end = (from..behind).find(|place| !is_part(place))?;
    if !text.ends(end) {
        return None;
    }
    // What ends a sentence, or stands in front of a text, is not part of it.
    while text.before(end) == '.' || (text.before(end) == ':' && text.before(end - 1) != ':') {
        end -= 1;
    }
    let place = |at: usize, c: char| text.at(at) == c;
    let colons = (from..end).filter(|at| place(*at, ':')).count();
    let has_gap = (from..end).any(|at| at + 1 < end && place(at, ':') && place(at + 1, ':'));
    let has_digit = (from..end).any(|at| text.at(at).is_ascii_digit());
    let is_whole = colons + 1 == IPV6_PARTS;
    (has_digit && (is_whole || has_gap)).then_some(end)
}

/// The end of an address of hardware, like `00:1b:44:11:3a:b7`.
pub(super) fn digits_of_hardware(text: &Text<'_>, from: usize) -> Option<usize> {
    let separator = text.at(from + 2);
    if !matches!(separator, ':' | '-') {
        return None;
    }
    let mut end = from;
    for pair in 0..HARDWARE_PAIRS {
        if pair > 0 {
            if text.at(end) != separator {
                return None;
            }
            end += 1;
        }
        if !(end..end + 2).all(|place| text.at(place).is_ascii_hexdigit()) {
            return None;
        }
        end += 2;
    }
    let goes_on = text.at(end) == separator && text.at(end + 1).is_ascii_hexdigit();
    (text.ends(end) && !goes_on).then_some(end)
}
