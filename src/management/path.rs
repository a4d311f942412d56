//! Paths of management requests.
//!
//! ```text
//! /queues/:queue                  /exchanges/:exchange      /bindings
//! /queues/:queue/messages         /auth/tokens              /bindings?src=:x&dstq=:q&key=:key
//!                                                           /bindings/src=:x;dstq=:q;key=:key;args=:token
//! ```
//! Names are percent-encoded UTF-8 (RFC 3986). `dste` in place of `dstq` names an exchange. A query on
//! any other path is ignored.

use crate::base::Name;
use crate::broker::Destination;

use super::refusal::Refusal;

/// The object of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Path {
    /// A queue, by name.
    Queue(Name),
    /// The messages of a queue.
    Messages(Name),
    /// An exchange, by name.
    Exchange(Name),
    /// The bindings: to add one, or to list those of a query.
    Bindings(Option<String>),
    /// A binding, by its parts.
    Binding(BindingPath),
    /// The token of this connection.
    Token,
}

/// The parts of a binding's path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindingPath {
    /// The exchange that messages come from.
    pub source: Name,
    /// The queue or exchange that it leads to.
    pub destination: Destination,
    /// The binding key, may be empty.
    pub key: Name,
    /// The token of the binding's arguments; empty without arguments.
    pub token: String,
}

impl Path {
    /// Parses the property `to`.
    ///
    /// Errors: not found for a path of no known form, bad request for one that is malformed.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        let unknown = || Refusal::not_found(format!("unknown path '{path}'"));
        let mut segments = path.split('/');
        if segments.next() != Some("") {
            return Err(unknown());
        }
        let segments = (
            segments.next(),
            segments.next(),
            segments.next(),
            segments.next(),
        );
        match segments {
            (Some("queues"), Some(queue), None, _) => Ok(Self::Queue(decoded(queue)?)),
            (Some("queues"), Some(queue), Some("messages"), None) => {
                Ok(Self::Messages(decoded(queue)?))
            }
            (Some("exchanges"), Some(exchange), None, _) => Ok(Self::Exchange(decoded(exchange)?)),
            (Some("bindings"), None, ..) => Ok(Self::Bindings(query.map(str::to_owned))),
            (Some("bindings"), Some(binding), None, _) => {
                BindingPath::parse(binding).map(Self::Binding)
            }
            (Some("auth"), Some("tokens"), None, _) => Ok(Self::Token),
            _ => Err(unknown()),
        }
    }
}

impl BindingPath {
    fn parse(segment: &str) -> Result<Self, Refusal> {
        let malformed = || {
            Refusal::bad_request(format!(
                "bad binding '{segment}': it must be src=EXCHANGE;dstq=QUEUE;key=KEY;args=TOKEN, or \
                 dste=EXCHANGE in place of dstq"
            ))
        };
        let mut parts = segment.split(';');
        let (Some(source), Some(to), Some(key), Some(token), None) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return Err(malformed());
        };
        let value = |part: &str, name: &str| {
            let (given, value) = part.split_once('=').ok_or_else(malformed)?;
            if given == name {
                decoded(value)
            } else {
                Err(malformed())
            }
        };
        let destination = if to.starts_with("dste=") {
            Destination::Exchange(value(to, "dste")?)
        } else {
            Destination::Queue(value(to, "dstq")?)
        };
        let source = value(source, "src")?;
        if source.is_empty() {
            return Err(Refusal::bad_request(
                "the default exchange cannot be unbound",
            ));
        }
        Ok(Self {
            source,
            destination,
            key: value(key, "key")?,
            token: value(token, "args")?.as_str().to_owned(),
        })
    }

    /// The path of this binding, as in `location`.
    pub fn write(&self) -> String {
        let (to, name) = match &self.destination {
            Destination::Queue(name) => ("dstq", name),
            Destination::Exchange(name) => ("dste", name),
        };
        let [source, name, key] = [&self.source, name, &self.key].map(Name::percent_encoded);
        let token = &self.token;
        format!("/bindings/src={source};{to}={name};key={key};args={token}")
    }
}

/// The query of `GET /bindings`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindingsQuery {
    /// The exchange that messages come from.
    pub source: Name,
    /// The queue or exchange that they lead to.
    pub destination: Destination,
    /// The binding key, may be empty.
    pub key: Name,
}

impl BindingsQuery {
    /// Parses a query: `src`, `key` and one of `dstq` and `dste`; other names are ignored.
    pub fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let (mut source, mut destination, mut key) = (None, None, None);
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "src" => source = Some(decoded(value)?),
                "dstq" => destination = Some(Destination::Queue(decoded(value)?)),
                "dste" => destination = Some(Destination::Exchange(decoded(value)?)),
                "key" => key = Some(decoded(value)?),
                _ => {}
            }
        }
        match (source, destination, key) {
            (Some(source), Some(destination), Some(key)) => Ok(Self {
                source,
                destination,
                key,
            }),
            _ => Err(Refusal::bad_request(
                "a list of bindings takes the parameters src, key and one of dstq and dste",
            )),
        }
    }
}

fn decoded(segment: &str) -> Result<Name, Refusal> {
    let bad = || Refusal::bad_request(format!("'{segment}' is not percent-encoded UTF-8"));
    Name::percent_decoded(segment).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::refusal::Status;

    fn name(text: &str) -> Name {
        Name::from(text)
    }

    #[test]
    fn paths_are_decoded_by_segment() {
        let check = |text: &str, expect| assert_eq!(Path::parse(text), Ok(expect), "{text}");
        check("/queues/q1", Path::Queue(name("q1")));
        check("/queues/", Path::Queue(name("")));
        check("/queues/%C3%A4%2Fb%20c", Path::Queue(name("\u{e4}/b c")));
        check("/queues/q1?a=b", Path::Queue(name("q1")));
        check("/queues/messages", Path::Queue(name("messages")));
        check("/queues/q/messages", Path::Messages(name("q")));
        check("/exchanges/a%2Fb", Path::Exchange(name("a/b")));
        check("/bindings", Path::Bindings(None));
        check("/bindings?src=x", Path::Bindings(Some("src=x".to_owned())));
        check("/auth/tokens", Path::Token);
    }

    #[test]
    fn other_paths_are_not_found_and_bad_encoding_is_a_bad_request() {
        let check = |text: &str, expect| {
            let status = Path::parse(text).map_err(|refusal| refusal.status);
            assert_eq!(status, Err(expect), "{text}");
        };
        for unknown in [
            "",
            "/",
            "/nothing",
            "/queues",
            "queues/q1",
            "/queues/a/b",
            "/auth",
            "/q/",
        ] {
            check(unknown, Status::NotFound);
        }
        check("/queues/q/messages/1", Status::NotFound);
        for bad in [
            "/queues/a%zz",
            "/queues/a%",
            "/queues/a%4",
            "/queues/%ff",
            "/queues/%%41",
        ] {
            check(bad, Status::BadRequest);
        }
        for bad in [
            "/bindings/x1;q1",
            "/bindings/src=;dstq=q1;key=q1;args=",
            "/bindings/src=x;key=k;dstq=q;args=",
            "/bindings/src=x;dstq=q;key=k;args=;more=1",
            "/bindings/src=x;dstq=q;key=%zz;args=",
        ] {
            check(bad, Status::BadRequest);
        }
    }

    #[test]
    fn location_of_a_binding_is_its_path() {
        let path = BindingPath {
            source: name("x1"),
            destination: Destination::Queue(name("q1")),
            key: name("a b/\u{fc};=#"),
            token: String::new(),
        };
        let text = "/bindings/src=x1;dstq=q1;key=a%20b%2F%C3%BC%3B%3D%23;args=";
        assert_eq!(path.write(), text);
        assert_eq!(Path::parse(text), Ok(Path::Binding(path)));
        let to_exchange = "/bindings/src=x1;dste=hx;key=;args=M2cuPw";
        let Ok(Path::Binding(path)) = Path::parse(to_exchange) else {
            panic!("not a binding");
        };
        assert_eq!(path.write(), to_exchange);
    }

    #[test]
    fn list_of_bindings_needs_all_its_parameters() {
        let parse = |query: &str| BindingsQuery::parse(Some(query));
        assert_eq!(
            parse("src=x1&dstq=q1&key=a%20b"),
            Ok(BindingsQuery {
                source: name("x1"),
                destination: Destination::Queue(name("q1")),
                key: name("a b"),
            })
        );
        for missing in ["src=x1&dstq=q1", "src=x1&key=k", "dstq=q1&key=k", ""] {
            assert!(parse(missing).is_err(), "{missing}");
        }
        assert!(BindingsQuery::parse(None).is_err());
    }
}
