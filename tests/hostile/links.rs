//! Links and connections that ask for more than is kept, or do not go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::http::add_user;
use crate::slow::fill;
use crate::support::RunningBroker;
use crate::support::raw::{self, Raw};
use crate::under_attack;

/// Longest that a connection may stay that was closed and does not read: `limits::SOCKET_DROP_MS`, and
/// time to look.
const GONE_MAX: Duration = Duration::from_secs(12);

/// A request of guest to the HTTP API: the whole answer.
pub fn ask(port: u16, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("a socket");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// [AMQP 2.7.9] A peer with full buffers never took our close, so its connection was `running` for as long
/// as it liked, whoever deleted it.
#[test]
fn a_peer_that_never_reads_is_gone_seconds_after_it_was_deleted() {
    let cost = under_attack(&[], |broker| {
        fill(broker.port, 3_000, "10000");
        let mut raw = Raw::begun(broker.port);
        raw.attach_receiver(0, "hostile-0");
        raw.credit(0, 0xffff_fffb, 0x7fff_ffff);
        raw.wait_for(raw::TRANSFER);
        let local = raw.stream.local_addr().expect("a socket").port();
        let port = broker.port;
        let name = format!("127.0.0.1%3A{local}%20-%3E%20127.0.0.1%3A{port}");
        let path = format!("/api/connections/{name}");
        let before = ask(broker.http_port, "GET", &path);
        assert!(before.contains("\"running\""), "{before}");
        let answer = ask(broker.http_port, "DELETE", &path);
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        let deleted = Instant::now();
        let mut was_closing = false;
        loop {
            let answer = ask(broker.http_port, "GET", &path);
            if answer.starts_with("HTTP/1.1 404") {
                break;
            }
            was_closing |= answer.contains("\"closing\"");
            assert!(deleted.elapsed() < GONE_MAX, "{answer}");
            thread::sleep(Duration::from_millis(100));
        }
        assert!(was_closing, "it was said to be closing meanwhile");
    });
    assert!(cost.peak_mib < 250);
}

/// 1,500 names as long as a frame, of a user that may do nothing: none is kept, and the session of the
/// first ends.
#[test]
fn long_names_of_links_are_not_kept() {
    let cost = under_attack(&[], |broker| {
        add_user(broker, "eve", "^$");
        let mut raws: Vec<Raw> = (0..10).map(|_| Raw::begun_as(broker.port, "eve")).collect();
        let name = "n".repeat(120_000);
        for raw in &mut raws {
            for round in 0..150 {
                let mut fields = raw::attach(0, false, "/queues/none");
                fields[0] = raw::text(&name);
                raw.perform(raw::ATTACH, &fields);
                let end = raw.wait_for(raw::END);
                assert!(end.says("amqp:invalid-field"), "round {round}: {end:x?}");
                raw.perform(raw::END, &[]);
                raw.begin(0);
                raw.wait_for(raw::BEGIN);
            }
        }
    });
    assert!(cost.peak_mib < 200);
}

/// A map of so many bytes, about, of symbols and what they say.
fn large_map(bytes: usize, value: &[u8]) -> Vec<u8> {
    let pairs = (0..bytes / (value.len() + 12)).flat_map(|number| {
        let key = format!("k{number:05}");
        [raw::symbol(&key), value.to_vec()]
    });
    raw::map(&pairs.collect::<Vec<_>>())
}

/// [AMQP 2.7.1] [AMQP 2.7.2] [AMQP 2.7.3] Properties and unsettled maps as large as a frame, of a user that may do
/// nothing: what is kept of them is small and counts.
#[test]
fn large_maps_in_begin_and_attach_are_not_kept() {
    let cost = under_attack(&[], |broker| {
        add_user(broker, "eve", "^$");
        let properties = large_map(120_000, &raw::null());
        let unsettled = {
            let tags = (0..6_000_u32).flat_map(|tag| {
                let state = raw::performative(0x24, &[]);
                [raw::binary(&tag.to_be_bytes()), state]
            });
            raw::map(&tags.collect::<Vec<_>>())
        };
        let _kept: Vec<Raw> = (0..40)
            .map(|_| {
                let mut raw = Raw::authenticated_as(broker.port, "eve");
                raw.perform(raw::OPEN, &[raw::text("raw"), raw::text("localhost")]);
                raw.wait_for(raw::OPEN);
                for channel in 0..10 {
                    let window = raw::uint(0x7fff_ffff);
                    let mut begin = vec![raw::null(), raw::uint(0), window.clone(), window];
                    begin.extend([raw::uint(255), raw::null(), raw::null()]);
                    begin.push(properties.clone());
                    let begin = raw::performative(raw::BEGIN, &begin);
                    raw.send(&raw::frame(0, channel, &begin));
                    raw.wait_for(raw::BEGIN);
                }
                let mut attach = raw::attach(0, false, "/queues/none");
                attach[7].clone_from(&unsettled);
                raw.perform(raw::ATTACH, &attach);
                assert_ne!(raw.wait_for(raw::DETACH).code, 0);
                raw
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
    });
    assert!(cost.growth_mib < 32, "{cost}");
    cost.check_counted_within(30);
}

/// [AMQP 2.7.3] Who resumes with a large unsettled map and sends deliveries as resumed again and again: none is stored,
/// and nothing is kept.
#[test]
fn resumed_deliveries_that_nobody_knows_leave_nothing() {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "resumed");
        let mut raw = Raw::begun(broker.port);
        raw.attach_sender(0, "resumed");
        raw.wait_for(raw::FLOW);
        for id in 0..300 {
            let fields = [
                raw::uint(0),
                raw::uint(id),
                raw::binary(&id.to_be_bytes()),
                raw::uint(0),
                raw::truth(false),
                raw::truth(false),
                raw::null(),
                raw::null(),
                raw::truth(true),
            ];
            let body = raw::described(0x75, &raw::binary(&vec![b'.'; 100_000]));
            let transfer = raw::performative(raw::TRANSFER, &fields);
            raw.send(&raw::frame(0, 0, &[transfer, body].concat()));
        }
        raw.publish(0, 300, false, b"last");
        raw.wait_for(raw::DISPOSITION);
        let path = "/api/queues/%2F/resumed?columns=messages";
        let answer = ask(broker.http_port, "GET", path);
        assert!(answer.contains("\"messages\":1"), "{answer}");
    });
    assert!(cost.growth_mib < 32, "{cost}");
}

/// [AMQP 2.6.13] Who asks for links that outlive their connection, publishes on each as much as it gets credit for and
/// settles nothing, then goes: what is kept of it is counted and bounded, and a link of another user is kept beside it.
#[test]
fn links_that_outlive_their_connection_are_bounded_and_counted() {
    let cost = under_attack(&[], |broker| leave_kept_links(broker, 0));
    // 25,600 messages, and what their connections took, which the allocator keeps for a while.
    assert!(cost.growth_mib < 48, "{cost}");
    cost.check_counted_within(70);
}

/// [AMQP 3.5.5] The same with links that outlive the broker: it has each of their deliveries twice.
#[test]
fn links_that_outlive_the_broker_are_bounded_and_counted() {
    let data = std::env::temp_dir().join(format!("coroner-kept-links-{}", std::process::id()));
    let arguments = ["--data", &data.to_string_lossy()];
    let cost = under_attack(&arguments, |broker| leave_kept_links(broker, 2));
    std::fs::remove_dir_all(data).unwrap();
    assert!(cost.growth_mib < 64, "{cost}");
    cost.check_counted_within(70);
}

/// Attaches as many links as a user may have that outlive their connection, and more, with this durability.
fn leave_kept_links(broker: &RunningBroker, durability: u32) {
    let kept = |handle, name: &str| kept_publisher(handle, name, durability);
    let is_kept = |answer: &raw::Came| answer.says("connection-close");
    Raw::declare(broker.port, "kept");
    let (mut promised, mut sent) = (0, 0);
    for connection in 0..8 {
        let mut raw = Raw::begun(broker.port);
        let mut next = 0;
        for handle in 0..200 {
            raw.perform(
                raw::ATTACH,
                &kept(handle, &format!("{connection}-{handle}")),
            );
            promised += u32::from(is_kept(&raw.wait_for(raw::ATTACH)));
            raw.wait_for(raw::FLOW);
            // That much credit each has, whatever the others take.
            for _ in 0..16 {
                raw.publish(handle, next, false, b"kept");
                next += 1;
                sent += 1;
            }
        }
        raw.wait_for(raw::DISPOSITION);
    }
    assert_eq!(promised, 1_024, "of 1,600 links");
    assert_eq!(sent, 25_600);
    add_user(broker, "eve", ".*");
    let mut other = Raw::begun_as(broker.port, "eve");
    other.perform(raw::ATTACH, &kept(0, "other"));
    assert!(is_kept(&other.wait_for(raw::ATTACH)));
    thread::sleep(Duration::from_secs(1));
}

/// The attach of a publisher whose link outlives its connection.
fn kept_publisher(handle: u32, name: &str, durability: u32) -> Vec<Vec<u8>> {
    let mut attach = raw::attach(handle, false, "/queues/kept");
    attach[0] = raw::text(name);
    attach[4] = raw::ubyte(1);
    let (address, policy) = (raw::text("/queues/kept"), raw::symbol("never"));
    let target = [address, raw::uint(durability), policy, raw::uint(0)];
    attach[6] = raw::described(0x29, &raw::list(&target));
    attach
}

/// [AMQP 2.6.13, 3.4.1] Who begins messages on many links that outlive their connection, and goes in the middle of each: what
/// is kept of them is counted and bounded for a user, and gone with it.
#[test]
fn messages_that_are_begun_on_links_that_are_kept_are_bounded_and_counted() {
    let cost = under_attack(&[], |broker| {
        Raw::declare(broker.port, "kept");
        add_user(broker, "eve", ".*");
        let begun = raw::described(0x75, &raw::binary(&vec![b'.'; 240_000]));
        for connection in 0..10 {
            for name in 0..60 {
                let mut raw = Raw::begun_as(broker.port, "eve");
                let name = format!("{connection}-{name}");
                raw.perform(raw::ATTACH, &kept_publisher(0, &name, 0));
                raw.wait_for(raw::FLOW);
                for (number, part) in begun[..200_000].chunks(100_000).enumerate() {
                    let first = u32::try_from(number).unwrap() == 0;
                    let of_first = |field: Vec<u8>| if first { field } else { raw::null() };
                    let fields = [
                        raw::uint(0),
                        of_first(raw::uint(0)),
                        of_first(raw::binary(b"tag")),
                        of_first(raw::uint(0)),
                        raw::truth(false),
                        raw::truth(true),
                    ];
                    let transfer = raw::performative(raw::TRANSFER, &fields);
                    raw.send(&raw::frame(0, 0, &[&transfer[..], part].concat()));
                }
            }
        }
        thread::sleep(Duration::from_secs(1));
        // Those that came first are there, and go on where they were.
        let mut attach = kept_publisher(0, "0-0", 0);
        attach[7] = raw::map(&[raw::binary(b"tag"), raw::null()]);
        let mut raw = Raw::begun_as(broker.port, "eve");
        raw.perform(raw::ATTACH, &attach);
        assert!(raw.wait_for(raw::ATTACH).says("tag"));
    });
    assert!(cost.growth_mib < 112, "{cost}");
    cost.check_counted_within(40);
}

/// The attach of a consumer whose link outlives its connection, with a map of what it has not settled.
fn kept_consumer(handle: u32, name: &str, unsettled: Vec<u8>) -> Vec<Vec<u8>> {
    let mut attach = raw::attach(handle, true, "/queues/hostile-0");
    attach[0] = raw::text(name);
    attach[4] = raw::ubyte(1);
    let (address, policy) = (raw::text("/queues/hostile-0"), raw::symbol("never"));
    attach[5] = raw::described(
        0x28,
        &raw::list(&[address, raw::null(), policy, raw::uint(0)]),
    );
    attach[7] = unsettled;
    attach
}

/// [AMQP 2.6.13] Who takes messages on as many links as it may, goes, comes back with maps of deliveries that it never
/// had, and goes again: what is kept is counted and bounded, others get the rest at once, and all is back with its user's
/// end.
#[test]
fn consumers_that_hold_messages_on_links_without_a_connection_are_bounded_and_counted() {
    const MESSAGES: u32 = 10_000;
    let is_kept = |answer: &raw::Came| answer.says("connection-close");
    let unacknowledged = |port, count: u32| {
        let path = "/api/queues/%2F/hostile-0?columns=messages_unacknowledged";
        let is_it = || ask(port, "GET", path).contains(&format!(":{count}}}"));
        let begun = Instant::now();
        while !is_it() {
            assert!(begun.elapsed() < GONE_MAX, "{}", ask(port, "GET", path));
            thread::sleep(Duration::from_millis(100));
        }
    };
    let cost = under_attack(&[], |broker| {
        fill(broker.port, MESSAGES, "100");
        add_user(broker, "eve", ".*");
        let mut promised = 0;
        for connection in 0..6 {
            let mut raw = Raw::begun_as(broker.port, "eve");
            for handle in 0..200 {
                let name = format!("{connection}-{handle}");
                raw.perform(raw::ATTACH, &kept_consumer(handle, &name, raw::null()));
                promised += u32::from(is_kept(&raw.wait_for(raw::ATTACH)));
                raw.credit(handle, 0xffff_fffb, 4);
                raw.wait_for(raw::TRANSFER);
            }
        }
        assert_eq!(promised, 1_024, "of 1,200 links");
        unacknowledged(broker.http_port, 4 * 1_024);
        // 4,000 deliveries that it never had, each with an outcome.
        let forged = (0..4_000_u64).flat_map(|number| {
            let tag = raw::binary(&(1 << 40 | number).to_be_bytes());
            [tag, raw::described(0x25, &raw::list(&[]))]
        });
        let forged = raw::map(&forged.collect::<Vec<_>>());
        let mut raw = Raw::begun_as(broker.port, "eve");
        for handle in 0..50 {
            let name = format!("0-{handle}");
            raw.perform(raw::ATTACH, &kept_consumer(handle, &name, forged.clone()));
            assert!(is_kept(&raw.wait_for(raw::ATTACH)));
        }
        unacknowledged(broker.http_port, 4 * (1_024 - 50));
        let answer = ask(broker.http_port, "DELETE", "/api/users/eve");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        unacknowledged(broker.http_port, 0);
    });
    assert!(cost.growth_mib < 48, "{cost}");
    cost.check_counted_within(70);
}

/// [AMQP 2.4.5] A peer that neither reads nor writes: `closing` after its idle time, and gone 6 s later.
#[test]
fn a_deaf_peer_is_gone_seconds_after_its_idle_time_or_the_deletion_of_its_user() {
    under_attack(&["--idle-timeout=2s"], |broker| {
        fill(broker.port, 3_000, "10000");
        add_user(broker, "eve", ".*");
        let mut raws = [("guest", false), ("eve", true)].map(|(user, is_deleted)| {
            let mut raw = Raw::begun_as(broker.port, user);
            raw.attach_receiver(0, "hostile-0");
            raw.credit(0, 0xffff_fffb, 0x7fff_ffff);
            raw.wait_for(raw::TRANSFER);
            (raw, is_deleted)
        });
        let paths = raws.each_mut().map(|(raw, _)| {
            let local = raw.stream.local_addr().expect("a socket").port();
            let port = broker.port;
            format!("/api/connections/127.0.0.1%3A{local}%20-%3E%20127.0.0.1%3A{port}")
        });
        let answer = ask(broker.http_port, "DELETE", "/api/users/eve");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        let begun = Instant::now();
        let mut was_closing = [false; 2];
        let mut is_gone = [false; 2];
        while is_gone != [true; 2] {
            for (index, path) in paths.iter().enumerate() {
                let answer = ask(broker.http_port, "GET", path);
                is_gone[index] |= answer.starts_with("HTTP/1.1 404");
                was_closing[index] |= answer.contains("\"closing\"");
            }
            assert!(begun.elapsed() < 3 * GONE_MAX, "gone: {is_gone:?}");
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(was_closing, [true; 2], "said to be closing meanwhile");
    });
}
