//! The control thread: sockets, connections, and pending requests for sessions.
//!
//! Invariants: an attempt is in `attempts` from its command until its outcome is posted, and until
//! then waits on exactly one link, or lost link. `by_address` names exactly the links that this
//! process dialled, whose sessions have not ended, and whose servers have no successor that is
//! heeded. However the thread ends, even by a panic, every endpoint is told (`Drop`).

mod admission;
mod attempts;
mod enrolments;
mod outcomes;
mod placing;
mod resumption;
mod router;
mod succession;
mod told;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use core::time::Duration;

use petasos_base::{Clock, Time, TokenBuckets};
use petasos_control::{
    AcceptParams, ByeReason, Config, Connection, Event, Hello, RefuseCode, Role,
};
use petasos_tls::Holder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::{Link, Stage};
use super::lost::Lost;
use super::{NodeConfig, Shared};
use crate::enrolment::EnrolmentId;
use crate::error::SessionError;
use crate::mail::{Command, Enrolment, Mail};
use crate::mailbox::Mailbox;
use crate::sessions::{PeerId, SessionOffer};
use enrolments::Enrolments;
use router::{Router, is_said_to_router};

/// How long the listener pauses after the system had no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The most connections that are accepted in one turn, so that established ones get their turns in
/// between.
const ACCEPTS_MAX: usize = 32;
/// How long a stopping node waits for its goodbyes to arrive.
const STOP_TIMEOUT: Duration = Duration::from_millis(600);

/// What an endpoint asks another process for.
enum Asking {
    Session {
        offer: Box<SessionOffer>,
        from: Arc<Mailbox<Mail>>,
    },
    /// To be attached to a router, or to join it.
    Group(Box<Enrolment>),
    /// For a worker to connect to, by an attachment.
    Place(EnrolmentId),
}

/// Something that an endpoint has asked for.
struct Attempt {
    asking: Asking,
    /// Whether it was first asked for on a connection that broke before the answer.
    is_repeated: bool,
    /// Whether it was first asked for of a process that has a successor (C22).
    is_moved: bool,
}

pub(super) struct Control {
    shared: Arc<Shared>,
    listener: Option<Arc<TcpListener>>,
    config: Config,
    hello: Hello,
    connections_max: usize,
    connections_per_address_max: usize,
    connections_per_name_max: usize,
    handshakes: TokenBuckets<Holder>,
    clock: Clock,
    now: Time,
    links: BTreeMap<PeerId, Link>,
    by_address: HashMap<SocketAddr, PeerId>,
    /// Links without a connection, by the numbers that they had and may get again.
    lost: BTreeMap<PeerId, Lost>,
    /// How long they are kept.
    grace: Duration,
    attempts: HashMap<u64, Attempt>,
    enrolments: Enrolments,
    router: Router,
    /// Counts from a random start, so that an endpoint that moves to another node does not mistake
    /// late mail of the first node for mail of the second.
    next_link: PeerId,
    /// Connect ids are never reused in an incarnation (C12).
    next_attempt: u64,
    /// Where the search for the next serving endpoint starts.
    cursor: usize,
    accept_at: Time,
    draining: bool,
    /// When a stopping node stops waiting for its goodbyes.
    stop_at: Option<Time>,
}

impl Control {
    pub(super) fn new(
        shared: Arc<Shared>,
        listener: Option<Arc<TcpListener>>,
        config: Config,
        hello: Hello,
        settings: &NodeConfig,
        clock: Clock,
    ) -> Control {
        Control {
            shared,
            listener,
            config,
            hello,
            connections_max: settings.connections_max,
            connections_per_address_max: settings.connections_per_address_max,
            connections_per_name_max: settings.connections_per_name_max,
            handshakes: TokenBuckets::new(settings.handshakes_per_second),
            now: clock.now(),
            clock,
            links: BTreeMap::new(),
            by_address: HashMap::new(),
            lost: BTreeMap::new(),
            grace: settings.resume_grace,
            attempts: HashMap::new(),
            enrolments: Enrolments::default(),
            router: Router::default(),
            next_link: petasos_base::random_seed() >> 1,
            next_attempt: 1,
            cursor: 0,
            accept_at: Time::ZERO,
            draining: false,
            stop_at: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut commands = VecDeque::new();
        let mut accepts = false;
        while self.turn(&mut commands, accepts) {
            accepts = self.wait();
        }
    }

    /// One turn, which accepts connections if the listener is ready. Returns whether there will be
    /// another one.
    fn turn(&mut self, commands: &mut VecDeque<Command>, accepts: bool) -> bool {
        self.now = self.clock.now();
        self.shared.commands.take(commands);
        commands.drain(..).for_each(|command| self.on_command(command));
        self.turn_enrolments();
        self.turn_lost();
        self.turn_links();
        self.turn_router();
        let overdue = self.stop_at.is_some_and(|at| at <= self.now);
        if overdue || (self.stop_at.is_some() && self.links.is_empty()) {
            return false;
        }
        // After the links, which may have broken: their peers connect again.
        if accepts {
            self.accept();
        }
        true
    }

    /// Sleeps until something happens. Returns whether the listener is ready.
    fn wait(&mut self) -> bool {
        let timeouts = self.links.values().map(Link::next_timeout);
        let timeouts = timeouts.chain(self.lost.values().map(Lost::next_timeout));
        let groups = self.enrolments.next_timeout().min(self.router.next_timeout());
        let wake_at = timeouts.min().unwrap_or(Time::NEVER).min(groups);
        let listens = self.listener.is_some() && self.stop_at.is_none();
        let paused = self.accept_at > self.now;
        let pause_end = if listens && paused { self.accept_at } else { Time::NEVER };
        let wake_at = wake_at.min(pause_end).min(self.stop_at.unwrap_or(Time::NEVER));
        let mut fds = vec![PollFd::new(&self.shared.commands, PollFlags::IN)];
        let listener = self.listener.as_ref().filter(|_| listens && !paused);
        fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
        let links = self.links.values().map(|link| PollFd::new(link, link.interest()));
        fds.extend(links);
        let asleep = self.shared.commands.doze();
        let now = self.clock.now();
        let wait_ns = if asleep { wake_at.nanos_since(now) } else { 0 };
        // An interrupted or failed poll is a turn without events: everything is nonblocking.
        let _ = poll(&mut fds, timespec(wake_at, wait_ns).as_ref());
        if asleep {
            self.shared.commands.rise();
        }
        let rung = !fds[0].revents().is_empty();
        let accepts = listener.is_some() && !fds[1].revents().is_empty();
        if rung {
            self.shared.commands.hush();
        }
        accepts
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Connect { server, offer, from } => self.connect(server, offer, from),
            Command::Reply { link, id, result, from } => self.reply(link, id, *result, &from),
            Command::Disconnect { link, session } => {
                if let Some(at) = self.links.get_mut(&link) {
                    at.disconnects.push_back(session);
                } else if let Some(lost) = self.lost.get_mut(&link) {
                    lost.disconnects.push_back(session);
                }
            }
            Command::AvoidRings { link, endpoint } => {
                if let Some(at) = self.links.get_mut(&link) {
                    at.without_rings.note(endpoint, self.now);
                } else if let Some(lost) = self.lost.get_mut(&link) {
                    lost.without_rings.note(endpoint, self.now);
                }
            }
            Command::Group(command) => self.on_group_command(command),
            Command::Drain => self.drain(),
            Command::Accept => self.accept_at = Time::ZERO,
            Command::HandOver => self.hand_over(),
            Command::Stop => self.stop(),
        }
    }

    fn connect(&mut self, server: SocketAddr, offer: Box<SessionOffer>, from: Arc<Mailbox<Mail>>) {
        let id = self.add_attempt(Asking::Session { offer, from });
        if self.stop_at.is_some() {
            return self.fail_attempt(id, SessionError::NodeEnded);
        }
        if self.shared.guard.forbids(server.ip()) {
            return self.fail_attempt(id, SessionError::Plaintext(server));
        }
        self.wait_for(server, id);
    }

    fn reply(
        &mut self,
        link: PeerId,
        id: u64,
        result: Result<AcceptParams, RefuseCode>,
        from: &Mailbox<Mail>,
    ) {
        let connection = self.links.get_mut(&link).and_then(Link::connection);
        let sent = connection.is_some_and(|connection| connection.reply(id, result).is_ok());
        if let (false, Ok(granted)) = (sent, result) {
            // If the endpoint is gone, so is the session.
            let _ = from.post(Mail::Void { session: granted.server_ref() });
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        self.links.values_mut().filter_map(Link::connection).for_each(Connection::drain);
        for member in self.shared.members().list.iter().flatten() {
            // An endpoint that is gone need not be told.
            let _ = member.mailbox.post(Mail::Drain);
        }
    }

    fn stop(&mut self) {
        self.stop_at = Some(self.now + STOP_TIMEOUT);
        self.listener = None;
        while let Some(&number) = self.lost.keys().next() {
            self.end_lost(number, &SessionError::NodeEnded);
        }
        let numbers: Vec<_> = self.links.keys().copied().collect();
        for number in numbers {
            let link = self.links.get_mut(&number).expect("the numbers were just read");
            match link.connection() {
                Some(connection) => connection.close(ByeReason::Shutdown),
                None => {
                    self.end_link(number, SessionError::NodeEnded);
                    self.links.remove(&number);
                }
            }
        }
    }

    /// Processes every link. There are few links, and this only runs after an event. So none is
    /// missed, and there is no list of links with events to maintain.
    fn turn_links(&mut self) {
        let numbers: Vec<_> = self.links.keys().copied().collect();
        for number in numbers {
            // One link may have taken another's number.
            if self.links.contains_key(&number) && self.turn_dialling(number) {
                self.turn_link(number);
            }
        }
    }

    /// Starts the control protocol on a link whose TCP connection has been established. Returns
    /// false if it has not.
    fn turn_dialling(&mut self, number: PeerId) -> bool {
        let (now, draining) = (self.now, self.draining);
        let link = self.links.get_mut(&number).expect("a link's number was just read");
        match link.dialled(now) {
            Ok(true) => {
                if matches!(link.stage, Stage::Dialling { .. }) {
                    let hello = self.hello.clone();
                    let mut connection = Connection::new(self.config, Role::Dialler, hello, now);
                    if draining {
                        connection.drain();
                    }
                    link.talk(connection, &self.shared.guard);
                }
                true
            }
            Ok(false) => false,
            Err(error) => {
                self.end_link(number, error);
                self.links.remove(&number);
                false
            }
        }
    }

    fn turn_link(&mut self, number: PeerId) {
        let link = self.links.get_mut(&number).expect("a link's number was just read");
        link.take_input(self.now);
        if !self.keeps(number) {
            // No session depends on it yet, since none of its messages was processed.
            self.links.remove(&number);
            return;
        }
        let Some(number) = self.take_events(number) else { return };
        self.send_waiting(number);
        let link = self.links.get_mut(&number).expect("links are removed by their turn only");
        link.give_output(self.now);
        // A failed write is an event as well.
        let Some(number) = self.take_events(number) else { return };
        if self.links[&number].is_over(self.now) {
            self.links.remove(&number);
        }
    }

    /// Handles the events of a link one by one: an event may put the link in another one's place.
    /// Returns the number that it then has; `None` if the link is gone.
    fn take_events(&mut self, mut number: PeerId) -> Option<PeerId> {
        loop {
            let link = self.links.get_mut(&number)?;
            let event = link.connection().and_then(Connection::poll_event);
            let Some(event) = event else { return Some(number) };
            number = self.on_event(number, event);
        }
    }

    /// Handles an event. Returns the link's number from now on.
    fn on_event(&mut self, number: PeerId, event: Event) -> PeerId {
        match event {
            Event::ConnectRequested { id, params } => self.on_asked(number, id, params),
            Event::ConnectAnswered { id, result } => self.on_answered(number, id, result),
            Event::Disconnected { session } => {
                let mail = Mail::Disconnected { link: number, session };
                self.post_to(session.endpoint, mail);
            }
            Event::PeerHello { .. } => self.on_hello(number),
            Event::Ticket(ticket) => self.on_ticket(number, ticket),
            Event::ResumeRequested(ticket) => return self.on_resume_requested(number, ticket),
            Event::ResumeAnswered { accepted } => return self.on_resume_answered(number, accepted),
            Event::PeerSucceeded => self.on_succeeded(number),
            Event::PeerFailed(reason) => self.on_failed(number, reason),
            Event::Closed { by_peer, .. } => {
                let error = if by_peer { SessionError::PeerEnded } else { SessionError::NodeEnded };
                self.end_link(number, error);
            }
            Event::PeerDraining => self.on_router_draining(number),
            // Its effect is read from the connection in `send_waiting`.
            Event::DisconnectAnswered { .. } => {}
            Event::Group(event) => {
                match is_said_to_router(&event, self.links[&number].server.is_none()) {
                    true => self.on_said_to_router(number, event),
                    false => self.on_router_said(number, event),
                }
            }
        }
        number
    }

    /// Ends a link whose connection is over: everything that depends on it fails.
    fn end_link(&mut self, number: PeerId, error: SessionError) {
        let link = self.links.get_mut(&number).expect("a link that ends exists");
        link.ended = true;
        if let Some(old) = link.resumes.take() {
            let ticket = link.ticket.filter(|_| link.has_shown);
            return self.retry(old, ticket, error);
        }
        let repeats = link.repeats.drain(..).map(|(id, _)| id);
        let ids = link.waiting.drain(..).chain(repeats).chain(link.orphans.drain(..));
        let ids = ids.collect::<Vec<_>>();
        if let Some(server) = link.server
            && self.by_address.get(&server) == Some(&number)
        {
            self.by_address.remove(&server);
        }
        let asked = link.server.is_none().then(|| core::mem::take(&mut link.asked));
        // What a server with a successor has not answered, the successor may.
        let goes_on = link.is_succeeded && self.stop_at.is_none();
        for id in ids {
            match goes_on {
                true => self.ask_successor(number, id),
                false => self.fail_attempt(id, error.clone()),
            }
        }
        self.tell_lost(number, asked.as_deref(), &error);
        self.end_enrolments(number, &error);
        self.on_group_peer_gone(number, enrolments::is_break(&error));
    }

    /// Tells endpoints that the sessions of a connection end: those that were asked for sessions,
    /// or all if this process dialled. So strangers that connect and disconnect wake no endpoint.
    fn tell_lost(&self, number: PeerId, asked: Option<&[u16]>, error: &SessionError) {
        let members = self.shared.members();
        for (index, member) in (0..).zip(&members.list) {
            let concerned = asked.is_none_or(|asked| asked.contains(&index));
            if let Some(member) = member.as_ref().filter(|_| concerned) {
                // An endpoint that is gone need not be told.
                let _ = member.mailbox.post(Mail::PeerLost { link: number, error: error.clone() });
            }
        }
    }

    fn post_to(&self, endpoint: u16, mail: Mail) {
        if let Some(member) = self.shared.members().get(endpoint) {
            // A session of an endpoint that is gone is gone as well.
            let _ = member.mailbox.post(mail);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let ids: Vec<_> = self.attempts.keys().copied().collect();
        for id in ids {
            self.fail_attempt(id, SessionError::NodeEnded);
        }
        for command in self.shared.commands.close() {
            if let Command::Connect { offer, from, .. } = command {
                let outcome = Err(SessionError::NodeEnded);
                let _ = from.post(Mail::Connected { offer, outcome });
            }
            // Endpoints hear that the node has ended, and their enrolments with it.
        }
        let mut members = self.shared.members();
        members.closed = true;
        for member in members.list.iter().flatten() {
            let _ = member.mailbox.post(Mail::NodeEnded);
        }
    }
}

/// The timeout of a poll until `wake_at`, `wait_ns` from now.
fn timespec(wake_at: Time, wait_ns: u64) -> Option<Timespec> {
    let finite = wake_at != Time::NEVER || wait_ns == 0;
    finite.then(|| crate::timespec::timespec_of(wait_ns))
}
