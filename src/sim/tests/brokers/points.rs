//! Places in messages that are cut in the middle, as simulated clients find them. [AMQP 3.4.1]

use super::codec::list;
use crate::wire::{self, Descriptor, Reader};

/// Section and offset in the state of a delivery of which a part has arrived.
pub(super) fn received_up_to(state: &[u8]) -> Result<Option<(u32, u64)>, wire::DecodeError> {
    let Ok(mut state) = Reader::new(state).described() else {
        return Ok(None);
    };
    if state.descriptor != Descriptor::Code(0x23) {
        return Ok(None);
    }
    let mut fields = state.value.list()?;
    Ok(fields.uint()?.zip(fields.ulong()?))
}

/// The state of a delivery that has arrived up to this section and offset.
pub(super) fn received(out: &mut Vec<u8>, (section, offset): (u32, u64)) {
    list(out, 0x23, |out| {
        wire::write_uint(out, section);
        wire::write_ulong(out, offset);
        2
    });
}

/// Where a section of a message begins; none if it has not arrived up to there.
pub(super) fn section_start(message: &[u8], section: u32) -> Option<usize> {
    let mut at = 0;
    for _ in 0..section {
        let (code, rest) = message.get(at + 3..)?.split_first()?;
        at += 3 + match code {
            0x45 => 1,
            0xa0 | 0xc0 => 2 + usize::from(*rest.first()?),
            _ => 5 + u32::from_be_bytes(*rest.first_chunk()?) as usize,
        };
    }
    (at <= message.len()).then_some(at)
}

/// Section and offset up to which a message has arrived.
pub(super) fn end_of(message: &[u8]) -> (u32, u64) {
    let starts = (0..).map_while(|section| Some((section, section_start(message, section)?)));
    let (section, start) = starts.last().unwrap_or_default();
    (section, (message.len() - start) as u64)
}
