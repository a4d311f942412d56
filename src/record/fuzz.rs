//! Entry point for fuzzing.

use super::{Stored, decode};
use crate::base::Lsn;
use crate::store::Payload;

/// Decodes arbitrary bytes as a record; what can be decoded is encoded, and decoded again to the
/// same.
#[doc(hidden)]
pub fn fuzz_record(input: &[u8]) {
    let Ok((vhost, record)) = decode(Lsn(1), input) else {
        return;
    };
    let is_whole = |record: &crate::broker::Record| format!("{:?}", record.facts);
    let first = is_whole(&record);
    let mut out = Vec::new();
    Stored::new(vhost, record).encode(&mut out);
    let again = decode(Lsn(1), &out).map(|(_, record)| is_whole(&record));
    assert_eq!(
        again.as_ref(),
        Ok(&first),
        "a record is read as it was written"
    );
}
