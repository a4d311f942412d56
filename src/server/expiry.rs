//! When certificates end, for the health check that looks ahead.

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::der::Decode;

use crate::base::Timestamp;

/// The ends of all certificates in a file, in its order; one that cannot be read has ended.
pub(super) fn ends(certificates: &[CertificateDer<'_>]) -> Vec<Timestamp> {
    let ends = certificates.iter().map(|certificate| {
        let read = x509_cert::Certificate::from_der(certificate).ok()?;
        let end = read.tbs_certificate().validity().not_after;
        i64::try_from(end.to_unix_duration().as_millis()).ok()
    });
    ends.map(|end| Timestamp(end.unwrap_or(0))).collect()
}

/// What ends before some time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ending {
    /// Of the listener's own certificate and those between it and its authority.
    pub(super) certificate: Vec<Timestamp>,
    /// Of the authorities of clients.
    pub(super) authorities: Vec<Timestamp>,
}

impl Ending {
    /// Those of these that end before this time.
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

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.certificate.is_empty() && self.authorities.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_and_garbage_has_ended() {
        let mut parameters = CertificateParams::new(vec!["h".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let made = parameters
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        let certificate = ends(&[made.der().clone(), garbage]);
        let end = Timestamp(4_102_444_800_000);
        assert_eq!(certificate, [end, Timestamp(0)]);
        let all = Ending {
            certificate,
            authorities: vec![end],
        };
        assert!(all.before(Timestamp(0)).is_empty());
        assert_eq!(all.before(end).certificate, [Timestamp(0)]);
        assert_eq!(all.before(Timestamp(end.0 + 1)), all);
    }
}
