//! One client connection of the load generator: a handshake that waits, then a socket that never does.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::BenchError;
use super::codec::{
    Fields, Item, Performative, code, described, split_frame, text, uint, write_performative,
};

/// Longest wait for an answer of the broker before the load starts, and for a delete after it.
const ANSWER_WAIT: Duration = Duration::from_mins(1);
/// The max-frame-size the generator announces, in bytes.
const FRAME_BYTES_MAX: u32 = 131_072;
/// Bytes read from a socket at a time; more than one frame of the largest size.
const READ_BYTES: usize = 256 * 1024;
/// The session's incoming window, in transfer frames: as good as none.
pub(super) const INCOMING_WINDOW: u32 = 0x7fff_ffff;
/// The channel's and session's outgoing window, in transfer frames.
pub(super) const OUTGOING_WINDOW: u32 = 0x7fff_ffff;

/// The address and credentials for a connection.
pub(super) struct ConnectTarget {
    /// Host and port, as `host:port`.
    pub(super) address: String,
    pub(super) user: String,
    pub(super) password: String,
    /// The vhost; none: the broker's default.
    pub(super) vhost: Option<String>,
}

/// A connection with one session on channel 0.
pub(super) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    input_start: usize,
    input_end: usize,
    output: Vec<u8>,
    output_start: usize,
    /// Largest frame that the peer accepts, in bytes.
    pub(super) frame_bytes_max: usize,
    /// The idle timeout of the peer; none: it has none.
    idle_timeout: Option<Duration>,
    /// The peer's session window: transfers that may be sent before its next flow.
    pub(super) incoming_window: u32,
    /// Id of the peer's first transfer.
    pub(super) first_transfer_id: u32,
}

impl Connection {
    /// Connects, authenticates, opens and begins, waiting for each answer. `container` is the
    /// prefix of the container id.
    #[allow(
        clippy::disallowed_methods,
        reason = "a load generator is a client of its own"
    )]
    pub(super) fn open(peer: &ConnectTarget, container: &str) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(&peer.address).map_err(BenchError::io("connecting"))?;
        let port = stream.local_addr().map_or(0, |address| address.port());
        let mut connection = Self {
            stream,
            input: vec![0; READ_BYTES],
            input_start: 0,
            input_end: 0,
            output: Vec::new(),
            output_start: 0,
            frame_bytes_max: 512,
            idle_timeout: None,
            incoming_window: 0,
            first_transfer_id: 0,
        };
        connection
            .stream
            .set_nodelay(true)
            .map_err(BenchError::io("setting no-delay"))?;
        let wait = Some(ANSWER_WAIT);
        connection
            .stream
            .set_read_timeout(wait)
            .map_err(BenchError::io("setting a timeout"))?;
        connection.authenticate(peer)?;
        // A link of the same name from the same container would steal this one. [AMQP 2.6.1]
        connection.open_session(peer, &format!("{container}-{port}"))?;
        Ok(connection)
    }

    fn authenticate(&mut self, peer: &ConnectTarget) -> Result<(), BenchError> {
        self.protocol_header(3)?;
        self.answer(|_| ())?;
        let response = format!("\0{}\0{}", peer.user, peer.password);
        let fields = vec![Item::Symbol("PLAIN"), Item::Binary(response.as_bytes())];
        write_performative(&mut self.output, 1, code::SASL_INIT, fields);
        self.flush_all()?;
        match self.answer(|outcome| outcome.fields.field(0).map(<[u8]>::to_vec))? {
            Some(code) if code == [0x50, 0] => Ok(()),
            _ => Err(BenchError::Refused {
                what: "the user or password",
                why: String::new(),
            }),
        }
    }

    fn open_session(&mut self, peer: &ConnectTarget, container: &str) -> Result<(), BenchError> {
        self.protocol_header(0)?;
        let host = match &peer.vhost {
            Some(vhost) => format!("vhost:{vhost}"),
            None => peer.address.clone(),
        };
        let open = vec![
            Item::Text(container),
            Item::Text(&host),
            Item::Uint(FRAME_BYTES_MAX),
        ];
        write_performative(&mut self.output, 0, code::OPEN, open);
        let windows = [INCOMING_WINDOW, OUTGOING_WINDOW].map(Item::Uint);
        let mut begin = vec![Item::Null, Item::Uint(0)];
        begin.extend(windows);
        write_performative(&mut self.output, 0, code::BEGIN, begin);
        self.flush_all()?;
        let (frame_bytes_max, idle) = self.wait_for(code::OPEN, |open| {
            (uint(open.fields.field(2)), uint(open.fields.field(4)))
        })?;
        self.frame_bytes_max = frame_bytes_max.unwrap_or(u32::MAX).min(FRAME_BYTES_MAX) as usize;
        self.idle_timeout = idle.map(|ms| Duration::from_millis(ms.into()));
        let (first, window) = self.wait_for(code::BEGIN, |begin| {
            (uint(begin.fields.field(1)), uint(begin.fields.field(2)))
        })?;
        self.first_transfer_id = first.unwrap_or(0);
        self.incoming_window = window.unwrap_or(0);
        Ok(())
    }

    /// Sends a protocol header and reads the peer's. [AMQP 2.2]
    fn protocol_header(&mut self, protocol: u8) -> Result<(), BenchError> {
        let header = [b'A', b'M', b'Q', b'P', protocol, 1, 0, 0];
        self.output.extend(header);
        self.flush_all()?;
        while self.input_end - self.input_start < header.len() {
            self.wait_for_bytes()?;
        }
        let answer = self
            .input
            .get(self.input_start..self.input_start + header.len());
        if answer != Some(&header) {
            return Err(BenchError::Malformed("a protocol header"));
        }
        self.input_start += header.len();
        Ok(())
    }

    /// Attaches one link and waits for the peer's attach. Returns its initial delivery-count.
    pub(super) fn attach(&mut self, link: &Link<'_>) -> Result<u32, BenchError> {
        link.write(&mut self.output);
        self.flush_all()?;
        let terminus = if link.receiver { 5 } else { 6 };
        let (there, count) = self.wait_for(code::ATTACH, |attach| {
            let there = described(attach.fields.field(terminus)).is_some();
            (there, uint(attach.fields.field(9)))
        })?;
        if there {
            return Ok(count.unwrap_or(0));
        }
        // A refused link is attached without its terminus and then detached with the reason.
        self.wait_for(code::DETACH, |_| ())?;
        Err(BenchError::Refused {
            what: "a link",
            why: link.address.to_owned(),
        })
    }

    /// Waits for the next frame with a performative, whichever it is.
    pub(super) fn answer<T>(
        &mut self,
        read: impl FnOnce(&Performative<'_>) -> T,
    ) -> Result<T, BenchError> {
        loop {
            let input = self
                .input
                .get(self.input_start..self.input_end)
                .unwrap_or_default();
            let Some((body, size)) = split_frame(input)? else {
                self.wait_for_bytes()?;
                continue;
            };
            self.input_start += size;
            if let Some(performative) = Performative::read(body)? {
                return Ok(read(&performative));
            }
        }
    }

    /// Waits for one performative; flows before it are ignored, an error ends the wait.
    fn wait_for<T>(
        &mut self,
        wanted: u8,
        read: impl FnOnce(&Performative<'_>) -> T,
    ) -> Result<T, BenchError> {
        let mut read = Some(read);
        loop {
            let came = self.answer(|performative| {
                if performative.code == wanted {
                    return Ok(read.take().map(|read| read(performative)));
                }
                match performative.code {
                    code::FLOW => Ok(None),
                    _ => Err(unexpected(performative)),
                }
            })??;
            if let Some(result) = came {
                return Ok(result);
            }
        }
    }

    /// Ends the handshake: from here on the socket is non-blocking.
    pub(super) fn start(&self) -> Result<(), BenchError> {
        self.stream
            .set_nonblocking(true)
            .map_err(BenchError::io("setting non-blocking"))
    }

    /// Closes the connection so that nothing sent is lost: waits for the peer's close.
    pub(super) fn close(&mut self) -> Result<(), BenchError> {
        let blocking = self.stream.set_nonblocking(false);
        blocking.map_err(BenchError::io("setting blocking"))?;
        write_performative(&mut self.output, 0, code::CLOSE, Vec::new());
        self.flush_all()?;
        while self.answer(|frame| frame.code)? != code::CLOSE {}
        Ok(())
    }

    /// The socket alone, to be kept open.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The socket, to poll.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The buffer to which frames are appended.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes not yet written to the socket.
    pub(super) fn pending_bytes(&self) -> usize {
        self.output.len() - self.output_start
    }

    /// Half the peer's idle timeout: the interval of heartbeats.
    pub(super) fn heartbeat_every(&self) -> Option<Duration> {
        self.idle_timeout.map(|idle| idle / 2)
    }

    /// Writes as much as the socket takes; true when anything was written.
    pub(super) fn flush(&mut self) -> Result<bool, BenchError> {
        let mut wrote = false;
        while let Some(rest) = self
            .output
            .get(self.output_start..)
            .filter(|rest| !rest.is_empty())
        {
            match self.stream.write(rest) {
                Ok(size) => {
                    wrote = true;
                    self.output_start += size;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(wrote),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(BenchError::io("writing")(error)),
            }
        }
        self.output.clear();
        self.output_start = 0;
        Ok(wrote)
    }

    /// Writes the whole buffer, waiting for the socket.
    pub(super) fn flush_all(&mut self) -> Result<(), BenchError> {
        while self.pending_bytes() > 0 {
            self.flush()?;
        }
        Ok(())
    }

    /// Reads once, then passes each complete frame to `each`, with the output for answers. Returns
    /// whether there were frames.
    pub(super) fn read_frames(
        &mut self,
        mut each: impl FnMut(&Performative<'_>, &mut Vec<u8>) -> Result<(), BenchError>,
    ) -> Result<bool, BenchError> {
        self.fill()?;
        let mut came = false;
        loop {
            let input = self
                .input
                .get(self.input_start..self.input_end)
                .unwrap_or_default();
            let Some((body, size)) = split_frame(input)? else {
                return Ok(came);
            };
            if let Some(performative) = Performative::read(body)? {
                each(&performative, &mut self.output)?;
            }
            self.input_start += size;
            came = true;
        }
    }

    fn wait_for_bytes(&mut self) -> Result<(), BenchError> {
        if self.fill()? {
            return Ok(());
        }
        Err(BenchError::Ended {
            why: format!("no answer within {ANSWER_WAIT:?}"),
        })
    }

    /// Reads once into the buffer; false when there is nothing to read now.
    fn fill(&mut self) -> Result<bool, BenchError> {
        self.input.copy_within(self.input_start..self.input_end, 0);
        self.input_end -= self.input_start;
        self.input_start = 0;
        let room = self.input.get_mut(self.input_end..).unwrap_or_default();
        if room.is_empty() {
            return Err(BenchError::Malformed("a frame longer than announced"));
        }
        match self.stream.read(room) {
            Ok(0) => Err(BenchError::Ended {
                why: "the broker closed the socket".to_owned(),
            }),
            Ok(size) => {
                self.input_end += size;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(BenchError::io("reading")(error)),
        }
    }
}

/// The properties of a link to attach.
pub(super) struct Link<'a> {
    pub(super) name: &'a str,
    pub(super) handle: u32,
    pub(super) receiver: bool,
    /// The source of a receiver, the target of a sender.
    pub(super) address: &'a str,
    pub(super) settled: bool,
    /// Whether it is one half of the management pair.
    pub(super) paired: bool,
}

impl Link<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let address = || vec![Item::Text(self.address)];
        let (source, target) = match (self.receiver, self.paired) {
            (_, true) => (address(), address()),
            (true, false) => (address(), Vec::new()),
            (false, false) => (Vec::new(), address()),
        };
        let mut fields = vec![
            Item::Text(self.name),
            Item::Uint(self.handle),
            Item::Bool(self.receiver),
            Item::Ubyte(u8::from(self.settled)),
            Item::Ubyte(0),
            Item::Described(code::SOURCE, source),
            Item::Described(code::TARGET, target),
            Item::Null,
            Item::Null,
            if self.receiver {
                Item::Null
            } else {
                Item::Uint(0)
            },
        ];
        if self.paired {
            fields.extend([Item::Null, Item::Null, Item::Null]);
            fields.push(Item::Map(vec![(Item::Symbol("paired"), Item::Bool(true))]));
        }
        write_performative(out, 0, code::ATTACH, fields);
    }
}

/// The error for a performative that should not have come.
pub(super) fn unexpected(performative: &Performative<'_>) -> BenchError {
    let error = match performative.code {
        code::DETACH => performative.fields.field(2),
        code::END | code::CLOSE => performative.fields.field(0),
        other => return BenchError::Unexpected { code: other },
    };
    let error = Fields::of_list(described(error).unwrap_or_default());
    let [condition, description] = [0, 1].map(|index| text(error.field(index)).unwrap_or_default());
    BenchError::Ended {
        why: format!("{condition} {description}").trim().to_owned(),
    }
}
