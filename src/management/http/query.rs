//! Query strings.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::failure::Failure;
use crate::base::limits::{HTTP_QUERY_BYTES_MAX, HTTP_QUERY_PARAMETERS_MAX};
use crate::base::nearest;

/// Characters of a value that a failure repeats, at most.
const SHOWN_CHARS_MAX: usize = 64;

/// The parameters behind the `?` of a request. [RFC 3986 3.4]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses them; bytes that are not UTF-8 become replacement characters.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.len() > HTTP_QUERY_BYTES_MAX {
            let why = format!("the query has more than {HTTP_QUERY_BYTES_MAX} bytes");
            return Err(Failure::bad_request(why));
        }
        Self::of_pairs(text, "the query has more than")
    }

    /// Parses the fields of a form, whose bytes have a bound of their own. [URL Standard 5.1]
    pub fn of_form(text: &str) -> Result<Self, Failure> {
        Self::of_pairs(text, "the form has more than")
    }

    fn of_pairs(text: &str, refusal: &str) -> Result<Self, Failure> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        if pairs.clone().count() > HTTP_QUERY_PARAMETERS_MAX {
            let why = format!("{refusal} {HTTP_QUERY_PARAMETERS_MAX} parameters");
            return Err(Failure::bad_request(why));
        }
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Ok(Self(pairs.collect()))
    }

    /// Parameters that are decoded already.
    pub fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// The parameters in their order, as (name, value).
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first parameter of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter that is `true` or `false`; false without it. Everything else is refused: what
    /// guards a deletion must not be taken for absent.
    pub fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let shown: String = other.chars().take(SHOWN_CHARS_MAX).collect();
                let shown = shown.escape_debug();
                let why = format!("the parameter '{name}' must be true or false, not '{shown}'");
                Err(Failure::bad_request(why))
            }
        }
    }

    /// Refuses a parameter whose name is one of these, mistyped. Others are ignored (as RabbitMQ).
    pub fn refuse_mistyped(&self, known: &[&str]) -> Result<(), Failure> {
        let mut meant = self.pairs().filter_map(|(name, _)| {
            let meant = nearest(name, known.iter().copied())?;
            Some((name, meant))
        });
        meant.next().map_or(Ok(()), |(name, meant)| {
            Err(Failure::bad_request(format!(
                "the parameter '{name}' is not known; did you mean '{meant}'?"
            )))
        })
    }
}

fn decode(text: &str) -> String {
    let spaced: Cow<'_, str> = if text.contains('+') {
        Cow::Owned(text.replace('+', " "))
    } else {
        Cow::Borrowed(text)
    };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
