//! The client of the HTTP API: requests, and the meaning of their answers.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use ureq::http::{Method, Request, Response, StatusCode};

use super::path::Path;
use super::settings::Settings;
use super::tls;
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::printable;

/// Objects of a page: the most that RabbitMQ gives.
const PAGE_SIZE: &str = "500";

/// Bytes of an answer, at most: definitions of a large broker are tens of megabytes.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// In place of a reason.
const NO_REASON: &str = "it gave no reason";

/// Reasons of answers with status 401 to whom no broker lets in.
const LOGIN_REASONS: [&str; 3] = [
    "Not_Authorized",
    "Login failed",
    "User can only log in via localhost",
];

/// Reasons of answers with status 404 that do not say what is missing.
const NOT_FOUND_REASONS: [&str; 2] = ["Not Found", "Object Not Found"];

/// Characters of an answer that is not JSON that an error message shows.
const EXCERPT_CHARACTERS: usize = 300;

/// The HTTP API of a broker.
pub(in crate::cli) struct Api {
    agent: ureq::Agent,
    settings: Settings,
}

impl Api {
    /// A client with these settings; the first request opens a connection.
    pub(in crate::cli) fn new(settings: Settings) -> Result<Self, Failure> {
        let mut config = ureq::Agent::config_builder();
        if settings.endpoint.is_secure {
            config = config.tls_config(settings.tls.for_http()?);
        }
        let config = config
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(settings.timeout))
            .user_agent(concat!("coroner/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: config.new_agent(),
            settings,
        })
    }

    /// Address and credentials.
    pub(in crate::cli) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The vhost of the commands.
    pub(in crate::cli) fn vhost(&self) -> &str {
        self.settings.vhost()
    }

    /// The same API with another user.
    pub(in crate::cli) fn log_in_as(&self, username: &str, password: &str) -> Self {
        let mut settings = self.settings.clone();
        settings.log_in_as(username, password);
        Self {
            agent: self.agent.clone(),
            settings,
        }
    }

    /// Fetches an object.
    pub(in crate::cli) fn get(&self, path: &Path) -> Result<Value, Failure> {
        self.send(&Method::GET, path, None, &[])
    }

    /// Whether a broker that did not answer does not know what it was asked: it is a RabbitMQ, whatever it said;
    /// or there is no such object, which it says again when it is asked for that.
    pub(in crate::cli) fn is_not_known(&self, failure: &Failure) -> bool {
        match failure.kind {
            FailureKind::NotFound | FailureKind::NoUser => true,
            // It would have to be waited for once more.
            FailureKind::Timeout => false,
            FailureKind::Failed
            | FailureKind::Usage
            | FailureKind::Data
            | FailureKind::Unavailable
            | FailureKind::Software
            | FailureKind::Output
            | FailureKind::Protocol
            | FailureKind::NoPermission => {
                let overview = self.get(&Path::of(&["overview"])).unwrap_or_default();
                overview.get("rabbitmq_version").is_some()
                    && overview.get("product_name") != Some(&Value::from("Coroner"))
            }
        }
    }

    /// Requests a health check; returns the broker's explanation if it did not pass.
    pub(in crate::cli) fn check(&self, path: &Path) -> Result<Option<Value>, Failure> {
        let (status, bytes) = self.ask(&Method::GET, path, None, &[])?;
        if status.is_success() {
            return Ok(None);
        }
        let said: Option<Value> = serde_json::from_slice(&bytes).ok();
        match said.filter(|said| said.get("status").is_some_and(|word| word == "failed")) {
            Some(said) if status == StatusCode::SERVICE_UNAVAILABLE => Ok(Some(said)),
            _ => Err(self.refused(status, path, &bytes)),
        }
    }

    /// Checks whether the broker works, without a login.
    pub(in crate::cli) fn health(&self) -> Result<(), Failure> {
        let endpoint = &self.settings.endpoint;
        let request = Request::builder().uri(format!("{endpoint}/health"));
        let request = request.body(()).map_err(impossible)?;
        let answer = self.agent.run(request);
        let status = answer.map_err(|error| self.unreachable(error))?.status();
        match status.as_u16() {
            200 => Ok(()),
            503 => Err(Failure::new(
                FailureKind::Unavailable,
                format!("{endpoint}: it does not work, or is stopping: its log says why"),
            )),
            code => {
                let what = format!("{endpoint}: it answered with status {code}");
                Err(Failure::new(FailureKind::Protocol, what).advise("is this a Coroner?"))
            }
        }
    }

    /// Fetches an object that may not exist.
    pub(in crate::cli) fn find(&self, path: &Path) -> Result<Option<Value>, Failure> {
        match self.get(path) {
            Ok(value) => Ok(Some(value)),
            Err(failure)
                if [FailureKind::NotFound, FailureKind::NoUser].contains(&failure.kind) =>
            {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Creates or replaces an object.
    pub(in crate::cli) fn put(&self, path: &Path, body: &Value) -> Result<Value, Failure> {
        self.send(&Method::PUT, path, Some(body), &[])
    }

    /// Posts a request for an action.
    pub(in crate::cli) fn post(&self, path: &Path, body: &Value) -> Result<Value, Failure> {
        self.send(&Method::POST, path, Some(body), &[])
    }

    /// Deletes an object.
    pub(in crate::cli) fn delete(&self, path: &Path) -> Result<Value, Failure> {
        self.send(&Method::DELETE, path, None, &[])
    }

    /// Deletes an object with a reason.
    pub(in crate::cli) fn delete_because(&self, path: &Path, why: &str) -> Result<Value, Failure> {
        let why: String = why.chars().filter(|c| !c.is_control()).collect();
        self.send(&Method::DELETE, path, None, &[("x-reason", &why)])
    }

    /// Fetches a list, page by page where the broker has pages, and passes each object on.
    pub(in crate::cli) fn each(
        &self,
        path: &Path,
        mut take: impl FnMut(Value),
    ) -> Result<(), Failure> {
        let mut page: u64 = 1;
        loop {
            let asked = path
                .clone()
                .query("page", &page.to_string())
                .query("page_size", PAGE_SIZE);
            let mut answer = self.get(&asked)?;
            let paged = answer.get_mut("items").map(Value::take);
            let pages = answer.get("page_count").and_then(Value::as_u64);
            let Value::Array(items) = paged.unwrap_or(answer) else {
                return Err(not_understood(path, "it is no list"));
            };
            let is_last = items.is_empty() || pages.is_none_or(|pages| pages <= page);
            items.into_iter().for_each(&mut take);
            if is_last {
                return Ok(());
            }
            page += 1;
        }
    }

    /// Fetches a list without pages.
    pub(in crate::cli) fn list(&self, path: &Path) -> Result<Vec<Value>, Failure> {
        match self.get(path)? {
            Value::Array(items) => Ok(items),
            _ => Err(not_understood(path, "it is no list")),
        }
    }

    /// Fetches something long, as it comes; there is no limit on how long that takes.
    pub(in crate::cli) fn stream(&self, path: &Path) -> Result<impl io::Read + use<>, Failure> {
        let request = self
            .request(&Method::GET, path)?
            .header("accept", "application/jsonl")
            .body(())
            .map_err(impossible)?;
        let request = self.agent.configure_request(request);
        let answer = self.agent.run(request.timeout_global(None).build());
        let mut answer = answer.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if !status.is_success() {
            let limited = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
            let bytes = limited.read_to_vec();
            let bytes = bytes.map_err(|error| self.unreachable(error))?;
            return Err(self.refused(status, path, &bytes));
        }
        Ok(answer
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader())
    }

    /// Posts lines of JSON; returns the answer, also of a request that is refused with one.
    pub(in crate::cli) fn post_lines(
        &self,
        path: &Path,
        lines: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<Value, Failure> {
        let request = self.request(&Method::POST, path)?;
        let mut request = request.header("content-type", "application/jsonl");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(lines).map_err(impossible)?;
        let answer = self.agent.run(request);
        let mut answer = answer.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        let limited = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = limited.read_to_vec();
        let bytes = bytes.map_err(|error| self.unreachable(error))?;
        let said: Option<Value> = serde_json::from_slice(&bytes).ok();
        match said.filter(|said| said.get("imported").is_some()) {
            Some(said) => Ok(said),
            None => Err(self.refused(status, path, &bytes)),
        }
    }

    /// A request with the credentials.
    fn request(
        &self,
        method: &Method,
        path: &Path,
    ) -> Result<ureq::http::request::Builder, Failure> {
        // Without the name it would be another path, of all objects for example.
        if let Some(what) = path.empty() {
            return Err(Failure::usage(format!("{what} is empty")));
        }
        let settings = &self.settings;
        let user = format!("{}:{}", settings.username(), settings.password());
        Ok(Request::builder()
            .method(method)
            .uri(format!("{}/api/{}", settings.endpoint, path.encoded()))
            .header(
                "authorization",
                format!("Basic {}", BASE64_STANDARD.encode(user)),
            ))
    }

    /// Sends a request; an answer without content is `null`.
    fn send(
        &self,
        method: &Method,
        path: &Path,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<Value, Failure> {
        let (status, bytes) = self.ask(method, path, body, headers)?;
        if !status.is_success() {
            return Err(self.refused(status, path, &bytes));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|error| not_understood(path, &error.to_string()))
    }

    /// Sends a request; returns status and body of the answer. Warnings of the broker are printed.
    fn ask(
        &self,
        method: &Method,
        path: &Path,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let mut request = self.request(method, path)?;
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.agent
                    .run(request.body(body.to_string()).map_err(impossible)?)
            }
            None => self.agent.run(request.body(()).map_err(impossible)?),
        };
        let mut answer = answer.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        let limited = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = limited
            .read_to_vec()
            .map_err(|error| self.unreachable(error))?;
        if status.is_success() {
            warnings(&answer).for_each(|text| crate::cli::warn(&text));
        }
        Ok((status, bytes))
    }

    /// The failure when no answer came.
    fn unreachable(&self, error: ureq::Error) -> Failure {
        let endpoint = &self.settings.endpoint;
        if let ureq::Error::Io(error) = &error
            && let Some(failure) = tls::failure(endpoint, error)
        {
            return failure;
        }
        match error {
            ureq::Error::Timeout(_) => {
                let seconds = self.settings.timeout.as_secs();
                let what = format!("{endpoint} gave no answer within {seconds} s");
                Failure::new(FailureKind::Timeout, what).advise("--timeout SECONDS waits longer")
            }
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Failure::new(
                FailureKind::Timeout,
                format!("{endpoint} gave no answer: {error}"),
            ),
            ureq::Error::Rustls(error) => tls::explain(endpoint, &error),
            error @ (ureq::Error::Protocol(_) | ureq::Error::Http(_)) => Failure::new(
                FailureKind::Protocol,
                format!("what listens at {endpoint} does not speak HTTP: {error}"),
            )
            .advise("--url names the port of the HTTP API, 15672 unless configured otherwise"),
            error => Failure::new(
                FailureKind::Unavailable,
                format!("cannot reach a broker at {endpoint}: {error}"),
            )
            .advise("is it running, with its HTTP API on? --url or --host and --port say where"),
        }
    }

    /// The failure when the broker refused. The broker is named: users with several want to know
    /// which.
    fn refused(&self, status: StatusCode, path: &Path, body: &[u8]) -> Failure {
        let reason = reason(body);
        // Anything else, as of a proxy, does not say what is missing.
        let is_said = serde_json::from_slice::<Value>(body).is_ok();
        let said = reason.as_deref().unwrap_or(NO_REASON);
        let endpoint = &self.settings.endpoint;
        let told = |kind, what: String| Failure::new(kind, format!("{endpoint}: {what}"));
        match status.as_u16() {
            // It is also the status of what a user may not do.
            401 if reason
                .as_deref()
                .is_none_or(|it| LOGIN_REASONS.contains(&it)) =>
            {
                let user = self.settings.username();
                told(
                    FailureKind::NoPermission,
                    format!("it does not let user '{user}' in: {said}"),
                )
                .advise(
                    "--username and --password, or CORONERCTL_USERNAME and \
                         CORONERCTL_PASSWORD, say who you are",
                )
            }
            401 => told(FailureKind::NoPermission, said.to_owned())
                .advise("the user may lack a tag, or permissions in this vhost"),
            403 => told(FailureKind::NoPermission, format!("not allowed: {said}"))
                .advise("the user may lack a tag, or permissions in this vhost"),
            404 => {
                let kind = if path.is_user() {
                    FailureKind::NoUser
                } else {
                    FailureKind::NotFound
                };
                // The broker knows what is missing: not always what the path names last.
                let own = reason.filter(|it| !NOT_FOUND_REASONS.contains(&it.as_str()));
                let what = match own {
                    Some(own) if is_said && own.contains(' ') => own,
                    // A word for programs, such as queue_not_found.
                    Some(word) => format!("there is no {} ({word})", path.in_words()),
                    None => format!("there is no {}", path.in_words()),
                };
                told(kind, what)
            }
            408 | 429 => told(FailureKind::Timeout, format!("it is busy: {said}")),
            400..=499 => told(FailureKind::Data, format!("refused: {said}")),
            503 => told(FailureKind::Unavailable, format!("not in service: {said}")),
            500..=599 => told(FailureKind::Software, format!("it failed: {said}")),
            code => {
                let what = format!("it answered with status {code}");
                told(FailureKind::Protocol, what).advise("is this the HTTP API of a broker?")
            }
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn impossible(error: ureq::http::Error) -> Failure {
    Failure::usage(format!("the request cannot be made: {error}"))
        .advise("is the URL of the broker right?")
}

/// The broker's warnings about what it did: the header `Warning`, `299 - "text"`.
fn warnings<B>(answer: &Response<B>) -> impl Iterator<Item = String> {
    let headers = answer.headers().get_all("warning").into_iter();
    headers.filter_map(|value| {
        let (_, quoted) = std::str::from_utf8(value.as_bytes())
            .ok()?
            .split_once('"')?;
        Some(printable(quoted.strip_suffix('"')?))
    })
}

/// The broker's reason; of an answer that is not JSON its begin. None: it gave none.
fn reason(body: &[u8]) -> Option<String> {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let text = if let Some(Value::Object(fields)) = &parsed {
        match fields.get("reason").or_else(|| fields.get("error")) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    } else {
        let text = String::from_utf8_lossy(body);
        text.chars().take(EXCERPT_CHARACTERS).collect()
    };
    let text = text.trim();
    (!text.is_empty()).then(|| crate::cli::output::printable_lines(text))
}

fn not_understood(path: &Path, why: &str) -> Failure {
    let what = format!(
        "the answer about {} was not understood: {why}",
        path.in_words()
    );
    Failure::new(FailureKind::Protocol, what).advise("is this the HTTP API of a broker?")
}
