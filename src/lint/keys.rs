//! Examples of keys, made from the keys of bindings.

use super::budget::{Budget, Part};
use crate::base::Name;
use crate::broker::example_key;
use crate::broker::exchange::ExchangeKind;

/// The word that stands for whatever a wildcard takes.
const ANY: &str = "any";

/// A key that clients may publish with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Example {
    pub(super) key: Name,
    /// A wildcard took a word that no binding names: perhaps nobody publishes with it.
    pub(super) made_up: bool,
}

impl Example {
    /// A key that a binding lets pass.
    pub(super) fn of(kind: ExchangeKind, key: &Name) -> Self {
        let example = example_key(kind, key);
        Self {
            made_up: example != *key,
            key: example,
        }
    }

    /// A key that no binding names.
    pub(super) fn any() -> Self {
        Self {
            key: Name::from(ANY),
            made_up: true,
        }
    }

    /// A key that two topic patterns let pass, with the words that either names; none: there is no
    /// such key, or finding it takes more comparisons of words than are left.
    pub(super) fn of_both(one: &str, other: &str, budget: &Budget) -> Option<Self> {
        let (a, b): (Vec<&str>, Vec<&str>) = (one.split('.').collect(), other.split('.').collect());
        let comparisons = (a.len() + 1) * (b.len() + 1);
        budget.take(Part::Words, comparisons).then_some(())?;
        let meets = Meets::compare(&a, &b);
        let (mut words, mut made_up) = (Vec::new(), false);
        let mut take = |word: &str| {
            let is_wild = is_wildcard(word);
            made_up |= is_wild;
            words.push(if is_wild { ANY } else { word }.to_owned());
        };
        let (mut i, mut j) = (0, 0);
        if !meets.at(i, j) {
            return None;
        }
        loop {
            match (a.get(i).copied(), b.get(j).copied()) {
                (None, None) => break,
                (Some("#"), Some("#")) if meets.at(i + 1, j + 1) => {
                    take("#");
                    (i, j) = (i + 1, j + 1);
                }
                (Some("#"), Some(word)) if meets.at(i, j + 1) => {
                    take(word);
                    j += 1;
                }
                (Some(word), Some("#")) if meets.at(i + 1, j) => {
                    take(word);
                    i += 1;
                }
                (Some("#"), _) => i += 1,
                (_, Some("#")) => j += 1,
                (Some(word), Some(other)) => {
                    take(if word == "*" { other } else { word });
                    (i, j) = (i + 1, j + 1);
                }
                (Some(_), None) | (None, Some(_)) => return None,
            }
        }
        Some(Self {
            key: Name::from(words.join(".")),
            made_up,
        })
    }
}

/// Which ends of two patterns take a key in common, by where they begin.
struct Meets {
    met: Vec<bool>,
    width: usize,
}

impl Meets {
    fn compare(a: &[&str], b: &[&str]) -> Self {
        let width = b.len() + 1;
        let mut meets = Self {
            met: vec![false; (a.len() + 1) * width],
            width,
        };
        for i in (0..=a.len()).rev() {
            for j in (0..=b.len()).rev() {
                let met = match (a.get(i).copied(), b.get(j).copied()) {
                    (None, None) => true,
                    (Some("#"), other) => {
                        meets.at(i + 1, j) || (other.is_some() && meets.at(i, j + 1))
                    }
                    (word, Some("#")) => {
                        meets.at(i, j + 1) || (word.is_some() && meets.at(i + 1, j))
                    }
                    (Some(word), Some(other)) => {
                        (word == other || word == "*" || other == "*") && meets.at(i + 1, j + 1)
                    }
                    (Some(_), None) | (None, Some(_)) => false,
                };
                if let Some(slot) = meets.met.get_mut(i * width + j) {
                    *slot = met;
                }
            }
        }
        meets
    }

    /// No behind the end of either pattern.
    fn at(&self, i: usize, j: usize) -> bool {
        j < self.width && self.met.get(i * self.width + j).copied().unwrap_or(false)
    }
}

/// The key with the words that a pattern names in place of its own, longer if need be; none: a `#` stands
/// before the end of the pattern, so that its words have no places.
pub(super) fn with_words_of(pattern: &str, key: &str) -> Option<Name> {
    let named: Vec<&str> = pattern.split('.').collect();
    let named = named.strip_suffix(&["#"]).unwrap_or(&named);
    if named.contains(&"#") {
        return None;
    }
    let mut words: Vec<&str> = key.split('.').collect();
    words.resize(words.len().max(named.len()), ANY);
    for (word, named) in words.iter_mut().zip(named) {
        if !is_wildcard(named) {
            *word = named;
        }
    }
    Some(Name::from(words.join(".")))
}

/// Whether a topic pattern takes more keys than one.
pub(super) fn is_pattern(key: &str) -> bool {
    key.split('.').any(is_wildcard)
}

fn is_wildcard(word: &str) -> bool {
    matches!(word, "*" | "#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_two_patterns_has_the_words_that_either_names() {
        let check = |one: &str, other: &str, expected: Option<(&str, bool)>| {
            for (one, other) in [(one, other), (other, one)] {
                let found = Example::of_both(one, other, &Budget::default());
                let found = found.as_ref().map(|found| (&*found.key, found.made_up));
                assert_eq!(found, expected, "{one} and {other}");
            }
        };
        check("1.#", "*.0.#", Some(("1.0.any", true)));
        check("a.b", "a.*", Some(("a.b", false)));
        check("*.b", "a.*", Some(("a.b", false)));
        check("a.#", "#.sales", Some(("a.any.sales", true)));
        check("#", "#", Some(("any", true)));
        check("#", "a", Some(("a", false)));
        check("a.#.c", "a.c", Some(("a.c", false)));
        check("a.*", "a", None);
        check("a.#", "b.#", None);
        check("#.a", "#.b", None);
        let budget = Budget::default().with(Part::Words, 8);
        assert_eq!(Example::of_both("a.b", "a.*", &budget), None, "too long");
    }

    #[test]
    fn words_of_a_pattern_take_the_place_of_those_of_a_key() {
        let check = |pattern: &str, key: &str, expected: Option<&str>| {
            let found = with_words_of(pattern, key);
            assert_eq!(found.as_deref(), expected, "{pattern} {key}");
        };
        check("0.#", "1.any", Some("0.any"));
        check("*.0.#", "1.any", Some("1.0"));
        check("*.*.0", "1", Some("1.any.0"));
        check("#", "1.any", Some("1.any"));
        check("#.sales", "1.any", None);
    }
}
