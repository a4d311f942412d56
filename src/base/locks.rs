//! The locks of a broker, and the order in which a thread may take them.
//!
//! Every lock has a rank. A thread takes a lock only while all locks that it holds have lower ranks:
//! so no two threads wait for each other. Debug builds check each lock that is taken and panic when
//! the order is broken; in release builds a ranked lock is the lock alone.
//!
//! The order is that of [`rank`]; `docs/ARCHITECTURE.md` has it as a table.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A position in the order of locks.
pub trait Rank {
    /// The position: a lock is taken only while no lock with this number or a higher one is held.
    const ORDER: u32;
    /// The rank's name, for the panic when the order is broken.
    const NAME: &'static str;
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        enum Order { $($name,)* }

        /// The names of all ranks, in the order in which locks may be taken.
        #[cfg(any(debug_assertions, test))]
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl super::Rank for $name {
                const ORDER: u32 = Order::$name as u32;
                const NAME: &'static str = stringify!($name);
            }
        )*
    };
}

/// All ranks in their order: the holder of one may take those below it.
pub mod rank {
    ranks! {
        /// A change of the registry, from its check until it is recorded and applied.
        RegistryChange,
        /// The table of running vhosts.
        Vhosts,
        /// The core of a vhost, and the distribution of its effects to connections. One at a time.
        Core,
        /// The rings of events of all vhosts.
        EventRings,
        /// The events of one vhost.
        EventRing,
        /// Events on their way into their ring.
        EventsStaged,
        /// The effects for one connection, and the waker of its task.
        Outbox,
        /// Job queues of the pager's threads.
        PagerJobs,
        /// Connections that wait until there is memory.
        PagerWaiters,
        /// Connections with a permit for incomplete messages, and those that wait for one.
        Partials,
        /// Connections that wait until a record is durable.
        DurableWaiters,
        /// Wake-ups of the journal's thread.
        JournalWake,
        /// Records that wait to be written.
        JournalBuffer,
        /// The segments of the journal.
        JournalSegments,
        /// The spill files.
        SpillFiles,
        /// The error that poisoned the journal.
        JournalPoison,
        /// Failed logins by address and user, and which logins are held back.
        LoginGuard,
        /// Login attempts, for operators.
        LoginAttempts,
        /// Numbers of lines of each user in the audit log.
        Audit,
        /// Clients of other protocols that were logged.
        ForeignPeers,
        /// The current vhosts, users and permissions.
        Registry,
        /// Publishers' links that outlive their connections.
        ResumableLinks,
        /// The unsettled deliveries of one of them.
        ResumableLink,
        /// Open connections, counted for the limits of vhosts and users.
        Seats,
        /// The current alarms.
        Alarms,
        /// The last sample of counters.
        Sample,
        /// The settings as last loaded.
        LiveSettings,
        /// The loaded certificates of the listeners.
        TlsLoaded,
        /// Modification times of the certificate files.
        TlsStamp,
        /// The keys that tokens are checked with.
        TokenKeys,
        /// The open connections.
        Connections,
        /// Requests to one connection from others, to close for example.
        ConnectionWants,
        /// Answers about groups of dead letters that are kept for a while.
        KeptGroups,
        /// Numbers of findings of the linter, kept for metrics.
        LintCounts,
        /// The sessions of the page.
        PageSessions,
        /// Streams of events, and exports and imports, that are open, by user.
        UserStreams,
        /// HTTP requests that are being served.
        HttpPlaces,
        /// The body of one HTTP request.
        HttpBody,
        /// The tasks that end with the broker.
        Tasks,
        /// The threads that end with the broker.
        Threads,
        /// The task that a signal wakes.
        Signal,
        /// The task that waits until a gauge is above a bound.
        Gauge,
        /// The time that tests set.
        ManualClock,
    }
}

/// A held lock, as far as the order is concerned.
#[derive(Debug)]
struct Held<R: Rank>(PhantomData<R>);

#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    use super::{Held, PhantomData, Rank, rank};

    thread_local! {
        /// The ranks that this thread holds, one bit for each.
        static HELD: Cell<u64> = const { Cell::new(0) };
    }

    fn names(ranks: u64) -> Vec<&'static str> {
        let held = |(order, _): &(usize, &&'static str)| ranks >> order & 1 == 1;
        let held = rank::NAMES.iter().enumerate().filter(held);
        held.map(|(_, name)| *name).collect()
    }

    impl<R: Rank> Held<R> {
        /// Notes that a lock is about to be taken; panics if a higher rank is held.
        #[cfg_attr(debug_assertions, track_caller)]
        pub(super) fn take() -> Self {
            let held = HELD.get();
            assert!(
                held >> R::ORDER == 0,
                "the lock {} is taken while {:?} is held: see the order in base/locks.rs",
                R::NAME,
                names(held)
            );
            HELD.set(held | 1 << R::ORDER);
            Self(PhantomData)
        }

        /// Panics if a lock of this rank is held, since a task is about to be woken.
        #[cfg_attr(debug_assertions, track_caller)]
        pub(super) fn refuse() {
            assert!(
                HELD.get() >> R::ORDER & 1 == 0,
                "somebody is woken while the lock {} is held",
                R::NAME
            );
        }

        /// Checks that no other lock is held while this one is waited with.
        #[cfg_attr(debug_assertions, track_caller)]
        pub(super) fn wait(_: &Self) {
            let others = HELD.get() & !(1 << R::ORDER);
            assert!(
                others == 0,
                "who waits at the lock {} holds {:?}",
                R::NAME,
                names(others)
            );
        }
    }

    impl<R: Rank> Drop for Held<R> {
        fn drop(&mut self) {
            HELD.set(HELD.get() & !(1 << R::ORDER));
        }
    }
}

#[cfg(not(debug_assertions))]
impl<R: Rank> Held<R> {
    #[inline]
    const fn take() -> Self {
        Self(PhantomData)
    }

    #[inline]
    const fn wait(_: &Self) {}

    #[inline]
    const fn refuse() {}
}

/// Debug builds check that this thread holds no lock of this rank. A woken task may run at once,
/// and would wait for the lock.
#[inline]
#[cfg_attr(debug_assertions, track_caller)]
pub fn before_waking<R: Rank>() {
    Held::<R>::refuse();
}

/// A mutex with a rank in the order of locks.
pub struct RankedMutex<R: Rank, T> {
    inner: parking_lot::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

/// The guard of a [`RankedMutex`]; dropping it releases the lock.
#[derive(Debug)]
#[must_use = "the lock is held as long as this is there"]
pub struct RankedGuard<'a, R: Rank, T> {
    inner: parking_lot::MutexGuard<'a, T>,
    held: Held<R>,
}

impl<R: Rank, T> RankedMutex<R, T> {
    /// A mutex around a value.
    pub const fn new(value: T) -> Self {
        Self {
            inner: parking_lot::Mutex::new(value),
            rank: PhantomData,
        }
    }

    /// Locks the mutex, waiting until it is free.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> RankedGuard<'_, R, T> {
        let held = Held::take();
        let inner = self.inner.lock();
        RankedGuard { inner, held }
    }

    /// The same, but waits at most this long.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_for(&self, time: Duration) -> Option<RankedGuard<'_, R, T>> {
        let held = Held::take();
        let inner = self.inner.try_lock_for(time)?;
        Some(RankedGuard { inner, held })
    }
}

impl<R: Rank, T> RankedGuard<'_, R, T> {
    /// Releases the lock to the thread that has waited longest.
    #[inline]
    pub fn unlock_fair(guard: Self) {
        let Self { inner, held } = guard;
        parking_lot::MutexGuard::unlock_fair(inner);
        drop(held);
    }
}

impl<R: Rank, T: Default> Default for RankedMutex<R, T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<R: Rank, T: fmt::Debug> fmt::Debug for RankedMutex<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl<R: Rank, T> Deref for RankedGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<R: Rank, T> DerefMut for RankedGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable for threads that hold one [`RankedMutex`] and no other lock.
#[derive(Debug, Default)]
pub struct RankedCondvar {
    inner: parking_lot::Condvar,
}

impl RankedCondvar {
    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }

    /// Waits until it is woken.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait<R: Rank, T>(&self, guard: &mut RankedGuard<'_, R, T>) {
        Held::wait(&guard.held);
        self.inner.wait(&mut guard.inner);
    }

    /// Waits until it is woken, at most this long.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait_for<R: Rank, T>(&self, guard: &mut RankedGuard<'_, R, T>, at_most: Duration) {
        Held::wait(&guard.held);
        self.inner.wait_for(&mut guard.inner, at_most);
    }

    /// Waits while the condition is true, at most this long.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait_while_for<R: Rank, T>(
        &self,
        guard: &mut RankedGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        at_most: Duration,
    ) {
        Held::wait(&guard.held);
        self.inner
            .wait_while_for(&mut guard.inner, condition, at_most);
    }
}

/// A read-write lock with a rank in the order of locks.
pub struct RankedRwLock<R: Rank, T> {
    inner: parking_lot::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

/// The guard of a reader of a [`RankedRwLock`].
#[derive(Debug)]
#[must_use = "the lock is held as long as this is there"]
pub struct RankedReadGuard<'a, R: Rank, T> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    _held: Held<R>,
}

/// The guard of the writer of a [`RankedRwLock`].
#[derive(Debug)]
#[must_use = "the lock is held as long as this is there"]
pub struct RankedWriteGuard<'a, R: Rank, T> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    _held: Held<R>,
}

impl<R: Rank, T> RankedRwLock<R, T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self {
            inner: parking_lot::RwLock::new(value),
            rank: PhantomData,
        }
    }

    /// Locks it for reading, waiting until there is no writer.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RankedReadGuard<'_, R, T> {
        let held = Held::take();
        let inner = self.inner.read();
        RankedReadGuard { inner, _held: held }
    }

    /// Locks it for writing, waiting until there are no readers and no writer.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> RankedWriteGuard<'_, R, T> {
        let held = Held::take();
        let inner = self.inner.write();
        RankedWriteGuard { inner, _held: held }
    }
}

impl<R: Rank, T: Default> Default for RankedRwLock<R, T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<R: Rank, T: fmt::Debug> fmt::Debug for RankedRwLock<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl<R: Rank, T> Deref for RankedReadGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<R: Rank, T> Deref for RankedWriteGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<R: Rank, T> DerefMut for RankedWriteGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    type Core = RankedMutex<rank::Core, u32>;
    type Outbox = RankedMutex<rank::Outbox, u32>;

    fn panics(work: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn locks_are_taken_in_their_order_and_given_back_in_any() {
        let (core, outbox) = (Core::new(1), Outbox::new(2));
        let first = core.lock();
        let mut second = outbox.lock();
        *second += *first;
        RankedGuard::unlock_fair(first);
        assert_eq!(*second, 3);
        drop(second);
        assert_eq!(*core.lock(), 1, "nothing is held any more");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_lock_taken_out_of_order_panics_before_it_waits() {
        let (core, outbox) = (Core::new(1), Outbox::new(2));
        let held = outbox.lock();
        assert!(panics(|| drop(core.lock())));
        assert!(panics(|| drop(core.try_lock_for(Duration::ZERO))));
        drop(held);
        drop(core.lock());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn two_locks_of_one_rank_are_never_held_together() {
        let (one, other) = (Core::new(1), Core::new(2));
        let held = one.lock();
        assert!(panics(|| drop(other.lock())));
        assert!(panics(|| drop(one.lock())), "it would wait for itself");
        drop(held);
        let vhosts = RankedRwLock::<rank::Vhosts, u32>::new(1);
        let read = vhosts.read();
        assert!(panics(|| drop(vhosts.read())), "a writer may be between");
        assert!(panics(|| drop(vhosts.write())));
        drop(read);
        *vhosts.write() += 1;
        assert_eq!(*vhosts.read(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn who_waits_to_be_woken_holds_no_other_lock() {
        let (core, outbox) = (Core::new(1), Outbox::new(2));
        let condvar = RankedCondvar::default();
        let mut guard = outbox.lock();
        condvar.wait_for(&mut guard, Duration::ZERO);
        drop(guard);
        let held = core.lock();
        let mut guard = outbox.lock();
        assert!(panics(|| condvar.wait_for(&mut guard, Duration::ZERO)));
        drop((guard, held));
    }

    /// What one thread holds is nothing to another.
    #[test]
    #[cfg(debug_assertions)]
    fn nobody_is_woken_by_who_holds_a_lock_that_they_may_want() {
        let core = Core::new(1);
        before_waking::<rank::Core>();
        let guard = core.lock();
        assert!(panics(before_waking::<rank::Core>));
        before_waking::<rank::Outbox>();
        drop(guard);
        before_waking::<rank::Core>();
    }

    #[test]
    fn a_thread_knows_only_its_own_locks() {
        let (core, outbox) = (Core::new(1), Outbox::new(2));
        let held = outbox.lock();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| *core.lock());
            assert_eq!(other.join().unwrap(), 1);
        });
        drop(held);
    }

    #[test]
    fn a_ranked_lock_takes_no_more_memory_than_the_lock() {
        assert_eq!(size_of::<Core>(), size_of::<parking_lot::Mutex<u32>>());
        let bare = size_of::<parking_lot::MutexGuard<'_, u32>>();
        assert_eq!(size_of::<RankedGuard<'_, rank::Core, u32>>(), bare);
        assert!(rank::NAMES.len() <= 64, "a bit for each");
    }
}
