//! Expiry of certificates, for the health check that looks ahead.

use crate::base::Timestamp;

/// Expiry times of certificates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ending {
    /// Of the listener's own certificate and those between it and its authority.
    pub(super) certificate: Vec<Timestamp>,
    /// Of the authorities of clients' certificates.
    pub(super) authorities: Vec<Timestamp>,
}

impl Ending {
    /// The times before this one.
    pub(super) fn before(&self, time: Timestamp) -> Self {
        let early = |ends: &[Timestamp]| {
            let ends = ends.iter().copied();
            ends.filter(|end| *end < time).collect()
        };
        Self {
            certificate: early(&self.certificate),
            authorities: early(&self.authorities),
        }
    }

    /// Whether there are no times.
    pub(super) fn is_empty(&self) -> bool {
        self.certificate.is_empty() && self.authorities.is_empty()
    }
}
