//! Running a program against one message, in the three-valued logic of SQL.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::fields;
use super::program::{Calculation, Comparison, Constant, Op};
use crate::message::Message;

/// What stands on the stack.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Operand<'a> {
    /// Missing, of a type that selectors know nothing of, or not to be decided.
    Unknown,
    Bool(bool),
    Exact(i64),
    Approximate(f64),
    Text(Cow<'a, str>),
}

/// What is left of a program's last step.
pub(super) fn run<'a>(program: &'a [Op], message: &'a Message, failures: u32) -> Operand<'a> {
    let mut stack: Vec<Operand<'a>> = Vec::with_capacity(4);
    for op in program {
        let result = match op {
            Op::Constant(constant) => constant_operand(constant),
            Op::Field(field) => fields::read(field, message, failures),
            Op::Compare(comparison) => {
                let (left, right) = two(&mut stack);
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
                Operand::Text(text) => Operand::Bool(members.iter().any(|member| *member == *text)),
                other => not_text(&other),
            },
            Op::Like(pattern) => match one(&mut stack) {
                Operand::Text(text) => Operand::Bool(pattern.matches(&text)),
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
        };
        stack.push(result);
    }
    one(&mut stack)
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
    }
}

/// IN and LIKE of a value that is no text: unknown if it is missing, else false.
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

/// Values of unlike types compare as false; texts and booleans know only equal and not.
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
    let holds = |order: Ordering| match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    };
    Operand::Bool(order.is_some_and(holds))
}

fn equality(comparison: Comparison, equal: bool) -> Operand<'static> {
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
fn number(operand: &Operand<'_>) -> Option<f64> {
    match operand {
        Operand::Exact(number) => Some(*number as f64),
        Operand::Approximate(number) => Some(*number),
        _ => None,
    }
}

/// Exact numbers wrap around as in Java; a division by zero of exact numbers has no result.
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
