//! Selectors as postfix programs for a stack machine.

use std::cmp::Ordering;

use super::like::Pattern;

/// The language of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// JMS message selectors. [JMS 2.0 3.8.1]
    Jms,
    /// SQL filters. [AMQP Filter Expressions 6]
    Sql,
}

/// A parsed selector, ready for evaluation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Program {
    pub(super) dialect: Dialect,
    pub(super) ops: Vec<Op>,
    /// The application properties it names, sorted, each with its index in the table of their
    /// values.
    pub(super) names: Box<[(Box<str>, usize)]>,
}

impl Program {
    /// The index of an application property in the table.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        let found = self
            .names
            .binary_search_by(|(known, _)| (**known).cmp(name));
        self.names.get(found.ok()?).map(|(_, place)| *place)
    }
}

/// One step: takes its operands from the stack and pushes its result.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Op {
    /// Pushes a constant.
    Constant(Constant),
    /// Pushes a field or application property of the message.
    Field(Field),
    /// Compares the two upper values.
    Compare(Comparison),
    /// Tests whether the lowest of three values is between the two above it, or equal to one of
    /// them.
    Between,
    /// Calculates with the two upper values.
    Calculate(Calculation),
    /// Changes the sign of the number on top.
    Negate,
    /// Tests whether the text on top is one of these.
    In(Box<[String]>),
    /// Tests whether the text on top matches this pattern.
    Like(Box<Pattern>),
    /// Tests whether the value on top is missing.
    IsNull,
    And,
    Or,
    Not,
    /// A step of SQL filters.
    Sql(SqlOp),
}

/// A step that only SQL filters have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SqlOp {
    /// Pushes the time, in milliseconds since 1970.
    Utc,
    /// Compares the two upper values.
    Compare(Comparison),
    /// Calculates with the two upper values.
    Calculate(Calculation),
    /// Divides the two upper whole numbers, for what remains.
    Remainder,
    /// Makes a text of bytes on top, and the unknown of what is neither text nor bytes.
    AsText,
    /// Tests whether the value below this many values on top is equal to one of them.
    Among(usize),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Constant {
    Bool(bool),
    Exact(i64),
    Approximate(f64),
    Text(String),
    Bytes(Vec<u8>),
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

impl Comparison {
    /// Whether it is true for two values in this order.
    pub(super) const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The field that a name in a selector stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// Header durable, as `PERSISTENT` or `NON_PERSISTENT`.
    DeliveryMode,
    /// Header priority; 4 if absent.
    Priority,
    /// Header durable, as a boolean.
    Durable,
    /// Number of failed deliveries, plus 1.
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
    /// An application property, by its index in the table.
    Property(usize),
}

impl Field {
    /// The field for a name: the JMS header names, those of the AMQP JMS mapping, and `amqp.` names
    /// for every field that selectors may use. Any other name is an application property.
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
