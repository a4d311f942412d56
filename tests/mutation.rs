//! A seeded mutation test over the corpora in `fuzz/corpus`: what cargo-fuzz does at length, on any
//! toolchain and within a bounded time.
//!
//! `CORONER_MUTATION_SECONDS` (default 1) is the time for each target, `CORONER_MUTATION_SEED`
//! (default 1) the seed. A failure prints the input; put it into the corpus when it is fixed.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read files, the environment and a clock"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest input made, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// Mutations of one input at most.
const MUTATIONS_MAX: u64 = 8;
/// Inputs between two looks at the clock.
const BATCH: usize = 64;

#[test]
fn mutated_values_break_no_invariant() {
    check("value", coroner::wire::fuzz_value);
}

#[test]
fn mutated_sections_break_no_invariant() {
    check("sections", coroner::wire::fuzz_sections);
}

#[test]
fn mutated_messages_keep_their_bare_bytes_through_storage_and_delivery() {
    check("sections", coroner::message::fuzz_message);
}

#[test]
fn mutated_death_histories_break_no_invariant() {
    check("deaths", coroner::deaths::fuzz_deaths);
}

/// Runs the target on the whole corpus, then on mutations of it until the time is up.
fn check(target: &str, run: fn(&[u8])) {
    let corpus = corpus(target);
    for input in &corpus {
        run_one(target, run, input);
    }
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a whole number"))
    };
    let budget = Duration::from_secs(number("CORONER_MUTATION_SECONDS").unwrap_or(1));
    let mut mutator = Mutator {
        state: number("CORONER_MUTATION_SEED").unwrap_or(1),
        corpus: &corpus,
    };
    let start = Instant::now();
    while start.elapsed() < budget {
        for _ in 0..BATCH {
            run_one(target, run, &mutator.input());
        }
    }
}

fn run_one(target: &str, run: fn(&[u8]), input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{target} broke on {hex}");
    }
}

/// The committed inputs, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
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
struct Mutator<'a> {
    state: u64,
    corpus: &'a [Vec<u8>],
}

impl Mutator<'_> {
    /// The next number below `bound` (splitmix64).
    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (bound.max(1) as u64)).expect("below a usize")
    }

    fn input(&mut self) -> Vec<u8> {
        let choice = self.below(self.corpus.len());
        let mut input = self.corpus[choice].clone();
        for _ in 0..=self.below(MUTATIONS_MAX as usize) {
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
