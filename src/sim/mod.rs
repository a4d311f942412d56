//! Floor 8: seeded simulator: clock, model, checkers.
