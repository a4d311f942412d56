//! `/` where the page is switched off: what a browser shows that opens the address of the API. It needs
//! no login, and shows nothing of this broker.

use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{Response, StatusCode};
use axum::routing::get;

/// The HTML of the page.
const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Coroner</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }
code { background: #8882; padding: 0 .25em }
</style>
<h1>Coroner</h1>
<p>An AMQP 1.0 message broker whose subject is dead letters. It runs, and this is its HTTP API. Its page
for browsers is switched off (<code>--ui off</code>); there are:</p>
<ul>
<li><a href="/api/overview">/api/overview</a> and the rest of RabbitMQ's HTTP API (with a login);
<a href="/api/openapi.json">/api/openapi.json</a> describes it (with a login)</li>
<li><code>coroner list_queues</code>, <code>coroner deaths QUEUE</code> and the other commands of
<code>coroner --help</code>; rabbitmqadmin works, too</li>
<li><a href="/metrics">/metrics</a> for Prometheus, <a href="/health">/health</a> for probes</li>
</ul>
</html>
"#;
/// The content security policy: nothing is loaded, and the page cannot be framed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// The route `/`.
pub(super) fn router() -> Router {
    Router::new().route("/", get(answer))
}

async fn answer() -> Response<Body> {
    let response = Response::builder()
        .status(StatusCode::OK)
        .header(CONTENT_TYPE, "text/html; charset=utf-8")
        .header(CONTENT_SECURITY_POLICY, POLICY)
        .header(CACHE_CONTROL, "no-cache");
    response
        .body(Body::from(PAGE))
        .unwrap_or_else(|_| Response::new(Body::empty()))
}
