//! Little that makes much work: selectors, keys, requests and listings that once held up everybody.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::is_optimised;
use crate::support::raw::{self, Raw, null, symbol, text, truth, ubyte, uint};
use crate::under_attack;

/// Longest time to wait for what ends an attack.
const END_MAX: Duration = Duration::from_mins(1);
/// Bytes of payload in one frame.
const FRAME_PAYLOAD: usize = 100_000;

/// Sends a message of any size in as many frames as it takes.
fn send_large(raw: &mut Raw, handle: u32, id: u32, settled: bool, message: &[u8]) {
    let mut pieces = message.chunks(FRAME_PAYLOAD).peekable();
    while let Some(piece) = pieces.next() {
        let transfer = raw::transfer(handle, id, settled, pieces.peek().is_some());
        raw.send(&raw::frame(0, 0, &[&transfer, piece].concat()));
    }
}

/// Application properties `p0`, `p1` ... with a value of so many bytes each, and a body.
fn with_properties(count: usize, value_bytes: usize) -> Vec<u8> {
    let value = text(&"v".repeat(value_bytes));
    let pairs: Vec<Vec<u8>> = (0..count)
        .flat_map(|n| [text(&format!("p{n}")), value.clone()])
        .collect();
    let properties = raw::described(0x74, &raw::map(&pairs));
    [properties, raw::described(0x75, &raw::binary(b"body"))].concat()
}

/// Attaches a receiver with a selector; returns the answer.
fn select(raw: &mut Raw, handle: u32, queue: &str, selector: &str) -> raw::Came {
    let filter = [
        &[0x00][..],
        &symbol("apache.org:selector-filter:string"),
        &text(selector),
    ]
    .concat();
    let source = [
        text(&format!("/queues/{queue}")),
        uint(0),
        symbol("session-end"),
        uint(0),
        truth(false),
        null(),
        null(),
        raw::map(&[symbol("selector"), filter]),
    ];
    let mut fields = raw::attach(handle, true, "");
    fields[5] = raw::described(0x28, &raw::list(&source));
    raw.perform(raw::ATTACH, &fields);
    raw.wait_for(raw::ATTACH)
}

/// A selector that looks for so many properties, which no message has.
fn selector(terms: usize) -> String {
    let terms: Vec<String> = (0..terms).map(|n| format!("z{n}=1")).collect();
    terms.join(" OR ")
}

/// 100 terms against 14 MB of application properties froze everybody for 17 seconds, 1,500 terms for 90.
#[test]
fn selectors_of_many_terms_on_a_message_of_many_properties() {
    under_attack(&[], |broker| {
        Raw::declare(broker.port, "selected");
        let mut publisher = Raw::begun(broker.port);
        publisher.attach_sender(0, "selected");
        publisher.wait_for(raw::FLOW);
        send_large(&mut publisher, 0, 0, false, &with_properties(800_000, 1));
        publisher.wait_for(raw::DISPOSITION);
        for message in 1..100 {
            send_large(&mut publisher, 0, message, false, &with_properties(900, 50));
            publisher.wait_for(raw::DISPOSITION);
        }
        let mut consumer = Raw::begun(broker.port);
        for handle in 0..100 {
            let answer = select(&mut consumer, handle, "selected", &selector(100));
            assert!(answer.says("selector"), "its source is echoed: {answer:?}");
            consumer.credit(handle, 0xffff_fffb, 10);
        }
        // It is over when nothing is left to be looked at: a later consumer gets its message.
        let mut last = Raw::begun(broker.port);
        select(&mut last, 0, "selected", "p0 = 'v'");
        select(&mut last, 1, "selected", "JMSPriority = 4");
        last.credit(1, 0xffff_fffb, 1);
        last.wait_for(raw::TRANSFER);
        let answer = select(&mut consumer, 200, "selected", &selector(1_500));
        let refused = consumer.wait_for(raw::DETACH);
        assert!(refused.says("amqp:invalid-field"), "{answer:?} {refused:?}");
    });
}

/// A message with these keys in `x-cc`.
fn with_cc(keys: usize, key: &str) -> Vec<u8> {
    let keys = vec![text(key); keys];
    let annotations = raw::map(&[symbol("x-cc"), raw::list(&keys)]);
    [
        raw::described(0x72, &annotations),
        raw::described(0x75, &raw::binary(b"body")),
    ]
    .concat()
}

/// 2.8 million keys in `x-cc` took the core seconds, and one topic key of 7 million words over a minute.
#[test]
fn many_and_long_routing_keys_are_refused() {
    under_attack(&[], |broker| {
        for message in [with_cc(2_800_000, ""), with_cc(1, &".".repeat(15_000_000))] {
            let mut raw = Raw::begun(broker.port);
            raw.attach_sender(0, "canary");
            raw.wait_for(raw::FLOW);
            send_large(&mut raw, 0, 0, false, &message);
            let refused = raw.wait_for(raw::DETACH);
            assert!(refused.says("amqp:invalid-field"), "{refused:?}");
        }
        let mut raw = Raw::begun(broker.port);
        let address = format!("/exchanges/amq.topic/{}", "a.".repeat(40_000));
        raw.perform(raw::ATTACH, &raw::attach(0, false, &address));
        let refused = raw.wait_for(raw::DETACH);
        assert!(refused.says("amqp:invalid-field"), "{refused:?}");
        // What is allowed, by the message: 256 keys of 250 words, through a topic exchange.
        raw.perform(
            raw::ATTACH,
            &raw::attach(1, false, "/exchanges/amq.topic/k"),
        );
        raw.wait_for(raw::FLOW);
        for id in 0..100 {
            send_large(&mut raw, 1, id, true, &with_cc(256, &"a.".repeat(120)));
        }
        send_large(&mut raw, 1, 100, false, &with_cc(1, "k"));
        raw.wait_for(raw::DISPOSITION);
    });
}

/// A pair of links to `/management`, handles 0 and 1.
fn manage(port: u16) -> Raw {
    let mut raw = Raw::begun(port);
    for (handle, receiver) in [(0, false), (1, true)] {
        let mut fields = raw::attach(handle, receiver, "/management");
        fields[0] = text("pair");
        fields[3] = ubyte(1);
        for (field, code) in [(5, 0x28), (6, 0x29)] {
            fields[field] = raw::described(code, &raw::list(&[text("/management")]));
        }
        fields.extend([null(), null(), null()]);
        fields.push(raw::map(&[symbol("paired"), truth(true)]));
        raw.perform(raw::ATTACH, &fields);
        raw.wait_for(raw::ATTACH);
    }
    raw.credit(1, 0xffff_fffb, 0x7fff_ffff);
    raw
}

fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let properties = [text("id"), null(), text(path), text(method), text("$me")];
    [
        raw::performative(0x73, &properties),
        raw::described(0x77, body),
    ]
    .concat()
}

/// An array of nulls, which takes no byte for each.
fn nulls(count: u32) -> Vec<u8> {
    let content = [&count.to_be_bytes()[..], &[0x40]].concat();
    let size = u32::try_from(content.len()).expect("five bytes");
    [&[0xf0], &size.to_be_bytes()[..], &content].concat()
}

/// A body of 15 million nulls took 6 seconds and 0.9 GB, whatever the user's rights.
#[test]
fn requests_of_many_values_are_refused() {
    under_attack(&[], |broker| {
        let mut raw = manage(broker.port);
        for id in 0..50 {
            let body = raw::map(&[text("arguments"), raw::list(&vec![null(); 60_000])]);
            send_large(&mut raw, 0, id, true, &request("PUT", "/queues/q", &body));
            let answer = raw.wait_for(raw::TRANSFER);
            assert!(answer.says("more than 4096 values"), "{answer:?}");
        }
        for body in [raw::list(&vec![null(); 15_000_000]), nulls(15_000_000)] {
            let mut raw = manage(broker.port);
            send_large(&mut raw, 0, 0, true, &request("PUT", "/queues/q", &body));
            let refused = raw.wait_for(raw::DETACH);
            let conditions = ["amqp:link:message-size-exceeded", "amqp:decode-error"];
            let is_told = conditions.iter().any(|condition| refused.says(condition));
            assert!(is_told, "{refused:?}");
        }
    });
}

/// One request over HTTP; its answer as it came.
fn ask(port: u16, method: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    stream.set_read_timeout(Some(END_MAX)).expect("a socket");
    // guest:guest
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

/// Bindings that the exchange has: enough to be seen, and not more than a debug build makes in time.
fn bindings() -> u32 {
    if is_optimised() { 100_000 } else { 3_000 }
}

/// All bindings of an exchange were copied in one hold of the lock: 0.9 seconds at 100,000.
#[test]
fn bindings_of_an_exchange_are_listed_and_found_in_slices() {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "bound");
        let mut raw = manage(broker.port);
        let (mut asked, mut answered) = (0, 0);
        let bindings = bindings();
        while answered < bindings {
            // As many at a time as there is credit for.
            while asked < bindings && asked < answered + 4 {
                let argument = raw::map(&[text("n"), uint(asked)]);
                let key = format!("k{}", asked / 2);
                let fields = [
                    (text("source"), text("amq.direct")),
                    (text("destination_queue"), text("bound")),
                    (text("binding_key"), text(&key)),
                    (text("arguments"), argument),
                ];
                let fields: Vec<Vec<u8>> = fields.into_iter().flat_map(<[_; 2]>::from).collect();
                let request = request("POST", "/bindings", &raw::map(&fields));
                send_large(&mut raw, 0, asked, true, &request);
                asked += 1;
            }
            let answer = raw.wait_for(raw::TRANSFER);
            assert!(answer.says("204"), "{answer:?}");
            answered += 1;
        }
        let start = Instant::now();
        for _ in 0..5 {
            let path = "/api/exchanges/%2F/amq.direct/bindings/source?columns=routing_key";
            let listed = ask(broker.http_port, "GET", path);
            assert!(listed.starts_with(b"HTTP/1.1 200"));
            let path = "/api/bindings/%2F/e/amq.direct/q/bound/k7~none";
            let missing = ask(broker.http_port, "GET", path);
            assert!(missing.starts_with(b"HTTP/1.1 404"));
            let path = "/bindings?src=amq.direct&dstq=bound&key=k7";
            send_large(&mut raw, 0, asked, true, &request("GET", path, &null()));
            asked += 1;
            assert!(raw.wait_for(raw::TRANSFER).says("k7"));
        }
        println!("listed five times in {:?}", start.elapsed());
    });
    // Besides the bindings themselves, answers come and go; a third of the growth is not counted.
    cost.check_counted_within(50);
}
