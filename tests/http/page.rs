//! The page for browsers: sessions, headers, rights, and texts of others.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::api::Api;
use crate::support::RunningBroker;

/// An answer to a request of a browser.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header field.
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// A browser that keeps one cookie.
pub(crate) struct Browser<'a> {
    broker: &'a RunningBroker,
    cookie: String,
    token: String,
}

impl<'a> Browser<'a> {
    fn new(broker: &'a RunningBroker) -> Self {
        let (cookie, token) = (String::new(), String::new());
        Self {
            broker,
            cookie,
            token,
        }
    }

    /// A browser in which a user is logged in whose password is its name.
    pub(crate) fn of(broker: &'a RunningBroker, user: &str) -> Self {
        let mut browser = Self::new(broker);
        let answer = browser.log_in(user, user);
        assert_eq!(answer.status, 303, "{}", answer.body);
        browser
    }

    fn log_in(&mut self, user: &str, password: &str) -> Answer {
        let form = format!("user={user}&password={password}&next=%2Fui%2Fqueues");
        let answer = self.send("POST", "/ui/session", "", &form);
        if let Some(cookie) = answer.header("set-cookie") {
            cookie
                .split(';')
                .next()
                .expect("a cookie")
                .clone_into(&mut self.cookie);
            let session = self.send("GET", "/ui/session", "", "");
            let session: serde_json::Value = serde_json::from_str(&session.body).expect("JSON");
            session["token"]
                .as_str()
                .expect("a token")
                .clone_into(&mut self.token);
        }
        answer
    }

    pub(crate) fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let port = self.broker.http_port;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\ncookie: \
             other=1; {}\r\n{fields}content-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n",
            self.cookie,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("HTTP");
        stream.write_all(head.as_bytes()).expect("a request");
        stream.write_all(body.as_bytes()).expect("a body");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        Answer {
            status: status.parse().expect("a number"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    /// Sends a form with the session's token.
    fn act(&self, path: &str) -> Answer {
        self.fill(path, "")
    }

    /// The same with further fields, each with `&` in front.
    pub(crate) fn fill(&self, path: &str, fields: &str) -> Answer {
        self.send("POST", path, "", &format!("token={}{fields}", self.token))
    }

    /// The session, by its status.
    fn session(&self) -> u16 {
        self.send("GET", "/ui/session", "", "").status
    }
}

/// Declares `orders`, whose dead letters go to a queue, and rejects a message there.
pub(crate) fn kill_one(api: &Api<'_>, dlq: &str, body: &str) {
    let path = format!("/api/queues/%2F/{}", percent(dlq));
    api.put(&path, &json!({"durable": true}));
    let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dlq});
    api.put(
        "/api/queues/%2F/orders",
        &json!({"durable": true, "arguments": arguments}),
    );
    api.publish("orders", body);
    let reject = json!({"ackmode": "reject_requeue_false", "count": 1, "encoding": "auto"});
    let (status, _) = api.ask("POST", "/api/queues/%2F/orders/get", &reject);
    assert_eq!(status, 200);
}

fn percent(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn add_user(api: &Api<'_>, name: &str, read: &str) {
    let user = json!({"password": name, "tags": "management"});
    api.put(&format!("/api/users/{name}"), &user);
    let rights = json!({"configure": "^$", "write": ".*", "read": read});
    api.put(&format!("/api/permissions/%2F/{name}"), &rights);
}

#[test]
fn a_browser_logs_in_and_out() {
    let broker = RunningBroker::start(&[]);
    let mut browser = Browser::new(&broker);
    assert_eq!(browser.get("/").header("location"), Some("/ui/"));
    let asked = browser.get("/ui/queue?vhost=%2F&name=q");
    assert_eq!(asked.status, 303);
    let place = asked.header("location").expect("a place");
    assert!(
        place.starts_with("/ui/session?next=%2Fui%2Fqueue%3F"),
        "{place}"
    );
    // The script is told instead, and so is a program.
    let fragment = browser.send("GET", "/ui/", "x-coroner-fragment: 1\r\n", "");
    assert_eq!((fragment.status, browser.session()), (401, 401));
    assert_eq!(fragment.header("www-authenticate"), None);

    let wrong = browser.log_in("guest", "wrong");
    assert_eq!(wrong.status, 401);
    assert_eq!(
        wrong.header("www-authenticate"),
        None,
        "no dialog of the browser"
    );
    assert!(
        wrong.body.contains("unknown user or wrong password"),
        "{}",
        wrong.body
    );
    let right = browser.log_in("guest", "guest");
    assert_eq!(right.header("location"), Some("/ui/queues"));
    let cookie = right.header("set-cookie").expect("a cookie");
    let port = broker.http_port;
    assert!(cookie.starts_with(&format!("coroner-{port}=")), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert_eq!(browser.get("/ui/").status, 200);

    let left = browser.send("DELETE", "/ui/session", "", "");
    assert_eq!(left.status, 403, "without the token");
    let token = format!("x-coroner-token: {}\r\n", browser.token);
    let left = browser.send("DELETE", "/ui/session", &token, "");
    assert_eq!(left.status, 204);
    assert!(
        left.header("set-cookie")
            .expect("a cookie")
            .contains("Max-Age=0")
    );
    assert_eq!(browser.session(), 401);
    // Somebody else's place is not led to.
    let form = "user=guest&password=guest&next=https%3A%2F%2Fevil.example%2F";
    let answer = browser.send("POST", "/ui/session", "", form);
    assert_eq!(answer.header("location"), Some("/ui/"));
}

#[test]
fn a_session_ends_with_its_user_its_password_and_its_tags() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let changes: [(&str, serde_json::Value); 4] = [
        ("PUT", json!({"password": "other", "tags": "management"})),
        ("PUT", json!({"password": "ann", "tags": "management"})),
        ("PUT", json!({"password": "ann", "tags": "monitoring"})),
        ("DELETE", json!({})),
    ];
    for (method, change) in changes {
        add_user(&api, "ann", ".*");
        let browser = Browser::of(&broker, "ann");
        assert_eq!(browser.session(), 200);
        let (status, _) = api.ask(method, "/api/users/ann", &change);
        assert_eq!(status, 204);
        assert_eq!(browser.session(), 401, "{method} {change}");
    }
    api.put("/api/users/bob", &json!({"password": "bob", "tags": ""}));
    let refused = Browser::new(&broker).log_in("bob", "bob");
    assert_eq!(refused.status, 401);
    assert!(
        refused.body.contains("none of the tags"),
        "{}",
        refused.body
    );
}

#[test]
fn what_changes_something_needs_the_token_of_the_session_and_no_other_site() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "one");
    let browser = Browser::of(&broker, "guest");
    let discard = "/ui/do/discard?vhost=%2F&queue=dlq&position=0";
    let own = "sec-fetch-site: same-origin\r\n";
    let check = |fields: &str, body: &str, expect: u16| {
        let answer = browser.send("POST", discard, fields, body);
        assert_eq!(answer.status, expect, "{fields} {body}: {}", answer.body);
    };
    let token = format!("token={}", browser.token);
    check(own, "", 403);
    check(own, "token=wrong", 403);
    check("sec-fetch-site: cross-site\r\n", &token, 403);
    check("origin: http://evil.example\r\n", &token, 403);
    check("origin: null\r\n", &token, 403);
    assert_eq!(browser.get(discard).status, 404, "it is no page");
    check(own, &token, 303);
    check(own, &token, 404);
    assert_eq!(browser.act("/ui/do/nothing").status, 404);
    let queue = api.get("/api/queues/%2F/dlq");
    assert_eq!(queue["messages"], 0);
}

/// The header wins over the cookie of a session, and programs need no token.
#[test]
fn basic_authentication_wins_over_a_session() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    add_user(&api, "ann", ".*");
    let browser = Browser::of(&broker, "guest");
    let basic = "authorization: Basic YW5uOmFubg==\r\n";
    let session = browser.send("GET", "/ui/session", basic, "");
    let session: serde_json::Value = serde_json::from_str(&session.body).expect("JSON");
    assert_eq!(
        (&session["user"], &session["token"]),
        (&json!("ann"), &json!(null))
    );
    let wrong = browser.send(
        "GET",
        "/ui/session",
        "authorization: Basic YW5uOng=\r\n",
        "",
    );
    assert_eq!(wrong.status, 401);
    let theme = browser.send("POST", "/ui/theme", basic, "theme=dark&next=%2Fui%2Fqueues");
    assert_eq!(theme.status, 303);
    assert!(
        theme
            .header("set-cookie")
            .expect("a cookie")
            .starts_with("coroner-theme=dark;")
    );
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let broker = RunningBroker::start(&[]);
    let browser = Browser::of(&broker, "guest");
    let page = browser.get("/ui/").body;
    let asset = page
        .split('"')
        .find(|part| part.starts_with("/ui/assets/"))
        .expect("a style sheet");
    for path in [
        "/",
        "/ui/",
        "/ui/nothing",
        "/ui/session",
        "/ui/queues",
        asset,
    ] {
        let answer = browser.get(path);
        let policy = answer.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types coroner",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let kept = answer.header("cache-control").expect("how long it is kept");
        assert_eq!(kept.contains("immutable"), path == asset, "{path}: {kept}");
        assert_eq!(answer.header("www-authenticate"), None, "{path}");
        for inline in ["style=", "<style", "onclick", "<script>", "javascript:"] {
            assert!(
                !answer.body.contains(inline) || path == asset,
                "{path}: {inline}"
            );
        }
    }
}

#[test]
fn texts_of_others_are_text() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let name = "\"><script>alert(1)</script>/../%2F";
    kill_one(&api, name, "<img src=x onerror=alert(1)>\u{202e}");
    let browser = Browser::of(&broker, "guest");
    let query = format!("vhost=%2F&name={}", percent(name));
    let pages = [
        "/ui/".to_owned(),
        "/ui/queues".to_owned(),
        format!("/ui/queue?{query}&tab=messages"),
        format!("/ui/queue?{query}&tab=groups"),
        format!("/ui/message?vhost=%2F&queue={}&position=0", percent(name)),
        format!("/ui/redrive/new?vhost=%2F&source={}", percent(name)),
        format!("/ui/queues?search={}", percent(name)),
    ];
    for page in pages {
        let answer = browser.get(&page);
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        for hostile in ["<script>alert", "<img", "\u{202e}"] {
            assert!(!answer.body.contains(hostile), "{page}: {hostile}");
        }
        assert!(
            answer.body.contains("script&#62;alert(1)"),
            "{page}: it is not shown"
        );
    }
    let message = format!("/ui/message?vhost=%2F&queue={}&position=0", percent(name));
    let message = browser.get(&message).body;
    assert!(
        message.contains("&#60;img src=x onerror=alert(1)&#62;&#60;U+202E&#62;"),
        "{message}"
    );
    // What is offered there works on it.
    let form = message
        .split('"')
        .find(|part| part.starts_with("/ui/do/discard?"));
    let form = form
        .expect("a form")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    assert_eq!(browser.act(&form).status, 303);
}

#[test]
fn the_graph_and_the_findings_are_shown_and_names_stay_text() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let name = "\"><script>alert(1)</script>";
    let path = "/api/queues/%2F/%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    api.put(
        path,
        &json!({"arguments": {"x-dead-letter-exchange": "none"}}),
    );
    let browser = Browser::of(&broker, "guest");
    let answer = browser.send("GET", "/ui/graph", "", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("<svg xmlns"), "{}", answer.body);
    assert!(
        answer
            .body
            .contains("class=\"node queue\" href=\"/ui/queue?vhost=%2F&amp;name=%22%3E%3Cscript")
    );
    assert!(!answer.body.contains("<script>alert"), "{}", answer.body);
    assert!(!answer.body.contains("style="), "{}", answer.body);
    let around = browser.send("GET", "/ui/graph?vhost=%2F&around=nobody", "", "");
    assert_eq!(around.status, 404);
    let findings = browser.send("GET", "/ui/lint", "", "");
    assert_eq!(findings.status, 200);
    assert!(findings.body.contains("warning DL001"), "{}", findings.body);
    assert!(
        findings.body.contains("kept in amq.quarantine"),
        "{}",
        findings.body
    );
    assert!(!findings.body.contains("<script>alert"), "{name}");
    for page in [&answer, &findings] {
        let again = page.body.contains("data-every=\"60000\"");
        assert!(again, "it is asked for anew each minute: {}", page.body);
    }
    // What is a dead end, or a finding, is marked where the queue is listed; commands show the same.
    let marked = "dead end DL001";
    assert!(answer.body.contains(marked), "{}", answer.body);
    let queues = browser.get("/ui/queues").body;
    assert!(queues.contains(">DL001</a>"), "{queues}");
    assert!(
        queues.contains("<code>coroner list_queues</code>"),
        "{queues}"
    );
    let queues = browser.get("/ui/queues?vhost=%2F&search=a.b").body;
    let command = "<code>coroner list_queues -p / --name &#39;a\\.b&#39;</code>";
    assert!(queues.contains(command), "{queues}");
    api.put("/api/vhosts/shop", &json!({}));
    let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
    api.put("/api/permissions/shop/guest", &rights);
    api.put("/api/queues/shop/q", &json!({}));
    let graph = browser.get("/ui/graph?vhost=shop&around=q&hops=3").body;
    let command = "<code>coroner graph -p shop --around q --hops 3</code>";
    assert!(graph.contains(command), "{graph}");
    // Who may not enter the vhost sees no graph of it.
    api.put(
        "/api/users/stranger",
        &json!({"password": "stranger", "tags": "management"}),
    );
    let stranger = Browser::of(&broker, "stranger");
    assert_eq!(
        stranger.send("GET", "/ui/graph?vhost=%2F", "", "").status,
        403
    );
}

/// It is made when it is needed: until then a link led to nothing, from the drawing and from the table.
#[test]
fn the_graph_links_to_the_quarantine_once_it_exists() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let lost = json!({"arguments": {"x-dead-letter-exchange": "none"}});
    api.put("/api/queues/%2F/lost", &lost);
    let graph = || Browser::of(&broker, "guest").get("/ui/graph").body;
    let before = graph();
    assert!(before.contains("<bdi>amq.quarantine</bdi>"), "{before}");
    assert!(before.contains("made when needed"), "{before}");
    assert!(!before.contains("name=amq.quarantine"), "{before}");
    api.publish("lost", "x");
    let reject = json!({"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"});
    assert_eq!(api.ask("POST", "/api/queues/%2F/lost/get", &reject).0, 200);
    let after = graph();
    assert!(!after.contains("made when needed"), "{after}");
    assert_eq!(after.matches("name=amq.quarantine").count(), 2, "{after}");
}

/// All forms were offered to whoever could see the page.
#[test]
fn forms_beneath_the_exchanges_are_offered_as_far_as_there_are_rights_for_them() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    add_user(&api, "ann", ".*");
    add_user(&api, "bob", "^$");
    let rights = json!({"configure": "", "write": "^$", "read": "^$"});
    api.put(
        "/api/users/eve",
        &json!({"password": "eve", "tags": "management"}),
    );
    api.put("/api/permissions/%2F/eve", &rights);
    let all = ["declare-exchange", "declare-queue", "bind", "publish"];
    for (user, offered) in [
        ("guest", &all[..]),
        ("ann", &["bind", "publish"]),
        ("bob", &["publish"]),
        ("eve", &[]),
    ] {
        let page = Browser::of(&broker, user).get("/ui/exchanges").body;
        let is_there = |form: &&&str| page.contains(&format!("action=\"/ui/do/{form}\""));
        let there: Vec<&str> = all.iter().filter(is_there).copied().collect();
        assert_eq!(there, offered, "{user}");
    }
}

/// The page promised them, and no route had them.
#[test]
fn the_page_of_a_queue_shows_what_sets_each_setting_and_what_that_beats() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    let policy = json!({"pattern": "^q$", "definition": {"max-length": 5}});
    api.put("/api/policies/%2F/short", &policy);
    api.put(
        "/api/queues/%2F/q",
        &json!({"arguments": {"x-max-length": 9}}),
    );
    let beaten = json!({"value": 9, "rule": "argument"});
    let setting =
        json!({"key": "max-length", "value": 5, "rule": "policy short", "beats": [beaten]});
    assert_eq!(api.get("/api/queues/%2F/q")["settings"], json!([setting]));
    let shown = Browser::of(&broker, "guest").get("/ui/queue?vhost=%2F&name=q&tab=settings");
    let row = "<td data-label=\"Comes from\"><bdi>policy short</bdi></td>\
               <td data-label=\"Beats\"><bdi>9</bdi> of <bdi>argument</bdi></td>";
    assert!(shown.body.contains(row), "{}", shown.body);
}

/// Each page listens to events, and one shows the latest; of a queue that somebody may not read neither error
/// nor consumer is told.
#[test]
fn what_happens_is_shown_and_streamed_to_who_has_a_session() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "orders.dlq", "<script>alert(1)</script>");
    let browser = Browser::of(&broker, "guest");
    let page = browser.get("/ui/events");
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("death, dead_lettered"), "{}", page.body);
    assert!(page.body.contains("name=orders\""), "{}", page.body);
    assert!(!page.body.contains("<script>alert"), "{}", page.body);
    let others = browser.get("/ui/events?type=redriven");
    assert!(others.body.contains("Nothing happened"), "{}", others.body);
    assert_eq!(browser.get("/ui/events?type=nonsense").status, 400);
    // The first bytes of a stream come at once; it goes on until the reader has gone.
    let streamed = |browser: &Browser<'_>| {
        let mut stream = TcpStream::connect(("127.0.0.1", broker.http_port)).expect("HTTP");
        let head = format!(
            "GET /ui/events/stream HTTP/1.1\r\nhost: localhost:{}\r\nconnection: close\r\n\
             last-event-id: 0\r\ncookie: {}\r\n\r\n",
            broker.http_port, browser.cookie
        );
        stream.write_all(head.as_bytes()).expect("a request");
        let (mut told, mut piece) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&told).contains("event: death") {
            match stream.read(&mut piece).expect("bytes") {
                0 => break,
                count => told.extend_from_slice(&piece[..count]),
            }
            if told.starts_with(b"HTTP/1.1 4") {
                break;
            }
        }
        String::from_utf8_lossy(&told).into_owned()
    };
    let told = streamed(&Browser::of(&broker, "guest"));
    assert!(told.contains("text/event-stream"), "{told}");
    assert!(told.contains("coroner.death.v1"), "{told}");
    let nobody = streamed(&Browser::new(&broker));
    assert!(!nobody.contains("coroner.death"), "{nobody}");
}

#[test]
fn who_may_not_read_a_queue_sees_neither_its_messages_nor_their_buttons() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "a secret");
    add_user(&api, "ann", "^other$");
    let browser = Browser::of(&broker, "ann");
    let listed = browser.get("/ui/queues").body;
    assert!(
        listed.contains("dlq"),
        "as in the API, the list has all queues: {listed}"
    );
    for page in [
        "/ui/",
        "/ui/queue?vhost=%2F&name=dlq",
        "/ui/queue?vhost=%2F&name=dlq&tab=messages",
        "/ui/queue?vhost=%2F&name=dlq&tab=groups",
    ] {
        let answer = browser.get(page);
        assert_eq!(answer.status, 200, "{page}");
        for hidden in [
            "a secret",
            "Redrive the group",
            "Redrive all",
            "/ui/do/",
            "Export",
        ] {
            assert!(!answer.body.contains(hidden), "{page}: {hidden}");
        }
    }
    let message = browser.get("/ui/message?vhost=%2F&queue=dlq&position=0");
    assert_eq!(message.status, 403);
    let refused = browser.get("/ui/export?vhost=%2F&name=dlq");
    assert_eq!(refused.status, 403);
    for action in [
        "/ui/do/discard?vhost=%2F&queue=dlq&position=0",
        "/ui/do/redrive-one?vhost=%2F&queue=dlq&position=0&id=x",
        "/ui/do/redrive?vhost=%2F&source=dlq&id=x",
    ] {
        let answer = browser.act(action);
        assert_eq!(answer.status, 403, "{action}: {}", answer.body);
    }
    assert_eq!(api.get("/api/queues/%2F/dlq")["messages"], 1);
    assert_eq!(api.get("/api/redrives"), json!([]));
}

#[test]
fn a_redrive_is_previewed_started_and_told_of() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    kill_one(&api, "dlq", "one");
    kill_one(&api, "dlq", "two");
    let browser = Browser::of(&broker, "guest");
    let form = browser
        .get("/ui/redrive/new?vhost=%2F&source=dlq&reason=rejected&rate=")
        .body;
    assert!(
        form.contains("Move 2 messages to <bdi>orders</bdi>"),
        "{form}"
    );
    assert!(
        form.contains("coroner redrive dlq --reason rejected --id page-"),
        "{form}"
    );
    let nothing = browser
        .get("/ui/redrive/new?vhost=%2F&source=dlq&condition=none")
        .body;
    assert!(nothing.contains("Nothing to move"), "{nothing}");
    let wrong = browser
        .get("/ui/redrive/new?vhost=%2F&source=dlq&rate=fast")
        .body;
    assert!(
        wrong.contains("must be a number, not &#39;fast&#39;"),
        "{wrong}"
    );
    let start = form
        .split('"')
        .find(|part| part.starts_with("/ui/do/redrive?"));
    let start = start
        .expect("a form")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    let started = browser.act(&start);
    assert_eq!(started.status, 303, "{}", started.body);
    let job = started.header("location").expect("its page").to_owned();
    assert_eq!(
        browser.act(&start).header("location"),
        Some(&*job),
        "no second run"
    );
    assert_eq!(api.get("/api/queues/%2F/orders")["messages"], 2);
    assert_eq!(api.get("/api/redrives").as_array().map(Vec::len), Some(1));
    let told = browser.get(&job).body;
    assert!(told.contains("The redrive has begun."), "{told}");
    let fragment = browser
        .send("GET", &job, "x-coroner-fragment: 1\r\n", "")
        .body;
    assert!(
        fragment.starts_with("<main") && !fragment.contains("<html"),
        "{fragment}"
    );
    assert!(browser.get("/ui/redrives").body.contains("completed"));
}

/// What an operator's forms send, in the order in which one needs the other.
const STEPS: [(&str, &str); 7] = [
    (
        "declare-queue",
        "vhost=%2F&name=work&type=quorum&arguments=%7B%22x-max-length%22%3A+5%7D",
    ),
    ("declare-exchange", "vhost=%2F&name=shop&type=topic"),
    ("bind", "vhost=%2F&exchange=shop&queue=work&key=order.*"),
    (
        "publish",
        "vhost=%2F&exchange=shop&key=order.new&payload=one+%26+two",
    ),
    (
        "set-policy",
        "vhost=%2F&name=keep&pattern=%5Ework&apply=queues&priority=1&\
         definition=%7B%22max-length%22%3A7%7D",
    ),
    (
        "set-permissions",
        "user=ann&vhost=%2F&configure=%5E%24&write=%5E%24&read=%5E%24",
    ),
    ("set-user", "name=bob&password=bob&tags=monitoring"),
];

/// Looks at an operator's pages as one who may everything, and as one who may nothing.
fn look(guest: &Browser<'_>, ann: &Browser<'_>) {
    for page in ["overview", "connections", "exchanges", "policies", "users"] {
        let shown = guest.get(&format!("/ui/{page}"));
        assert_eq!(shown.status, 200, "{page}: {}", shown.body);
        let status = ann.get(&format!("/ui/{page}")).status;
        assert_eq!(status, if page == "users" { 403 } else { 200 }, "{page}");
    }
    let exchanges = guest.get("/ui/exchanges").body;
    assert!(exchanges.contains("delete-exchange?vhost=%2F&#38;name=shop"));
    let exchanges = ann.get("/ui/exchanges").body;
    assert!(!exchanges.contains("/ui/do/delete-exchange"));
    assert!(!ann.get("/ui/policies").body.contains("/ui/do/"));
}

#[test]
fn an_operator_declares_publishes_gets_purges_and_deletes_where_rights_allow() {
    let broker = RunningBroker::start(&[]);
    let api = Api { broker: &broker };
    add_user(&api, "ann", ".*");
    let (guest, ann) = (Browser::of(&broker, "guest"), Browser::of(&broker, "ann"));
    let act = |browser: &Browser<'_>, path: &str, fields: &str| {
        let form = format!("token={}&{fields}", browser.token);
        browser.send("POST", path, "", &form)
    };
    // Whose configure right is for nothing, and who has no tag for policies and users.
    for action in [
        "declare-queue",
        "declare-exchange",
        "set-policy",
        "set-user",
    ] {
        let step = STEPS.iter().find(|step| step.0 == action);
        let fields = step.expect("a step").1;
        let refused = act(&ann, &format!("/ui/do/{action}"), fields);
        assert_eq!(refused.status, 403, "{action}: {}", refused.body);
    }
    for (action, fields) in STEPS {
        let done = act(&guest, &format!("/ui/do/{action}"), fields);
        assert_eq!(done.status, 303, "{action}: {}", done.body);
    }
    let declared = api.get("/api/queues/%2F/work");
    assert_eq!(
        (&declared["type"], &declared["messages"]),
        (&json!("quorum"), &json!(1))
    );
    assert_eq!(declared["policy"], "keep");
    let lost = act(
        &guest,
        "/ui/do/publish",
        "vhost=%2F&exchange=shop&key=x&payload=y",
    );
    assert_eq!(lost.status, 400, "{}", lost.body);
    let of_work = |action: &str| format!("/ui/do/{action}?vhost=%2F&name=work");
    let got = act(&guest, &of_work("get"), "count=1&ackmode=ack_requeue_true");
    assert!(got.body.contains("one &#38; two"), "{}", got.body);
    look(&guest, &ann);
    assert_eq!(
        act(&guest, &of_work("purge"), "").status,
        400,
        "nobody said to be sure"
    );
    assert_eq!(act(&guest, &of_work("purge"), "sure=true").status, 303);
    assert_eq!(api.get("/api/queues/%2F/work")["messages"], 0);
    for (action, name) in [
        ("delete-queue", "work"),
        ("delete-exchange", "shop"),
        ("delete-policy", "keep"),
        ("delete-user", "bob"),
    ] {
        let path = format!("/ui/do/{action}?vhost=%2F&name={name}");
        let refused = act(&ann, &path, "sure=true");
        assert_eq!(refused.status, 403, "{action}: {}", refused.body);
        let done = act(&guest, &path, "sure=true");
        assert_eq!(done.status, 303, "{action}: {}", done.body);
    }
}

#[test]
fn a_position_beyond_53_bits_stays_as_it_is() {
    let broker = RunningBroker::start(&[]);
    Api { broker: &broker }.put("/api/queues/%2F/q", &json!({}));
    let browser = Browser::of(&broker, "guest");
    let page = browser.get("/ui/message?vhost=%2F&queue=q&position=18446744073709551615");
    assert_eq!(page.status, 404);
    assert!(
        page.body.contains("position 18446744073709551615"),
        "{}",
        page.body
    );
}

#[test]
fn the_page_can_be_switched_off() {
    let broker = RunningBroker::start(&["--ui", "off"]);
    let browser = Browser::new(&broker);
    assert_eq!(browser.get("/ui/").status, 404);
    let first = browser.get("/");
    assert_eq!(first.status, 200);
    assert!(first.body.contains("--ui off"), "{}", first.body);
}
