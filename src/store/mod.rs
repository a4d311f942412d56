//! Floor 4: the journal of opaque records.
