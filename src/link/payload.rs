//! The payload of a delivery: joined while it is small, in parts when it is large.

use bytes::Bytes;

use crate::base::limits::{
    FRAGMENT_KEEP_BYTES_MIN, FRAGMENTS_GATHERED_BYTES, MESSAGE_JOIN_BYTES_MAX,
};

/// The payload of a complete delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// In one piece. Up to `limits::MESSAGE_COPY_BYTES_MAX` bytes are an allocation of their own.
    Whole(Bytes),
    /// In parts, in order: larger than `limits::MESSAGE_JOIN_BYTES_MAX` and from several frames, so
    /// that joining it would take long.
    Parts(Vec<Bytes>),
}

impl Payload {
    /// Its length, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Parts(parts) => parts.iter().map(Bytes::len).sum(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In one piece: parts are copied together.
    pub fn joined(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Parts(parts) => parts.concat().into(),
        }
    }
}

/// Fragments of a delivery that is arriving. Large ones are kept as they arrived; small ones are
/// copied into common pieces, so that they do not keep their read buffers alive.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pieces: Vec<Bytes>,
    /// Small fragments behind the pieces.
    tail: Vec<u8>,
}

impl Gathered {
    pub(super) fn push(&mut self, fragment: Bytes) {
        if fragment.len() >= FRAGMENT_KEEP_BYTES_MIN {
            self.seal();
            self.pieces.push(fragment);
            return;
        }
        if self.tail.len() + fragment.len() > FRAGMENTS_GATHERED_BYTES {
            self.seal();
        }
        if self.tail.is_empty() && !self.pieces.is_empty() {
            self.tail.reserve_exact(FRAGMENTS_GATHERED_BYTES);
        }
        self.tail.extend_from_slice(&fragment);
    }

    /// Makes a piece of the small fragments gathered since the last one.
    pub(super) fn seal(&mut self) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.pieces.push(tail.into_boxed_slice().into());
        }
    }

    /// The pieces, without the small fragments gathered since the last one.
    pub(super) fn sealed(&self) -> &[Bytes] {
        &self.pieces
    }

    /// Number of pieces.
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len() + usize::from(!self.tail.is_empty())
    }

    pub(super) fn into_pieces(mut self) -> Vec<Bytes> {
        self.seal();
        self.pieces
    }

    /// The payload with its last fragment. A message in one frame is not copied.
    pub(super) fn finish(mut self, last: Bytes) -> Payload {
        if self.pieces.is_empty() {
            if self.tail.is_empty() {
                return Payload::Whole(last);
            }
            if self.tail.len() + last.len() <= MESSAGE_JOIN_BYTES_MAX {
                self.tail.extend_from_slice(&last);
                return Payload::Whole(self.tail.into_boxed_slice().into());
            }
        }
        self.push(last);
        let parts = Payload::Parts(self.into_pieces());
        if parts.len() <= MESSAGE_JOIN_BYTES_MAX {
            return Payload::Whole(parts.joined());
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KIB: usize = 1024;

    /// Fragments of these lengths, one behind the other.
    fn fragments(lengths: &[usize]) -> Vec<Bytes> {
        let bytes = (0_u8..251).cycle();
        let mut bytes = bytes.take(lengths.iter().sum());
        let fragment = |length: &usize| bytes.by_ref().take(*length).collect();
        lengths.iter().map(fragment).collect()
    }

    #[rstest]
    #[case::one_frame(&[300 * KIB], &[300 * KIB])]
    #[case::nothing(&[0], &[0])]
    #[case::two_small(&[3, 4], &[7])]
    #[case::what_is_joined_at_most(&[128 * KIB, 128 * KIB], &[256 * KIB])]
    #[case::one_byte_more(&[128 * KIB, 128 * KIB, 1], &[128 * KIB, 128 * KIB, 1])]
    #[case::small_ones_are_gathered(&[20 * KIB; 15], &[60 * KIB; 5])]
    #[case::tiny_ones_too(&[1; 1_000], &[1_000])]
    #[case::small_ones_between(
        &[100 * KIB, 1, 2, 3, 100 * KIB, 4, 100 * KIB], &[100 * KIB, 6, 100 * KIB, 4, 100 * KIB])]
    #[case::a_large_last_one(&[10, 300 * KIB], &[10, 300 * KIB])]
    fn a_payload_is_what_came_in_pieces_of_some_size(
        #[case] came: &[usize],
        #[case] pieces: &[usize],
    ) {
        let came = fragments(came);
        let mut gathered = Gathered::default();
        let (last, others) = came.split_last().unwrap();
        for fragment in others {
            gathered.push(fragment.clone());
        }
        let payload = gathered.finish(last.clone());
        let lengths: Vec<usize> = match &payload {
            Payload::Whole(bytes) => vec![bytes.len()],
            Payload::Parts(parts) => parts.iter().map(Bytes::len).collect(),
        };
        assert_eq!(lengths, pieces);
        assert_eq!(payload.joined(), came.concat());
    }

    #[test]
    fn what_is_told_of_is_all_that_came() {
        let mut gathered = Gathered::default();
        let came = fragments(&[1, 80 * KIB, 2]);
        for fragment in &came {
            gathered.push(fragment.clone());
        }
        assert_eq!(gathered.sealed().concat(), came[..2].concat());
        gathered.seal();
        assert_eq!(gathered.sealed().concat(), came.concat());
        assert_eq!(gathered.pieces(), 3);
    }
}
