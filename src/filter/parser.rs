//! The parser: from tokens to a program.
//!
//! ```text
//!   or       = and { OR and }
//!   and      = not { AND not }
//!   not      = { NOT } test
//!   test     = sum [ compare sum | [NOT] BETWEEN sum AND sum | [NOT] IN (text, ...)
//!                  | [NOT] LIKE text [ESCAPE text] | IS [NOT] NULL ]
//!   sum      = product { (+ | -) product }
//!   product  = factor { (* | /) factor }
//!   factor   = { + | - } ( literal | name | "(" or ")" )
//! ```
//!
//! SQL filters have no BETWEEN, IN ( sum, ... ), a product with `%`, and two more factors: UTC ( ) and
//! EXISTS ( name ).

use std::collections::BTreeMap;

use super::SelectorError;
use super::like::Pattern;
use super::program::{Calculation, Comparison, Constant, Dialect, Field, Op, Program, SqlOp};
use super::tokens::{Token, TokenKind, tokens};
use crate::base::limits::SELECTOR_VALUES_MAX;

/// Depth of parentheses, signs and negations, at most.
const DEPTH_MAX: usize = 32;

/// Parses a whole selector or SQL filter.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Program, SelectorError> {
    let tokens = tokens(text, dialect)?;
    let mut parser = Parser {
        dialect,
        tokens: &tokens,
        depth: 0,
        program: Vec::new(),
        names: BTreeMap::new(),
        values: 0,
    };
    parser.or()?;
    match parser.peek() {
        TokenKind::End => Ok(parser.finished()),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'a> {
    dialect: Dialect,
    tokens: &'a [Token],
    depth: usize,
    program: Vec<Op>,
    /// The application properties, each with its index in the table of their values.
    names: BTreeMap<&'a str, usize>,
    /// Number of names and constants so far.
    values: usize,
}

type Parsed = Result<(), SelectorError>;

impl<'a> Parser<'a> {
    fn finished(self) -> Program {
        let names = self.names.into_iter();
        Program {
            dialect: self.dialect,
            ops: self.program,
            names: names.map(|(name, place)| (name.into(), place)).collect(),
        }
    }

    /// Counts one more name or constant.
    fn count_value(&mut self) -> Parsed {
        self.values += 1;
        if self.values > SELECTOR_VALUES_MAX {
            return Err(SelectorError::TooManyValues {
                max: SELECTOR_VALUES_MAX,
                at: self.at(),
            });
        }
        Ok(())
    }

    fn peek(&self) -> &'a TokenKind {
        self.tokens
            .first()
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn advance(&mut self) {
        // The end token stays, so that reading beyond it finds it again.
        if let [_, rest @ ..] = self.tokens
            && !rest.is_empty()
        {
            self.tokens = rest;
        }
    }

    fn at(&self) -> usize {
        self.tokens.first().map_or(0, |token| token.at)
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        SelectorError::Unexpected {
            expected,
            found: self.peek().describe(),
            at: self.at(),
        }
    }

    /// Consumes a token if it is of this kind.
    fn takes(&mut self, kind: &TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Word(name) if name.eq_ignore_ascii_case(word));
        if found {
            self.advance();
        }
        found
    }

    fn text(&mut self, expected: &'static str) -> Result<&'a str, SelectorError> {
        let TokenKind::Text(text) = self.peek() else {
            return Err(self.unexpected(expected));
        };
        self.advance();
        Ok(text)
    }

    fn deeper(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let at = self.at();
            return Err(SelectorError::TooDeep { max: DEPTH_MAX, at });
        }
        Ok(())
    }

    fn or(&mut self) -> Parsed {
        self.and()?;
        while self.takes_word("or") {
            self.and()?;
            self.program.push(Op::Or);
        }
        Ok(())
    }

    fn and(&mut self) -> Parsed {
        self.not()?;
        while self.takes_word("and") {
            self.not()?;
            self.program.push(Op::And);
        }
        Ok(())
    }

    fn not(&mut self) -> Parsed {
        let mut negated = false;
        while self.takes_word("not") {
            negated = !negated;
        }
        self.test()?;
        self.negate_if(negated);
        Ok(())
    }

    fn negate_if(&mut self, negated: bool) {
        if negated {
            self.program.push(Op::Not);
        }
    }

    fn test(&mut self) -> Parsed {
        self.sum()?;
        let comparison = match self.peek() {
            TokenKind::Equal => Comparison::Equal,
            TokenKind::NotEqual => Comparison::NotEqual,
            TokenKind::Less => Comparison::Less,
            TokenKind::LessOrEqual => Comparison::LessOrEqual,
            TokenKind::Greater => Comparison::Greater,
            TokenKind::GreaterOrEqual => Comparison::GreaterOrEqual,
            _ => return self.word_test(),
        };
        self.advance();
        self.sum()?;
        self.program.push(match self.dialect {
            Dialect::Jms => Op::Compare(comparison),
            Dialect::Sql => Op::Sql(SqlOp::Compare(comparison)),
        });
        Ok(())
    }

    /// Parses the tests that are words.
    fn word_test(&mut self) -> Parsed {
        if self.takes_word("is") {
            let negated = self.takes_word("not");
            if !self.takes_word("null") {
                return Err(self.unexpected("NULL"));
            }
            self.program.push(Op::IsNull);
            self.negate_if(negated);
            return Ok(());
        }
        let negated = self.takes_word("not");
        let is_sql = self.dialect == Dialect::Sql;
        if !is_sql && self.takes_word("between") {
            self.sum()?;
            if !self.takes_word("and") {
                return Err(self.unexpected("AND"));
            }
            self.sum()?;
            self.program.push(Op::Between);
        } else if self.takes_word("in") {
            self.members()?;
        } else if self.takes_word("like") {
            self.like()?;
        } else if negated && is_sql {
            return Err(self.unexpected("IN or LIKE"));
        } else if negated {
            return Err(self.unexpected("BETWEEN, IN or LIKE"));
        }
        self.negate_if(negated);
        Ok(())
    }

    fn members(&mut self) -> Parsed {
        if !self.takes(&TokenKind::Open) {
            return Err(self.unexpected("'('"));
        }
        if self.dialect == Dialect::Sql {
            return self.sums();
        }
        let mut members = Vec::new();
        loop {
            self.count_value()?;
            members.push(self.text("a string")?.to_owned());
            if self.takes(&TokenKind::Close) {
                break;
            }
            if !self.takes(&TokenKind::Comma) {
                return Err(self.unexpected("',' or ')'"));
            }
        }
        self.program.push(Op::In(members.into()));
        Ok(())
    }

    /// Parses the members of IN in an SQL filter, behind the parenthesis.
    fn sums(&mut self) -> Parsed {
        let mut count = 0;
        loop {
            self.sum()?;
            count += 1;
            if self.takes(&TokenKind::Close) {
                break;
            }
            if !self.takes(&TokenKind::Comma) {
                return Err(self.unexpected("',' or ')'"));
            }
        }
        self.program.push(Op::Sql(SqlOp::Among(count)));
        Ok(())
    }

    fn like(&mut self) -> Parsed {
        let pattern = self.text("a string")?;
        let mut escape = None;
        if self.takes_word("escape") {
            let expected = "a string of one character";
            let before = self.tokens;
            let mut chars = self.text(expected)?.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                self.tokens = before;
                return Err(self.unexpected(expected));
            }
        }
        let pattern = Pattern::new(pattern, escape, self.dialect)?;
        if self.dialect == Dialect::Sql {
            self.program.push(Op::Sql(SqlOp::AsText));
        }
        self.program.push(Op::Like(Box::new(pattern)));
        Ok(())
    }

    fn sum(&mut self) -> Parsed {
        self.product()?;
        loop {
            let calculation = match self.peek() {
                TokenKind::Plus => Calculation::Add,
                TokenKind::Minus => Calculation::Subtract,
                _ => return Ok(()),
            };
            self.advance();
            self.product()?;
            self.calculate(calculation);
        }
    }

    fn product(&mut self) -> Parsed {
        self.factor()?;
        loop {
            let calculation = match self.peek() {
                TokenKind::Times => Some(Calculation::Multiply),
                TokenKind::Divide => Some(Calculation::Divide),
                TokenKind::Remainder => None,
                _ => return Ok(()),
            };
            self.advance();
            self.factor()?;
            match calculation {
                Some(calculation) => self.calculate(calculation),
                None => self.program.push(Op::Sql(SqlOp::Remainder)),
            }
        }
    }

    fn calculate(&mut self, calculation: Calculation) {
        self.program.push(match self.dialect {
            Dialect::Jms => Op::Calculate(calculation),
            Dialect::Sql => Op::Sql(SqlOp::Calculate(calculation)),
        });
    }

    fn factor(&mut self) -> Parsed {
        let mut signs = 0usize;
        let mut negative = false;
        while matches!(self.peek(), TokenKind::Plus | TokenKind::Minus) {
            signs += 1;
            negative ^= *self.peek() == TokenKind::Minus;
            self.advance();
        }
        self.atom()?;
        if negative {
            self.program.push(Op::Negate);
        } else if signs > 0 {
            // A plus keeps a number, and makes anything else unknown.
            self.program.extend([Op::Negate, Op::Negate]);
        }
        Ok(())
    }

    fn atom(&mut self) -> Parsed {
        let op = match self.peek() {
            TokenKind::Open => {
                self.advance();
                self.deeper()?;
                self.or()?;
                self.depth -= 1;
                if !self.takes(&TokenKind::Close) {
                    return Err(self.unexpected("')'"));
                }
                return Ok(());
            }
            TokenKind::Exact(number) => Op::Constant(Constant::Exact(*number)),
            TokenKind::Approximate(number) => Op::Constant(Constant::Approximate(*number)),
            TokenKind::Text(text) => Op::Constant(Constant::Text(text.clone())),
            TokenKind::Bytes(bytes) => Op::Constant(Constant::Bytes(bytes.clone())),
            TokenKind::Field(_) | TokenKind::Property(_) => return self.sql_field(),
            TokenKind::Word(word) if self.dialect == Dialect::Sql => return self.sql_word(word),
            TokenKind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" => Op::Constant(Constant::Bool(true)),
                "false" => Op::Constant(Constant::Bool(false)),
                "null" | "not" | "and" | "or" | "between" | "like" | "in" | "is" | "escape" => {
                    return Err(self.unexpected("a value"));
                }
                _ => Op::Field(Field::named(word, |_| self.place(word))),
            },
            _ => return Err(self.unexpected("a value")),
        };
        self.count_value()?;
        self.advance();
        self.program.push(op);
        Ok(())
    }

    /// The index of an application property in the table.
    fn place(&mut self, name: &'a str) -> usize {
        let next = self.names.len();
        *self.names.entry(name).or_insert(next)
    }

    /// Parses a field or property of an SQL filter.
    fn sql_field(&mut self) -> Parsed {
        let field = match self.peek() {
            TokenKind::Field(field) => field.clone(),
            TokenKind::Property(name) => Field::Property(self.place(name)),
            _ => return Err(self.unexpected("a field or a property")),
        };
        self.count_value()?;
        self.advance();
        self.program.push(Op::Field(field));
        Ok(())
    }

    /// Parses what begins with a reserved word of SQL filters and has a value.
    fn sql_word(&mut self, word: &str) -> Parsed {
        if !matches!(word, "TRUE" | "FALSE" | "UTC" | "EXISTS") {
            return Err(self.unexpected("a value"));
        }
        self.count_value()?;
        self.advance();
        if matches!(word, "TRUE" | "FALSE") {
            let constant = Constant::Bool(word == "TRUE");
            self.program.push(Op::Constant(constant));
            return Ok(());
        }
        if !self.takes(&TokenKind::Open) {
            return Err(self.unexpected("'('"));
        }
        if word == "UTC" {
            self.program.push(Op::Sql(SqlOp::Utc));
        } else {
            self.sql_field()?;
            self.program.extend([Op::IsNull, Op::Not]);
        }
        if !self.takes(&TokenKind::Close) {
            return Err(self.unexpected("')'"));
        }
        Ok(())
    }
}
