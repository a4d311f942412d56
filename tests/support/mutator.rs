//! Seeded mutation of committed inputs, the same on every machine.
#![allow(clippy::disallowed_methods, reason = "tests read files")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

/// Longest input made, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// Mutations of one input at most.
const MUTATIONS_MAX: usize = 8;
/// The committed inputs, in the order of their names.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&folder).expect("a folder of inputs");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an input").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths
        .iter()
        .map(|path| std::fs::read(path).expect("an input"))
        .collect()
}

/// Makes inputs from a corpus and a seed, always the same ones.
pub struct Mutator<'a> {
    state: u64,
    corpus: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    /// A mutator of this corpus, not empty.
    pub fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        Self {
            state: seed,
            corpus,
        }
    }

    /// The next number below `bound` (splitmix64).
    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (bound.max(1) as u64)).expect("below a usize")
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let choice = self.below(self.corpus.len());
        let mut input = self.corpus[choice].clone();
        for _ in 0..=self.below(MUTATIONS_MAX) {
            self.mutate(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        /// Bytes that mean something as a length, a count or a type code.
        const TELLING: [u8; 24] = [
            0x00, 0x01, 0x02, 0x40, 0x43, 0x44, 0x45, 0x52, 0x53, 0x56, 0x70, 0x7f, 0x80, 0x98,
            0xa0, 0xa1, 0xa3, 0xb0, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xff,
        ];
        let at = self.below(input.len());
        let length = self.below((input.len() - at).min(64)) + 1;
        let end = (at + length).min(input.len());
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = TELLING[self.below(TELLING.len())],
            2 => input.insert(at, TELLING[self.below(TELLING.len())]),
            3 => drop(input.drain(at..end)),
            4 => {
                let chunk = input[at..end].to_vec();
                let to = self.below(input.len());
                input.splice(to..to, chunk);
            }
            5 => input.truncate(at),
            6 => {
                let other = &self.corpus[self.below(self.corpus.len())];
                let from = self.below(other.len());
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => {
                let number = match self.below(3) {
                    0 => u32::MAX,
                    1 => 0x7fff_ffff,
                    _ => u32::try_from(self.below(1 << 20)).expect("below 2^20"),
                };
                for (byte, new) in input.iter_mut().skip(at).zip(number.to_be_bytes()) {
                    *byte = new;
                }
            }
        }
    }
}
