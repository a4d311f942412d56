//! Listings of queues; connections that are closed.

use serde_json::json;

use crate::api::Api;
use crate::support::RunningBroker;

#[test]
fn queues_are_listed_by_page_and_as_a_stream() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    for number in 0..600 {
        api.put(&format!("/api/queues/%2F/q{number:04}"), &json!({}));
    }
    let page = api.get("/api/queues?page=3&page_size=200&columns=name");
    assert_eq!(page["total_count"], 600);
    assert_eq!(page["items"][0], json!({"name": "q0400"}));
    assert_eq!(page["items"][199], json!({"name": "q0599"}));
    let found = api.get("/api/queues/%2F?page=1&name=^q05.9$&use_regex=true&sort_reverse=true");
    assert_eq!(found["filtered_count"], 10);
    assert_eq!(found["items"][0]["name"], "q0599");
    let all = api.get("/api/queues");
    assert_eq!(all.as_array().map(Vec::len), Some(600));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_closes_a_connection_and_its_client_is_told_why() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let url = format!("amqp://guest:guest@127.0.0.1:{}", broker.port);
    let mut client = fe2o3_amqp::Connection::open("closed", url.as_str())
        .await
        .expect("a connection");
    let listed = api.get("/api/vhosts/%2F/connections");
    assert_eq!(listed[0]["container_id"], "closed");
    assert_eq!(listed[0]["user"], "guest");
    let name = listed[0]["name"].as_str().expect("a name");
    let name = name.replace(' ', "%20").replace('>', "%3E");
    assert_eq!(
        api.send("DELETE", &format!("/api/connections/{name}"), "")
            .0,
        204
    );
    let error = client.on_close().await.expect_err("closed by the broker");
    assert!(
        format!("{error:?}").contains("connection:forced")
            || format!("{error:?}").contains("ConnectionForced"),
        "{error:?}"
    );
    // The client shows the description with its quotes escaped.
    let words = r#"Connection forced: \"Closed via management plugin\""#;
    assert!(format!("{error}").contains(words), "{error}");
}
