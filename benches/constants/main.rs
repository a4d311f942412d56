//! What the broker counts for things and for steps, beside what they take.
//!
//! `cargo bench --bench constants` prints two tables. The first has the constants of `base::limits` that are
//! counted against the memory limit: many things of a kind are made, and what resident memory grew by is
//! compared with what was counted. The second has what steps are charged for that are done under the core's
//! lock (`base::Step`), and the longest of those that are not cut.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark reads a clock and its memory, prints, and may fail loudly"
)]
#![allow(missing_docs, reason = "a benchmark")]

mod connections;
mod objects;
mod steps;

#[path = "../message_path/broker.rs"]
#[allow(dead_code, reason = "it is shared")]
mod broker;
#[path = "../message_path/memory_disk.rs"]
mod memory_disk;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("| constant | counted | measured | of what |");
    println!("| --- | ---: | ---: | --- |");
    objects::measure();
    connections::measure();
    println!();
    println!("| step | charged | measured | of what |");
    println!("| --- | ---: | ---: | --- |");
    steps::measure();
}

/// Makes `count` things, which `make` gives back with what was counted for them, and prints what one takes
/// for which `counted_each` is counted beside what is known of it.
fn compare<T>(
    (name, counted_each): (&str, u64),
    what: &str,
    count: u64,
    make: impl FnOnce(u64) -> (T, u64),
) {
    let before = resident_bytes();
    let (things, counted) = make(count);
    let grown = resident_bytes() - before;
    let measured = i128::from(grown) - i128::from(counted) + i128::from(counted_each * count);
    let measured = measured / i128::from(count);
    println!("| `{name}` | {counted_each} | {measured} | {count} {what} |");
    // Freed memory would be there for the next things.
    std::mem::forget(things);
}

/// Memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("resident pages");
    pages.parse::<u64>().expect("a number") * 4096
}
