//! The loop's part in a takeover: as the process that is replaced, and as the one that replaces.

use petasos_attach::Credentials;
use petasos_attach::reason::DetachCode;
use petasos_attach::session::Handover;
use petasos_base::Time;
use petasos_service::Hub;

use super::Daemon;
use super::leaving::{Leaving, Left, for_each};
use crate::member::{Heaps, Member};
use crate::ports::owner;
use crate::takeover::{Giver, Offer, Predecessor, Said, Step, Which, states};
use crate::transport::TransportSet;

/// What concerns processes before and after this one.
pub struct Takeover {
    /// Who may take over from this process.
    pub giver: Giver,
    /// The process before this one, until it has ended.
    pub predecessor: Option<Predecessor>,
    /// This process was taken over from, and ends.
    pub leaving: Option<Leaving>,
}

impl Daemon {
    /// Hears the processes before and after this one. Returns whether there was anything.
    pub(super) fn hear_takeover(&mut self, now: Time) -> bool {
        let mut has_moved = self.hear_predecessor(now);
        if let Some(step) = self.takeover.giver.turn(now) {
            self.on_step(step, now);
            has_moved = true;
        }
        has_moved
    }

    /// Goes on to the end, if there is a successor. Says whether that is reached.
    pub(super) fn leave(&mut self, now: Time) -> bool {
        let Some(mut leaving) = self.takeover.leaving.take() else { return false };
        let mut transport = self.transport.take();
        let left = self.with_world(|world| leaving.turn(world, transport.as_mut(), now));
        (self.takeover.leaving, self.transport) = (Some(leaving), transport);
        match left {
            Left::Waits => return false,
            Left::Settled => {
                self.takeover.giver.settle();
                return false;
            }
            Left::Nothing => eprintln!("petasosd: nothing is left to do: the successor has it all"),
            Left::TimeIsUp => {
                let count = self.with_world(|world| world.applications().len());
                eprintln!("petasosd: the time to drain is up, with {count} applications left");
            }
        }
        let why = "the service's successor goes on";
        self.with_world(|world| {
            for_each(world, |attached| attached.say_detach(DetachCode::Stopping, why));
        });
        true
    }

    /// When something of it is due.
    pub(super) fn takeover_due(&self) -> Option<Time> {
        let leaving = self.takeover.leaving.as_ref().map(Leaving::next_due);
        let settling = self.takeover.predecessor.as_ref().and_then(Predecessor::next_due);
        self.takeover.giver.next_due().into_iter().chain(leaving).chain(settling).min()
    }

    fn hear_predecessor(&mut self, now: Time) -> bool {
        let Some(predecessor) = &mut self.takeover.predecessor else { return false };
        let has_ended = predecessor.hear(now);
        if predecessor.is_settled() {
            self.transport.iter_mut().for_each(TransportSet::accept);
        }
        let let_in = predecessor.let_in();
        let has_moved = has_ended || !let_in.is_empty();
        if has_ended {
            self.takeover.predecessor = None;
            self.common.kept.forget(None);
            self.control.forget_awaited();
            self.common.host.schemas().forget_inherited();
            eprintln!("petasosd: the process before this one has ended");
            petasos_operator::notify::status("the process before this one has ended");
        }
        let_in.into_iter().for_each(|applicant| self.accept(applicant));
        has_moved
    }

    fn on_step(&mut self, step: Step, now: Time) {
        match step {
            Step::Wants(who) => match self.offer() {
                Ok(offer) => self.takeover.giver.offer(offer, now),
                Err(why) => {
                    self.takeover.giver.refuse(&why);
                    self.note(who, "refused", &why);
                }
            },
            Step::Serves(who) => {
                self.note(who, "done", "");
                let mut all = self.known();
                if self.takeover.giver.takes_states() {
                    all.extend(states(&self.with_world(|world| world.carried())));
                }
                self.listener.give();
                self.desk.give();
                self.takeover.giver.give(all.into_iter(), now);
            }
            Step::Knows => self.announce(now),
            Step::Failed(who, why) => self.note(who, "failed", &why),
            // What runs ends here; whoever is started next has all that begins.
            Step::Crashed(why) => {
                eprintln!("petasosd: the successor has failed: {why}");
                // Whoever is started next can listen where this process did.
                let drain = self.drain;
                self.transport.iter_mut().for_each(|transport| transport.hand_over(drain, now));
                if self.takeover.leaving.is_none() {
                    self.announce(now);
                }
            }
        }
    }

    /// All that the successor gets before it serves.
    ///
    /// # Errors
    /// Why there is to be none now.
    fn offer(&self) -> Result<Offer, String> {
        if self.takeover.predecessor.is_some() {
            return Err("the process before this one has not ended: try again later".to_owned());
        }
        if self.runtimes.is_changing() {
            return Err("applications move to other runtimes: try again later".to_owned());
        }
        let no_room = |error: std::io::Error| format!("no descriptors are left: {error}");
        let listening = self.listener.shared().map_err(no_room)?;
        let listening = listening.ok_or("another process has taken over")?;
        let sockets = vec![
            (Which::Applications, listening),
            (Which::Operators, self.desk.shared()?),
            (Which::Takeover, self.takeover.giver.shared()?),
        ];
        let transport = self.transport.as_ref();
        let reached = transport.map_or(Ok(Vec::new()), TransportSet::share_listeners);
        let reached = reached.map_err(no_room)?;
        Ok(Offer { configuration: self.control.in_force()?, sockets, reached })
    }

    /// All that the successor gets when it serves.
    fn known(&mut self) -> Vec<Said> {
        self.with_world(|world| {
            let members = world.runtimes().flat_map(|runtime| &runtime.members);
            members.flat_map(known).collect()
        })
    }

    /// Tells all applications of the successor. Those that do not know what that is are detached:
    /// they attach again, as after a crash.
    fn announce(&mut self, now: Time) {
        eprintln!("petasosd: a successor serves; this process ends what is under way");
        self.takeover.leaving = Some(Leaving::new(now, self.drain));
        self.with_world(|world| {
            for runtime in world.runtimes_mut() {
                runtime.each(now, announce_to);
            }
        });
    }

    /// Writes down who wanted to take over.
    fn note(&self, who: Credentials, what: &'static str, why: &str) {
        let pid = who.pid.map_or("unknown".to_owned(), |pid| pid.to_string());
        let program = who.pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        let program = program.map_or("unknown".to_owned(), |path| path.display().to_string());
        let more = if why.is_empty() { String::new() } else { format!(": {why}") };
        eprintln!("petasosd: takeover by process {pid} ({program}) {what}{more}");
        self.desk.record(who, &format!("takeover by {program}"), what, why);
    }
}

/// Tells an application of the successor.
fn announce_to(member: &mut Member, hub: &mut Hub<Heaps>) -> Result<bool, String> {
    let application = hub.application(member.number).ok_or("it is gone")?;
    let attached = &mut application.memory().0;
    // One that moves within this process attaches wherever it is told to.
    if attached.announce_successor() || attached.handover() != Handover::None {
        return Ok(true);
    }
    attached.say_detach(DetachCode::Stopping, "attach again, to the successor");
    Err("it does not know of successors".to_owned())
}

/// What the successor gets of an application.
fn known(member: &Member) -> Vec<Said> {
    let owner = owner(member.who);
    // Without a descriptor to spare, the application asks until the address is free.
    let ports = member.ports().iter().filter_map(|(address, file)| {
        let file = file.try_clone().ok()?;
        Some(Said::Port(owner, *address, file))
    });
    std::iter::once(Said::Application(owner)).chain(ports).collect()
}
