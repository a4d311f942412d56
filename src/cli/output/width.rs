//! How many columns of a terminal a text takes.

/// Characters that take two columns: East Asian wide and full-width ones, and pictures. Neighbouring
/// blocks stand as one range, with what is not assigned in them. [UAX 11]
const WIDE: &[(char, char)] = &[
    ('\u{1100}', '\u{115f}'),
    ('\u{231a}', '\u{231b}'),
    ('\u{2329}', '\u{232a}'),
    ('\u{23e9}', '\u{23ec}'),
    ('\u{25fd}', '\u{25fe}'),
    ('\u{2614}', '\u{2615}'),
    ('\u{2648}', '\u{2653}'),
    ('\u{26a1}', '\u{26a1}'),
    ('\u{26d4}', '\u{26d4}'),
    ('\u{2705}', '\u{2705}'),
    ('\u{270a}', '\u{270b}'),
    ('\u{2728}', '\u{2728}'),
    ('\u{274c}', '\u{274e}'),
    ('\u{2753}', '\u{2757}'),
    ('\u{2795}', '\u{2797}'),
    ('\u{2b1b}', '\u{2b1c}'),
    ('\u{2b50}', '\u{2b55}'),
    ('\u{2e80}', '\u{303e}'),
    ('\u{3041}', '\u{4dbf}'),
    ('\u{4e00}', '\u{a4cf}'),
    ('\u{a960}', '\u{a97f}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe10}', '\u{fe19}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff01}', '\u{ff60}'),
    ('\u{ffe0}', '\u{ffe6}'),
    ('\u{17000}', '\u{18cff}'),
    ('\u{1b000}', '\u{1b2ff}'),
    ('\u{1f18e}', '\u{1f19a}'),
    ('\u{1f200}', '\u{1f64f}'),
    ('\u{1f680}', '\u{1f6ff}'),
    ('\u{1f7e0}', '\u{1f7eb}'),
    ('\u{1f900}', '\u{1faff}'),
    ('\u{20000}', '\u{3fffd}'),
];

/// Characters that take none: marks that stand on the one before, and those that show nothing.
const NONE: &[(char, char)] = &[
    ('\u{300}', '\u{36f}'),
    ('\u{483}', '\u{489}'),
    ('\u{591}', '\u{5bd}'),
    ('\u{610}', '\u{61a}'),
    ('\u{64b}', '\u{65f}'),
    ('\u{e31}', '\u{e31}'),
    ('\u{e34}', '\u{e3a}'),
    ('\u{e47}', '\u{e4e}'),
    ('\u{1160}', '\u{11ff}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{1dc0}', '\u{1dff}'),
    ('\u{200b}', '\u{200d}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{fe20}', '\u{fe2f}'),
    ('\u{e0100}', '\u{e01ef}'),
];

/// The columns of a text without control characters.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(character: char) -> usize {
    let is_in = |ranges: &[(char, char)]| {
        let after = ranges.partition_point(|(_, last)| *last < character);
        ranges
            .get(after)
            .is_some_and(|(first, _)| *first <= character)
    };
    if character.is_ascii() {
        1
    } else if is_in(NONE) {
        0
    } else if is_in(WIDE) {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_wide_as_a_terminal_shows_it() {
        let check = |text: &str, expect| assert_eq!(width(text), expect, "{text}");
        check("", 0);
        check("orders", 6);
        check("\u{e9}t\u{e9}", 3);
        check("e\u{301}", 1);
        check("\u{65e5}\u{672c}\u{8a9e}", 6);
        check("\u{d55c}\u{ae00}", 4);
        check("\u{1f600}!", 3);
        check("\u{416}\u{3a9}", 2);
    }

    #[test]
    fn the_ranges_are_in_order_and_do_not_touch() {
        for ranges in [WIDE, NONE] {
            let bounds: Vec<char> = ranges.iter().flat_map(|(a, b)| [*a, *b]).collect();
            assert!(bounds.is_sorted());
            let ends = ranges.iter().zip(ranges.iter().skip(1));
            assert!(ends.into_iter().all(|((_, last), (first, _))| last < first));
        }
    }
}
