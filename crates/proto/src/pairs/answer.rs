//! Packets to pairs (RT10, RT11, RT14).

use petasos_base::Time;
use petasos_wire::{Kind, Packet, RejectCode, WorkerBlock};

use super::{Answer, Answered, Arrival, Asked, Member, PAIR_BIT, Pairs, State, WorkerSession};

impl<C> Pairs<C> {
    /// Takes a packet to a pair: its index has bit 19 set.
    pub fn handle(&mut self, now: Time, arrival: Arrival<'_>) -> Answer<C> {
        let Arrival { from, packet, block } = arrival;
        let at = packet.session() & !PAIR_BIT;
        let known = self.entries.get(at as usize);
        let is_its = |entry: &&_| is_of(entry, &packet);
        let Some(entry) = known.filter(is_its).filter(|_| packet.session() & PAIR_BIT != 0) else {
            self.stats.stale += 1;
            return Answer::None;
        };
        if block.is_some_and(|block| block.worker != from.worker) {
            self.stats.from_elsewhere += 1;
            return Answer::None;
        }
        match (entry.state, block) {
            (State::Bound(session), None) if session.member == from => Answer::Session,
            (State::Bound(session), Some(block)) if session == named(from, block) => {
                // A ready says what is known.
                if packet.kind() == Kind::Ready { Answer::None } else { Answer::Session }
            }
            (_, Some(_)) if !entry.has_sent(packet.echo(), from) => self.elsewhere(),
            (State::Asked(asked), Some(block)) => {
                self.handle_asked(now, (at, asked), from, packet, block)
            }
            (State::Bound(_) | State::Ended, Some(block)) => self.unwanted(from, packet, block),
            (State::Bound(_), None) => self.elsewhere(),
            (State::Asked(_), None) => self.void(),
            (State::Ended, None) => {
                self.stats.stale += 1;
                Answer::None
            }
        }
    }

    /// What a packet to a pair answers (RT28): the sending that it echoes, or, for what names the
    /// bound session or has no block, that by which the pair was bound. `None` if it answers
    /// nothing. Of several routers of a group, two may have given a worker's number to different
    /// ones.
    pub fn answered(&self, packet: &Packet<'_>, block: Option<WorkerBlock>) -> Option<Answered> {
        let entry = self.entries.get((packet.session() & !PAIR_BIT) as usize)?;
        let is_bound_to = |session: WorkerSession| match block {
            None => true,
            Some(block) => session == named(session.member, block),
        };
        if let State::Bound(session) = entry.state
            && is_bound_to(session)
        {
            return Some(Answered { attachment: session.member.attachment, epoch: None });
        }
        let sending = entry.sendings.by_echo(packet.echo())?;
        Some(Answered { attachment: sending.attachment, epoch: Some(sending.epoch) })
    }

    /// Whether a packet is of the pair that its index names, or of the last one there. Others are
    /// not worth opening.
    pub fn knows(&self, packet: &Packet<'_>) -> bool {
        let entry = self.entries.get((packet.session() & !PAIR_BIT) as usize);
        entry.is_some_and(|entry| is_of(entry, packet))
    }

    /// A packet that answers a pair that asks.
    fn handle_asked(
        &mut self,
        now: Time,
        (at, asked): (u32, Asked),
        from: Member,
        packet: Packet<'_>,
        block: WorkerBlock,
    ) -> Answer<C> {
        let session = block.names_session().then(|| named(from, block));
        match (packet.kind(), session) {
            (Kind::Reject, _) => return self.rejected(at, asked, packet),
            (Kind::Ready, Some(session)) => {
                // RT9: a claim is to be sent, and a whole request runs.
                let value = if asked.is_claim { 0 } else { 1 };
                if packet.value() != value || !packet.payload().is_empty() {
                    return self.void();
                }
                self.bind(at, now, packet.echo(), session);
                return Answer::Ready { session, credits: packet.credits() };
            }
            (Kind::Response, _) if asked.is_claim => return self.void(),
            _ => {}
        }
        let is_whole = packet.payload().len() >= packet.value() as usize;
        match (packet.kind(), session) {
            (Kind::Response, done) if is_whole => {
                self.sample(at, now, packet.echo());
                self.stats.completed += 1;
                Answer::Complete { context: self.end_at(at), done }
            }
            (Kind::Response, Some(session)) => {
                self.bind(at, now, packet.echo(), session);
                Answer::Response { session }
            }
            _ => self.void(),
        }
    }

    fn bind(&mut self, at: u32, now: Time, echo: u32, session: WorkerSession) {
        self.sample(at, now, echo);
        self.leave_asked(at);
        self.entries[at as usize].state = State::Bound(session);
        self.stats.bound += 1;
    }

    fn sample(&mut self, at: u32, now: Time, echo: u32) {
        let Some(sending) = self.entries[at as usize].sendings.by_echo(echo).copied() else {
            return;
        };
        if let Some(attachment) = self.attachment_mut(sending.attachment) {
            attachment.sample(sending.at, now);
        }
    }

    /// RT14.
    fn rejected(&mut self, at: u32, asked: Asked, packet: Packet<'_>) -> Answer<C> {
        let code = RejectCode::from_value(packet.value());
        let entry = &mut self.entries[at as usize];
        let is_certain = code.is_some_and(is_certain);
        if is_certain {
            if let Some(sending) = entry.sendings.by_echo_mut(packet.echo()) {
                sending.is_rejected = true;
            }
            if !entry.sendings.are_rejected() {
                return Answer::None;
            }
        }
        self.stats.rejected += 1;
        let context = self.end_at(at);
        Answer::Rejected { context, code, has_not_run: is_certain || asked.is_claim }
    }

    /// An answer of somebody whom nobody waits for (RT11).
    fn unwanted(&mut self, from: Member, packet: Packet<'_>, block: WorkerBlock) -> Answer<C> {
        let says_so = matches!(packet.kind(), Kind::Ready | Kind::Response);
        if !says_so || !block.names_session() {
            self.stats.stale += 1;
            return Answer::None;
        }
        self.stats.cancels += 1;
        Answer::Cancel { session: named(from, block), request: packet.request() }
    }

    fn elsewhere(&mut self) -> Answer<C> {
        self.stats.from_elsewhere += 1;
        Answer::None
    }

    fn void(&mut self) -> Answer<C> {
        self.stats.void += 1;
        Answer::None
    }
}

fn is_of<C>(entry: &super::Entry<C>, packet: &Packet<'_>) -> bool {
    // An entry that was never used has sent nothing.
    !entry.sendings.is_empty() && entry.tag == packet.tag() && entry.request == packet.request()
}

fn named(member: Member, block: WorkerBlock) -> WorkerSession {
    WorkerSession { member, session: block.session, tag: block.tag }
}

/// Whether a code says that the request has certainly not run (RT14).
fn is_certain(code: RejectCode) -> bool {
    use RejectCode as Code;
    match code {
        Code::UnknownMethod | Code::TooLarge | Code::Overloaded | Code::Draining => true,
        Code::Again | Code::QueueFull | Code::Expired => true,
        Code::NoWorker | Code::UnknownPolicy => true,
        // What is not known to be certain is not.
        _ => false,
    }
}
