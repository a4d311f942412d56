//! What the linter found: rule, object, words, witness.

use std::fmt;

use crate::base::Name;
use crate::deaths::Reason;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Messages are lost, or go where nobody looks.
    Error,
    /// Probably not what was meant.
    Warning,
    /// Worth knowing, and perhaps meant so.
    Info,
}

impl Severity {
    /// All of them, the worst first.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Info];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A rule of the linter. [evidence part 9]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// The dead-letter exchange does not exist.
    ExchangeMissing,
    /// Nothing is bound to the dead-letter exchange.
    NothingBound,
    /// Some keys of dead letters lead to no queue.
    KeysLeadNowhere,
    /// Dead letters come back without a rejection, and are dropped there.
    LoopByItself,
    /// Dead letters come back after a rejection, for ever.
    LoopByRejects,
    /// What expires is lost.
    ExpiredIsLost,
    /// What a length limit pushes out is lost.
    PushedOutIsLost,
    /// What fails too often is lost.
    FailedIsLost,
    /// A queue of dead letters grows for ever.
    GrowsForEver,
    /// In a queue of dead letters the second death is the last.
    SecondDeathIsLast,
    /// A policy is not applied, because another one is.
    Outranked,
    /// An argument and a policy set the same, and one of them loses.
    Beaten,
    /// A policy, or a key of it, has no effect.
    NoEffect,
    /// A dead-letter routing key without an exchange.
    KeyWithoutExchange,
    /// A durable queue's dead letters go through, or to, what does not last.
    DoesNotLast,
    /// Dead letters reach queues that get live messages too.
    AmongTheLiving,
    /// A queue dead-letters into itself.
    IntoItself,
    /// Delayed retries without an end, or without a growing delay.
    RetriesForEver,
    /// What a RabbitMQ does otherwise.
    OtherwiseInRabbitmq,
    /// Dead letters die on arrival.
    DiesOnArrival,
    /// Dead letters go with their queue, which expires.
    ExpiresWithThem,
}

impl Rule {
    /// All rules, by number.
    pub const ALL: [Self; 21] = [
        Self::ExchangeMissing,
        Self::NothingBound,
        Self::KeysLeadNowhere,
        Self::LoopByItself,
        Self::LoopByRejects,
        Self::ExpiredIsLost,
        Self::PushedOutIsLost,
        Self::FailedIsLost,
        Self::GrowsForEver,
        Self::SecondDeathIsLast,
        Self::Outranked,
        Self::Beaten,
        Self::NoEffect,
        Self::KeyWithoutExchange,
        Self::DoesNotLast,
        Self::AmongTheLiving,
        Self::IntoItself,
        Self::RetriesForEver,
        Self::OtherwiseInRabbitmq,
        Self::DiesOnArrival,
        Self::ExpiresWithThem,
    ];

    /// The rule's number, `DL004` for example.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExchangeMissing => "DL001",
            Self::NothingBound => "DL002",
            Self::KeysLeadNowhere => "DL003",
            Self::LoopByItself => "DL004",
            Self::LoopByRejects => "DL005",
            Self::ExpiredIsLost => "DL006",
            Self::PushedOutIsLost => "DL007",
            Self::FailedIsLost => "DL008",
            Self::GrowsForEver => "DL009",
            Self::SecondDeathIsLast => "DL010",
            Self::Outranked => "DL011",
            Self::Beaten => "DL012",
            Self::NoEffect => "DL013",
            Self::KeyWithoutExchange => "DL014",
            Self::DoesNotLast => "DL015",
            Self::AmongTheLiving => "DL016",
            Self::IntoItself => "DL017",
            Self::RetriesForEver => "DL018",
            Self::OtherwiseInRabbitmq => "DL019",
            Self::DiesOnArrival => "DL020",
            Self::ExpiresWithThem => "DL021",
        }
    }

    /// The severity of its findings, unless one says otherwise.
    pub const fn severity(self) -> Severity {
        match self {
            Self::ExchangeMissing
            | Self::NothingBound
            | Self::KeysLeadNowhere
            | Self::LoopByItself => Severity::Error,
            Self::GrowsForEver | Self::SecondDeathIsLast | Self::NoEffect => Severity::Info,
            Self::LoopByRejects
            | Self::ExpiredIsLost
            | Self::PushedOutIsLost
            | Self::FailedIsLost
            | Self::Outranked
            | Self::Beaten
            | Self::KeyWithoutExchange
            | Self::DoesNotLast
            | Self::AmongTheLiving
            | Self::IntoItself
            | Self::RetriesForEver
            | Self::OtherwiseInRabbitmq
            | Self::DiesOnArrival
            | Self::ExpiresWithThem => Severity::Warning,
        }
    }

    /// One sentence that says what it looks for.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ExchangeMissing => "The dead-letter exchange does not exist.",
            Self::NothingBound => "Nothing is bound to the dead-letter exchange.",
            Self::KeysLeadNowhere => {
                "Messages reach the queue with keys by which its dead letters reach no queue."
            }
            Self::LoopByItself => {
                "Dead letters come back to a queue in which they died without a rejection on the way: \
                 they are not let in, and are dropped if no other queue takes them."
            }
            Self::LoopByRejects => {
                "Dead letters come back to the queue that they were rejected in, for ever."
            }
            Self::ExpiredIsLost => {
                "Messages expire in a queue without a dead-letter exchange: they are dropped."
            }
            Self::PushedOutIsLost => {
                "A length limit drops messages from the head of a queue without a dead-letter exchange."
            }
            Self::FailedIsLost => {
                "Messages that fail too often are dropped: the queue has a delivery limit and no \
                 dead-letter exchange."
            }
            Self::GrowsForEver => {
                "A queue that only dead letters reach has neither limit nor time to live."
            }
            Self::SecondDeathIsLast => {
                "A queue that only dead letters reach has a limit or a time to live and no dead-letter \
                 exchange: what dies there a second time is dropped."
            }
            Self::Outranked => {
                "A policy is not applied to queues that it matches: another one is, and policies do not \
                 merge."
            }
            Self::Beaten => "An argument and a policy set the same: only one of them counts.",
            Self::NoEffect => "A policy matches nothing, or one of its keys has no effect.",
            Self::KeyWithoutExchange => "A dead-letter routing key without a dead-letter exchange.",
            Self::DoesNotLast => {
                "The dead letters of a durable queue go through an exchange, or to a queue, that does not \
                 last."
            }
            Self::AmongTheLiving => "Dead letters also reach queues that get live messages.",
            Self::IntoItself => "A queue dead-letters into itself.",
            Self::RetriesForEver => {
                "Delayed retries without a delivery limit go on for ever; or their delay never grows."
            }
            Self::OtherwiseInRabbitmq => "A RabbitMQ does not know this, or does otherwise.",
            Self::DiesOnArrival => {
                "Dead letters reach a queue in which they die at once, unless a consumer waits for them."
            }
            Self::ExpiresWithThem => {
                "Dead letters reach a queue that expires when nobody uses it: what it holds is dropped with \
                 it."
            }
        }
    }
}

/// What a finding is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// A queue, by name.
    Queue(Name),
    /// A policy, by name.
    Policy(Name),
    /// An operator policy, by name.
    OperatorPolicy(Name),
}

impl Subject {
    /// The word for its kind, in answers.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Queue(_) => "queue",
            Self::Policy(_) => "policy",
            Self::OperatorPolicy(_) => "operator_policy",
        }
    }

    /// The name of the object.
    pub const fn name(&self) -> &Name {
        match self {
            Self::Queue(name) | Self::Policy(name) | Self::OperatorPolicy(name) => name,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind().replace('_', " "), self.name())
    }
}

/// A message, and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The exchange that it is published to; empty: the default exchange.
    pub exchange: Name,
    /// The routing key that it is published with.
    pub key: Name,
    /// The queues in which it dies, and of what, in order.
    pub deaths: Vec<(Name, Reason)>,
    /// What became of it then in a core of its own; none: it was not tried.
    pub outcome: Option<String>,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exchange, key, .. } = self;
        if exchange.is_empty() {
            write!(f, "published to queue {key}")?;
        } else {
            write!(f, "published {exchange}/{key}")?;
        }
        for (queue, reason) in &self.deaths {
            write!(f, ", {} in {queue}", verb(*reason))?;
        }
        let outcome = self.outcome.as_deref();
        write!(f, " -> {}", outcome.unwrap_or("not tried"))
    }
}

/// The verb for a death.
pub(super) const fn verb(reason: Reason) -> &'static str {
    match reason {
        Reason::Rejected => "rejected",
        Reason::Expired => "expired",
        Reason::Maxlen => "pushed out",
        Reason::DeliveryLimit => "failed too often",
    }
}

/// One breach of a rule, by one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule that it breaks.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// What is wrong, in one sentence without a full stop.
    pub says: String,
    /// Where that comes from; none: there is no more to say.
    pub because: Option<String>,
    /// A message that shows it; none: it claims no fate.
    pub witness: Option<Witness>,
    /// What mends it, mostly a command; none: that depends on what was meant.
    pub fix: Option<String>,
}

impl Finding {
    pub(super) fn new(rule: Rule, subject: Subject, says: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            subject,
            says: says.into(),
            because: None,
            witness: None,
            fix: None,
        }
    }

    pub(super) fn because(mut self, because: impl Into<String>) -> Self {
        self.because = Some(because.into());
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub(super) fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub(super) fn witness(mut self, witness: Option<Witness>) -> Self {
        self.witness = witness;
        self
    }

    /// By what findings are sorted, and are the same.
    pub(super) fn order(&self) -> (Severity, Rule, &Subject, &str) {
        (self.severity, self.rule, &self.subject, &self.says)
    }
}
