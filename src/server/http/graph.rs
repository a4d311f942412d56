//! The route to graphs of where dead letters go.

use super::api::Call;
use super::aside::aside;
use super::reply::Reply;
use crate::base::Name;
use crate::lint::Graph;
use crate::management::http::Failure;

/// A form of the answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Json,
    Dot,
    Mermaid,
    Svg,
}

/// Hops around a queue if they are not given.
const HOPS: u32 = 2;

/// `GET /api/graph/VHOST`.
pub(super) async fn graph(call: &Call<'_>) -> Result<Reply, Failure> {
    let query = &call.query;
    let known = ["around", "hops", "format"];
    let mut pairs = query.pairs();
    if let Some((name, _)) = pairs.find(|(name, _)| !known.contains(name)) {
        let why = format!(
            "the parameter '{name}' is not known; known are {}",
            known.join(", ")
        );
        return Err(Failure::bad_request(why));
    }
    let form = match query.get("format") {
        None | Some("json") => Form::Json,
        Some("dot") => Form::Dot,
        Some("mermaid") => Form::Mermaid,
        Some("svg") => Form::Svg,
        Some(_) => {
            let why = "the parameter 'format' must be json, dot, mermaid or svg";
            return Err(Failure::bad_request(why));
        }
    };
    let around = around(query.get("around"), query.get("hops"))?;
    let (admin, vhost) = (call.admin(), call.params.get("vhost"));
    aside(move || {
        let graph = admin.draw_graph(&vhost, around.as_ref())?;
        Ok(Reply::Graph(Box::new(graph), form))
    })
    .await
}

/// The queue around which to draw, and how far.
fn around(around: Option<&str>, hops: Option<&str>) -> Result<Option<(Name, u32)>, Failure> {
    let hops_given = match hops.map(str::parse) {
        None => None,
        Some(Ok(hops)) => Some(hops),
        Some(Err(_)) => {
            let why = "the parameter 'hops' must be a number";
            return Err(Failure::bad_request(why));
        }
    };
    match (around, hops_given) {
        (Some(queue), hops) => Ok(Some((Name::from(queue), hops.unwrap_or(HOPS)))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::bad_request(
            "the parameter 'hops' says how far around a queue: it needs 'around'",
        )),
    }
}

impl Form {
    /// The content type, and the graph in this form.
    pub(super) fn write(self, graph: &Graph) -> (&'static str, String) {
        match self {
            Self::Json => ("application/json", graph.to_json().to_string()),
            Self::Dot => ("text/vnd.graphviz; charset=utf-8", graph.to_dot()),
            Self::Mermaid => ("text/vnd.mermaid; charset=utf-8", graph.to_mermaid()),
            Self::Svg => ("image/svg+xml", graph.to_svg()),
        }
    }
}
