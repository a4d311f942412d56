//! Performatives against bytes as they may come.

mod rejections;
mod transfers;

use bytes::Bytes;

use super::{
    Attach, AttachAnswer, AttachFields, AttachFrame, DeliveryState, Disposition, Fields,
    FirstTransfer, Flow, LinkFlow, Performative, ReceiverSettleMode, ResumePoint, Role,
    SenderSettleMode, Symbol, TargetArchetype, Terminus, Transfer, codes, decode, describe, encode,
    error, write_transfer,
};
use crate::base::Serial;
use crate::wire::frame::FrameHeader;
use crate::wire::sasl::SaslFrame;
use crate::wire::{self, Value, decode_value, encode_value};

/// A described list with these fields.
fn list(code: u64, fields: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_descriptor(&mut out, code);
    encode_value(&Value::List(fields.to_vec()), &mut out);
    out
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new((Value::Ulong(code), Value::List(fields))))
}

fn symbol(text: &str) -> Value {
    Value::Symbol(text.to_owned())
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn survives(performative: &Performative) {
    let mut out = Vec::new();
    encode(&mut out, performative);
    assert_eq!(
        decode(&out),
        Ok((performative.clone(), out.len())),
        "{out:02x?}"
    );
}

fn no_such_queue() -> std::sync::Arc<super::Error> {
    std::sync::Arc::new(error(super::AmqpError::NotFound, "no such queue"))
}

#[test]
fn hot_performatives_survive_a_round_trip() {
    survives(&Performative::Flow(Flow::default()));
    survives(&Performative::Flow(Flow {
        next_incoming_id: Some(Serial(u32::MAX)),
        incoming_window: 400,
        next_outgoing_id: Serial(0xffff_fffc),
        outgoing_window: u32::MAX,
        link: Some(LinkFlow {
            handle: 255,
            delivery_count: Some(Serial(300)),
            link_credit: Some(70_000),
            available: Some(0),
            drain: true,
            acquires: true,
        }),
        echo: true,
    }));
    survives(&Performative::Transfer(Transfer {
        handle: 3,
        tag: wire::performative::DeliveryTag::default(), // 33 bytes are too many for one
        delivery_id: Some(Serial(0)),
        tag_bytes: Some(33),
        message_format: Some(0),
        settled: Some(true),
        more: true,
        rcv_settle_mode: Some(ReceiverSettleMode::Second),
        resume: true,
        resumes_at: None,
        aborted: true,
        txn_id: None,
    }));
}

#[test]
fn states_survive_a_round_trip() {
    for state in [
        DeliveryState::Accepted,
        DeliveryState::Released,
        DeliveryState::Rejected { error: None },
        DeliveryState::Rejected {
            error: Some(no_such_queue()),
        },
        DeliveryState::Modified {
            delivery_failed: None,
            undeliverable_here: Some(true),
            message_annotations: None,
        },
        DeliveryState::Modified {
            delivery_failed: Some(false),
            undeliverable_here: None,
            message_annotations: Some(Bytes::from_static(b"\xc1\x06\x02\xa3\x01k\x52\x01")),
        },
        DeliveryState::Modified {
            delivery_failed: None,
            undeliverable_here: None,
            message_annotations: None,
        },
        DeliveryState::Received(ResumePoint {
            section_number: 1,
            section_offset: 2,
        }),
        DeliveryState::Declared {
            txn_id: Bytes::from_static(b"t"),
        },
        DeliveryState::Transactional {
            txn_id: Bytes::from_static(b"t"),
            outcome: None,
        },
    ] {
        survives(&Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: Serial(7),
            last: Serial(9),
            settled: false,
            state: Some(state),
        }));
    }
}

// [AMQP 1.2.1] "the descriptor ... a symbolic value or a ulong"
#[test]
fn symbolic_descriptors_are_the_same_as_numeric_ones() {
    let check = |name: &str, code: u64, fields: &[Value]| {
        let mut named = vec![0];
        wire::write_symbol(&mut named, name);
        encode_value(&Value::List(fields.to_vec()), &mut named);
        let (named, _) = decode(&named).unwrap();
        assert_eq!(named, decode(&list(code, fields)).unwrap().0);
    };
    check("amqp:open:list", 0x10, &[string("c")]);
    check(
        "amqp:flow:list",
        0x13,
        &[Value::Null, 1.into(), 2.into(), 3.into()],
    );
    check("amqp:end:list", 0x17, &[]);
    let accepted = Value::Described(Box::new((
        symbol("amqp:accepted:list"),
        Value::List(vec![]),
    )));
    let fields = [true.into(), 1.into(), Value::Null, true.into(), accepted];
    let Ok((Performative::Disposition(disposition), _)) = decode(&list(0x15, &fields)) else {
        panic!("a disposition");
    };
    assert_eq!(disposition.state, Some(DeliveryState::Accepted));
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Uint(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// The attach of a receiver whose source has a filter, and the answer's source and target.
fn answered(source: Value, source_answer: Terminus<super::Source>) -> Vec<Value> {
    let fields = [
        string("l"),
        0.into(),
        true.into(),
        Value::Null,
        Value::Null,
        source,
        described(0x29, vec![]),
    ];
    let Ok((Performative::Attach(attach, fields), _)) = decode(&list(0x12, &fields)) else {
        panic!("an attach");
    };
    answer_fields(&attach, &fields, source_answer)
}

fn answer_fields(
    attach: &Attach,
    fields: &AttachFields,
    source: Terminus<super::Source>,
) -> Vec<Value> {
    let frame = AttachFrame {
        name: &attach.name,
        handle: 0,
        role: Role::Sender,
        snd_settle_mode: Some(SenderSettleMode::Unsettled),
        rcv_settle_mode: fields.rcv_settle_mode.clone(),
        initial_delivery_count: Some(Serial(0xffff_fffb)),
        unsettled: 0,
        peer: fields,
    };
    let mut out = Vec::new();
    let answer = AttachAnswer {
        source,
        target: Terminus::Absent,
        ..AttachAnswer::default()
    };
    frame.write(&mut out, &answer).unwrap();
    let (value, used) = decode_value(&out).unwrap();
    assert_eq!(used, out.len());
    let Value::Described(described) = value else {
        panic!("described")
    };
    let Value::List(fields) = described.1 else {
        panic!("a list")
    };
    fields
}

#[test]
fn echoed_termini_keep_absent_fields_absent_and_given_defaults_given() {
    let filter = Value::Map(vec![(
        symbol("apache.org:selector-filter:string"),
        Value::Described(Box::new((
            symbol("apache.org:selector-filter:string"),
            string("a = 1"),
        ))),
    )]);
    let source = described(
        0x28,
        vec![
            string("/queues/q"),
            0.into(),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            filter,
        ],
    );
    let fields = answered(source.clone(), Terminus::Echo);
    assert_eq!(
        fields[3..7],
        [Value::Ubyte(0), Value::Null, source.clone(), Value::Null]
    );

    let fields = answered(source.clone(), Terminus::EchoWithOutcomes);
    let Value::Described(answer) = &fields[5] else {
        panic!("a source")
    };
    let (Value::List(given), Value::Described(source)) = (&answer.1, source) else {
        panic!()
    };
    let Value::List(asked) = source.1 else {
        panic!("a list")
    };
    assert_eq!(given[..8], asked[..8]);
    assert_eq!(given[8], described(0x26, vec![]));
    let Value::Array(outcomes) = &given[9] else {
        panic!("outcomes")
    };
    assert_eq!(outcomes.elements().len(), 4);
}

// The spec lets a field that may hold several values hold one without an array around it.
// [AMQP 1.4] "a field ... which is defined with multiple=true ... single value ... not an array"
#[test]
fn outcomes_that_were_asked_for_are_repeated() {
    let mut source = vec![Value::Null; 10];
    source[0] = string("q");
    source[9] = symbol("amqp:accepted:list");
    let fields = answered(described(0x28, source), Terminus::EchoWithOutcomes);
    let Value::Described(answer) = &fields[5] else {
        panic!("a source")
    };
    let Value::List(given) = &answer.1 else {
        panic!("a list")
    };
    assert_eq!(given[9], symbol("amqp:accepted:list"));
}

/// Values of every kind.
struct Generator(u64);

impl Generator {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn value(&mut self, depth: u32) -> Value {
        let byte = u8::try_from(self.next(256)).unwrap();
        let kinds = if depth == 0 { 18 } else { 23 };
        match self.next(kinds) {
            0 => Value::Null,
            1 => Value::Bool(byte & 1 == 0),
            2 => Value::Ubyte(byte),
            3 => Value::Ushort(byte.into()),
            4 => Value::Uint(u32::from(byte) << (byte & 0x18)),
            5 => Value::Ulong(u64::from(byte) << (byte & 0x38)),
            6 => Value::Byte(-3),
            7 => Value::Int(-300),
            8 => Value::Long(-1),
            9 => Value::Float(0x7fc0_0000),
            10 => Value::Double(1),
            11 => Value::Decimal32([1; 4]),
            12 => Value::Char(0x1f600),
            13 => Value::Timestamp(-1),
            14 => Value::Uuid([byte; 16]),
            15 => Value::Binary(Bytes::from(vec![byte; usize::from(byte) * 2])),
            16 => string("amqp:accepted:list"),
            17 => symbol("never"),
            18 => Value::List(self.values(depth)),
            19 => Value::Map((0..self.next(3)).map(|n| self.pair(n, depth)).collect()),
            20 => self.array(depth),
            _ => {
                let code = [0x23, 0x24, 0x25, 0x28, 0x29, 0x30, 0x1d, 0x34, byte.into()];
                let code = code[usize::from(byte) % code.len()];
                Value::Described(Box::new((Value::Ulong(code), self.value(depth - 1))))
            }
        }
    }

    fn values(&mut self, depth: u32) -> Vec<Value> {
        (0..self.next(5)).map(|_| self.value(depth - 1)).collect()
    }

    fn pair(&mut self, n: u64, depth: u32) -> (Value, Value) {
        (symbol(&format!("k{n}")), self.value(depth - 1))
    }

    fn array(&mut self, depth: u32) -> Value {
        let element = self.value(depth - 1);
        let bytes = {
            let mut out = Vec::new();
            encode_value(&element, &mut out);
            out
        };
        // An array of one element: its constructor, then the rest of it.
        let mut out = vec![0xf0];
        let size = u32::try_from(bytes.len() + 4).unwrap();
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&1_u32.to_be_bytes());
        out.extend_from_slice(&bytes);
        decode_value(&out).map_or(Value::Null, |(value, _)| value)
    }
}

// Whatever legal value stands in a field, decoding ends with a performative or an error.
#[test]
fn any_value_in_any_field_is_decoded_or_refused() {
    let mut generator = Generator(0x2545_f491_4f6c_dd1d);
    let mut decoded = 0;
    for _ in 0..40_000 {
        let code = 0x10 + generator.next(9);
        let good = match code {
            0x10 => vec![string("c"), string("h")],
            0x12 => vec![
                string("n"),
                0.into(),
                false.into(),
                Value::Ubyte(1),
                Value::Ubyte(0),
                described(0x28, vec![string("a")]),
                described(0x29, vec![string("a")]),
            ],
            0x17 | 0x18 => vec![described(0x1d, vec![symbol("amqp:not-found")])],
            _ => vec![Value::Uint(0); 4],
        };
        let mut fields = good;
        fields.resize(
            fields.len() + usize::try_from(generator.next(8)).unwrap(),
            Value::Null,
        );
        for _ in 0..=generator.next(2) {
            let at = usize::try_from(generator.next(fields.len() as u64)).unwrap();
            fields[at] = generator.value(4);
        }
        let bytes = list(code, &fields);
        let _ = describe(&bytes);
        decoded += usize::from(decode(&bytes).is_ok());
        let _ = SaslFrame::decode(&list(0x40 + generator.next(5), &fields));
    }
    assert!(decoded > 5_000, "{decoded}");
}

/// An attach with values in some of its fields.
fn attach_with(changes: Vec<(usize, Value)>) -> (Attach, AttachFields) {
    let mut fields = vec![Value::Null; 14];
    fields[0] = string("l");
    fields[1] = 0.into();
    fields[2] = false.into();
    for (index, value) in changes {
        fields[index] = value;
    }
    let bytes = list(0x12, &fields);
    let Ok((Performative::Attach(attach, fields), used)) = decode(&bytes) else {
        panic!("an attach: {:?}", decode(&bytes))
    };
    assert_eq!(used, bytes.len());
    (*attach, *fields)
}

// serde_amqp, which read performatives once, cannot read these: they were null then.
#[test]
fn arrays_of_every_kind_in_properties_are_read() {
    let map_array = [0xe0, 9, 1, 0xc1, 6, 2, 0xa3, 1, b'a', 0x52, 7];
    let empty_array = [0xe0, 2, 0, 0xa3];
    let described_array = [0xe0, 6, 1, 0, 0x53, 9, 0x50, 1];
    for bytes in [&map_array[..], &empty_array, &described_array] {
        let (array, _) = decode_value(bytes).unwrap();
        let properties = Value::Map(vec![
            (symbol("odd"), array.clone()),
            (symbol("paired"), true.into()),
        ]);
        let (attach, fields) = attach_with(vec![(11, array.clone()), (13, properties)]);
        let expect = [
            (Symbol::from("odd"), array),
            (Symbol::from("paired"), Value::Bool(true)),
        ];
        assert_eq!(attach.properties, Some(Fields::from_iter(expect)));
        assert_eq!(
            (attach.offered_capabilities, fields.unreadable),
            (None, None)
        );
    }
}

/// What another encoder writes, we write to the byte, and read back.
#[test]
fn performatives_are_written_as_another_encoder_writes_them() {
    use fe2o3_amqp::types::{definitions as theirs, performatives};
    use serde_amqp::primitives::{Array, Symbol as TheirSymbol};
    let long = "x".repeat(300);
    for capability in ["a", &*long] {
        let properties = [(TheirSymbol::from("k"), serde_amqp::Value::Uint(7))];
        let open = performatives::Open {
            container_id: "c".to_owned(),
            hostname: None,
            max_frame_size: 65_536.into(),
            channel_max: performatives::ChannelMax::default(),
            idle_time_out: Some(300),
            outgoing_locales: None,
            incoming_locales: None,
            offered_capabilities: Some(Array::from(vec![
                TheirSymbol::from("b"),
                TheirSymbol::from(capability),
            ])),
            desired_capabilities: None,
            properties: Some(properties.into_iter().collect()),
        };
        written_alike(&serde_amqp::to_vec(&open).unwrap());
    }
    let no_error = performatives::End { error: None };
    written_alike(&serde_amqp::to_vec(&no_error).unwrap());
    let error = theirs::Error::new(theirs::AmqpError::NotFound, "no".to_owned(), None);
    let close = performatives::Close { error: Some(error) };
    written_alike(&serde_amqp::to_vec(&close).unwrap());
    let begin = performatives::Begin {
        remote_channel: Some(1),
        next_outgoing_id: 0,
        incoming_window: 70_000,
        outgoing_window: 1,
        handle_max: 255.into(),
        offered_capabilities: None,
        desired_capabilities: None,
        properties: None,
    };
    written_alike(&serde_amqp::to_vec(&begin).unwrap());
}

fn written_alike(theirs: &[u8]) {
    let (performative, used) = decode(theirs).unwrap();
    assert_eq!(used, theirs.len());
    let mut ours = Vec::new();
    encode(&mut ours, &performative);
    assert_eq!(ours, theirs, "{performative:?}");
}

#[test]
fn termini_that_cannot_be_read_are_noted_and_properties_dropped() {
    let source = described(0x28, vec![Value::Uint(7)]);
    let (attach, fields) = attach_with(vec![(5, source)]);
    assert!(fields.unreadable.is_some() && attach.source.is_none());
    let (attach, fields) = attach_with(vec![(13, string("no map"))]);
    assert_eq!((attach.properties, fields.unreadable), (None, None));
}

// The reproduction of docs/upstream: when this fails, clients that use serde_amqp read arrays of maps.
#[test]
fn serde_amqp_still_cannot_read_an_array_of_maps() {
    let bytes = [0xe0, 9, 1, 0xc1, 6, 2, 0xa3, 1, b'a', 0x52, 7];
    let read = std::panic::catch_unwind(|| serde_amqp::from_slice::<serde_amqp::Value>(&bytes));
    let key = serde_amqp::Value::Symbol("a".into());
    let map = [(key, serde_amqp::Value::Uint(7))];
    let map = serde_amqp::Value::Map(map.into_iter().collect());
    let expect = serde_amqp::Value::Array(vec![map].into());
    let wrong = read.map_or(true, |read| !read.is_ok_and(|read| read == expect));
    assert!(wrong);
}

/// The frame of [`write_transfer`] says what it was asked to, whatever lengths its numbers take.
#[test]
fn transfer_frames_are_read_back() {
    let payload = b"payload";
    for (handle, id, format) in [
        (0, 0, 0),
        (0, 255, 0),
        (0, 256, 0),
        (0, u32::MAX, 0),
        (7, 255, 1),
        (255, 256, 255),
        (300, u32::MAX, 256),
    ] {
        for (settled, more, begins) in [
            (false, false, true),
            (true, false, true),
            (false, true, true),
            (true, true, true),
            (false, true, false),
            (false, false, false),
        ] {
            let first = begins.then_some(FirstTransfer {
                handle,
                delivery_id: Serial(id),
                message_format: format,
                settled,
            });
            let mut frame = vec![0xee];
            write_transfer(
                &mut frame,
                0x0102,
                handle,
                first.as_ref(),
                more,
                payload.len(),
            );
            frame.extend_from_slice(payload);
            let frame = &frame[1..];
            let header = FrameHeader::parse(frame, 1_000).unwrap().unwrap();
            assert_eq!((header.size, header.channel), (frame.len(), 0x0102));
            let (performative, used) = decode(&frame[header.body..]).unwrap();
            assert_eq!(&frame[header.body + used..], payload);
            let tag = match &performative {
                Performative::Transfer(transfer) => transfer.tag,
                other => panic!("{other:?}"),
            };
            let expect = Transfer {
                handle,
                delivery_id: begins.then_some(Serial(id)),
                tag_bytes: begins.then_some(if settled { 0 } else { 4 }),
                tag,
                message_format: begins.then_some(format),
                settled: begins.then_some(settled),
                more,
                ..Transfer::default()
            };
            assert_eq!(performative, Performative::Transfer(expect));
        }
    }
}

/// What is read and repeated of a source of the peer that receives.
fn kept_source(fields: &[(usize, Value)]) -> (Attach, Vec<Value>) {
    let mut source = vec![Value::Null; 11];
    source[0] = string("/queues/q");
    for (index, value) in fields {
        source[*index] = value.clone();
    }
    let attach = [
        string("l"),
        0.into(),
        true.into(),
        Value::Null,
        Value::Null,
        described(0x28, source),
        described(0x29, vec![]),
    ];
    let Ok((Performative::Attach(attach, fields), _)) = decode(&list(0x12, &attach)) else {
        panic!("an attach");
    };
    assert_eq!(fields.unreadable, None);
    let answer = answer_fields(&attach, &fields, Terminus::EchoWithOutcomes);
    let Value::Described(answer) = answer[5].clone() else {
        panic!("a source")
    };
    let Value::List(answer) = answer.1 else {
        panic!("a list")
    };
    (*attach, answer)
}

// The JavaScript client of RabbitMQ sends `LINK_DETACH` as expiry-policy on each link: the attach
// could not be read, and the link was refused.
#[test]
fn what_a_terminus_asks_for_and_nobody_keeps_reads_as_absent() {
    // [AMQP 3.5.3] [AMQP 3.5.5] [AMQP 3.5.6]
    let text = |text: &str| Value::Described(Box::new((symbol("x:y"), string(text))));
    let dropped = [
        (1, Value::Uint(1)),
        (1, Value::Uint(7)),
        (1, string("unsettled-state")),
        (2, symbol("LINK_DETACH")),
        (2, string("link-detach")),
        (2, symbol("never")),
        (3, Value::Uint(10)),
        (3, Value::Ulong(10)),
        (6, symbol("COPY")),
        (6, Value::Uint(1)),
        (7, Value::Map(vec![(symbol("x"), text("a"))])),
        (8, described(0x77, vec![])),
    ];
    for (index, value) in dropped {
        let (_, answer) = kept_source(&[(index, value.clone())]);
        let expect = if index == 8 {
            described(0x26, vec![])
        } else {
            Value::Null
        };
        assert_eq!(answer[index], expect, "field {index}: {value}");
    }
    let kept = [
        (1, Value::Uint(0)),
        (2, symbol("link-detach")),
        (3, Value::Uint(0)),
        (6, symbol("move")),
    ];
    let (_, answer) = kept_source(&kept);
    for (index, value) in kept {
        assert_eq!(answer[index], value, "field {index}");
    }
}

#[test]
fn only_the_filter_that_is_applied_is_repeated() {
    // [AMQP 3.5.3]
    let filter = |name: &str, text: &str| {
        let name = symbol(name);
        Value::Described(Box::new((name, string(text))))
    };
    let of = |key, text| {
        (
            symbol(key),
            filter("apache.org:selector-filter:string", text),
        )
    };
    let other = (symbol("n"), filter("apache.org:no-local-filter:list", "x"));
    let filters = Value::Map(vec![other, of("s", "a = 1"), of("t", "a = 2")]);
    let (attach, answer) = kept_source(&[(7, filters)]);
    assert_eq!(answer[7], Value::Map(vec![of("s", "a = 1")]));
    let read = attach.source.and_then(|source| source.filter);
    assert_eq!(read.map(|filters| filters.iter().len()), Some(1));
}

#[test]
fn terminus_of_the_peer_itself_is_repeated_as_it_is() {
    let target = described(
        0x29,
        vec![string("/queues/q"), Value::Uint(2), symbol("never")],
    );
    let source = described(0x28, vec![string("here"), Value::Uint(2), symbol("NEVER")]);
    let attach = [
        string("l"),
        0.into(),
        false.into(),
        Value::Null,
        Value::Null,
        source.clone(),
        target,
        Value::Null,
        Value::Null,
        0.into(),
    ];
    let Ok((Performative::Attach(attach, fields), _)) = decode(&list(0x12, &attach)) else {
        panic!("an attach");
    };
    let frame = AttachFrame {
        name: &attach.name,
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: None,
        rcv_settle_mode: None,
        initial_delivery_count: None,
        unsettled: 0,
        peer: &fields,
    };
    let mut out = Vec::new();
    frame.write(&mut out, &AttachAnswer::default()).unwrap();
    let (value, _) = decode_value(&out).unwrap();
    let Value::Described(answer) = value else {
        panic!("described")
    };
    let Value::List(answer) = answer.1 else {
        panic!("a list")
    };
    assert_eq!(answer[5], source);
    let ours = vec![string("/queues/q"), Value::Null, Value::Null];
    assert_eq!(answer[6], described(0x29, ours));
}

// [AMQP 4.5.1] A coordinator with its capabilities, of the controller and in the answer.
#[test]
fn a_coordinator_survives_a_round_trip() {
    for capabilities in [None, Some(vec![Symbol::from("amqp:local-transactions")])] {
        let coordinator = TargetArchetype::Coordinator { capabilities };
        let fields = AttachFields::default();
        let frame = AttachFrame {
            name: "l",
            handle: 0,
            role: Role::Receiver,
            snd_settle_mode: None,
            rcv_settle_mode: None,
            initial_delivery_count: None,
            unsettled: 0,
            peer: &fields,
        };
        let answer = AttachAnswer {
            target: Terminus::Given(Box::new(coordinator.clone())),
            ..AttachAnswer::default()
        };
        let mut out = Vec::new();
        frame.write(&mut out, &answer).unwrap();
        let Ok((Performative::Attach(attach, _), _)) = decode(&out) else {
            panic!("an attach");
        };
        assert_eq!(attach.target.as_deref(), Some(&coordinator));
        survives_typed(&attach);
    }
}

/// What the typed attach writes is read as the same.
fn survives_typed(attach: &Attach) {
    let mut out = Vec::new();
    encode(
        &mut out,
        &Performative::Attach(Box::new(attach.clone()), Box::default()),
    );
    let Ok((Performative::Attach(again, _), _)) = decode(&out) else {
        panic!("an attach");
    };
    assert_eq!(*again, *attach);
}

/// It ends the session, as any state that is no outcome: not the connection.
#[test]
fn modified_with_strings_as_keys_is_no_outcome() {
    let mut bytes = Vec::new();
    wire::write_descriptor(&mut bytes, codes::MODIFIED);
    let modified = wire::begin_list(&mut bytes);
    wire::write_null(&mut bytes);
    wire::write_null(&mut bytes);
    let map = wire::begin_map(&mut bytes);
    wire::write_string(&mut bytes, "x-opt-a");
    wire::write_string(&mut bytes, "b");
    wire::end(&mut bytes, map, 2);
    wire::end(&mut bytes, modified, 3);
    let descriptor = codes::MODIFIED;
    assert_eq!(
        DeliveryState::decode(&bytes),
        Ok(DeliveryState::Unknown { descriptor })
    );
}
