//! Failed deliveries: evidence is built once for all messages of one disposition.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::Timestamp;
use crate::deaths::{Evidence, How, LastFailure};

/// How a delivery failed, and the consumer's identity and annotations.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    how: How,
    by: Option<Arc<Evidence>>,
    /// The annotations of a `modified` outcome.
    annotations: Option<Bytes>,
}

impl Failure {
    pub(super) const fn new(how: How, by: Option<Arc<Evidence>>) -> Self {
        Self {
            how,
            by,
            annotations: None,
        }
    }

    /// The same failure, with the consumer's annotations.
    pub(super) fn with_annotations(self, annotations: Option<Bytes>) -> Self {
        Self {
            annotations,
            ..self
        }
    }

    /// Whether it is the same failure, compared by allocation: a cheap test that may be false for
    /// equal texts.
    fn is(&self, other: &Self) -> bool {
        let place = |bytes: &Option<Bytes>| bytes.as_ref().map(|it| (it.as_ptr(), it.len()));
        let is_same_consumer = match (&self.by, &other.by) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same_consumer
            && self.how == other.how
            && place(&self.annotations) == place(&other.annotations)
    }
}

/// The last failure: a disposition or the end of a session or connection fails many deliveries
/// alike, and their messages share one record of it.
#[derive(Debug, Default)]
pub(super) struct Failures(Option<Box<Last>>);

#[derive(Debug)]
struct Last {
    /// Kept with its bytes, so that its allocation is not reused and mistaken for it.
    failure: Failure,
    made: Arc<LastFailure>,
}

impl Failures {
    /// The record of a failure that messages keep; none if the consumer is unknown.
    pub(super) fn of(&mut self, at: Timestamp, failure: &Failure) -> Option<&Arc<LastFailure>> {
        let by = failure.by.as_ref()?;
        let known = self.0.take().filter(|last| last.failure.is(failure));
        let last = known.unwrap_or_else(|| {
            let annotations = failure.annotations.as_ref();
            let evidence = Arc::new(by.with_annotations(failure.how, annotations));
            Box::new(Last {
                failure: failure.clone(),
                made: Arc::new(LastFailure { at, evidence }),
            })
        });
        let last = self.0.insert(last);
        if last.made.at != at {
            let evidence = Arc::clone(&last.made.evidence);
            last.made = Arc::new(LastFailure { at, evidence });
        }
        Some(&last.made)
    }

    /// The evidence of a failure for the history of a message that dies of it.
    pub(super) fn evidence(&mut self, at: Timestamp, failure: &Failure) -> Option<Arc<Evidence>> {
        let failure = self.of(at, failure)?;
        Some(Arc::clone(&failure.evidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;

    #[test]
    fn failures_of_one_disposition_share_what_is_kept_and_others_do_not() {
        let by = Some(Arc::new(Evidence::of_consumer(
            &Name::from("c"),
            "l",
            None,
            None,
        )));
        let mut failures = Failures::default();
        let mut made = |ms: i64, failure: &Failure| {
            let made = failures.of(Timestamp(ms), failure);
            Arc::clone(made.expect("the consumer is known"))
        };
        let said = Some(Bytes::from_static(&[0xc1, 0x01, 0x00]));
        let failure = Failure::new(How::Failed, by.clone()).with_annotations(said);
        let first = made(1, &failure);
        assert!(Arc::ptr_eq(&first, &made(1, &failure.clone())));
        let later = made(2, &failure);
        assert_eq!(later.at, Timestamp(2));
        assert!(Arc::ptr_eq(&first.evidence, &later.evidence));
        let other_words = Some(Bytes::from(vec![0xc1, 0x01, 0x00]));
        let other = made(2, &failure.clone().with_annotations(other_words));
        assert!(!Arc::ptr_eq(&first.evidence, &other.evidence));
        let lost = made(2, &Failure::new(How::ConnectionLost, by));
        assert_eq!(lost.evidence.how, Some(How::ConnectionLost));
        let nobody = Failure::new(How::Failed, None);
        assert_eq!(failures.of(Timestamp(3), &nobody), None);
    }
}
