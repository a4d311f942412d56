//! A client of single, even illegal, performatives, for tests against a live broker. Its codec is
//! its own: what the broker's codec cannot say must still be sendable.

#![allow(
    clippy::disallowed_methods,
    reason = "tests open sockets and read a clock"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Codes of performatives. [AMQP 2.7]
pub const OPEN: u8 = 0x10;
pub const BEGIN: u8 = 0x11;
pub const ATTACH: u8 = 0x12;
pub const FLOW: u8 = 0x13;
pub const TRANSFER: u8 = 0x14;
pub const DISPOSITION: u8 = 0x15;
pub const DETACH: u8 = 0x16;
pub const END: u8 = 0x17;
pub const CLOSE: u8 = 0x18;

/// Longest wait for an answer that must come.
pub const ANSWER_MAX: Duration = Duration::from_mins(1);

/// The header that begins AMQP, and the one that begins SASL.
pub const AMQP_HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";
pub const SASL_HEADER: &[u8] = b"AMQP\x03\x01\x00\x00";

/// Encoded values.
pub fn null() -> Vec<u8> {
    vec![0x40]
}
pub fn truth(flag: bool) -> Vec<u8> {
    vec![if flag { 0x41 } else { 0x42 }]
}
pub fn ubyte(number: u8) -> Vec<u8> {
    vec![0x50, number]
}
pub fn uint(number: u32) -> Vec<u8> {
    [&[0x70], &number.to_be_bytes()[..]].concat()
}
pub fn binary(bytes: &[u8]) -> Vec<u8> {
    [&[0xb0], &size(bytes)[..], bytes].concat()
}
pub fn text(text: &str) -> Vec<u8> {
    [&[0xb1], &size(text.as_bytes())[..], text.as_bytes()].concat()
}
pub fn symbol(text: &str) -> Vec<u8> {
    [&[0xb3], &size(text.as_bytes())[..], text.as_bytes()].concat()
}
pub fn list(fields: &[Vec<u8>]) -> Vec<u8> {
    compound(0xd0, fields)
}
pub fn map(pairs: &[Vec<u8>]) -> Vec<u8> {
    compound(0xd1, pairs)
}
pub fn described(code: u8, value: &[u8]) -> Vec<u8> {
    [&[0x00, 0x53, code], value].concat()
}

/// A performative: a described list.
pub fn performative(code: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    described(code, &list(fields))
}

fn compound(code: u8, values: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(values.len()).expect("few values");
    let body = [&count.to_be_bytes()[..], &values.concat()].concat();
    [&[code], &size(&body)[..], &body].concat()
}

fn size(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len())
        .expect("a small value")
        .to_be_bytes()
}

/// A frame of a kind (0 AMQP, 1 SASL) on a channel.
pub fn frame(kind: u8, channel: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).expect("a small frame");
    let [high, low] = channel.to_be_bytes();
    [&length.to_be_bytes()[..], &[2, kind, high, low], body].concat()
}

/// A frame that came: its channel, its performative's code (0 for an empty frame) and its body.
#[derive(Clone, Debug)]
pub struct Came {
    pub channel: u16,
    pub code: u8,
    pub body: Vec<u8>,
}

impl Came {
    /// Whether the body names this error condition.
    pub fn says(&self, condition: &str) -> bool {
        let condition = condition.as_bytes();
        self.body
            .windows(condition.len())
            .any(|part| part == condition)
    }
}

/// A connection with so many bytes of room for what is sent to it.
pub fn stream_with_room(port: u16, bytes: u32) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a socket");
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let stream = socket.connect(address).await.expect("the broker listens");
        stream.into_std().expect("a socket")
    });
    stream.set_nonblocking(false).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// A connection of raw frames.
pub struct Raw {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Raw {
    /// Connects and sends nothing.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            input: Vec::new(),
        }
    }

    fn connect_with_little_room(port: u16) -> Self {
        Self {
            stream: stream_with_room(port, 4 * 1024),
            input: Vec::new(),
        }
    }

    /// Connects and logs in as guest; `open` is still to be sent.
    pub fn authenticated(port: u16) -> Self {
        Self::authenticated_as(port, "guest")
    }

    /// The same as a user whose password is its name.
    pub fn authenticated_as(port: u16, user: &str) -> Self {
        Self::connect(port).log_in(user)
    }

    fn log_in(mut self, user: &str) -> Self {
        let login = format!("\0{user}\0{user}");
        let accepted = self.log_in_by("PLAIN", login.as_bytes());
        assert!(accepted, "{user} may not log in");
        self
    }

    /// Logs in by a mechanism with this response; whether it may.
    pub fn log_in_by(&mut self, mechanism: &str, response: &[u8]) -> bool {
        let init = [symbol(mechanism), binary(response)];
        self.send(SASL_HEADER);
        self.send(&frame(1, 0, &performative(0x41, &init)));
        self.send(AMQP_HEADER);
        let outcome = self.wait_for(0x44);
        outcome.body.windows(2).any(|part| part == ubyte(0))
    }

    /// Connects, logs in, opens and begins a session on channel 0.
    pub fn begun(port: u16) -> Self {
        Self::begun_as(port, "guest")
    }

    /// The same as a user whose password is its name.
    pub fn begun_as(port: u16, user: &str) -> Self {
        Self::authenticated_as(port, user).open()
    }

    /// The same as guest, with so little room for what is sent to it that the broker notices at once
    /// when nothing is read.
    pub fn begun_with_little_room(port: u16) -> Self {
        Self::connect_with_little_room(port).log_in("guest").open()
    }

    /// Opens and begins a session on channel 0.
    pub fn open(mut self) -> Self {
        self.perform(OPEN, &[text("raw"), text("localhost")]);
        self.begin(0);
        self.wait_for(OPEN);
        self.wait_for(BEGIN);
        self
    }

    /// Sends `begin` with wide windows.
    pub fn begin(&mut self, channel: u16) {
        let begin = [null(), uint(0), uint(0x7fff_ffff), uint(0x7fff_ffff)];
        self.send(&frame(0, channel, &performative(BEGIN, &begin)));
    }

    /// Sends one performative on channel 0.
    pub fn perform(&mut self, code: u8, fields: &[Vec<u8>]) {
        self.send(&frame(0, 0, &performative(code, fields)));
    }

    /// Attaches a sender (to a queue) on a handle and waits for the answer.
    pub fn attach_sender(&mut self, handle: u32, queue: &str) -> Came {
        self.attach(handle, false, &format!("/queues/{queue}"))
    }

    /// Attaches a receiver (from a queue) on a handle and waits for the answer.
    pub fn attach_receiver(&mut self, handle: u32, queue: &str) -> Came {
        self.attach(handle, true, &format!("/queues/{queue}"))
    }

    fn attach(&mut self, handle: u32, receiver: bool, address: &str) -> Came {
        self.perform(ATTACH, &attach(handle, receiver, address));
        self.wait_for(ATTACH)
    }

    /// Gives a receiver credit; all counts start where the broker's do.
    pub fn credit(&mut self, handle: u32, delivery_count: u32, credit: u32) {
        let fields = [
            uint(0xffff_fffc),
            uint(0x7fff_ffff),
            uint(0),
            uint(0x7fff_ffff),
            uint(handle),
            uint(delivery_count),
            uint(credit),
        ];
        self.perform(FLOW, &fields);
    }

    /// Sends one message of one data section in one transfer.
    pub fn publish(&mut self, handle: u32, id: u32, settled: bool, body: &[u8]) {
        let transfer = transfer(handle, id, settled, false);
        let section = described(0x75, &binary(body));
        self.send(&frame(0, 0, &[transfer, section].concat()));
    }

    /// Declares a queue through `/management`.
    pub fn declare(port: u16, queue: &str) {
        Self::declare_with(port, queue, &[]);
    }

    /// The same, exclusive to the connection that is returned.
    pub fn with_exclusive_queue(port: u16, queue: &str) -> Self {
        Self::declare_with(port, queue, &[text("exclusive"), truth(true)])
    }

    fn declare_with(port: u16, queue: &str, body: &[Vec<u8>]) -> Self {
        let mut raw = Self::managing(port, "guest");
        let answer = raw.manage(0, ("PUT", &format!("/queues/{queue}")), &map(body));
        assert!(answer.says("201") || answer.says("200"), "{answer:?}");
        raw
    }

    /// A connection of a user whose password is its name, with a pair of links to `/management`.
    pub fn managing(port: u16, user: &str) -> Self {
        Self::begun_as(port, user).manages()
    }

    /// The same connection with a pair of links to `/management`.
    pub fn manages(mut self) -> Self {
        let raw = &mut self;
        for (handle, receiver) in [(0, false), (1, true)] {
            let mut fields = attach(handle, receiver, "/management");
            fields[0] = text("pair");
            fields[3] = ubyte(1);
            fields[5] = described(0x28, &list(&[text("/management")]));
            fields[6] = described(0x29, &list(&[text("/management")]));
            fields.extend([null(), null(), null()]);
            fields.push(map(&[symbol("paired"), truth(true)]));
            raw.perform(ATTACH, &fields);
            raw.wait_for(ATTACH);
        }
        raw.credit(1, 0xffff_fffb, 1_000);
        self
    }

    /// Sends a request with this number to `/management`, and waits for the answer.
    pub fn manage(&mut self, id: u32, (method, path): (&str, &str), body: &[u8]) -> Came {
        let properties = [text("id"), null(), text(path), text(method), text("$me")];
        let request = [
            transfer(0, id, true, false),
            performative(0x73, &properties),
            described(0x77, body),
        ];
        self.send(&frame(0, 0, &request.concat()));
        self.wait_for(TRANSFER)
    }

    /// Sends bytes; a broker that has closed the socket meanwhile is no failure here.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// The next frame within `limit`; `None` when none came or the socket was closed.
    pub fn next(&mut self, limit: Duration) -> Option<Came> {
        let deadline = Instant::now() + limit;
        loop {
            if self.input.starts_with(b"AMQP") && self.input.len() >= 8 {
                self.input.drain(..8);
            }
            if let Some(header) = self.input.first_chunk::<8>().filter(|it| it[0] != b'A') {
                let size =
                    u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
                let channel = u16::from_be_bytes([header[6], header[7]]);
                if self.input.len() >= size {
                    let body = self.input.drain(..size).skip(8).collect::<Vec<_>>();
                    let code = body.get(2).copied().unwrap_or(0);
                    return Some(Came {
                        channel,
                        code,
                        body,
                    });
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left) {
                return None;
            }
        }
    }

    /// Waits for a frame with this performative, passing over others.
    pub fn wait_for(&mut self, code: u8) -> Came {
        let deadline = Instant::now() + ANSWER_MAX;
        let mut passed = Vec::new();
        while let Some(came) = self.next(deadline.saturating_duration_since(Instant::now())) {
            if came.code == code {
                return came;
            }
            passed.push(came);
        }
        panic!("no {code:#04x} came within {ANSWER_MAX:?}, only {passed:x?}");
    }

    /// Whether the broker closes the socket within `limit`.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let before = self.input.len();
            if !self.fill(left) && self.input.len() == before {
                return Instant::now() < deadline;
            }
        }
    }

    fn fill(&mut self, limit: Duration) -> bool {
        let mut chunk = [0; 8 * 1024];
        self.stream.set_read_timeout(Some(limit)).expect("a socket");
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(size) => {
                self.input.extend_from_slice(&chunk[..size]);
                true
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }
}

/// The fields of an attach with a version 2 address.
pub fn attach(handle: u32, receiver: bool, address: &str) -> Vec<Vec<u8>> {
    let (source, target) = if receiver {
        (list(&[text(address)]), list(&[]))
    } else {
        (list(&[]), list(&[text(address)]))
    };
    vec![
        text(&format!("link-{handle}")),
        uint(handle),
        truth(receiver),
        ubyte(2),
        ubyte(0),
        described(0x28, &source),
        described(0x29, &target),
        null(),
        null(),
        uint(0),
    ]
}

/// A transfer performative without its payload.
pub fn transfer(handle: u32, id: u32, settled: bool, more: bool) -> Vec<u8> {
    let tag = id.to_be_bytes();
    let fields = [
        uint(handle),
        uint(id),
        binary(&tag),
        uint(0),
        truth(settled),
        truth(more),
    ];
    performative(TRANSFER, &fields)
}
