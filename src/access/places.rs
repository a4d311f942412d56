//! Estimates of how long matching a regular expression may take, from its text.

/// The properties of an expression that determine the cost of a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shape {
    /// Places in it where several characters may match, or one repeatedly, with repetitions counted
    /// out: a match is in as many states at a time.
    pub(super) places: usize,
    /// Whether it repeats a part a number of times.
    is_counted: bool,
    /// Whether it may be tried in several ways: it looks around, refers to a group, or keeps what
    /// it found.
    looks_around: bool,
    /// Whether it is tried at the beginning of a name only.
    is_anchored: bool,
}

/// A part of an expression: the content of a group, or what is repeated.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The number of such places in it, see [`Shape::places`].
    places: usize,
    /// Number of characters and places.
    length: usize,
}

/// Places that a call of a group counts for, which may be of any size.
const CALL_PLACES: usize = 64;

impl Part {
    const LITERAL: Self = Self {
        places: 0,
        length: 1,
    };
    const PLACE: Self = Self {
        places: 1,
        length: 1,
    };
    const CALL: Self = Self {
        places: CALL_PLACES,
        length: CALL_PLACES,
    };

    const fn and(self, other: Self) -> Self {
        Self {
            places: self.places.saturating_add(other.places),
            length: self.length.saturating_add(other.length),
        }
    }

    /// The part repeated this many times: each of its characters may match in several places.
    const fn times(self, count: usize) -> Self {
        let length = self
            .length
            .saturating_mul(if count == 0 { 1 } else { count });
        Self {
            places: length,
            length,
        }
    }
}

impl Shape {
    /// The shape of an expression that is not compiled.
    pub(super) const NOTHING: Self = Self {
        places: 0,
        is_counted: false,
        looks_around: false,
        is_anchored: false,
    };

    /// The shape of a valid expression; unspecified for another text.
    pub(super) fn of(text: &str) -> Self {
        let mut shape = Self {
            looks_around: may_look_around(text),
            is_anchored: is_anchored(text),
            ..Self::default()
        };
        // The content of each open group, with the part that was read last.
        let mut open: Vec<(Part, Part)> = Vec::new();
        let (mut all, mut last) = (Part::default(), Part::default());
        let mut rest = text;
        while let Some((char, behind)) = first(rest) {
            let read = std::mem::replace(&mut rest, behind);
            let next = match char {
                '\\' => escaped(&mut rest),
                '[' => {
                    rest = behind_class(rest);
                    Part::PLACE
                }
                '.' => Part::PLACE,
                '(' => {
                    open.push((all, last));
                    (all, last) = (Part::default(), Part::default());
                    rest = behind_group_kind(rest);
                    continue;
                }
                ')' => {
                    let group = all.and(last);
                    (all, last) = open.pop().unwrap_or_default();
                    group
                }
                '*' | '+' | '?' => {
                    last = last.times(1);
                    continue;
                }
                '{' => match counted(read) {
                    Some((count, behind)) => {
                        (last, rest) = (last.times(count), behind);
                        shape.is_counted = true;
                        continue;
                    }
                    None => Part::LITERAL,
                },
                '|' if open.is_empty() => {
                    shape.is_anchored = false;
                    Part::default()
                }
                '|' | '^' | '$' => Part::default(),
                _ => Part::LITERAL,
            };
            (all, last) = (all.and(last), next);
        }
        let all = open.into_iter().fold(all.and(last), |all, (before, last)| {
            all.and(before).and(last)
        });
        shape.places = all.places;
        shape
    }

    /// Whether it is compiled in several parts, which are tried one by one.
    pub(super) const fn looks_around(self) -> bool {
        self.looks_around
    }

    /// Whether it is looked for from each character of a name on.
    pub(super) const fn looks_everywhere(self) -> bool {
        self.looks_around && !self.is_anchored
    }

    /// Estimated cost of a match with a name of this many bytes, in nanoseconds. Measured with
    /// expressions that are in another set of states after each character; others take far less.
    pub(super) fn match_ns(self, name_bytes: usize) -> u64 {
        let (bytes, places) = (name_bytes as u64, self.places as u64);
        let each_ns = if self.is_counted { 40 } else { 4 };
        match (self.looks_around, self.is_anchored) {
            (false, _) => 150 + bytes * places.max(1) * each_ns,
            (true, true) => 2_000 + bytes * places.max(2) * each_ns,
            (true, false) => 10_000 + bytes.pow(2) * places.max(2) * 3 / 2,
        }
    }
}

/// Whether an expression begins with the anchor of the beginning, without alternatives. The flag
/// `m` would make it the anchor of a line.
fn is_anchored(text: &str) -> bool {
    let flags = text.split("(?").skip(1).map(|group| {
        let end = group.find(|char: char| !char.is_ascii_lowercase() && char != '-');
        group.get(..end.unwrap_or(0)).unwrap_or_default()
    });
    text.starts_with('^')
        && !text
            .get(1..)
            .is_some_and(|rest| rest.starts_with(['*', '?', '{']))
        && !flags.into_iter().any(|flags| flags.contains('m'))
}

/// The first character, and the text behind it.
fn first(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    let char = chars.next()?;
    Some((char, chars.as_str()))
}

/// Reads the part behind a backslash.
fn escaped(rest: &mut &str) -> Part {
    let Some((char, behind)) = first(rest) else {
        return Part::LITERAL;
    };
    *rest = behind;
    match char {
        'b' | 'B' | 'A' | 'z' | 'Z' | 'G' | 'K' => Part::default(),
        'g' | 'k' => Part::CALL,
        'p' | 'P' if rest.starts_with('{') => {
            *rest = rest.split_once('}').map_or("", |(_, behind)| behind);
            Part::PLACE
        }
        'x' | 'u' if rest.starts_with('{') => {
            *rest = rest.split_once('}').map_or("", |(_, behind)| behind);
            Part::LITERAL
        }
        _ if char.is_alphanumeric() => Part::PLACE,
        _ => Part::LITERAL,
    }
}

/// The text behind a class of characters.
fn behind_class(rest: &str) -> &str {
    let (mut depth, mut is_escaped, mut is_first) = (1, false, true);
    let mut rest = rest;
    while let Some((char, behind)) = first(rest) {
        rest = behind;
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '^' if is_first => continue,
            ']' if is_first => {}
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        is_first = false;
        if depth == 0 {
            break;
        }
    }
    rest
}

/// The text behind the kind of a group.
fn behind_group_kind(rest: &str) -> &str {
    let Some(kind) = rest.strip_prefix('?') else {
        return rest;
    };
    let mut rest = kind;
    while let Some((char, behind)) = first(rest) {
        match char {
            ')' => return rest,
            ':' | '=' | '!' | '>' => return behind,
            _ => rest = behind,
        }
    }
    rest
}

/// The highest count of `{3}`, `{3,}` or `{3,5}`, and the text behind it.
fn counted(rest: &str) -> Option<(usize, &str)> {
    let (counts, behind) = rest.strip_prefix('{')?.split_once('}')?;
    let read = |count: &str| count.trim().parse::<usize>().ok();
    let count = match counts.split_once(',') {
        None => read(counts)?,
        Some((least, most)) if most.trim().is_empty() => read(least)?.saturating_add(1),
        Some((_, most)) => read(most)?,
    };
    Some((count, behind))
}

/// Whether an expression may be tried in several ways: with look-around, groups that are named or
/// atomic, references or possessive repetitions. May be true for others.
fn may_look_around(text: &str) -> bool {
    let groups = text.matches("(?").count();
    let possessive = ["++", "*+", "?+", "}+"];
    if groups > text.matches("(?:").count() || possessive.iter().any(|one| text.contains(one)) {
        return true;
    }
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        // An escaped character is usually a character, or a class.
        let escaped = if char == '\\' { chars.next() } else { None };
        if escaped.is_some_and(|one| one.is_alphanumeric() && !"dDsSwWbB".contains(one)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_with_their_repetitions() {
        let check =
            |text: &str, places: usize| assert_eq!(Shape::of(text).places, places, "{text}");
        check("", 0);
        check("^orders\\.eu$", 0);
        check("^orders\\..*$", 1);
        check("a*b?c+", 3);
        check("[a-z\\]]{20}-[]x]{1,3}[[:alpha:]]", 24);
        check("(?:ab|cd){3}", 12);
        check("(?:x{0,50}){0,50}y", 2_500);
        check("(?=(?:[ab]{0,10}a[ab]{2,}b){0,4}[yz])z", 61);
        check("^(?!amq\\.|temp\\.).+\\.(orders|bills)", 1);
        check("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", 35);
        check("\\p{Lu}{2}\\w{3}", 5);
        check("a{b}", 0);
        check("(?<a>x)\\g<a>", CALL_PLACES);
        check("(((x{9999999}){9999999}){9999999}){9999999}", usize::MAX);
        check("[a", 1);
        check("((a{2}", 2);
    }

    #[test]
    fn what_looks_around_takes_longer_unless_it_stands_at_the_beginning() {
        let ns = |text: &str| Shape::of(text).match_ns(200);
        assert!(ns("^a.*") < 1_000);
        assert!(ns("^(?!amq\\.).*") < 5_000);
        assert!(ns("(?!amq\\.).*") > 50_000);
        for text in ["^(?!amq\\.).*|b", "^?(?!amq\\.).*", "^(?im)(?!amq\\.).*"] {
            assert!(ns(text) > 50_000, "{text}");
        }
        assert!(ns("^(?!amq\\.|tmp\\.)(a|b).*") < 50_000);
    }
}
