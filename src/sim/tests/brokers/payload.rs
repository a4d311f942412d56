//! Messages of the simulation: what a number becomes, and what of it a consumer sees.

use super::codec::list;
use crate::wire::{self, Descriptor, HeaderFields, Reader, Value};

/// Priorities above this one are urgent.
pub(super) const URGENT_ABOVE: u8 = 4;

/// A message as a consumer sees it.
#[derive(Debug)]
pub(super) struct SeenMessage {
    pub(super) id: u64,
    pub(super) delivery_count: u32,
    priority: u8,
    /// Entries of its history: queue, reason, count.
    pub(super) deaths: Vec<(String, String, u64)>,
    /// Where redrives sent it.
    pub(super) sent_to: Vec<String>,
}

impl SeenMessage {
    /// A consumer that wants only what is urgent got this.
    pub(super) fn check_selected(&self) -> Result<(), String> {
        if self.priority > URGENT_ABOVE {
            return Ok(());
        }
        Err(format!(
            "message {} has priority {}, and came to a consumer that does not want it",
            self.id, self.priority
        ))
    }
}

/// Messages with so many bytes bear their number in front of their body, too: of a body that the broker
/// writes while it arrives no more is in memory.
pub(super) const LARGE_BYTES: usize = 100_000;

/// The group that has last messages.
pub(super) const ENDING_GROUP: &str = "ending";

/// Whether a group has last messages, behind which it may be another consumer's.
pub(super) fn ends(group: &[u8]) -> bool {
    group == ENDING_GROUP.as_bytes()
}

/// What a message has beside its number.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Extras<'a> {
    /// Its group, and whether it is the last of it.
    pub(super) group: Option<(&'a str, bool)>,
    /// After how many milliseconds it is to be delivered.
    pub(super) delay_ms: Option<u64>,
    /// One more routing key.
    pub(super) cc: Option<&'a str>,
}

/// A message of the simulation: its number, and bytes that follow from it.
pub(super) fn message(id: u64, bytes: usize, header: &HeaderFields, extras: Extras<'_>) -> Vec<u8> {
    let Extras {
        group,
        delay_ms,
        cc,
    } = extras;
    let mut out = Vec::new();
    wire::write_header(&mut out, header);
    if delay_ms.is_some() || cc.is_some() {
        wire::write_descriptor(&mut out, 0x72);
        let map = wire::begin_map(&mut out);
        if let Some(delay_ms) = delay_ms {
            wire::write_symbol(&mut out, "x-opt-delivery-delay");
            wire::write_ulong(&mut out, delay_ms);
        }
        if let Some(cc) = cc {
            wire::write_symbol(&mut out, "x-cc");
            let keys = wire::begin_list(&mut out);
            wire::write_string(&mut out, cc);
            wire::end(&mut out, keys, 1);
        }
        let pairs = usize::from(delay_ms.is_some()) + usize::from(cc.is_some());
        wire::end(&mut out, map, 2 * pairs);
    }
    if bytes >= LARGE_BYTES || group.is_some() {
        list(&mut out, 0x73, |out| {
            wire::write_ulong(out, id);
            let Some((group, is_last)) = group else {
                return 1;
            };
            (0..9).for_each(|_| wire::write_null(out));
            wire::write_string(out, group);
            wire::write_uint(out, if is_last { u32::MAX } else { 0 });
            12
        });
    }
    wire::write_descriptor(&mut out, 0x75);
    wire::write_binary(&mut out, &body(id, bytes));
    out
}

fn body(id: u64, bytes: usize) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    let salt = id.to_le_bytes()[0];
    let pattern: Vec<u8> = (0..=u8::MAX)
        .map(|at| at.wrapping_mul(31).wrapping_add(salt))
        .collect();
    while body.len() < bytes + 8 {
        let rest = bytes + 8 - body.len();
        body.extend_from_slice(&pattern[..rest.min(pattern.len())]);
    }
    body
}

/// The number of the message with this bare message, if it is one of the simulation and whole; of a large
/// one the front alone will do.
pub(super) fn id_of(bare: &[u8]) -> Result<u64, String> {
    let wrong = |_| {
        format!(
            "no message of the simulation: {:?}",
            &bare[..bare.len().min(40)]
        )
    };
    let mut reader = Reader::new(bare);
    let mut described = reader.described().map_err(wrong)?;
    let mut front = None;
    if described.descriptor == Descriptor::Code(0x73) {
        let mut fields = described.value.list().map_err(wrong)?;
        front = fields.ulong().map_err(wrong)?;
        let rest = reader.rest();
        if let (Some(id), true) = (front, rest.is_empty()) {
            return Ok(id);
        }
        described = Reader::new(rest).described().map_err(wrong)?;
    }
    let data = described.value.binary().map_err(wrong)?;
    let id = data.first_chunk().ok_or("a body without a number")?;
    let id = u64::from_be_bytes(*id);
    if data != body(id, data.len() - 8) || front.is_some_and(|front| front != id) {
        return Err(format!("the body of message {id} is damaged"));
    }
    Ok(id)
}

pub(super) fn read_message(payload: &[u8]) -> Result<SeenMessage, String> {
    let text = |error: wire::DecodeError| format!("{error} in a message");
    let index = wire::walk(payload).map_err(text)?;
    let header = index.read_header(payload).map_err(text)?;
    let id = id_of(&payload[index.bare as usize..])?;
    let section = index.message_annotations;
    let (mut deaths, mut sent_to) = (Vec::new(), Vec::new());
    if section.end > section.start {
        let (annotations, _) =
            wire::decode_value(&payload[section.value as usize..]).map_err(text)?;
        let array = annotations.get("x-opt-deaths");
        for entry in array.and_then(Value::as_elements).unwrap_or_default() {
            let word = |key| {
                let value = entry.get(key).and_then(Value::as_str);
                value.unwrap_or_default().to_owned()
            };
            let count = entry.get("count").and_then(Value::as_u64).unwrap_or(0);
            deaths.push((word("queue"), word("reason"), count));
        }
        let list = annotations.get("x-opt-redrives");
        for entry in list.and_then(Value::as_elements).unwrap_or_default() {
            let to = entry.get("to").and_then(Value::as_str);
            sent_to.push(to.unwrap_or_default().to_owned());
        }
    }
    Ok(SeenMessage {
        id,
        delivery_count: header.delivery_count.unwrap_or(0),
        priority: header.priority.unwrap_or(4),
        deaths,
        sent_to,
    })
}
