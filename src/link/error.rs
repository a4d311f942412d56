//! What a peer can do wrong, and what it is told.
