//! A runtime: a hub with its applications, and what its thread does in a turn.
//!
//! The service has one runtime or several. Each is run by a thread of its own ([`threads`]); the
//! first by that of the daemon, which also has the control plane and the transport. Calls between
//! applications of two runtimes are carried by letters ([`post`]).
//!
//! # Invariants
//! - Nobody but its thread touches a runtime, except while it is
//!   [borrowed](threads::Shared::borrow) between two turns.
//! - A turn waits for no other runtime. Between two turns, the daemon's thread waits for the end of
//!   a turn of those that it borrows.

mod bell;
pub mod moving;
mod post;
pub mod set;
pub mod threads;

use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicU32, Ordering};
use petasos_base::{SystemClock, Time, Yielder};
use petasos_service::{Application, Crossing, Hub, HubId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use bell::Bell;
pub use post::Boxes;
use post::Post;

use crate::common::Common;
use crate::member::{Heaps, Member};

/// While there is work, sockets are looked at so often: a look is a system call, and calls do not
/// come through them.
const SOCKETS_EVERY: Duration = Duration::from_millis(1);
/// The same while an application has just said something there and nothing else is to do: who
/// attaches says several things, and waits for each answer.
const SOCKETS_WARM_EVERY: Duration = Duration::from_micros(5);
/// For so long after it has said something.
const WARM: Duration = Duration::from_micros(50);
/// The longest sleep: after it, those who take too long are looked for.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The longest sleep while some application's ring is full.
const FULL_SLEEP: Duration = Duration::from_millis(1);
/// Of so many turns, one measures what engines cost; with budgets, one of fewer.
const SAMPLE_EVERY: u32 = 61;
const SAMPLE_BUDGETS_EVERY: u32 = 7;
/// The runtime that publishes what is served: it is rung when that has changed.
const FIRST: HubId = HubId(0);
/// So many letters are opened in a turn.
const LETTERS_MAX: usize = 256;

/// A runtime.
pub struct Runtime {
    pub hub: Hub<Heaps>,
    pub members: Vec<Member>,
    crossing: Crossing,
    post: Post,
    bell: Arc<Bell>,
    /// How many applications there are, for others.
    load: Arc<AtomicU32>,
    pub common: Arc<Common>,
    clock: SystemClock,
    pub yielder: Yielder,
    /// When sockets were looked at last.
    looked_at: Time,
    /// Until then an application may say more there soon.
    warm_until: Time,
    /// The last turn found nothing to do.
    pub is_idle: bool,
    turns: u32,
    /// Some application has a quota of processor time.
    is_metered: bool,
    /// There may be letters that were not opened.
    has_letters: bool,
}

impl Runtime {
    /// Without applications. It looks for work for `spin` before it sleeps.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        (common, boxes): (&Arc<Common>, &Arc<Boxes>),
        spin: Duration,
    ) -> std::io::Result<Runtime> {
        let mut hub = Hub::on(&common.host);
        let bell = Arc::new(Bell::new()?);
        hub.set_notifier({
            let bell = bell.clone();
            move || bell.ring()
        });
        let post = boxes.open(hub.id(), &bell);
        let crossing = Crossing::new(&mut hub);
        Ok(Runtime {
            hub,
            members: Vec::new(),
            crossing,
            post,
            bell,
            load: Arc::default(),
            common: common.clone(),
            clock: SystemClock::default(),
            yielder: Yielder::new(spin),
            looked_at: Time::ZERO,
            warm_until: Time::ZERO,
            is_idle: false,
            turns: 0,
            is_metered: false,
            has_letters: false,
        })
    }

    /// Its number.
    pub fn id(&self) -> HubId {
        self.hub.id()
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether sockets are to be looked at now: [`Runtime::hear_sockets`] is to follow then.
    pub fn looks(&mut self, now: Time) -> bool {
        let is_warm = self.is_idle && now < self.warm_until;
        let every = if is_warm { SOCKETS_WARM_EVERY } else { SOCKETS_EVERY };
        let looks = now >= self.looked_at + every;
        if looks {
            self.looked_at = now;
        }
        looks
    }

    /// Sockets are looked at in the next turn.
    pub fn look_soon(&mut self) {
        self.looked_at = Time::ZERO;
    }

    /// Something was said at a socket.
    pub fn warm(&mut self, now: Time) {
        self.warm_until = now + WARM;
    }

    /// Hears what applications say at their sockets.
    pub fn hear_sockets(&mut self, now: Time) -> bool {
        let common = self.common.clone();
        let changes = self.hub.export_changes();
        let has_moved = self.each(now, |member, hub| member.hear_socket(hub, &common, now));
        if self.hub.export_changes() != changes && self.id() != FIRST {
            self.post.ring(FIRST);
        }
        has_moved
    }

    /// Moves calls: from the applications through the hub to others, and to `carry`, which carries
    /// them beyond the host. Says whether anything moved.
    pub fn turn(&mut self, now: Time, carry: impl FnOnce(&mut Hub<Heaps>, Time) -> bool) -> bool {
        let mut has_moved = self.open_letters(now);
        has_moved |= self.each(now, |member, hub| member.hear(hub, now));
        self.turns = self.turns.wrapping_add(1);
        let has_budgets = self.common.has_budgets.load(Ordering::Relaxed);
        let every = if has_budgets { SAMPLE_BUDGETS_EVERY } else { SAMPLE_EVERY };
        let is_sampled = self.turns.is_multiple_of(every);
        has_moved |= match (self.is_metered, is_sampled) {
            (true, _) => self.hub.turn_metered(now, is_sampled, &|| self.clock.now()),
            (false, true) => self.hub.turn_sampled(now, &|| self.clock.now()),
            (false, false) => self.hub.turn(now),
        };
        has_moved |= carry(&mut self.hub, now);
        has_moved |= self.crossing.turn(&mut self.hub, now);
        while let Some((to, letter)) = self.crossing.next_letter() {
            self.post.send(to, letter);
        }
        self.post.ring_all();
        has_moved | self.each(now, Member::tell)
    }

    fn open_letters(&mut self, now: Time) -> bool {
        if !self.bell.answer() && !self.has_letters {
            return false;
        }
        for opened in 0..LETTERS_MAX {
            let Some(letter) = self.post.next() else {
                self.has_letters = false;
                return opened > 0;
            };
            self.crossing.hear(&mut self.hub, letter, now);
        }
        self.has_letters = true;
        true
    }

    /// An application is added.
    pub fn add(&mut self, application: Application<Heaps>, member: Member) {
        self.hub.add(application);
        self.members.push(member);
        self.note_members();
    }

    /// Tells others how many applications there are.
    pub fn note_members(&mut self) {
        self.is_metered = self.members.iter().any(Member::is_metered);
        self.load.store(self.members.len() as u32, Ordering::Relaxed);
    }

    /// Does something for each application, and gives those up for which it fails.
    pub fn each(
        &mut self,
        now: Time,
        mut what: impl FnMut(&mut Member, &mut Hub<Heaps>) -> Result<bool, String>,
    ) -> bool {
        let (mut has_moved, mut has_lost) = (false, false);
        self.members.retain_mut(|member| match what(member, &mut self.hub) {
            Ok(moved) => {
                has_moved |= moved;
                true
            }
            Err(why) => {
                eprintln!("petasosd: `{}` has ended: {why}", member.name);
                self.hub.remove(member.number, now);
                (has_moved, has_lost) = (true, true);
                false
            }
        });
        if has_lost {
            self.note_members();
            if self.id() != FIRST {
                self.post.ring(FIRST);
            }
        }
        has_moved
    }

    /// Whether the thread may sleep. All have to say that they sleep, and look once more; but who
    /// is not heard now. [`Runtime::rise`] is to follow.
    pub fn doze(&mut self) -> bool {
        let hub = &mut self.hub;
        let mut members = self.members.iter_mut();
        !self.has_letters
            && members.all(|member| member.is_held_up(hub) || member.lane.doze())
            && self.bell.doze()
    }

    /// The thread is awake.
    pub fn rise(&mut self) {
        self.bell.rise();
        for member in &mut self.members {
            member.rise();
        }
    }

    /// How long the thread may sleep.
    pub fn sleep_max(&mut self, now: Time) -> Duration {
        let hub = &mut self.hub;
        let longest = self.members.iter().map(|member| {
            match member.allowance().filter(|allowance| allowance.is_spent()) {
                // It is heard again then.
                Some(allowance) if !member.is_backed_up => allowance.ready_in(),
                // Nobody tells when a full ring has room again.
                _ if member.is_backed_up || member.is_held_up(hub) => FULL_SLEEP,
                _ => SLEEP_MAX,
            }
        });
        let longest = longest.min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX);
        (self.hub.wake_at() - now).min(longest)
    }

    /// What wakes the thread.
    pub fn descriptors(&self) -> Vec<PollFd<'_>> {
        let mut fds = vec![PollFd::new(&*self.bell, PollFlags::IN)];
        for member in &self.members {
            fds.push(PollFd::new(&member.lane, PollFlags::IN));
            let Some(application) = self.hub.heaps(member.number) else { continue };
            let attached = &application.0;
            let wants = if attached.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(attached, PollFlags::IN | wants));
        }
        fds
    }
}

/// Sleeps until one of these descriptors is ready, at most for so long.
///
/// # Errors
/// The system cannot wait.
pub fn wait(fds: &mut [PollFd<'_>], sleep: Duration) -> Result<(), String> {
    let timeout =
        Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(format!("cannot wait: {error}")),
    }
}
