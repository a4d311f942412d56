//! The pages about the topology: the graph of where dead letters go, and the linter's findings.

use super::visit::Visit;
use crate::base::Name;
use crate::base::limits::PAGE_FINDINGS_MAX;
use crate::management::http::{Failure, Method};
use crate::page::answer::FromAnswer;
use crate::page::frame::Place;
use crate::page::graph::{GraphAnswer, GraphPage, LintAnswer, LintPage};
use crate::page::queue::queue_link;
use crate::page::show::{Text, encoded};
use crate::server::http::api::Asked;
use crate::server::http::aside::aside;
use crate::server::http::reply::Reply;

/// Deaths around a queue, unless they are given.
const HOPS: &str = "2";
/// How often an open page asks for the graph or the findings anew, in milliseconds: both take long.
const EVERY_MS: u32 = 60_000;

/// `/ui/graph`.
pub(super) async fn graph(visit: &Visit<'_>) -> Result<GraphPage, Failure> {
    let (given, around, hops) = (
        visit.text("vhost"),
        visit.text("around"),
        visit.text("hops"),
    );
    let vhosts = visit.vhosts();
    let vhost = if given.is_empty() {
        vhosts.first().cloned().unwrap_or_default()
    } else {
        given
    };
    let hops = if hops.is_empty() {
        Text::new(HOPS)
    } else {
        hops
    };
    let query = if around.is_empty() {
        String::new()
    } else {
        format!("around={}&hops={}", around.query(), hops.query())
    };
    let asked = Asked {
        method: Method::Get,
        path: &format!("/api/graph/{}", encoded(vhost.raw())),
        query: &query,
        body: None,
    };
    let Reply::Graph(graph, _) = visit.ask(asked).await? else {
        let why = "the page does not understand what the graph is like";
        return Err(Failure::unavailable(why));
    };
    let within = vhost.clone();
    let (drawing, answer) = aside(move || {
        let link = |queue: &Name| queue_link(within.raw(), queue);
        let answer = GraphAnswer::of(graph.to_json());
        Ok((graph.drawn(Some(&link)), answer))
    })
    .await?;
    let mut frame = visit.frame("Graph", Place::Graph);
    frame.every_ms = Some(EVERY_MS);
    Ok(GraphPage {
        frame,
        vhost,
        vhosts,
        around,
        hops,
        drawing,
        graph: answer,
    })
}

/// `/ui/lint`.
pub(super) async fn lint(visit: &Visit<'_>) -> Result<LintPage, Failure> {
    let mut report = LintAnswer::of(visit.get("/api/lint", "").await?);
    report.left_out.0 += report.findings.len().saturating_sub(PAGE_FINDINGS_MAX) as u64;
    report.findings.truncate(PAGE_FINDINGS_MAX);
    let mut frame = visit.frame("Lint", Place::Lint);
    frame.every_ms = Some(EVERY_MS);
    Ok(LintPage { frame, report })
}
