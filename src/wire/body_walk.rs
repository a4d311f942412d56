//! Walking over a message that is still arriving: the sections in front of its body, and a body of
//! bytes. [AMQP 3.2]

use super::codes;
use super::performative::ResumePoint;
use super::sections::{offset, section_kind, section_value};
use super::{DecodeError, Section, SectionIndex, SectionKind};

/// Bytes that the descriptor of a section, its type code and its length take, at most.
const BEGINNING_BYTES_MAX: usize = 64;

/// Finds the sections in front of the body in the beginning of a message; `body` is empty and
/// begins where the body does. None if the body does not begin there, or if the bytes cannot be
/// read: [`walk`](super::walk) reports why once the message is complete.
pub fn walk_head(beginning: &[u8]) -> Option<SectionIndex> {
    let mut index = SectionIndex::default();
    let mut bare = None;
    let mut previous: Option<SectionKind> = None;
    let mut at = 0;
    loop {
        let (kind, value) = section_kind(beginning, at).ok()?;
        if previous.is_some_and(|previous| !kind.may_follow(previous)) {
            return None;
        }
        previous = Some(kind);
        if kind >= SectionKind::Properties {
            bare = bare.or(Some(at));
        }
        let start = offset(at).ok()?;
        if kind >= SectionKind::Data {
            index.bare = offset(bare?).ok()?;
            index.body = Section {
                start,
                value: start,
                end: start,
            };
            return Some(index);
        }
        let end = value + section_value(beginning, value, kind).ok()?;
        let section = Section {
            start,
            value: offset(value).ok()?,
            end: offset(end).ok()?,
        };
        index.set(kind, section);
        at = end;
    }
}

/// A walk over body and footer of a message while they arrive, for bodies of bytes: data sections,
/// or one value that is binary. [AMQP 3.2.6, 3.2.8]
#[derive(Clone, Debug, Default)]
pub struct BodyWalk {
    /// Number of bytes passed.
    at: u64,
    /// Bytes left of the section that has begun.
    left: u64,
    /// The beginning of a section until it is complete; a footer as far as it has arrived.
    begun: Vec<u8>,
    /// The last section that has begun; none before the first.
    last: Option<SectionKind>,
    /// Number of sections that have begun.
    sections: u32,
    /// Where the last of them begins.
    section_start: u64,
    body_end: u64,
}

impl BodyWalk {
    /// Consumes the next bytes.
    ///
    /// When they are not a message, or their body is of another kind.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX);
                let count = count.min(bytes.len());
                self.pass(count);
                self.left -= count as u64;
                bytes = bytes.get(count..).unwrap_or_default();
            } else if self.last == Some(SectionKind::Footer) {
                self.begun.extend_from_slice(bytes);
                self.pass(bytes.len());
                return Ok(());
            } else {
                self.begun.push(*first);
                self.pass(1);
                self.begin()?;
                bytes = rest;
            }
        }
        Ok(())
    }

    fn pass(&mut self, count: usize) {
        self.at += count as u64;
    }

    /// Checks whether the beginning of a section is complete.
    fn begin(&mut self) -> Result<(), DecodeError> {
        let at = self.offset() - self.begun.len();
        let (kind, value) = match section_kind(&self.begun, 0) {
            Ok(found) => found,
            Err(_) if self.begun.len() < BEGINNING_BYTES_MAX => return Ok(()),
            Err(_) => return Err(DecodeError::NoSection { at }),
        };
        let follows = match self.last {
            Some(last) => kind.may_follow(last),
            None => matches!(kind, SectionKind::Data | SectionKind::Value),
        };
        if !follows {
            let section = kind.name();
            return Err(DecodeError::SectionOrder { at, section });
        }
        if kind == SectionKind::Footer {
            self.last = Some(kind);
            self.count_section();
            return Ok(());
        }
        let Some((code, length)) = self.begun.get(value..).and_then(<[u8]>::split_first) else {
            return Ok(());
        };
        let length = match (*code, length) {
            (codes::BINARY_8, [length]) => u64::from(*length),
            (codes::BINARY_32, [a, b, c, d]) => u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
            (codes::BINARY_8 | codes::BINARY_32, _) => return Ok(()),
            (code, _) => {
                return Err(DecodeError::Type {
                    at: at + value,
                    expected: "binary",
                    found: codes::type_name(code),
                });
            }
        };
        (self.last, self.left) = (Some(kind), length);
        self.body_end = self.at + length;
        self.count_section();
        self.begun.clear();
        Ok(())
    }

    fn count_section(&mut self) {
        self.sections += 1;
        self.section_start = self.at - self.begun.len() as u64;
    }

    /// Where the message goes on, if `before` sections are in front of the body. [AMQP 3.4.1]
    pub fn resume_point(&self, before: u32) -> ResumePoint {
        let is_in_section = self.left > 0 || self.last == Some(SectionKind::Footer);
        let (section, section_offset) = if is_in_section {
            (self.sections - 1, self.at - self.section_start)
        } else {
            (self.sections, self.begun.len() as u64)
        };
        ResumePoint {
            section_number: before + section,
            section_offset,
        }
    }

    /// Whether a section of a body of bytes has begun.
    pub const fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Bytes that the message has from the body on, at least.
    pub const fn bytes_min(&self) -> u64 {
        self.at + self.left
    }

    /// Ends the walk: returns where the body ends, counted from its first byte.
    ///
    /// When something is missing, or the footer is invalid.
    pub fn finish(&self) -> Result<u64, DecodeError> {
        let at = self.offset();
        if self.left > 0 || self.last.is_none() {
            return Err(DecodeError::Truncated { at });
        }
        if self.last != Some(SectionKind::Footer) {
            return if self.begun.is_empty() {
                Ok(self.body_end)
            } else {
                Err(DecodeError::Truncated { at })
            };
        }
        let start = at - self.begun.len();
        let moved = |error: DecodeError| error.moved_by(start);
        let (kind, value) = section_kind(&self.begun, 0).map_err(moved)?;
        let end = value + section_value(&self.begun, value, kind).map_err(moved)?;
        if end < self.begun.len() {
            return Err(DecodeError::BytesLeft { at: start + end });
        }
        Ok(self.body_end)
    }

    /// Bytes of a footer that are kept.
    pub const fn kept_bytes(&self) -> usize {
        self.begun.len()
    }

    fn offset(&self) -> usize {
        usize::try_from(self.at).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::wire::{resume_point, walk};

    const HEADER: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41";
    const PROPERTIES: &[u8] = b"\x00\x53\x73\xc0\x03\x01\xa1\x00";
    const DATA: &[u8] = b"\x00\x53\x75\xa0\x03abc";
    const LONG: &[u8] = b"\x00\x80\0\0\0\0\0\0\0\x75\xb0\0\0\0\x02xy";
    const NAMED: &[u8] = b"\x00\xa3\x10amqp:data:binary\xa0\x01z";
    const VALUE: &[u8] = b"\x00\x53\x77\xa0\x02ab";
    const FOOTER: &[u8] = b"\x00\x53\x78\xc1\x04\x02\x53\x01\x40";

    /// Where head and body end, as found in pieces of this size; nothing if it is no such message.
    fn walked(message: &[u8], piece: usize) -> Option<(usize, usize)> {
        let index = walk_head(message)?;
        let start = index.body.start as usize;
        let mut body = BodyWalk::default();
        for bytes in message[start..].chunks(piece) {
            body.push(bytes).ok()?;
        }
        Some((start, start + usize::try_from(body.finish().ok()?).unwrap()))
    }

    #[rstest]
    #[case::data(&[HEADER, PROPERTIES, DATA])]
    #[case::sections_of_data_in_every_encoding(&[DATA, LONG, NAMED])]
    #[case::nothing_in_front(&[DATA])]
    #[case::a_value_and_a_footer(&[HEADER, VALUE, FOOTER])]
    #[case::data_and_a_footer(&[PROPERTIES, DATA, DATA, FOOTER])]
    fn a_message_in_pieces_is_found_as_when_it_is_whole(#[case] sections: &[&[u8]]) {
        let message = sections.concat();
        let whole = walk(&message).unwrap();
        let expected = Some((whole.body.start as usize, whole.body.end as usize));
        for piece in 1..=message.len() {
            assert_eq!(walked(&message, piece), expected, "in pieces of {piece}");
        }
        let head = walk_head(&message).unwrap();
        assert_eq!((head.bare, head.properties), (whole.bare, whole.properties));
        for end in 1..message.len() {
            let cut = walked(&message[..end], 3);
            let legal = walk(&message[..end]).is_ok_and(|index| !index.body.is_absent());
            assert_eq!(cut.is_some(), legal, "cut off after {end} bytes");
        }
    }

    /// [AMQP 3.4.1] Sections of a body in pieces are counted as those of what has arrived of the whole.
    #[rstest]
    #[case::one_section(&[HEADER, PROPERTIES, DATA])]
    #[case::in_every_encoding(&[HEADER, DATA, LONG, NAMED])]
    #[case::a_value(&[PROPERTIES, VALUE])]
    fn where_a_message_goes_on_is_the_same_while_it_is_walked_and_when_it_is_whole(
        #[case] sections: &[&[u8]],
    ) {
        let message = sections.concat();
        let head = walk_head(&message).unwrap().body.start as usize;
        let before = u32::from(sections[0] == HEADER) + u32::from(sections.contains(&PROPERTIES));
        for piece in 1..=5 {
            let mut walk = BodyWalk::default();
            for bytes in message[head..].chunks(piece) {
                walk.push(bytes).unwrap();
                let arrived = head + walk.offset();
                let expected = (resume_point(&message[..arrived], 9).0, arrived);
                assert_eq!((walk.resume_point(before), arrived), expected);
            }
        }
        let ends = sections.iter().scan(0, |end, section| {
            *end += section.len();
            Some(*end)
        });
        for (number, end) in (1..).zip(ends) {
            let begins = |section_number| ResumePoint {
                section_number,
                section_offset: 0,
            };
            assert_eq!(resume_point(&message[..end], 9), (begins(number), end));
            // Of too many sections the first ones count.
            assert_eq!(resume_point(&message, number), (begins(number), end));
        }
    }

    #[test]
    fn a_footer_that_has_begun_goes_on_where_it_ends() {
        let mut walk = BodyWalk::default();
        walk.push(DATA).unwrap();
        for (count, byte) in FOOTER.iter().enumerate() {
            let section_offset = count as u64;
            let expected = ResumePoint {
                section_number: 3,
                section_offset,
            };
            assert_eq!(walk.resume_point(2), expected);
            walk.push(&[*byte]).unwrap();
        }
    }

    #[rstest]
    #[case::a_value_behind_data(&[DATA, VALUE])]
    #[case::two_values(&[VALUE, VALUE])]
    #[case::header_behind_the_body(&[DATA, HEADER])]
    #[case::data_behind_the_footer(&[DATA, FOOTER, DATA])]
    #[case::data_that_is_text(&[&b"\x00\x53\x75\xa1\x03abc"[..]])]
    #[case::data_behind_that_is_text(&[DATA, b"\x00\x53\x75\xa1\x03abc"])]
    #[case::a_footer_with_a_bad_key(&[DATA, b"\x00\x53\x78\xc1\x04\x02\x40\x01\x40"])]
    #[case::no_section(&[DATA, &[0xff; 70]])]
    fn what_is_no_message_in_one_piece_is_none_in_many(#[case] sections: &[&[u8]]) {
        let message = sections.concat();
        assert!(walk(&message).is_err());
        for piece in 1..=message.len() {
            assert_eq!(walked(&message, piece), None, "in pieces of {piece}");
        }
    }

    #[rstest]
    #[case::text(b"\x00\x53\x77\xa1\x03abc")]
    #[case::a_list(b"\x00\x53\x77\x45")]
    #[case::a_sequence(b"\x00\x53\x76\x45")]
    fn bodies_that_are_no_bytes_are_left_to_the_other_walk(#[case] message: &[u8]) {
        assert!(walk(message).is_ok());
        assert_eq!(walked(message, 1), None);
    }
}
