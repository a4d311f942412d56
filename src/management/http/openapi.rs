//! The description of the API, made from the table of routes. [`OpenAPI` 3.0]

use serde_json::{Map, Value, json};

use super::route::{Method, Route, parameter};
use super::shape::{Answer, Field};
use super::table::routes;

/// The description that the broker serves.
pub fn description() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let path = paths
            .entry(route.path.to_owned())
            .or_insert_with(|| json!({}));
        let method = route.method.as_str().to_lowercase();
        super::json::put(path, &method, operation(route));
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Coroner",
            "description": "RabbitMQ's HTTP API, as far as it goes here",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "bearer": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
            },
            "schemas": {
                "Error": object(&[("error", "string"), ("reason", "string")]),
            },
        },
        "security": [{ "basic": [] }, { "bearer": [] }],
    })
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('/').filter_map(parameter).map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "schema": { "type": "string" },
        })
    });
    let query = route.endpoint.query().map(|(name, description)| {
        json!({
            "name": name,
            "in": "query",
            "description": description,
            "schema": { "type": "string" },
        })
    });
    let mut operation = json!({
        "summary": route.summary,
        "description": format!("Open to: {}", route.access.words()),
        "parameters": in_path.chain(query).collect::<Vec<_>>(),
        "responses": responses(route.endpoint.answer(route.method)),
    });
    if matches!(route.method, Method::Put | Method::Post) {
        let body = json!({
            "content": { "application/json": { "schema": { "type": "object" } } },
        });
        super::json::put(&mut operation, "requestBody", body);
    }
    operation
}

fn responses(answer: Answer) -> Value {
    let refused = json!({
        "description": "Refused: what and why",
        "content": json_content(&json!({ "$ref": "#/components/schemas/Error" })),
    });
    let mut responses = json!({ "default": refused });
    let good: Vec<(&str, Value)> = match answer {
        Answer::Object(fields) => vec![("200", content(&object(fields)))],
        Answer::List(fields) => {
            let list = json!({ "type": "array", "items": object(fields) });
            vec![("200", content(&list))]
        }
        Answer::Lines => {
            let lines = json!({ "application/jsonl": { "schema": { "type": "string" } } });
            vec![(
                "200",
                json!({ "description": "An object on each line", "content": lines }),
            )]
        }
        Answer::Events => {
            let kinds = json!({
                "text/event-stream": { "schema": { "type": "string" } },
                "application/jsonl": { "schema": { "type": "string" } },
            });
            vec![(
                "200",
                json!({ "description": "Events in the form of CloudEvents", "content": kinds }),
            )]
        }
        Answer::Text => vec![("200", content(&json!({ "type": "string" })))],
        Answer::Stored => vec![
            ("201", json!({ "description": "Something new is there" })),
            (
                "204",
                json!({ "description": "It was there and is as asked" }),
            ),
        ],
        Answer::Created => vec![("201", json!({ "description": "It is at Location" }))],
        Answer::Done => vec![("204", json!({ "description": "Done" }))],
    };
    for (status, response) in good {
        super::json::put(&mut responses, status, response);
    }
    responses
}

fn content(schema: &Value) -> Value {
    json!({ "description": "Here it is", "content": json_content(schema) })
}

fn json_content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn object(fields: &[Field]) -> Value {
    let properties = fields.iter();
    let properties: Map<String, Value> = properties
        .map(|(name, kind)| {
            let schema = match *kind {
                "array" => json!({ "type": kind, "items": {} }),
                _ => json!({ "type": kind }),
            };
            ((*name).to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let mut object = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        super::json::put(&mut object, "required", json!(required));
    }
    object
}

/// The routes as a table for people: what `docs/HTTP_API.md` shows.
pub fn markdown() -> String {
    let mut text = String::from("| method | path | open to | |\n| --- | --- | --- | --- |\n");
    for route in routes() {
        let (method, path) = (route.method, route.path);
        let (access, summary) = (route.access.words(), route.summary);
        text.push_str("| ");
        text.push_str(&[method.as_str(), &format!("`{path}`"), access, summary].join(" | "));
        text.push_str(" |\n");
    }
    text
}
