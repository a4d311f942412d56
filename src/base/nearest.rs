//! Suggestions for mistyped names.

/// Edits up to which a long name counts as mistyped.
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

/// Edits between two short names: characters put in, left out or replaced, and neighbours that are
/// transposed ("tpye"), each of which counts once (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // The distances of the first bytes of `a`, two and one fewer of them, to those of `b`.
    let mut earlier: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&above, j) + usize::from(x != y);
            let mut edits = replaced.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let is_transposed =
                i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_transposed {
                edits = edits.min(at(&earlier, j - 1) + 1);
            }
            row.push(edits);
        }
        earlier = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
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
        check("tlt", Some("ttl"));
        check(&"max-length".repeat(10), None);
    }

    #[test]
    fn two_letters_that_changed_places_are_one_edit_so_short_names_are_suggested_too() {
        let known = ["type", "tags", "durable"];
        let check = |name: &str, expect| assert_eq!(nearest(name, known), expect, "{name}");
        check("tpye", Some("type"));
        check("tyep", Some("type"));
        check("atgs", Some("tags"));
        check("durbael", Some("durable"));
        check("epyt", None);
    }
}
