//! Connections that replace broken ones (C21).

use petasos_control::{Event, RESUMES_MAX, Role, Ticket};

use super::links::Lost;
use super::streams::End;
use super::{ControlPlane, GRACE, is_current};
use crate::World;
use crate::cluster::check::{Life, Violation};
use crate::cluster::node::Node;

const RULE: &str = "connections are resumed within their grace";

impl ControlPlane {
    /// The peer has identified itself.
    pub(super) fn on_peer(&mut self, world: &mut World<Node>, end: &mut End) {
        match end.role {
            Role::Dialler => {
                // A dialler only starts a new connection after it has given up the other one.
                let mut links = self.peer(end).links.iter();
                let lost = links.find(|(_, link)| link.lost.is_some());
                end.seeks = lost.map(|(old, link)| (*old, link.tickets.clone()));
                if end.seeks.is_none() {
                    self.begin(world, end);
                }
            }
            Role::Acceptor => {
                let ticket = Ticket::new(core::array::from_fn(|_| self.rng.next_u64() as u8));
                end.ticket = end.connection.give_ticket(ticket).then_some(ticket);
                if self.peer(end).links.is_empty() {
                    self.begin(world, end);
                }
            }
        }
    }

    pub(super) fn on_resumption(
        &mut self,
        world: &mut World<Node>,
        end: &mut End,
        event: &Event,
    ) -> bool {
        match *event {
            Event::Ticket(ticket) => {
                end.ticket = Some(ticket);
                if let Some(link) = self.link(end) {
                    link.tickets = vec![ticket];
                }
                if end.seeks.is_some() {
                    self.show_ticket(world, end);
                }
            }
            Event::ResumeRequested(ticket) => self.on_shown(world, end, ticket),
            Event::ResumeAnswered { accepted: true } => {
                let (old, _) = end.seeks.take().expect("who is answered has asked");
                self.tally.resumed += 1;
                self.take_place(world, end, old);
            }
            Event::ResumeAnswered { accepted: false } => self.show_ticket(world, end),
            _ => return false,
        }
        true
    }

    fn show_ticket(&mut self, world: &mut World<Node>, end: &mut End) {
        let (old, untried) = end.seeks.as_mut().expect("it seeks what was lost");
        let old = *old;
        match untried.pop() {
            Some(ticket) => assert!(end.connection.resume(ticket), "there are a few tickets"),
            None => {
                self.check_refused(world, end, old);
                self.standing.remove(&old);
                self.give_up(world, end.life, end.peer.host, old);
                self.begin(world, end);
            }
        }
    }

    /// Checks that the peer had given up the connection that it refuses to resume.
    fn check_refused(&mut self, world: &World<Node>, end: &End, old: u64) {
        let far = self.peer(end).links[&old].far;
        if self.standing.contains(&far) && is_current(world, end.peer) {
            let what = format_args!("{:?} does not know what {:?} seeks", end.peer, end.life);
            self.accuse(Violation::new(RULE, what));
        }
    }

    /// A dialler has presented a ticket.
    fn on_shown(&mut self, world: &mut World<Node>, end: &mut End, ticket: Ticket) {
        let mut links = self.peer(end).links.iter();
        let found = links.find(|(_, link)| link.lost.is_some() && link.tickets.contains(&ticket));
        let found = found.map(|(old, _)| *old);
        end.connection.answer_resume(found.is_some());
        match found {
            Some(old) => self.take_place(world, end, old),
            None => self.tally.refused += 1,
        }
    }

    fn take_place(&mut self, world: &mut World<Node>, end: &mut End, old: u64) {
        (end.number, end.settled) = (old, true);
        let (own, ticket) = (end.own, end.ticket);
        let link = self.peer(end).links.get_mut(&old).expect("it was just found");
        // The ticket was valid.
        (link.end, link.tickets) = (own, Vec::from_iter(ticket));
        let lost = link.lost.take().expect("it was lost");
        if lost.until < world.now() {
            let what = format_args!("{:?} goes on with {:?} too late", end.life, end.peer);
            self.accuse(Violation::new(RULE, what));
        }
        end.connection.inherit_answers(lost.answers);
        self.ask(world, end);
    }

    /// A connection broke. What depends on it waits for another one, if there can be one.
    pub(super) fn on_broken(&mut self, world: &mut World<Node>, end: &mut End) {
        let answers = end.connection.take_answers();
        if let (Some((old, _)), Some(ticket)) = (&end.seeks, end.ticket) {
            let sought = self.peer(end).links.get_mut(old);
            let tickets = &mut sought.expect("it is sought until it is given up").tickets;
            tickets.push(ticket);
            let first = tickets.len().saturating_sub(RESUMES_MAX);
            tickets.drain(..first);
        }
        let has_place = end.seeks.is_none();
        let Some(link) = self.link(end) else { return };
        if link.tickets.is_empty() || !has_place {
            self.standing.remove(&end.number);
            return self.give_up(world, end.life, end.peer.host, end.number);
        }
        link.lost = Some(Lost { until: world.now() + GRACE, answers });
    }

    /// Ends everything that has waited for its full grace period.
    pub(super) fn expire(&mut self, world: &mut World<Node>) {
        let now = world.now();
        let mut expired: Vec<(Life, u32, u64)> = Vec::new();
        for (&(life, host), peer) in &self.peers {
            let is_over = |lost: &Lost| lost.until <= now;
            let links =
                peer.links.iter().filter(|(_, link)| link.lost.as_ref().is_some_and(is_over));
            expired.extend(links.map(|(number, _)| (life, host, *number)));
        }
        for (life, host, number) in expired {
            if !is_current(world, life) {
                continue;
            }
            self.tally.expired += 1;
            self.standing.remove(&number);
            self.give_up(world, life, host, number);
            self.drop_seekers(world, life, host, number);
        }
    }

    /// Notes that nothing can replace `number` any more.
    fn drop_seekers(&mut self, world: &mut World<Node>, life: Life, host: u32, number: u64) {
        let mut dropped = Vec::new();
        for stream in &mut self.streams {
            let [one, other] = &mut stream.ends;
            let seeks = one.seeks.as_ref().is_some_and(|(old, _)| *old == number);
            if one.life == life && seeks {
                (one.done, other.broken) = (true, true);
                dropped.push(one.number);
            }
        }
        for number in dropped {
            self.standing.remove(&number);
            self.give_up(world, life, host, number);
        }
    }
}
