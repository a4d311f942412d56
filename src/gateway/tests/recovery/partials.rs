//! Messages in the middle of which the line is cut: they go on where they were. [AMQP 2.6.13, 3.4.1]

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::support::{message, section};
use super::consumers::{self, Map};
use super::world::{World, kept, lasting, transfer, unsettled};
use crate::base::limits::{
    RESUMABLE_PARTIAL_BYTES_MAX, RESUMABLE_PARTIALS_USER_BYTES_MAX, STREAMING_BYTES_MIN,
};
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::store::PIECE_BYTES_MAX;
use crate::wire::performative::{
    Attach, DeliveryState, End, Performative, ResumePoint, SenderSettleMode, Transfer,
};
use crate::wire::{Value, resume_point};

const TAG: &[u8] = b"a";

fn point(section_number: u32, section_offset: u64) -> ResumePoint {
    ResumePoint {
        section_number,
        section_offset,
    }
}

/// A header, properties and data of so many bytes: the lengths of the first two, and the message.
fn whole(durable: bool, bytes: usize) -> (usize, usize, Vec<u8>) {
    let header = section(0x70, &Value::List(vec![Value::Bool(durable)]));
    let properties = section(0x73, &Value::List(vec![Value::string("id")]));
    let body: Vec<u8> = (0..251).cycle().take(bytes).collect();
    let whole = [&header[..], &properties, &message(&body)].concat();
    (header.len(), properties.len(), whole)
}

fn begun() -> Transfer {
    Transfer {
        more: true,
        ..transfer(0, TAG)
    }
}

fn resumed(at: Option<ResumePoint>) -> Transfer {
    Transfer {
        resume: true,
        resumes_at: at.map(Box::new),
        ..transfer(0, TAG)
    }
}

/// Writes the first bytes of a message on a line that is cut then.
fn cut_after(world: &mut World, bytes: &[u8]) {
    let line = world.line("c");
    world.attach(line, &kept(&[]));
    for part in bytes.chunks(10_000) {
        world.part(line, &begun(), part);
    }
    world.cut(line);
    world.drive();
}

/// Resumes the message with the next bytes, in several transfers; the last says whether more follow.
fn go_on(world: &mut World, line: usize, at: Option<ResumePoint>, (bytes, more): (&[u8], bool)) {
    let parts = bytes.chunks(20_000);
    let count = parts.len();
    for (number, part) in parts.enumerate() {
        let first = if number == 0 {
            resumed(at)
        } else {
            transfer(0, TAG)
        };
        let transfer = Transfer {
            more: more || number + 1 < count,
            ..first
        };
        world.part(line, &transfer, part);
    }
}

/// Attaches the link again; returns the line, and where the broker has the message go on.
fn again(world: &mut World) -> (usize, Option<ResumePoint>) {
    let line = world.line("c");
    let answer = world.attach(line, &kept(&[TAG]));
    let point = match unsettled(&answer).remove(TAG) {
        Some(Some(DeliveryState::Received(point))) => Some(point),
        None => None,
        other => panic!("{other:?}"),
    };
    (line, point)
}

/// The messages in the queue, without what the broker writes in front.
fn stored(world: &mut World) -> Vec<Vec<u8>> {
    let count = u32::try_from(world.ready()).unwrap();
    let client = world.scene.client();
    world.scene.consumer(client, "q", count);
    let deliveries = world.scene.deliveries(client);
    deliveries
        .into_iter()
        .map(|(_, _, bytes)| bytes.to_vec())
        .collect()
}

fn assert_stored_once(world: &mut World, header: usize, sent: &[u8]) {
    let stored = stored(world);
    assert_eq!(stored.len(), 1);
    assert!(stored[0].ends_with(&sent[header..]), "as it was sent");
}

#[rstest]
#[case::in_the_header(3)]
#[case::behind_the_header(8)]
#[case::in_the_properties(12)]
#[case::in_the_body(1_000)]
#[case::all_but_the_end(1_924)]
fn a_message_whose_line_is_cut_goes_on_where_the_map_says(#[case] arrived: usize) {
    let (header, properties, sent) = whole(true, 1_900);
    let mut world = World::new();
    cut_after(&mut world, &sent[..arrived]);
    let (line, at) = again(&mut world);
    let at = at.expect("what has arrived is in the map");
    let begins = [0, header, header + properties];
    let begins = begins[at.section_number as usize];
    assert_eq!(begins as u64 + at.section_offset, arrived as u64);
    let first = Transfer {
        more: true,
        ..resumed(Some(at))
    };
    world.part(line, &first, &sent[arrived..=arrived]);
    world.part(line, &transfer(0, TAG), &sent[arrived + 1..]);
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    // Its outcome is told like that of any other.
    world.cut(line);
    let third = world.line("c");
    let answer = world.attach(third, &kept(&[TAG]));
    let expect = BTreeMap::from([(TAG.to_vec(), Some(DeliveryState::Accepted))]);
    assert_eq!(unsettled(&answer), expect);
    assert_stored_once(&mut world, header, &sent);
}

#[rstest]
#[case::where_it_was_cut(Some(point(2, 500)), 500)]
#[case::some_bytes_before(Some(point(2, 20)), 20)]
#[case::from_its_beginning(Some(point(0, 0)), 0)]
#[case::where_it_was_cut_without_saying_so(None, 500)]
#[case::from_its_beginning_without_saying_so(None, 0)]
fn a_publisher_resumes_where_it_was_cut_or_before(
    #[case] at: Option<ResumePoint>,
    #[case] offset: usize,
) {
    let (header, properties, sent) = whole(true, 3_000);
    let body = header + properties;
    let mut world = World::new();
    cut_after(&mut world, &sent[..body + 500]);
    let (line, told) = again(&mut world);
    assert_eq!(told, Some(point(2, 500)));
    let begin = if offset == 0 { 0 } else { body + offset };
    world.part(line, &resumed(at), &sent[begin..]);
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);
}

#[rstest]
#[case::behind_a_gap(Some(point(2, 501)), 501, "goes on at section 2, offset 500")]
#[case::in_a_section_before(Some(point(1, 1)), 500, "goes on at section 2, offset 500")]
#[case::shorter_than_before(Some(point(0, 0)), 2_900, "had arrived of it")]
fn a_delivery_that_cannot_go_on_there_ends_its_link_and_publishes_nothing(
    #[case] at: Option<ResumePoint>,
    #[case] offset: usize,
    #[case] why: &str,
) {
    let (header, properties, sent) = whole(true, 3_000);
    let mut world = World::new();
    cut_after(&mut world, &sent[..header + properties + 500]);
    let (line, _) = again(&mut world);
    world.part(line, &resumed(at), &sent[header + properties + offset..]);
    let told = world.lines[line].got.iter().find_map(|got| match got {
        Performative::Detach(detach) => detach.error.as_ref()?.description.clone(),
        _ => None,
    });
    assert!(told.as_ref().unwrap().contains(why), "{told:?}");
    let refused = (true, "amqp:invalid-field".to_owned());
    assert_eq!(world.detached(line), Some(refused));
    assert_eq!(world.ready(), 0);
    // It is forgotten with the link, and sent again.
    world.detach(line, true);
    let answer = world.attach(line, &kept(&[TAG]));
    assert_eq!(unsettled(&answer), BTreeMap::new());
    world.part(line, &transfer(1, TAG), &sent);
    assert_eq!(world.outcomes(line), [(1, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);
}

#[test]
fn a_message_that_is_cut_may_begin_anew_or_be_aborted_or_settled() {
    let (header, _, sent) = whole(true, 3_000);
    let anew = transfer(0, TAG);
    let aborted = Transfer {
        aborted: true,
        ..resumed(None)
    };
    let settled = Transfer {
        settled: Some(true),
        ..resumed(None)
    };
    for (case, last, from, expect) in [
        ("anew", anew, 0, vec![(0, DeliveryState::Accepted)]),
        ("aborted", aborted, 3_000, vec![]),
        ("settled", settled, 1_000, vec![]),
    ] {
        let mut world = World::new();
        cut_after(&mut world, &sent[..1_000]);
        let line = world.line("c");
        let attach = Attach {
            snd_settle_mode: SenderSettleMode::Mixed,
            ..kept(&[TAG])
        };
        world.attach(line, &attach);
        world.part(line, &last, &sent[from..]);
        assert_eq!(world.outcomes(line), expect, "{case}");
        world.settle(line, 0);
        world.cut(line);
        let (_, at) = again(&mut world);
        assert_eq!(at, None, "{case}");
        if case == "aborted" {
            assert_eq!(world.ready(), 0);
        } else {
            assert_stored_once(&mut world, header, &sent);
        }
    }
}

/// [AMQP 2.7.5] As a publisher does that looks at the tags of the map alone: its message would be cut off for good.
#[test]
fn a_message_of_which_only_a_part_is_here_is_released_if_its_publisher_sends_no_more_of_it() {
    let (header, _, sent) = whole(true, 3_000);
    let mut world = World::new();
    cut_after(&mut world, &sent[..1_000]);
    let (line, at) = again(&mut world);
    assert!(at.is_some());
    world.part(line, &resumed(None), &[]);
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Released)]);
    assert_eq!(world.ready(), 0);
    world.settle(line, 0);
    world.part(line, &transfer(1, TAG), &sent);
    assert_eq!(world.outcomes(line), [(1, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);
}

/// All had arrived but the end of the last transfer, and the publisher knows it.
#[test]
fn a_message_that_is_whole_but_for_its_end_goes_on_with_nothing() {
    let (header, _, sent) = whole(true, 3_000);
    let mut world = World::new();
    cut_after(&mut world, &sent);
    let (line, at) = again(&mut world);
    assert_eq!(at, Some(point(3, 0)));
    world.part(line, &resumed(at), &[]);
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);
}

#[test]
fn a_message_that_is_cut_again_before_or_while_it_goes_on_keeps_what_has_arrived() {
    let (header, properties, sent) = whole(true, 3_000);
    let body = header + properties;
    let mut world = World::new();
    cut_after(&mut world, &sent[..body + 500]);
    let (idle, _) = again(&mut world);
    world.cut(idle);
    let (line, at) = again(&mut world);
    assert_eq!(at, Some(point(2, 500)));
    let more = Transfer {
        more: true,
        ..resumed(at)
    };
    world.part(line, &more, &sent[body + 500..body + 800]);
    world.cut(line);
    let (line, at) = again(&mut world);
    assert_eq!(at, Some(point(2, 800)));
    world.part(line, &resumed(at), &sent[body + 800..]);
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);
}

#[test]
fn a_detach_or_the_end_of_a_session_keeps_what_has_arrived_and_a_close_does_not() {
    let (_, _, sent) = whole(true, 3_000);
    for (case, expect) in [("detach", true), ("end", true), ("close", false)] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.part(line, &begun(), &sent[..1_000]);
        match case {
            "end" => {
                let end = Performative::End(Box::new(End { error: None }));
                world.write(line, 0, &end, &[]);
                world.drive();
                world.begin(line, 0);
            }
            other => world.detach(line, other == "close"),
        }
        let answer = world.attach(line, &kept(&[TAG]));
        assert_eq!(unsettled(&answer).len(), usize::from(expect), "{case}");
    }
}

#[test]
fn nothing_is_kept_under_an_alarm_or_for_a_link_that_is_attached_while_its_older_end_stands() {
    let (_, _, sent) = whole(true, 3_000);
    for case in ["an alarm", "stolen"] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &kept(&[]));
        world.part(line, &begun(), &sent[..1_000]);
        if case == "an alarm" {
            world.lines[line].gateway.on_alarm(true);
            world.cut(line);
        }
        assert_eq!(again(&mut world).1, None, "{case}");
        assert_eq!(world.ready(), 0, "{case}");
    }
}

#[test]
fn what_the_publisher_does_not_name_or_has_settled_is_not_kept() {
    let (_, _, sent) = whole(true, 3_000);
    let mut world = World::new();
    cut_after(&mut world, &sent[..1_000]);
    let kept_bytes = world.scene.environment.kept().bytes();
    let line = world.line("c");
    let answer = world.attach(line, &kept(&[]));
    assert_eq!(unsettled(&answer), BTreeMap::new());
    assert!(world.scene.environment.kept().bytes() < kept_bytes - 900);
    world.cut(line);
    assert_eq!(again(&mut world).1, None);

    let mut world = World::new();
    let line = world.line("c");
    let attach = Attach {
        snd_settle_mode: SenderSettleMode::Mixed,
        ..kept(&[])
    };
    world.attach(line, &attach);
    let settled = Transfer {
        settled: Some(true),
        ..begun()
    };
    world.part(line, &settled, &sent[..1_000]);
    world.cut(line);
    assert_eq!(again(&mut world).1, None, "nobody waits for its outcome");
}

#[test]
fn a_large_durable_message_goes_on_in_the_journal() {
    let (header, properties, sent) = whole(true, 4 * PIECE_BYTES_MAX);
    let body = header + properties;
    let (mut world, bodies) = World::with_body_store();
    let mut arrived = body + 2 * PIECE_BYTES_MAX + 77;
    cut_after(&mut world, &sent[..arrived]);
    assert!(world.scene.environment.kept().bytes() < 2 * PIECE_BYTES_MAX as u64);
    for count in [300_000, 5, 0] {
        let (line, at) = again(&mut world);
        let at = at.expect("what has arrived is in the map");
        assert_eq!(at, point(2, (arrived - body) as u64));
        let end = arrived + count;
        go_on(&mut world, line, Some(at), (&sent[arrived..end], true));
        world.cut(line);
        world.drive();
        arrived = end;
    }
    let (line, at) = again(&mut world);
    go_on(&mut world, line, at, (&sent[arrived..], false));
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert_eq!(bodies.released(), [], "each piece is a part of the body");
    let memory = world.scene.core.memory();
    assert!(memory.resident.bytes < 200, "only the head is in memory");
    assert_stored_once(&mut world, header, &sent);
}

#[test]
fn what_had_arrived_in_memory_goes_to_the_journal_with_the_rest_if_that_is_large() {
    let (header, properties, sent) = whole(true, 3 * STREAMING_BYTES_MIN);
    let (mut world, bodies) = World::with_body_store();
    cut_after(&mut world, &sent[..100_000]);
    assert_eq!(bodies.look().appended.len(), 0);
    let (line, at) = again(&mut world);
    assert_eq!(at, Some(point(2, (100_000 - header - properties) as u64)));
    go_on(&mut world, line, at, (&sent[100_000..], false));
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert!(bodies.look().appended.len() >= 3, "in pieces");
    assert_stored_once(&mut world, header, &sent);
}

#[test]
fn of_what_is_kept_in_memory_only_the_first_part_is_kept_and_each_user_has_a_share() {
    let (header, properties, sent) = whole(false, 3 * RESUMABLE_PARTIAL_BYTES_MAX);
    let mut world = World::new();
    cut_after(&mut world, &sent[..2 * RESUMABLE_PARTIAL_BYTES_MAX]);
    let (line, at) = again(&mut world);
    let kept_bytes = RESUMABLE_PARTIAL_BYTES_MAX - header - properties;
    assert_eq!(at, Some(point(2, kept_bytes as u64)));
    go_on(
        &mut world,
        line,
        at,
        (&sent[RESUMABLE_PARTIAL_BYTES_MAX..], false),
    );
    assert_eq!(world.outcomes(line), [(0, DeliveryState::Accepted)]);
    assert_stored_once(&mut world, header, &sent);

    let count = RESUMABLE_PARTIALS_USER_BYTES_MAX / RESUMABLE_PARTIAL_BYTES_MAX as u64;
    let mut world = World::new();
    let line = world.line("c");
    let mut told = 0;
    for number in 0..=count {
        let attach = |unsettled: &[&[u8]]| Attach {
            name: number.to_string(),
            ..kept(unsettled)
        };
        world.attach(line, &attach(&[]));
        let begun = Transfer {
            delivery_id: Some(crate::base::Serial(u32::try_from(number).unwrap())),
            ..begun()
        };
        for part in sent[..RESUMABLE_PARTIAL_BYTES_MAX].chunks(60_000) {
            world.part(line, &begun, part);
        }
        world.detach(line, false);
        let other = world.line("c");
        let answer = world.attach(other, &attach(&[TAG]));
        told += unsettled(&answer).len() as u64;
        world.cut(other);
        world.drive();
    }
    assert_eq!(told, count);
}

#[test]
fn bodies_in_the_journal_are_let_go_with_their_link() {
    let (_, _, sent) = whole(true, 4 * PIECE_BYTES_MAX);
    for case in [
        "its time is over",
        "its vhost is deleted",
        "not named",
        "aborted",
    ] {
        let (mut world, bodies) = World::with_body_store();
        cut_after(&mut world, &sent[..3 * PIECE_BYTES_MAX]);
        assert_eq!(
            (bodies.names().len(), bodies.released()),
            (2, vec![]),
            "{case}"
        );
        match case {
            "its time is over" => {
                world.pass(60_001);
                world.scene.environment.expire_links(world.scene.now.mono);
            }
            "its vhost is deleted" => {
                let name = DEFAULT_VHOST.into();
                let deleted = RegistryFact::VhostDeleted { name };
                world.scene.environment.resumable.forget_of(&deleted);
            }
            "not named" => {
                let line = world.line("c");
                world.attach(line, &kept(&[]));
            }
            _ => {
                let (line, at) = again(&mut world);
                let aborted = Transfer {
                    aborted: true,
                    ..resumed(at)
                };
                world.part(line, &aborted, &[]);
            }
        }
        assert_eq!(bodies.released(), bodies.names(), "{case}");
    }
}

/// A consumer's first delivery of a message, all of it: its tag and bytes.
fn received(world: &mut World, sent: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let line = world.line("p");
    world.attach(line, &lasting(None, 0, &[]));
    for (number, part) in sent.chunks(20_000).enumerate() {
        let more = (number + 1) * 20_000 < sent.len();
        let transfer = Transfer {
            more,
            ..transfer(0, TAG)
        };
        world.part(line, &transfer, part);
    }
    let line = world.line("c");
    world.attach(line, &consumers::kept(&Map::new()));
    let got = consumers::take(world, line, 1);
    let whole = std::mem::take(&mut world.lines[line].payload);
    world.cut(line);
    world.drive();
    (consumers::tag(&got[0]), whole)
}

/// Attaches a consumer that has a message up to there; returns where it goes on, and its rest.
fn go_on_receiving(
    world: &mut World,
    tag: &[u8],
    at: ResumePoint,
) -> (Option<ResumePoint>, Vec<u8>) {
    let line = world.line("c");
    let map = Map::from([(tag.to_vec(), Some(DeliveryState::Received(at)))]);
    let answer = world.attach(line, &consumers::kept(&map));
    let held = Map::from([(tag.to_vec(), None)]);
    assert_eq!(unsettled(&answer), held);
    let got = consumers::take(world, line, 1);
    assert_eq!(
        (consumers::tag(&got[0]), got[0].resume),
        (tag.to_vec(), true)
    );
    let rest = std::mem::take(&mut world.lines[line].payload);
    world.cut(line);
    world.drive();
    (got[0].resumes_at.as_deref().copied(), rest)
}

/// Where a section begins.
fn section_start(message: &[u8], section: u32) -> usize {
    let begins = |end: &usize| resume_point(&message[..*end], 9).0 == point(section, 0);
    (0..=message.len()).find(begins).unwrap()
}

#[rstest]
#[case::nothing(point(0, 0), point(0, 0))]
#[case::in_the_header(point(0, 3), point(0, 0))]
#[case::in_the_annotations(point(1, 9), point(0, 0))]
#[case::behind_the_annotations(point(2, 0), point(2, 0))]
#[case::in_the_properties(point(2, 4), point(2, 4))]
#[case::in_the_body(point(3, 700), point(3, 700))]
#[case::in_no_section_of_it(point(5, 700), point(3, 0))]
fn a_consumer_gets_the_rest_of_a_message_of_which_it_has_a_part(
    #[case] has: ResumePoint,
    #[case] expect: ResumePoint,
) {
    let (_, _, sent) = whole(true, 2_000);
    let mut world = World::new();
    let (tag, whole) = received(&mut world, &sent);
    let (at, rest) = go_on_receiving(&mut world, &tag, has);
    assert_eq!(at, Some(expect));
    let start = section_start(&whole, expect.section_number);
    let offset = usize::try_from(expect.section_offset).unwrap();
    assert_eq!(rest, whole[start + offset..]);
    // It may be cut again, and all be there already.
    let body = whole.len() - section_start(&whole, 3);
    let (at, rest) = go_on_receiving(&mut world, &tag, point(3, body as u64));
    assert_eq!((at, rest.len()), (Some(point(3, body as u64)), 0));
    let (at, rest) = go_on_receiving(&mut world, &tag, point(0, 0));
    assert_eq!((at, rest), (Some(point(0, 0)), whole));
}

#[rstest]
#[case::in_memory(false, 3 * STREAMING_BYTES_MIN)]
#[case::in_the_journal(true, 3 * STREAMING_BYTES_MIN)]
fn a_consumer_gets_the_rest_of_a_large_message(#[case] durable: bool, #[case] bytes: usize) {
    let (_, _, sent) = whole(durable, bytes);
    let (mut world, _bodies) = World::with_body_store();
    let (tag, whole) = received(&mut world, &sent);
    let body = section_start(&whole, 3);
    let length = whole.len() - body;
    for has in [
        1,
        PIECE_BYTES_MAX - 1,
        PIECE_BYTES_MAX + 17,
        length - 1,
        length,
    ] {
        let (at, rest) = go_on_receiving(&mut world, &tag, point(3, has as u64));
        assert_eq!(at, Some(point(3, has as u64)));
        assert!(rest == whole[body + has..], "{has}: {} bytes", rest.len());
    }
}
