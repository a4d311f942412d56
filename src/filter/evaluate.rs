//! Evaluation of a program for one message, in the three-valued logic of SQL.

use std::borrow::Cow;

use super::fields;
use super::program::{Calculation, Comparison, Constant, Dialect, Field, Op, Program};
use super::sql;
use crate::base::limits::PROPERTIES_LOOKED_AT_BYTES;
use crate::base::{Meter, Step, Timestamp};
use crate::message::Message;

/// A value on the stack.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Operand<'a> {
    /// Missing, of a type that selectors do not have, or not to be decided.
    Unknown,
    Bool(bool),
    Exact(i64),
    Approximate(f64),
    Text(Cow<'a, str>),
    /// Bytes; only SQL filters have them.
    Bytes(Cow<'a, [u8]>),
    /// A value of another type, which is there; only SQL filters know that.
    Other,
}

/// The result of a program's last step; none if it cannot be computed in time, or if a property
/// that it needs is behind all that are examined; `failures`: its failed deliveries in its queue.
pub(super) fn run<'a>(
    now: Timestamp,
    program: &'a Program,
    message: &'a Message,
    failures: u32,
    meter: &mut Meter,
) -> Option<Operand<'a>> {
    let mut fields = FieldsOf {
        program,
        message,
        failures,
        properties: None,
    };
    let mut stack: Vec<Operand<'a>> = Vec::with_capacity(4);
    for op in &program.ops {
        meter.charge(Step::Term, 1);
        let result = match op {
            Op::Constant(constant) => constant_operand(constant),
            Op::Field(field) => fields.read(field, meter)?,
            Op::Compare(comparison) => {
                let (left, right) = two(&mut stack);
                charge_text(meter, &left);
                compare(*comparison, &left, &right)
            }
            Op::Between => {
                let (low, high) = two(&mut stack);
                let value = one(&mut stack);
                let above = compare(Comparison::GreaterOrEqual, &value, &low);
                all(&above, &compare(Comparison::LessOrEqual, &value, &high))
            }
            Op::Calculate(calculation) => {
                let (left, right) = two(&mut stack);
                calculate(*calculation, &left, &right)
            }
            Op::Negate => negate(&one(&mut stack)),
            Op::In(members) => match one(&mut stack) {
                Operand::Text(text) => {
                    meter.charge(Step::Term, members.len());
                    Operand::Bool(members.iter().any(|member| *member == *text))
                }
                other => not_text(&other),
            },
            Op::Like(pattern) => match one(&mut stack) {
                Operand::Text(text) => Operand::Bool(pattern.matches(&text, meter)),
                other => not_text(&other),
            },
            Op::IsNull => Operand::Bool(one(&mut stack) == Operand::Unknown),
            Op::And => {
                let (left, right) = two(&mut stack);
                all(&left, &right)
            }
            Op::Or => {
                let (left, right) = two(&mut stack);
                not(&all(&not(&left), &not(&right)))
            }
            Op::Not => not(&one(&mut stack)),
            Op::Sql(op) => sql::step(*op, &mut stack, now, meter),
        };
        if meter.is_used_up() {
            return None;
        }
        stack.push(result);
    }
    Some(one(&mut stack))
}

/// The fields of one message, for one program.
struct FieldsOf<'a> {
    program: &'a Program,
    message: &'a Message,
    failures: u32,
    /// The application properties that the program names, once one of them was needed.
    properties: Option<Vec<Operand<'a>>>,
}

impl<'a> FieldsOf<'a> {
    fn read(&mut self, field: &Field, meter: &mut Meter) -> Option<Operand<'a>> {
        if let Field::Property(place) = field {
            if self.properties.is_none() {
                self.properties = Some(self.find(meter)?);
            }
            let found = self.properties.as_ref()?.get(*place);
            return Some(found.cloned().unwrap_or(Operand::Unknown));
        }
        // Finding one means passing those in front of it.
        let bytes = self.message.properties_len();
        meter.charge(Step::Bytes16, bytes / 16);
        (bytes <= PROPERTIES_LOOKED_AT_BYTES).then(|| match self.program.dialect {
            Dialect::Jms => fields::read(field, self.message, self.failures),
            Dialect::Sql => sql::field(field, self.message),
        })
    }

    /// Finds the application properties in one pass. The first of a name counts.
    fn find(&self, meter: &mut Meter) -> Option<Vec<Operand<'a>>> {
        let mut found: Vec<Option<Operand<'a>>> = vec![None; self.program.names.len()];
        let mut missing = found.len();
        let read = match self.program.dialect {
            Dialect::Jms => fields::property,
            Dialect::Sql => sql::property,
        };
        let looked = self.message.look_for_properties(
            |name| self.program.place(name).is_some(),
            |name, value| {
                let place = self.program.place(name);
                if let Some(free) = place.and_then(|place| found.get_mut(place))
                    && free.is_none()
                {
                    *free = Some(read(value));
                    missing -= 1;
                }
                missing == 0
            },
        );
        meter.charge(Step::Pair, looked.pairs);
        meter.charge(Step::Bytes16, looked.bytes / 16);
        let found = found.into_iter();
        looked.is_complete.then(|| {
            found
                .map(|value| value.unwrap_or(Operand::Unknown))
                .collect()
        })
    }
}

/// Charges for comparing a text.
fn charge_text(meter: &mut Meter, operand: &Operand<'_>) {
    if let Operand::Text(text) = operand {
        meter.charge(Step::Bytes16, text.len() / 16);
    }
}

fn one<'a>(stack: &mut Vec<Operand<'a>>) -> Operand<'a> {
    stack.pop().unwrap_or(Operand::Unknown)
}

fn two<'a>(stack: &mut Vec<Operand<'a>>) -> (Operand<'a>, Operand<'a>) {
    let right = one(stack);
    (one(stack), right)
}

fn constant_operand(constant: &Constant) -> Operand<'_> {
    match constant {
        Constant::Bool(value) => Operand::Bool(*value),
        Constant::Exact(number) => Operand::Exact(*number),
        Constant::Approximate(number) => Operand::Approximate(*number),
        Constant::Text(text) => Operand::Text(Cow::Borrowed(text)),
        Constant::Bytes(bytes) => Operand::Bytes(Cow::Borrowed(bytes)),
    }
}

/// The result of IN and LIKE for a value that is not a text: unknown if it is missing, otherwise
/// false.
fn not_text(operand: &Operand<'_>) -> Operand<'static> {
    match operand {
        Operand::Unknown => Operand::Unknown,
        _ => Operand::Bool(false),
    }
}

fn not(operand: &Operand<'_>) -> Operand<'static> {
    match operand {
        Operand::Bool(value) => Operand::Bool(!value),
        _ => Operand::Unknown,
    }
}

fn all(left: &Operand<'_>, right: &Operand<'_>) -> Operand<'static> {
    match (left, right) {
        (Operand::Bool(false), _) | (_, Operand::Bool(false)) => Operand::Bool(false),
        (Operand::Bool(true), Operand::Bool(true)) => Operand::Bool(true),
        _ => Operand::Unknown,
    }
}

/// Compares two values: false for unlike types; texts and booleans can only be equal or not.
fn compare(comparison: Comparison, left: &Operand<'_>, right: &Operand<'_>) -> Operand<'static> {
    let order = match (left, right) {
        (Operand::Unknown, _) | (_, Operand::Unknown) => return Operand::Unknown,
        (Operand::Text(left), Operand::Text(right)) => return equality(comparison, left == right),
        (Operand::Bool(left), Operand::Bool(right)) => return equality(comparison, left == right),
        (Operand::Exact(left), Operand::Exact(right)) => Some(left.cmp(right)),
        _ => match (number(left), number(right)) {
            (Some(left), Some(right)) => left.partial_cmp(&right),
            _ => None,
        },
    };
    Operand::Bool(order.is_some_and(|order| comparison.holds(order)))
}

/// The result for two values that have no order.
pub(super) fn equality(comparison: Comparison, equal: bool) -> Operand<'static> {
    Operand::Bool(match comparison {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        _ => false,
    })
}

#[allow(
    clippy::cast_precision_loss,
    reason = "an exact number beside an approximate one is taken approximately, as in Java"
)]
pub(super) fn number(operand: &Operand<'_>) -> Option<f64> {
    match operand {
        Operand::Exact(number) => Some(*number as f64),
        Operand::Approximate(number) => Some(*number),
        _ => None,
    }
}

/// Calculates: exact numbers wrap around as in Java; a division by zero of exact numbers has no
/// result.
fn calculate(
    calculation: Calculation,
    left: &Operand<'_>,
    right: &Operand<'_>,
) -> Operand<'static> {
    if let (Operand::Exact(left), Operand::Exact(right)) = (left, right) {
        let (left, right) = (*left, *right);
        return match calculation {
            Calculation::Add => Operand::Exact(left.wrapping_add(right)),
            Calculation::Subtract => Operand::Exact(left.wrapping_sub(right)),
            Calculation::Multiply => Operand::Exact(left.wrapping_mul(right)),
            Calculation::Divide if right == 0 => Operand::Unknown,
            Calculation::Divide => Operand::Exact(left.wrapping_div(right)),
        };
    }
    let (Some(left), Some(right)) = (number(left), number(right)) else {
        return Operand::Unknown;
    };
    Operand::Approximate(match calculation {
        Calculation::Add => left + right,
        Calculation::Subtract => left - right,
        Calculation::Multiply => left * right,
        Calculation::Divide => left / right,
    })
}

fn negate(operand: &Operand<'_>) -> Operand<'static> {
    match operand {
        Operand::Exact(number) => Operand::Exact(number.wrapping_neg()),
        Operand::Approximate(number) => Operand::Approximate(-number),
        _ => Operand::Unknown,
    }
}
