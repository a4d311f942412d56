//! The `coroner` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    coroner::cli::main()
}
