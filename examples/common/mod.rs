//! What the examples share: where the broker is, and a small client of its management node.
#![allow(dead_code, reason = "each example uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "an example opens sockets")]

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use coroner::wire::{Value, decode_value, encode_value};
use fe2o3_amqp::Receiver;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::primitives::{self, Symbol};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// `HOST:PORT` of the broker: the first argument (a port alone is one of this machine), or where
/// `coroner serve` listens by default.
pub fn broker_address() -> String {
    match std::env::args().nth(1) {
        Some(address) if address.contains(':') => address,
        Some(port) => format!("127.0.0.1:{port}"),
        None => "127.0.0.1:5672".to_owned(),
    }
}

/// The same as a URL for an AMQP client.
pub fn broker_url() -> String {
    format!("amqp://guest:guest@{}", broker_address())
}

/// Declares a queue with these arguments; one that exists with the same arguments is as good.
pub fn declare_queue(name: &str, arguments: &[(&str, Value)]) -> Result<()> {
    let arguments = arguments
        .iter()
        .map(|(key, value)| (Value::string(*key), value.clone()));
    let body = Value::Map(vec![(
        Value::string("arguments"),
        Value::Map(arguments.collect()),
    )]);
    let mut management = Management::connect(&broker_address(), None)?;
    let (code, answer) = management.request("PUT", &format!("/queues/{name}"), body)?;
    if code != "200" && code != "201" {
        return Err(format!("{name} was not declared: {code} {answer:?}").into());
    }
    Ok(())
}

/// A receiver of dead letters that asks for their history as a list, or for none.
///
/// `x-opt-deaths` is an array of maps unless a receiver asks for something else, and `serde_amqp`
/// 0.18 cannot decode an array of maps.
pub async fn receive_dead_letters(
    session: &mut SessionHandle<()>,
    queue: &str,
    encoding: &str,
) -> Result<Receiver> {
    let mut properties = Fields::new();
    let encoding = primitives::Value::Symbol(Symbol::from(encoding));
    properties.insert(Symbol::from("x-opt-deaths-encoding"), encoding);
    let receiver = Receiver::builder()
        .name(format!("dead letters of {queue}"))
        .source(format!("/queues/{queue}"))
        .properties(properties)
        .attach(session)
        .await?;
    Ok(receiver)
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// The management node `/management`: requests and answers over a pair of links of one name.
///
/// Written on plain frames: the fe2o3-amqp client tells its links apart by their name alone and so
/// cannot attach a sender and a receiver of one name.
pub struct Management {
    stream: TcpStream,
    delivery_id: u32,
}

// Descriptors of the performatives and sections used here. [AMQP 2.7, 3.2, 5.3]
const OPEN: u64 = 0x10;
const BEGIN: u64 = 0x11;
const ATTACH: u64 = 0x12;
const FLOW: u64 = 0x13;
const TRANSFER: u64 = 0x14;
const SOURCE: u64 = 0x28;
const TARGET: u64 = 0x29;
const SASL_MECHANISMS: u64 = 0x40;
const SASL_INIT: u64 = 0x41;
const SASL_OUTCOME: u64 = 0x44;
const PROPERTIES: u64 = 0x73;
const AMQP_VALUE: u64 = 0x77;

const AMQP_FRAME: u8 = 0;
const SASL_FRAME: u8 = 1;
const REQUESTS: u32 = 0;
const ANSWERS: u32 = 1;
/// How many requests one connection can make: the credit for their answers.
const ANSWERS_MAX: u32 = 2000;

impl Management {
    /// Logs in as guest and attaches the pair; the hostname `vhost:NAME` enters that vhost.
    pub fn connect(address: &str, hostname: Option<&str>) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut management = Self {
            stream,
            delivery_id: 0,
        };
        management.authenticate()?;
        management.open(hostname)?;
        Ok(management)
    }

    fn authenticate(&mut self) -> Result<()> {
        self.header(*b"AMQP\x03\x01\x00\x00")?;
        self.await_frame(SASL_MECHANISMS)?;
        let response = Value::Binary("\0guest\0guest".into());
        self.send(
            SASL_FRAME,
            SASL_INIT,
            vec![Value::symbol("PLAIN"), response],
            &[],
        )?;
        let (outcome, _) = self.await_frame(SASL_OUTCOME)?;
        if outcome.first() != Some(&Value::Ubyte(0)) {
            return Err("guest was not let in".into());
        }
        self.header(*b"AMQP\x00\x01\x00\x00")
    }

    fn open(&mut self, hostname: Option<&str>) -> Result<()> {
        let hostname = hostname.map_or(Value::Null, Value::string);
        let open = vec![Value::string("example"), hostname];
        self.send(AMQP_FRAME, OPEN, open, &[])?;
        self.await_frame(OPEN)?;
        let windows = [0, 2048, 2048].map(Value::Uint);
        self.send(
            AMQP_FRAME,
            BEGIN,
            [&[Value::Null], &windows[..]].concat(),
            &[],
        )?;
        let (begin, _) = self.await_frame(BEGIN)?;
        self.attach(REQUESTS)?;
        self.await_frame(ATTACH)?;
        self.await_frame(FLOW)?;
        self.attach(ANSWERS)?;
        let (attach, _) = self.await_frame(ATTACH)?;
        let incoming_id = begin.get(1).cloned().unwrap_or(Value::Null);
        let delivery_count = attach.get(9).cloned().unwrap_or(Value::Null);
        let (handle, credit) = (Value::Uint(ANSWERS), Value::Uint(ANSWERS_MAX));
        let flow = [
            incoming_id,
            Value::Uint(2048),
            Value::Uint(0),
            Value::Uint(2048),
            handle,
        ];
        self.send(
            AMQP_FRAME,
            FLOW,
            [&flow[..], &[delivery_count, credit]].concat(),
            &[],
        )
    }

    /// One link of the pair; the broker knows them as one by their name and the property.
    fn attach(&mut self, handle: u32) -> Result<()> {
        let receives = handle == ANSWERS;
        let node = Value::string("/management");
        let (source, target) = if receives {
            (node, Value::string("me"))
        } else {
            (Value::string("me"), node)
        };
        let paired = Value::Map(vec![(Value::symbol("paired"), Value::Bool(true))]);
        let mut fields = vec![
            Value::string("management"),
            Value::Uint(handle),
            Value::Bool(receives),
            Value::Ubyte(1), // settled
            Value::Ubyte(0),
            described(SOURCE, Value::List(vec![source])),
            described(TARGET, Value::List(vec![target])),
            Value::Null,
            Value::Null,
            if receives {
                Value::Null
            } else {
                Value::Uint(0)
            },
        ];
        fields.extend([Value::Null, Value::Null, Value::Null, paired]);
        self.send(AMQP_FRAME, ATTACH, fields, &[])
    }

    /// The code and the body of the answer.
    pub fn request(&mut self, method: &str, path: &str, body: Value) -> Result<(String, Value)> {
        let (id, to, subject) = (
            Value::string("1"),
            Value::string(path),
            Value::string(method),
        );
        let properties = vec![id, Value::Null, to, subject, Value::string("$me")];
        let mut message = Vec::new();
        encode_value(
            &described(PROPERTIES, Value::List(properties)),
            &mut message,
        );
        encode_value(&described(AMQP_VALUE, body), &mut message);
        let tag = Value::Binary("request".into());
        let transfer = [
            Value::Uint(REQUESTS),
            Value::Uint(self.delivery_id),
            tag,
            Value::Uint(0),
        ];
        let fields = [&transfer[..], &[Value::Bool(true)]].concat();
        self.send(AMQP_FRAME, TRANSFER, fields, &message)?;
        self.delivery_id += 1;
        let (_, answer) = self.await_frame(TRANSFER)?;
        let (mut code, mut body) = (String::new(), Value::Null);
        let mut rest = &answer[..];
        while !rest.is_empty() {
            let (section, length) = decode_value(rest)?;
            rest = rest.get(length..).unwrap_or_default();
            match take_described(section) {
                Some((PROPERTIES, Value::List(fields))) => {
                    fields
                        .get(3)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .clone_into(&mut code);
                }
                Some((AMQP_VALUE, value)) => body = value,
                _ => {}
            }
        }
        Ok((code, body))
    }

    // ------------------------------------------------------------ frames

    /// Sends our protocol header and reads the broker's. [AMQP 2.2]
    fn header(&mut self, ours: [u8; 8]) -> Result<()> {
        self.stream.write_all(&ours)?;
        let mut theirs = [0; 8];
        self.stream.read_exact(&mut theirs)?;
        if theirs == ours {
            Ok(())
        } else {
            Err(format!("header {theirs:?}").into())
        }
    }

    fn send(&mut self, kind: u8, code: u64, fields: Vec<Value>, payload: &[u8]) -> Result<()> {
        let mut body = Vec::new();
        encode_value(&described(code, Value::List(fields)), &mut body);
        body.extend_from_slice(payload);
        let size = u32::try_from(body.len() + 8)?;
        let frame = [&size.to_be_bytes()[..], &[2, kind, 0, 0], &body].concat();
        Ok(self.stream.write_all(&frame)?)
    }

    /// The fields and the payload of the next frame of this kind; flows between are passed over.
    fn await_frame(&mut self, wanted: u64) -> Result<(Vec<Value>, Vec<u8>)> {
        loop {
            let mut size = [0; 4];
            self.stream.read_exact(&mut size)?;
            let length = u32::from_be_bytes(size)
                .checked_sub(4)
                .ok_or("a frame too short")?;
            let mut rest = vec![0; usize::try_from(length)?];
            self.stream.read_exact(&mut rest)?;
            let start = rest
                .first()
                .map_or(0, |offset| usize::from(*offset) * 4 - 4);
            let body = rest.get(start..).unwrap_or_default();
            if body.is_empty() {
                continue; // a heartbeat
            }
            let (performative, length) = decode_value(body)?;
            match take_described(performative) {
                Some((code, Value::List(fields))) if code == wanted => {
                    return Ok((fields, body.get(length..).unwrap_or_default().to_vec()));
                }
                Some((FLOW, _)) => {}
                other => return Err(io::Error::other(format!("unexpected {other:?}")).into()),
            }
        }
    }
}

fn described(code: u64, value: Value) -> Value {
    Value::Described(Box::new((Value::Ulong(code), value)))
}

fn take_described(value: Value) -> Option<(u64, Value)> {
    let Value::Described(pair) = value else {
        return None;
    };
    match *pair {
        (Value::Ulong(code), value) => Some((code, value)),
        _ => None,
    }
}
