//! The `coroner` binary.

fn main() {}
