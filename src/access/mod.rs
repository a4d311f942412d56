//! Floor 3: users, password hashes, tags, permissions: data and pure checks.
