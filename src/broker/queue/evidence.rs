//! Evidence of a queue's deaths: what the consumer gave, and the rule that set the dead-letter
//! exchange.

use std::sync::Arc;

use crate::broker::policy::Rule;
use crate::deaths::Evidence;

/// The evidence of the last death, shared by messages that a consumer rejects alike and by those
/// that expire.
#[derive(Debug, Default)]
pub struct LastEvidence(Option<Box<Last>>);

#[derive(Debug)]
struct Last {
    given: Option<Arc<Evidence>>,
    rule: Rule,
    evidence: Arc<Evidence>,
}

impl LastEvidence {
    /// The evidence of a death, with the rule that set the dead-letter exchange.
    pub fn with_rule(&mut self, given: Option<&Arc<Evidence>>, rule: &Rule) -> &Arc<Evidence> {
        let is_known = self.0.as_ref().is_some_and(|last| {
            let is_given = match (&last.given, given) {
                (Some(last), Some(given)) => Arc::ptr_eq(last, given),
                (None, None) => true,
                _ => false,
            };
            is_given && last.rule == *rule
        });
        if !is_known {
            self.0 = None;
        }
        let last = self.0.get_or_insert_with(|| {
            Box::new(Last {
                given: given.cloned(),
                rule: rule.clone(),
                evidence: Arc::new(Evidence::with_rule(given.map(|it| &**it), &rule.words())),
            })
        });
        &last.evidence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;
    use crate::deaths::How;

    #[test]
    fn deaths_of_one_disposition_share_their_evidence_and_others_do_not() {
        let mut last = LastEvidence::default();
        let given = Arc::new(Evidence {
            how: Some(How::Rejected),
            ..Evidence::default()
        });
        let policy = Rule::Policy(Name::from("DLX"));
        let first = Arc::clone(last.with_rule(Some(&given), &policy));
        assert_eq!(first.rule.as_deref(), Some("policy DLX"));
        assert_eq!(first.how, Some(How::Rejected));
        let again = last.with_rule(Some(&given), &policy);
        assert!(Arc::ptr_eq(&first, again));
        let other_rule = last.with_rule(Some(&given), &Rule::Argument);
        assert_eq!(other_rule.rule.as_deref(), Some("argument"));
        let nobody = last.with_rule(None, &Rule::OperatorPolicy(Name::from("all")));
        assert_eq!(nobody.rule.as_deref(), Some("operator-policy all"));
        assert_eq!(nobody.how, None);
    }
}
