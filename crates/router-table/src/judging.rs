//! Which workers are being asked, which wait for that, and how many of either.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use core::time::Duration;

use petasos_base::Time;
use petasos_endpoint::{CallError, SessionId};
use petasos_tls::Holder;

use crate::answers::Answers;
use crate::verdict::{Question, RefuseReason};

/// How long a worker has from the dial until it has answered all binds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The most workers that are asked at a time, and that wait for it.
const UNDER_WAY_MAX: usize = 64;
const WAITING_MAX: usize = 1024;

/// The parts of these that one peer may have.
const UNDER_WAY_PER_HOLDER: usize = UNDER_WAY_MAX / 4;
const WAITING_PER_HOLDER: usize = WAITING_MAX / 2;

/// How far a worker has come.
pub(crate) enum Stage {
    /// It is being dialled.
    Connecting,
    /// A bind is under way.
    Asked,
    /// It has answered what it was asked.
    Answered,
    /// It is to be refused.
    Failed(RefuseReason, String),
}

/// A worker that is being asked.
pub(crate) struct UnderWay {
    holder: Holder,
    pub(crate) address: SocketAddr,
    pub(crate) session: SessionId,
    pub(crate) deadline: Time,
    /// To the binds of as many services, in their order.
    pub(crate) answers: Answers,
    pub(crate) stage: Stage,
}

impl UnderWay {
    pub(crate) fn new(question: Question, session: SessionId, now: Time) -> UnderWay {
        let Question { holder, address, .. } = question;
        let (deadline, stage) = (now + PATIENCE, Stage::Connecting);
        UnderWay { holder, address, session, deadline, answers: Answers::new(), stage }
    }

    /// A bind has ended.
    pub(crate) fn on_answer(&mut self, result: Result<&[u8], CallError>) {
        self.stage = match result {
            Ok(answer) => match self.answers.push(answer) {
                Ok(()) => Stage::Answered,
                Err(error) => Stage::Failed(RefuseReason::Incompatible, error.to_string()),
            },
            Err(error @ (CallError::ResponseTooLarge | CallError::UnknownMethod)) => {
                let detail = format!("the worker does not answer binds: {error}");
                Stage::Failed(RefuseReason::Incompatible, detail)
            }
            Err(error) => {
                let detail = format!("the worker at {} has not answered: {error}", self.address);
                Stage::Failed(RefuseReason::NotAnswered, detail)
            }
        };
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Judging {
    pub(crate) under_way: BTreeMap<u64, UnderWay>,
    waiting: VecDeque<Question>,
}

impl Judging {
    /// Lets a question wait until there is a place.
    ///
    /// # Errors
    /// The question, if too many wait: of its holder, or of all.
    pub(crate) fn wait(&mut self, question: Question) -> Result<(), Question> {
        let same = self.waiting.iter().filter(|it| it.holder == question.holder).count();
        if self.waiting.len() >= WAITING_MAX || same >= WAITING_PER_HOLDER {
            return Err(question);
        }
        self.waiting.push_back(question);
        Ok(())
    }

    /// The next question, if there is a place for one.
    pub(crate) fn next(&mut self) -> Option<Question> {
        if self.under_way.len() >= UNDER_WAY_MAX || self.waiting.is_empty() {
            return None;
        }
        let mut counts: HashMap<&Holder, usize> = HashMap::new();
        for it in self.under_way.values() {
            *counts.entry(&it.holder).or_default() += 1;
        }
        let has_place =
            |it: &Question| counts.get(&it.holder).is_none_or(|of| *of < UNDER_WAY_PER_HOLDER);
        let at = self.waiting.iter().position(has_place)?;
        self.waiting.remove(at)
    }

    /// Gives those that are asked more time, which the thread has spent otherwise.
    pub(crate) fn extend(&mut self, spent: Duration) {
        for worker in self.under_way.values_mut() {
            worker.deadline = worker.deadline + spent;
        }
    }

    /// When the first of those that are asked is too late.
    pub(crate) fn next_timeout(&self) -> Time {
        self.under_way.values().map(|it| it.deadline).min().unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use petasos_endpoint::{Clock, Endpoint, EndpointConfig, Node, NodeConfig};
    use petasos_netio_udp::{UdpConfig, UdpIo};

    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn question(ticket: u64, name: &str) -> Question {
        let holder = Holder::Name(name.as_bytes().to_vec());
        Question { ticket, holder, address: SocketAddr::new(LOCALHOST, 1) }
    }

    /// Sessions can only be had from an endpoint.
    fn session() -> SessionId {
        let node = Node::start(NodeConfig::default()).unwrap();
        let io = UdpIo::bind(SocketAddr::new(LOCALHOST, 0), UdpConfig::default()).unwrap();
        let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), ());
        endpoint.attach(&node).unwrap();
        endpoint.connect(SocketAddr::new(LOCALHOST, 1)).unwrap()
    }

    #[test]
    fn rt31_one_peer_has_its_part_of_the_places_and_leaves_others_room() {
        let (mut judging, session) = (Judging::default(), session());
        let mut refused = 0;
        for ticket in 0..600 {
            refused += u64::from(judging.wait(question(ticket, "many")).is_err());
        }
        assert_eq!(refused, 600 - WAITING_PER_HOLDER as u64);
        judging.wait(question(1000, "one")).unwrap_or_else(|_| panic!("there is room"));
        let mut begun = Vec::new();
        while let Some(question) = judging.next() {
            begun.push(question.ticket);
            let (ticket, now) = (question.ticket, Time::ZERO);
            judging.under_way.insert(ticket, UnderWay::new(question, session, now));
        }
        // Its first ones, and the other's at once.
        let expected: Vec<u64> = (0..UNDER_WAY_PER_HOLDER as u64).chain([1000]).collect();
        assert_eq!(begun, expected);
        judging.under_way.remove(&3);
        assert_eq!(judging.next().map(|it| it.ticket), Some(UNDER_WAY_PER_HOLDER as u64));
    }

    #[test]
    fn rt31_all_together_have_no_more_than_all_places() {
        let (mut judging, session) = (Judging::default(), session());
        let mut waits = 0;
        for ticket in 0..2000 {
            let name = (ticket % 10).to_string();
            waits += usize::from(judging.wait(question(ticket, &name)).is_ok());
        }
        assert_eq!(waits, WAITING_MAX);
        while let Some(question) = judging.next() {
            let ticket = question.ticket;
            judging.under_way.insert(ticket, UnderWay::new(question, session, Time::ZERO));
        }
        assert_eq!(judging.under_way.len(), UNDER_WAY_MAX);
    }
}
