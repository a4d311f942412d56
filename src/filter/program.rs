//! A selector as a postfix program for a machine with a stack.

use super::like::Pattern;

/// A selector, ready to be asked.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    /// The application properties it names, sorted, each with its place in the table of their values.
    pub(super) names: Box<[(Box<str>, usize)]>,
}

impl Program {
    /// The place of an application property in the table.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        let found = self
            .names
            .binary_search_by(|(known, _)| (**known).cmp(name));
        self.names.get(found.ok()?).map(|(_, place)| *place)
    }
}

/// One step: takes its operands from the stack and puts its result there.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Op {
    /// Puts a constant there.
    Constant(Constant),
    /// Puts a field or application property of the message there.
    Field(Field),
    /// The two upper values, compared.
    Compare(Comparison),
    /// Whether the lowest of three values lies between the two above it, or is one of them.
    Between,
    /// The two upper values, calculated.
    Calculate(Calculation),
    /// The number on top with the other sign.
    Negate,
    /// Whether the text on top is one of these.
    In(Box<[String]>),
    /// Whether the text on top has this form.
    Like(Box<Pattern>),
    /// Whether the value on top is missing.
    IsNull,
    And,
    Or,
    Not,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Constant {
    Bool(bool),
    Exact(i64),
    Approximate(f64),
    Text(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// What a name in a selector stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// Header durable, as `PERSISTENT` or `NON_PERSISTENT`.
    DeliveryMode,
    /// Header priority; 4 if absent.
    Priority,
    /// Header durable.
    Durable,
    /// Failed deliveries so far, plus 1.
    DeliveryCount,
    MessageId,
    CorrelationId,
    To,
    ReplyTo,
    Subject,
    UserId,
    CreationTime,
    AbsoluteExpiryTime,
    ContentType,
    ContentEncoding,
    GroupId,
    GroupSequence,
    ReplyToGroupId,
    /// An application property, by its place in the table.
    Property(usize),
}

impl Field {
    /// The JMS header names, those of the AMQP JMS mapping, and `amqp.` names for every field that
    /// selectors may look at. Any other name is an application property.
    pub(super) fn named(name: &str, property: impl FnOnce(&str) -> usize) -> Self {
        match name {
            "JMSDeliveryMode" => Self::DeliveryMode,
            "JMSPriority" | "amqp.priority" => Self::Priority,
            "JMSMessageID" | "amqp.message_id" => Self::MessageId,
            "JMSTimestamp" | "amqp.creation_time" => Self::CreationTime,
            "JMSCorrelationID" | "amqp.correlation_id" => Self::CorrelationId,
            "JMSType" | "amqp.subject" => Self::Subject,
            "JMSDestination" | "amqp.to" => Self::To,
            "JMSReplyTo" | "amqp.reply_to" => Self::ReplyTo,
            "JMSExpiration" | "amqp.absolute_expiry_time" => Self::AbsoluteExpiryTime,
            "JMSXUserID" | "amqp.user_id" => Self::UserId,
            "JMSXGroupID" | "amqp.group_id" => Self::GroupId,
            "JMSXGroupSeq" | "amqp.group_sequence" => Self::GroupSequence,
            "JMSXDeliveryCount" => Self::DeliveryCount,
            "JMS_AMQP_CONTENT_TYPE" | "amqp.content_type" => Self::ContentType,
            "JMS_AMQP_CONTENT_ENCODING" | "amqp.content_encoding" => Self::ContentEncoding,
            "JMS_AMQP_REPLY_TO_GROUP_ID" | "amqp.reply_to_group_id" => Self::ReplyToGroupId,
            "amqp.durable" => Self::Durable,
            _ => Self::Property(property(name)),
        }
    }
}
