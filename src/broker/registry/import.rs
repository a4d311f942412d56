//! The import of definitions that is under way, recorded so that a crash in the middle of it does
//! not leave it half done.

use std::sync::Arc;

use super::RegistryFact;
use crate::base::Name;

/// Bytes of definitions in one fact.
const PART_BYTES: usize = 64 * 1024;

/// An import that has begun and not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The vhost to import into; none: the whole broker.
    pub vhost: Option<Name>,
    /// The definitions, as JSON text.
    pub text: Arc<Vec<u8>>,
}

impl Import {
    /// The facts that must be written before the import makes its first change.
    pub fn facts(&self) -> Vec<RegistryFact> {
        let mut at = 0;
        let mut facts = Vec::new();
        for bytes in self.text.chunks(PART_BYTES) {
            let part = bytes.into();
            facts.push(RegistryFact::ImportPart { at, bytes: part });
            at += bytes.len() as u64;
        }
        facts.push(RegistryFact::ImportBegun {
            vhost: self.vhost.clone(),
            bytes: at,
        });
        facts
    }
}

/// The parts of an import while they are read, and the import once all were.
#[derive(Clone, Debug, Default)]
pub(super) struct Importing {
    parts: Arc<Vec<u8>>,
    begun: Option<Import>,
}

impl Importing {
    /// Bytes of its text, as far as they were read.
    pub(super) fn bytes(&self) -> u64 {
        let begun = self.begun.as_ref().map_or(0, |import| import.text.len());
        (self.parts.len() + begun) as u64
    }

    pub(super) const fn begun(&self) -> Option<&Import> {
        self.begun.as_ref()
    }

    /// Adds a part; one behind a gap is ignored, and with it the import.
    pub(super) fn part(&mut self, at: u64, bytes: &[u8]) {
        let Some(at) = usize::try_from(at)
            .ok()
            .filter(|at| *at <= self.parts.len())
        else {
            return;
        };
        let parts = Arc::make_mut(&mut self.parts);
        parts.truncate(at);
        parts.extend_from_slice(bytes);
    }

    pub(super) fn begin(&mut self, vhost: Option<Name>, bytes: u64) {
        let text = std::mem::take(&mut self.parts);
        if text.len() as u64 == bytes {
            self.begun = Some(Import { vhost, text });
        }
    }

    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
