//! Suggestions for mistyped names.

/// Single-character edits up to which a long name counts as mistyped.
const EDITS_MAX: usize = 3;

/// The known name that was probably meant by `name`: the nearest one, at most three edits away and
/// fewer for short names. None also where `name` is one of them.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits_max = EDITS_MAX.min(name.len() / 3);
    // Most names are too different in length for a comparison.
    let near = known
        .into_iter()
        .filter(|known| known.len().abs_diff(name.len()) <= edits_max);
    let distances = near.map(|known| (distance(name, known), known));
    let (edits, found) = distances.min()?;
    (1..=edits_max).contains(&edits).then_some(found)
}

/// Levenshtein distance between two short names, in single-character edits.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let above = *cell;
            left = (left + 1)
                .min(above + 1)
                .min(diagonal + usize::from(x != y));
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_mistyped_name_leads_to_the_nearest_one_and_a_strange_one_to_none() {
        let known = ["max-length", "max-length-bytes", "expires", "ttl"];
        let check = |name: &str, expect| assert_eq!(nearest(name, known), expect, "{name}");
        check("max-lenght", Some("max-length"));
        check("max-lengthbytes", Some("max-length-bytes"));
        check("expire", Some("expires"));
        check("max-length", None);
        check("ha-mode", None);
        check("tt", None);
        check("", None);
        check(&"max-length".repeat(10), None);
    }
}
