//! Floor 1: typed settings, defaults, validation; `load` reads file and environment.
