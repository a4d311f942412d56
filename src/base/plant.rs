//! Faults planted on purpose, in test builds only: the simulator has to find each of them, so that a
//! run without a finding says something. No other build contains any of this.

use std::cell::Cell;

/// A fault that a few places of the broker have when it is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// The outcome of a publish is told twice.
    OutcomeTwice,
    /// Answers do not wait until their records are durable.
    WakeBeforeDurable,
    /// A checkpoint leaves out what consumers hold.
    CheckpointForgetsHeld,
    /// A connection that is cut does not say goodbye to the core.
    GoodbyeLost,
    /// What was written is not told to the core as room.
    RoomNotGivenBack,
    /// A body that a dead letter names is let go with its source.
    NamedBodyReleased,
    /// A dead letter enters its target and stays in its source.
    DeadLetterStays,
    /// A failed delivery comes back without being counted.
    FailureNotCounted,
    /// A settlement by a token whose place was used before reaches the place beside it.
    TokenReused,
    /// Where a spilled block lies is forgotten.
    SpilledForgotten,
    /// The last of several queues that a message is published to gets no copy.
    CopyForgotten,
    /// A death by age is not counted where it happened.
    ExpiryNotCounted,
    /// What is written counts as durable before it is synced.
    DurableBeforeSync,
    /// The pieces of a body that was written while it arrived are let go with its publisher.
    PiecesReleased,
    /// The management node answers before what it did is durable.
    AnsweredBeforeDurable,
    /// Work that a tick has no budget for is forgotten.
    RestForgotten,
}

impl Plant {
    /// All there are.
    pub(crate) const ALL: [Self; 16] = [
        Self::OutcomeTwice,
        Self::WakeBeforeDurable,
        Self::CheckpointForgetsHeld,
        Self::GoodbyeLost,
        Self::RoomNotGivenBack,
        Self::NamedBodyReleased,
        Self::DeadLetterStays,
        Self::FailureNotCounted,
        Self::TokenReused,
        Self::SpilledForgotten,
        Self::CopyForgotten,
        Self::ExpiryNotCounted,
        Self::DurableBeforeSync,
        Self::PiecesReleased,
        Self::AnsweredBeforeDurable,
        Self::RestForgotten,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Plants a fault for what this thread does from now on, or none.
pub(crate) fn plant(fault: Option<Plant>) {
    PLANTED.set(fault);
}

/// Whether this thread has it.
pub(crate) fn is_planted(fault: Plant) -> bool {
    PLANTED.get() == Some(fault)
}
