//! Entry point for fuzzing: invariants that must hold for any bytes. Panics when one breaks.

use super::{History, decode_deaths};

/// What can be read as a stored history or as `x-opt-deaths` survives a round trip.
pub fn fuzz_deaths(data: &[u8]) {
    if let Ok(history) = History::decode(data) {
        let mut encoded = Vec::new();
        history.encode(&mut encoded);
        assert!(
            History::decode(&encoded) == Ok(history),
            "a history survives a round trip"
        );
    }
    if let Ok(entries) = decode_deaths(data) {
        assert!(entries.len() <= data.len(), "every entry takes bytes");
    }
}
