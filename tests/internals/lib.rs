//! Nothing: this package is there for its dev-dependency, as `Cargo.toml` says.
