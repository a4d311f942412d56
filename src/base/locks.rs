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

/// A place in the order of locks.
pub trait Rank {
    /// Its number: a lock is taken only while none of this number or a higher one is held.
    const ORDER: u32;
    /// Its name.
    const NAME: &'static str;
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        enum Order { $($name,)* }

        /// The names of all ranks, the first that may be taken first.
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

/// All ranks in their order: who holds one may take those below it.
pub mod rank {
    ranks! {
        /// A change of the registry, from its plan until it is written down and true.
        RegistryChange,
        /// The vhosts that are there.
        Vhosts,
        /// The core of a vhost, and how its effects get to the connections. One at a time.
        Core,
        /// The effects for one connection, and who waits for them.
        Outbox,
        /// What waits for one of the pager's threads.
        PagerJobs,
        /// Connections that wait until there is memory.
        PagerWaiters,
        /// Connections that may hold unfinished messages, and those that wait for it.
        Partials,
        /// Connections that wait until a record is durable.
        DurableWaiters,
        /// What the thread of the journal is woken by.
        JournalWake,
        /// Records that wait to be written.
        JournalBuffer,
        /// The files of the journal.
        JournalSegments,
        /// The files of messages that were spilled.
        SpillFiles,
        /// Why the journal failed.
        JournalPoison,
        /// Which logins are held back.
        LoginGuard,
        /// What was tried at logins, for operators.
        LoginAttempts,
        /// How often each user was written of in the audit log.
        Audit,
        /// Clients that speak another protocol and were told of.
        ForeignPeers,
        /// Vhosts, users and permissions as they are now.
        Registry,
        /// Connections that count for the limits of vhosts and users.
        Seats,
        /// The alarms that stand.
        Alarms,
        /// The last sample of what is counted.
        Sample,
        /// The settings that were loaded last.
        LiveSettings,
        /// The certificates of the listeners.
        TlsLoaded,
        /// When the files of the certificates were changed.
        TlsStamp,
        /// The connections that are open.
        Connections,
        /// What others want of one connection.
        ConnectionWants,
        /// Requests over HTTP that are being served.
        HttpPlaces,
        /// The body of one request over HTTP.
        HttpBody,
        /// The tasks that end with the broker.
        Tasks,
        /// The threads that end with the broker.
        Threads,
        /// Whom a call wakes.
        Signal,
        /// Who waits until a sum of bytes is larger.
        Gauge,
        /// The time that tests set.
        ManualClock,
    }
}

/// A lock that is held, as far as the order goes.
#[derive(Debug)]
struct Held<R: Rank>(PhantomData<R>);

#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    use super::{Held, PhantomData, Rank, rank};

    thread_local! {
        /// The ranks that this thread holds, a bit for each.
        static HELD: Cell<u64> = const { Cell::new(0) };
    }

    fn names(ranks: u64) -> Vec<&'static str> {
        let held = |(order, _): &(usize, &&'static str)| ranks >> order & 1 == 1;
        let held = rank::NAMES.iter().enumerate().filter(held);
        held.map(|(_, name)| *name).collect()
    }

    impl<R: Rank> Held<R> {
        /// A lock is about to be taken.
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

        /// Somebody is about to be woken: not by who holds this.
        #[cfg_attr(debug_assertions, track_caller)]
        pub(super) fn refuse() {
            assert!(
                HELD.get() >> R::ORDER & 1 == 0,
                "somebody is woken while the lock {} is held",
                R::NAME
            );
        }

        /// The lock is about to be waited at: no other one is held meanwhile.
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

/// Debug builds check that this thread holds no lock of this rank. Who is woken may run at once, and wait for
/// what is held.
#[inline]
#[cfg_attr(debug_assertions, track_caller)]
pub fn before_waking<R: Rank>() {
    Held::<R>::refuse();
}

/// A mutex with a place in the order of locks.
pub struct RankedMutex<R: Rank, T> {
    inner: parking_lot::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

/// The right to what a [`RankedMutex`] keeps, as long as this is there.
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

    /// Waits for it and takes it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> RankedGuard<'_, R, T> {
        let held = Held::take();
        let inner = self.inner.lock();
        RankedGuard { inner, held }
    }

    /// The same, but waits at most so long.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_for(&self, time: Duration) -> Option<RankedGuard<'_, R, T>> {
        let held = Held::take();
        let inner = self.inner.try_lock_for(time)?;
        Some(RankedGuard { inner, held })
    }
}

impl<R: Rank, T> RankedGuard<'_, R, T> {
    /// Gives it back, to who waits for it longest.
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

/// What threads wait at that hold a [`RankedMutex`], and hold no other lock.
#[derive(Debug, Default)]
pub struct RankedCondvar {
    inner: parking_lot::Condvar,
}

impl RankedCondvar {
    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }

    /// Waits until it is woken.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait<R: Rank, T>(&self, guard: &mut RankedGuard<'_, R, T>) {
        Held::wait(&guard.held);
        self.inner.wait(&mut guard.inner);
    }

    /// Waits until it is woken, at most so long.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait_for<R: Rank, T>(&self, guard: &mut RankedGuard<'_, R, T>, at_most: Duration) {
        Held::wait(&guard.held);
        self.inner.wait_for(&mut guard.inner, at_most);
    }

    /// Waits as long as this is true, at most so long.
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

/// A lock with a place in the order of locks that many may read at a time.
pub struct RankedRwLock<R: Rank, T> {
    inner: parking_lot::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

/// The right to read what a [`RankedRwLock`] keeps, as long as this is there.
#[derive(Debug)]
#[must_use = "the lock is held as long as this is there"]
pub struct RankedReadGuard<'a, R: Rank, T> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    _held: Held<R>,
}

/// The right to change what a [`RankedRwLock`] keeps, as long as this is there.
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

    /// Waits until nobody changes it, and reads it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RankedReadGuard<'_, R, T> {
        let held = Held::take();
        let inner = self.inner.read();
        RankedReadGuard { inner, _held: held }
    }

    /// Waits until nobody reads or changes it, and takes it.
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
