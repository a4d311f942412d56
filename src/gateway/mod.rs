//! Floor 7: link events to core commands, core effects to link calls; addresses.
