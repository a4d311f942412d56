//! Planted faults, in test builds only: the simulator has to find each of them, so that a run
//! without a finding means something. No other build contains any of this.

use std::cell::Cell;

/// A fault that some places of the broker have while it is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// The outcome of a publish is told twice.
    OutcomeTwice,
    /// Answers do not wait until their records are durable.
    WakeBeforeDurable,
    /// A checkpoint leaves out what consumers hold.
    CheckpointForgetsHeld,
    /// The core is not told that a cut connection is closed.
    GoodbyeLost,
    /// The core is not told that bytes were written, so the connection gets no more.
    RoomNotGivenBack,
    /// A body that a dead letter refers to is released with its source.
    NamedBodyReleased,
    /// A dead letter enters its target and stays in its source.
    DeadLetterStays,
    /// A failed delivery is requeued without being counted.
    FailureNotCounted,
    /// A settlement with a token whose slot was used before reaches the slot beside it.
    TokenReused,
    /// The location of a spilled block is forgotten.
    SpilledForgotten,
    /// The last of several queues that a message is published to gets no copy.
    CopyForgotten,
    /// A death by age is not counted in its queue.
    ExpiryNotCounted,
    /// What is written counts as durable before it is synced.
    DurableBeforeSync,
    /// The pieces of a streamed body are released with its publisher.
    PiecesReleased,
    /// The management node answers before its change is durable.
    AnsweredBeforeDurable,
    /// Work beyond the budget of a tick is forgotten.
    RestForgotten,
    /// A message that a redrive moves stays in its source.
    MovedStays,
    /// A redrive does not learn what becomes of messages on disk.
    OnDiskNotLearned,
    /// The journal is not told how far a redrive came.
    ProgressNotTold,
    /// A link that outlived its connection does not know the publishes of before.
    OutcomesForgotten,
    /// What had arrived of a message is forgotten when it goes on.
    FrontForgotten,
    /// A delivery of which a part had come goes on a byte behind where it says.
    RestElsewhere,
    /// A consumer that may come back holds nothing.
    HeldNotKept,
    /// A message on a link that outlives the broker is inserted by one record, and decided by the next.
    DecidedApart,
    /// A checkpoint leaves out what became of messages on links that outlive the broker.
    CheckpointForgetsLinks,
    /// A message is sent on a link that outlives the broker before the journal has that the link holds it.
    SentBeforeAcquired,
    /// A checkpoint leaves out what links hold that outlive the broker.
    CheckpointForgetsAcquired,
    /// A start gives what links held that outlive the broker to their queues.
    StartForgetsHeld,
    /// A message of a group goes to whoever asks for it.
    GroupShared,
    /// A consumer gets what its selector does not match.
    SelectorIgnored,
    /// What would become of a dead letter is foreseen without the cycle rule: the simulation of
    /// cores finds it.
    CycleNotForeseen,
    /// A transaction is written as a record for each of its parts: the crash matrix finds it too.
    CommitInParts,
}

impl Plant {
    /// The faults that simulations of whole brokers find, in the order of declaration.
    pub(crate) const ALL: [Self; 31] = [
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
        Self::MovedStays,
        Self::OnDiskNotLearned,
        Self::ProgressNotTold,
        Self::OutcomesForgotten,
        Self::FrontForgotten,
        Self::RestElsewhere,
        Self::HeldNotKept,
        Self::DecidedApart,
        Self::CheckpointForgetsLinks,
        Self::SentBeforeAcquired,
        Self::CheckpointForgetsAcquired,
        Self::StartForgetsHeld,
        Self::GroupShared,
        Self::SelectorIgnored,
        Self::CommitInParts,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Plants a fault for what this thread does from now on, or none.
pub(crate) fn plant(fault: Option<Plant>) {
    PLANTED.set(fault);
}

/// Whether the fault is planted in this thread.
pub(crate) fn is_planted(fault: Plant) -> bool {
    PLANTED.get() == Some(fault)
}
