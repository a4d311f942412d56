//! Patterns of bare queue names: words between dots, `*` for one word, `#` for any number.

/// The patterns of the setting `auto-create`. The default allows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct NamePatterns {
    patterns: Vec<Vec<String>>,
}

impl NamePatterns {
    /// Parses the patterns of the setting.
    pub(crate) fn new(patterns: &[String]) -> Self {
        let words = |pattern: &String| pattern.split('.').map(str::to_owned).collect();
        Self {
            patterns: patterns.iter().map(words).collect(),
        }
    }

    /// Whether a name matches one of them. The empty name and paths never do.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let possible = !name.is_empty() && !name.starts_with('/');
        let words: Vec<&str> = name.split('.').collect();
        possible && self.patterns.iter().any(|pattern| matches(pattern, &words))
    }
}

/// Greedy match with one position to backtrack to: linear in memory, no recursion on a peer's name.
fn matches(pattern: &[String], words: &[&str]) -> bool {
    let (mut p, mut w) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while w < words.len() {
        match (pattern.get(p).map(String::as_str), words.get(w)) {
            (Some("#"), _) => {
                back = Some((p, w));
                p += 1;
            }
            (Some(part), Some(word)) if part == "*" || part == *word => {
                p += 1;
                w += 1;
            }
            _ => match &mut back {
                // The last `#` takes one word more, and matching goes on behind it.
                Some((hash, taken)) => {
                    *taken += 1;
                    (p, w) = (*hash + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|part| part == "#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_word_by_word() {
        let check = |pattern: &str, name: &str, expect: bool| {
            let patterns = NamePatterns::new(&[pattern.to_owned()]);
            assert_eq!(patterns.matches(name), expect, "{pattern} {name}");
        };
        check("q1", "q1", true);
        check("q1", "q11", false);
        check("*", "q1", true);
        check("*", "a.b", false);
        check("test.#", "test", true);
        check("test.#", "test.a.b", true);
        check("test.#", "tests", false);
        check("#.end", "a.b.end", true);
        check("#.b.#.d", "a.b.c.b.d", true);
        check("#.b.#.d", "a.b.c", false);
        check("#", "/queues/q", false);
        check("#", "", false);
    }
}
