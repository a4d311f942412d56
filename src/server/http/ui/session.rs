//! `/ui/session`: logging in to the page and out of it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::visit::{
    THEME_COOKIE, Visit, Visitor, check_tags, cookie, cookie_name, may_log_in, theme as theme_of,
};
use super::{headers, own_path, see_other, wants_html};
use crate::access::{Credentials, LoginWay, Peer, Proof, Proven};
use crate::management::http::{Failure, Fields, Identity, Query};
use crate::page::AnyPage;
use crate::page::assets::Asset;
use crate::page::frame::Theme;
use crate::page::show::Text;
use crate::page::simple::Login;
use crate::server::http::reply;
use crate::server::page_sessions::Holder;
use crate::server::shared::Shared;

/// The path of the session.
pub(super) const PATH: &str = "/ui/session";

/// Answers a request to the session itself.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    peer: &Peer,
    head: &Parts,
    fields: &Query,
) -> Response<Body> {
    match head.method {
        Method::GET | Method::HEAD => show(shared, peer, head).await,
        Method::POST => begin(shared, peer, head, fields).await,
        Method::DELETE => {
            let visitor = match Visitor::of(shared, peer, head).await {
                Ok(visitor) => visitor,
                Err(failure) => return reply::failure(&failure),
            };
            let visit = Visit::new(shared, (peer, visitor), head, Query::default());
            if let Err(failure) = visit.check_token(head, fields) {
                return reply::failure(&failure);
            }
            let mut response = end(&visit, head);
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        _ => reply::failure(&super::method_not_allowed()),
    }
}

/// The form to log in for a browser, the session for a program.
async fn show(shared: &Arc<Shared>, peer: &Peer, head: &Parts) -> Response<Body> {
    let query = Query::parse(head.uri.query().unwrap_or_default()).unwrap_or_default();
    if wants_html(&head.headers) {
        return form(
            shared,
            (peer, head),
            query.get("next").unwrap_or_default(),
            None,
        );
    }
    match Visitor::of(shared, peer, head).await {
        Ok(Visitor { identity, token }) => session_json(&identity, token.as_deref()),
        Err(failure) => reply::failure(&failure),
    }
}

fn session_json(identity: &Identity, token: Option<&str>) -> Response<Body> {
    let tags: Vec<&str> = identity
        .tags
        .iter()
        .map(crate::access::Tag::as_str)
        .collect();
    let session = json!({ "user": &*identity.name, "tags": tags, "token": token });
    reply::json(StatusCode::OK, &session)
}

/// Leads to the form to log in, and back from there.
pub(super) fn ask(head: &Parts) -> Response<Body> {
    let here = head.uri.path_and_query().map_or("", |here| here.as_str());
    let next = utf8_percent_encode(here, NON_ALPHANUMERIC);
    see_other(&format!("{PATH}?next={next}"))
}

fn form(
    shared: &Shared,
    (peer, head): (&Peer, &Parts),
    next: &str,
    refused: Option<&Failure>,
) -> Response<Body> {
    let login = Login {
        theme: theme_of(&head.headers),
        node: Text::new(shared.settings.node_name.clone()),
        next: own_path(next).to_owned(),
        why: refused.map(|failure| Text::new(failure.reason.clone())),
        is_refused: !may_log_in(shared, peer),
        style: &Asset::style().path,
        script: &Asset::script().path,
    };
    let status = refused.map_or(200, |failure| failure.status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match login.html() {
        Ok(page) => headers::html(status, page),
        Err(_) => reply::failure(&Failure::unavailable("the page cannot be written")),
    }
}

/// Logs a user in, by its password.
async fn begin(shared: &Arc<Shared>, peer: &Peer, head: &Parts, fields: &Query) -> Response<Body> {
    let next = fields.get("next").unwrap_or_default();
    match log_in(shared, peer, head, fields).await {
        Ok((identity, cookie, token)) => {
            let mut response = if is_json(&head.headers) {
                session_json(&identity, Some(&token))
            } else {
                see_other(own_path(next))
            };
            set_cookie(&mut response, &cookie);
            response
        }
        Err(failure) if is_json(&head.headers) => reply::failure(&failure),
        Err(failure) => form(shared, (peer, head), next, Some(&failure)),
    }
}

/// Checks a password; the user, the cookie to set and the token of the session that began.
async fn log_in(
    shared: &Arc<Shared>,
    peer: &Peer,
    head: &Parts,
    fields: &Query,
) -> Result<(Identity, String, String), Failure> {
    if !may_log_in(shared, peer) {
        return Err(Failure::forbidden(
            "logging in from another machine is offered over TLS only: see https and \
             plain-without-tls",
        ));
    }
    let credentials = Credentials {
        authorization_id: String::new(),
        user: fields.get("user").unwrap_or_default().to_owned(),
        password: fields.get("password").unwrap_or_default().to_owned(),
    };
    // A refusal is delayed, counted and logged there.
    let login = shared
        .logins
        .login(Proof::Password(credentials), peer.clone(), LoginWay::Basic)
        .await;
    let wrong = |why: &str| Failure {
        reason: why.to_owned(),
        ..Failure::unauthenticated()
    };
    let proven = login.map_err(|error| wrong(&format!("not logged in: {error}")))?;
    let registry = shared.node.environment.registry();
    let (identity, holder) = match &proven {
        Proven::User(name) => {
            let user = registry.user(name);
            let user = user.ok_or_else(|| wrong("the user is gone"))?;
            (Identity::new(user), Holder::User(Box::new(user.clone())))
        }
        Proven::Bearer(grant) => (Identity::bearer(grant), Holder::Bearer(Arc::clone(grant))),
    };
    check_tags(&identity).map_err(|_| {
        wrong("this user has none of the tags management, policymaker, monitoring, administrator")
    })?;
    let cookie_name = cookie_name(peer, &head.headers);
    if let Some(old) = cookie(&head.headers, &cookie_name) {
        shared.page_sessions.end(old);
    }
    let now = shared.clock.now();
    let kept = shared.node.alarms.connections();
    let begun = shared.page_sessions.begin(now, holder, (&registry, kept));
    let secure = if peer.tls.is_some() { "; Secure" } else { "" };
    let cookie = begun.cookie;
    let cookie = format!("{cookie_name}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}");
    Ok((identity, cookie, begun.token))
}

/// Ends the session of a visit.
pub(super) fn end(visit: &Visit<'_>, head: &Parts) -> Response<Body> {
    let name = cookie_name(visit.peer, &head.headers);
    if let Some(cookie) = cookie(&head.headers, &name) {
        visit.shared.page_sessions.end(cookie);
    }
    let mut response = see_other(PATH);
    let secure = if visit.peer.tls.is_some() {
        "; Secure"
    } else {
        ""
    };
    let gone = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}");
    set_cookie(&mut response, &gone);
    response
}

/// Keeps the theme that somebody chose.
pub(super) fn theme(fields: &Query) -> Response<Body> {
    let theme = Theme::from_word(fields.get("theme").unwrap_or_default()).as_str();
    let mut response = see_other(own_path(fields.get("next").unwrap_or_default()));
    let cookie = format!("{THEME_COOKIE}={theme}; Path=/ui; Max-Age=31536000; SameSite=Strict");
    set_cookie(&mut response, &cookie);
    response
}

fn set_cookie(response: &mut Response<Body>, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Whether the body is JSON, and the answer too.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    given.is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

/// User and password of a JSON object.
pub(super) fn fields_of_json(text: &str) -> Result<Query, Failure> {
    if text.trim().is_empty() {
        return Ok(Query::default());
    }
    let fields = Fields::parse(text.as_bytes())?;
    fields.allow(&["user", "password"])?;
    let given = ["user", "password"].into_iter().filter_map(|name| {
        let value = fields.get(name).and_then(Value::as_str)?;
        Some((name.to_owned(), value.to_owned()))
    });
    Ok(Query::of(given))
}
