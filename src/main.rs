//! The `coroner` binary.

use std::process::ExitCode;

/// Most allocations are messages, made by the publisher's thread and freed by the consumer's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    coroner::main()
}
