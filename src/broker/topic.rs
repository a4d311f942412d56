//! The patterns of a topic exchange, as a tree of words.
//!
//! ```text
//! bindings a.b, a.*.c, #.c        root --a--> 1 --b--> 2 [a.b]
//!                                  |          `--*--> 3 --c--> 4 [a.*.c]
//!                                  `---#--> 5 --c--> 6 [#.c]
//! ```
//!
//! Words are split at '.'; `*` stands for one word, `#` for any number of them; the empty key has no
//! words. A key is matched by walking all the nodes that its words reach so far, as one set: the work
//! is at most words times nodes, whatever the patterns (backtracking over several `#` would be
//! exponential).

use std::ops::ControlFlow;

use crate::base::{Map, Seed, Step, Steps};

use super::binding::{Places, ResolvedDestination};

/// Index of a node; node 0 is the root.
type NodeIndex = usize;

/// A tree of binding patterns.
#[derive(Debug)]
pub struct TopicTree {
    nodes: Vec<Node>,
    free: Vec<NodeIndex>,
    seed: Seed,
}

#[derive(Debug)]
struct Node {
    words: Map<Box<str>, NodeIndex>,
    star: Option<NodeIndex>,
    hash: Option<NodeIndex>,
    /// Reached by `#`: it stays reached whatever the next word is.
    is_hash: bool,
    places: Places,
}

impl Node {
    fn new(seed: Seed, is_hash: bool) -> Self {
        Self {
            words: Map::with_hasher(seed.hasher()),
            star: None,
            hash: None,
            is_hash,
            places: Places::default(),
        }
    }

    fn child(&self, word: &str) -> Option<NodeIndex> {
        match word {
            "*" => self.star,
            "#" => self.hash,
            _ => self.words.get(word).copied(),
        }
    }

    fn set_child(&mut self, word: &str, child: Option<NodeIndex>) {
        match (word, child) {
            ("*", _) => self.star = child,
            ("#", _) => self.hash = child,
            (_, Some(child)) => {
                self.words.insert(word.into(), child);
            }
            (_, None) => {
                self.words.remove(word);
            }
        }
    }

    fn is_unused(&self) -> bool {
        let leads_nowhere = self.words.is_empty() && self.star.is_none() && self.hash.is_none();
        leads_nowhere && self.places.is_empty()
    }
}

impl TopicTree {
    /// A tree without patterns.
    pub fn new(seed: Seed) -> Self {
        Self {
            nodes: vec![Node::new(seed, false)],
            free: Vec::new(),
            seed,
        }
    }

    /// Adds a binding; returns the memory of the nodes this made, estimated in bytes.
    pub fn add(&mut self, pattern: &str, place: ResolvedDestination) -> u64 {
        let (mut at, mut bytes) = (ROOT, 0);
        for word in words(pattern) {
            let known = self.nodes.get(at).and_then(|node| node.child(word));
            at = known.unwrap_or_else(|| {
                bytes += node_bytes(word);
                self.grow(at, word)
            });
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.places.add(place);
        }
        bytes
    }

    /// Removes a binding and the nodes that only it used; returns their memory, estimated in bytes.
    pub fn remove(&mut self, pattern: &str, place: ResolvedDestination) -> u64 {
        let (mut path, mut bytes) = (Vec::new(), 0);
        let mut at = ROOT;
        for word in words(pattern) {
            let Some(next) = self.nodes.get(at).and_then(|node| node.child(word)) else {
                return 0;
            };
            path.push((at, word));
            at = next;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.places.remove(place);
        }
        for (parent, word) in path.into_iter().rev() {
            if self.nodes.get(at).is_none_or(|node| !node.is_unused()) {
                return bytes;
            }
            bytes += node_bytes(word);
            self.free.push(at);
            if let Some(node) = self.nodes.get_mut(parent) {
                node.set_child(word, None);
            }
            at = parent;
        }
        bytes
    }

    /// Visits the destination of every pattern that matches one of the keys; a destination may be
    /// visited more than once, but not because two keys match the same pattern. Each node that is
    /// reached is a step; breaks off when there are too many, or when `visit` does.
    pub fn matching<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k str>,
        steps: &Steps,
        mut visit: impl FnMut(ResolvedDestination) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut ends = Vec::with_capacity(8);
        let (mut reached, mut next) = (Vec::with_capacity(8), Vec::with_capacity(8));
        for (index, key) in keys.into_iter().enumerate() {
            reached.clear();
            self.walk(key, steps, &mut reached, &mut next)?;
            ends.append(&mut reached);
            if index > 0 {
                ends.sort_unstable();
                ends.dedup();
            }
        }
        for node in ends.iter().filter_map(|at| self.nodes.get(*at)) {
            node.places.try_for_each(&mut visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Collects the nodes that the words of a key lead to.
    fn walk(
        &self,
        key: &str,
        steps: &Steps,
        reached: &mut Vec<NodeIndex>,
        next: &mut Vec<NodeIndex>,
    ) -> ControlFlow<()> {
        self.reach(ROOT, reached);
        for word in words(key) {
            steps.take(Step::Node, reached.len())?;
            for node in reached
                .drain(..)
                .filter_map(|at| Some((at, self.nodes.get(at)?)))
            {
                let (at, node) = node;
                if node.is_hash {
                    next.push(at);
                }
                for child in [node.words.get(word).copied(), node.star]
                    .into_iter()
                    .flatten()
                {
                    self.reach(child, next);
                }
            }
            // Only `#` lets two paths lead to one node.
            next.sort_unstable();
            next.dedup();
            std::mem::swap(reached, next);
        }
        ControlFlow::Continue(())
    }

    /// Adds a node and those behind it that `#` reaches without a word.
    fn reach(&self, from: NodeIndex, reached: &mut Vec<NodeIndex>) {
        let mut at = Some(from);
        while let Some(node) = at {
            reached.push(node);
            at = self.nodes.get(node).and_then(|node| node.hash);
        }
    }

    fn grow(&mut self, parent: NodeIndex, word: &str) -> NodeIndex {
        let node = Node::new(self.seed, word == "#");
        let index = self.free.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(index) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.set_child(word, Some(index));
        }
        index
    }
}

/// Estimated memory of a node and of the word that leads to it, in bytes: an entry of a table that
/// is half full, and one in the table of its parent.
const fn node_bytes(word: &str) -> u64 {
    let node = size_of::<Node>() + size_of::<Node>() / 4;
    (node + NODE_PLACE_BYTES + word.len()) as u64
}

/// Bytes of a parent's entry for a node, without its word.
const NODE_PLACE_BYTES: usize = 64;

/// The words of a key or pattern. The empty text has none (as RabbitMQ), so `*` does not match it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let all = if text.is_empty() {
        None
    } else {
        Some(text.split('.'))
    };
    all.into_iter().flatten()
}

const ROOT: NodeIndex = 0;

/// Whether a pattern matches a key, by the definition: a reference implementation for tests.
#[cfg(test)]
pub fn matches_naively(pattern: &str, key: &str) -> bool {
    fn rest(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern, key) {
            ([], []) => true,
            (["#", more @ ..], _) => (0..=key.len()).any(|skip| rest(more, &key[skip..])),
            (["*", more @ ..], [_, left @ ..]) => rest(more, left),
            ([word, more @ ..], [first, left @ ..]) => word == first && rest(more, left),
            _ => false,
        }
    }
    rest(
        &words(pattern).collect::<Vec<_>>(),
        &words(key).collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::QueueId;

    fn found(tree: &TopicTree, key: &str) -> Vec<ResolvedDestination> {
        let mut places = Vec::new();
        let whole = tree.matching([key], &Steps::default(), |place| {
            places.push(place);
            ControlFlow::Continue(())
        });
        assert!(whole.is_continue());
        places.sort();
        places.dedup();
        places
    }

    fn check(pattern: &str, key: &str, expect: bool) {
        let mut tree = TopicTree::new(Seed(1));
        tree.add(pattern, ResolvedDestination::Queue(QueueId(1)));
        assert_eq!(!found(&tree, key).is_empty(), expect, "{pattern} {key}");
        assert_eq!(
            matches_naively(pattern, key),
            expect,
            "naive {pattern} {key}"
        );
    }

    #[test]
    fn star_is_one_word_and_hash_any_number() {
        check("a.b", "a.b", true);
        check("a.b", "a.b.c", false);
        check("a.*", "a.b", true);
        check("a.*", "a", false);
        check("a.*", "a.", true);
        check("*", "", false);
        check("#", "", true);
        check("", "", true);
        check("", "a", false);
        check("#", "a.b.c", true);
        check("a.#", "a", true);
        check("a.#.b", "a.b", true);
        check("a.#.b", "a.x.y.b", true);
        check("a.#.b", "a.x.y.c", false);
        check("#.#", "", true);
        check("#.*", "", false);
        check("#.*.#", "a", true);
        check("*.#.*", "a", false);
        check("a..b", "a..b", true);
    }

    #[test]
    fn many_hashes_cost_no_exponential_time() {
        let mut tree = TopicTree::new(Seed(1));
        let pattern = ["#.a"; 40].join(".");
        tree.add(&pattern, ResolvedDestination::Queue(QueueId(1)));
        let key = ["a"; 39].join(".") + &".b".repeat(80);
        assert!(found(&tree, &key).is_empty());
    }

    #[test]
    fn many_keys_reach_a_pattern_once_and_their_steps_are_counted() {
        let mut tree = TopicTree::new(Seed(1));
        tree.add("#", ResolvedDestination::Queue(QueueId(1)));
        let keys: Vec<String> = (0..256).map(|n| format!("a.{n}")).collect();
        let mut found = 0;
        let steps = Steps::default();
        let whole = tree.matching(keys.iter().map(String::as_str), &steps, |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert!(whole.is_continue());
        assert_eq!(found, 1);
        // The root and `#` at the first word of each key, `#` alone at the second.
        assert_eq!(steps.ns(), 256 * 3 * Step::Node.ns());
    }

    #[test]
    fn removed_patterns_leave_no_nodes() {
        let mut tree = TopicTree::new(Seed(1));
        let place = ResolvedDestination::Queue(QueueId(1));
        let patterns = ["a.b.c", "a.b", "a.*.c", "#.c", "", "#"];
        for pattern in patterns {
            tree.add(pattern, place);
        }
        tree.remove("a.b.c.d", place);
        for pattern in patterns {
            tree.remove(pattern, place);
        }
        assert_eq!(tree.free.len() + 1, tree.nodes.len());
        assert!(tree.nodes[ROOT].is_unused());
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_the_definition_finds(
            patterns in prop::collection::vec("([ab*#](\\.[ab*#]){0,4})?", 0..12),
            removed in prop::collection::vec(any::<bool>(), 12),
            key in "([ab](\\.[ab]?){0,5})?",
        ) {
            let mut tree = TopicTree::new(Seed(3));
            let place = |n: usize| ResolvedDestination::Queue(QueueId(n as u64));
            for (n, pattern) in patterns.iter().enumerate() {
                tree.add(pattern, place(n));
            }
            for (n, pattern) in patterns.iter().enumerate().filter(|(n, _)| removed[*n]) {
                tree.remove(pattern, place(n));
            }
            let expect: Vec<ResolvedDestination> = (patterns.iter().enumerate())
                .filter(|(n, pattern)| !removed[*n] && matches_naively(pattern, &key))
                .map(|(n, _)| place(n))
                .collect();
            prop_assert_eq!(found(&tree, &key), expect);
        }
    }
}
