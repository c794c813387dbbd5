//! Applies a script's actions to the world.

use petasos_base::Time;
use petasos_netio::memory::Captured;

use super::World;
use crate::link::Link;
use crate::network::Event;
use crate::{Action, FaultProfile, Host, Links};

impl<H: Host> World<H> {
    /// Does `action` now.
    ///
    /// # Panics
    /// If it names a host or link that does not exist: the caller's fault.
    pub fn apply(&mut self, action: Action) {
        match action {
            Action::Pause { host, until } => self.pause(host, until),
            Action::Crash { host } => self.crash(host),
            Action::Restart { host } => self.restart(host),
            Action::Drift { host, ppm } => {
                let now = self.clock.now();
                self.clocks[host as usize].set_rate(now, ppm);
                // Its timer was set by the old rate: it runs, and sets it again.
                if self.hosts[host as usize].alive {
                    self.wake(host, now);
                }
            }
            Action::JumpDay { host, by_nanos } => self.clocks[host as usize].jump_day(by_nanos),
            Action::Faults { links, profile } => self.set_faults(links, profile),
            Action::Cut(links) => self.set_cut(links, true),
            Action::Mend(links) => self.set_cut(links, false),
            Action::Partition(groups) => {
                assert_eq!(groups.len(), self.hosts.len(), "every host is in a group");
                self.network.groups = groups;
            }
            Action::Heal => self.network.groups.clear(),
            Action::Calm => {
                self.set_faults(Links::All, FaultProfile::clean());
                self.set_cut(Links::All, false);
                self.network.groups.clear();
            }
        }
    }

    /// Does `action` at `time`, after the events that are already queued for that time.
    ///
    /// # Panics
    /// If `time` lies in the past, or after 65,536 actions: the caller's fault.
    pub fn schedule(&mut self, time: Time, action: Action) {
        assert!(time >= self.clock.now(), "an action lies in the future");
        assert!(self.actions.len() < ACTIONS_MAX, "a script has at most {ACTIONS_MAX} actions");
        let index = self.actions.len() as u32;
        self.actions.push(Some(action));
        self.network.push(time, Event::Act { action: index });
    }

    fn pause(&mut self, number: u32, until: Time) {
        let host = &mut self.hosts[number as usize];
        if host.alive {
            host.ready_at = until.max(self.clock.now());
            self.timers.set(number, host.ready_at);
        }
    }

    fn crash(&mut self, number: u32) {
        let host = &mut self.hosts[number as usize];
        host.alive = false;
        self.hub.close_rings(host.port);
        self.timers.set(number, Time::NEVER);
    }

    fn restart(&mut self, number: u32) {
        let now = self.clock.now();
        let restarts = self.hosts[number as usize].restarts + 1;
        self.hub.close_rings(self.hosts[number as usize].port);
        self.hosts[number as usize] = self.seat(number, restarts);
        // The old program was dropped with its host. What it sent while being dropped is discarded.
        self.hub.take_captured(&mut self.sent);
        let old = |captured: &Captured| {
            self.port_owners[captured.from as usize] == number
                && captured.from != self.hosts[number as usize].port
        };
        self.sent.retain(|captured| !old(captured));
        self.collect_sent(now);
        self.timers.set(number, now);
    }

    fn set_faults(&mut self, links: Links, profile: FaultProfile) {
        profile.check();
        self.for_links(links, |link| link.faults = profile);
    }

    fn set_cut(&mut self, links: Links, cut: bool) {
        self.for_links(links, |link| link.cut = cut);
    }

    fn for_links(&mut self, links: Links, change: impl Fn(&mut Link)) {
        for index in 0..self.network.ports.len() {
            if links.contains(self.network.topology(), index) {
                change(&mut self.network.ports[index].link);
            }
        }
    }
}

/// Actions that a script may schedule in all.
pub(super) const ACTIONS_MAX: usize = 1 << 16;
