//! The group, as handlers ask it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos::Status;
use petasos_quorum::client::{Ask, ClientError, Done, Pipeline, Repeat, To};
use petasos_quorum::etcd::{Answer, EtcdCommand, EtcdQuery};
use petasos_quorum::member::Admin;
use petasos_quorum::reply::Reply;
use petasos_quorum::service::{ADMIN, COMMAND, FOLLOW, MemberStatus, READ, STATUS};
use petasos_quorum::state::Command;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot, watch};

use crate::api::ResponseHeaderMut;
use crate::failure::{busy, malformed, of_client, of_member, of_refusal};

/// How long a request may take, with another leader's election: etcd's, about.
const TIMEOUT: Duration = Duration::from_secs(7);
/// Requests that are asked at once at most: others wait.
const ASKED_MAX: usize = 4096;
/// Ranges that are longer than one answer and are read at once at most: others wait.
const LONG_MAX: usize = 16;

/// Asks the group, and the member that clients are connected to.
#[derive(Clone)]
pub(crate) struct Group {
    pipeline: Pipeline,
    own: SocketAddr,
    places: Arc<Semaphore>,
    long_places: Arc<Semaphore>,
    status: watch::Receiver<Arc<MemberStatus>>,
}

/// What the group has answered.
pub(crate) struct Answered {
    /// The entry of the command, or the last one that was applied when a query was answered.
    pub index: u64,
    bytes: Vec<u8>,
}

impl Answered {
    /// The store's answer.
    pub fn answer(&self) -> Result<Answer<'_>, Status> {
        Answer::decode(&self.bytes).ok_or_else(malformed)
    }

    /// How long it is.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// What was found, or why nothing was.
    pub fn found(&self) -> Result<(i64, petasos_base::ByteReader<'_>), Status> {
        let Answer { revision, body } = self.answer()?;
        Ok((revision, body.map_err(of_refusal)?))
    }
}

impl Group {
    /// Asks through `pipeline`, and asks the member at `own` for what that one knows.
    pub fn new(
        pipeline: Pipeline,
        own: SocketAddr,
        status: watch::Receiver<Arc<MemberStatus>>,
    ) -> Group {
        let places = |count| Arc::new(Semaphore::new(count));
        let (places, long_places) = (places(ASKED_MAX), places(LONG_MAX));
        Group { pipeline, own, places, long_places, status }
    }

    /// What the own member has said of itself, a second ago at most if it answers.
    pub fn status(&self) -> Arc<MemberStatus> {
        self.status.borrow().clone()
    }

    /// A place for a range that is longer than one answer: it takes memory until it is sent.
    pub async fn long_place(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.long_places.acquire().await.map_err(|_| busy())
    }

    /// What the own member says of itself now.
    pub async fn status_now(&self) -> Result<MemberStatus, Status> {
        status_of(&self.pipeline, self.own).await.map_err(|error| of_client(&error))
    }

    /// Writes what all answers begin with.
    pub fn head(&self, mut head: ResponseHeaderMut<'_>, revision: i64) {
        let status = self.status();
        let group = u128::from_str_radix(&status.group, 16).unwrap_or_default();
        // Half of it tells groups apart.
        let cluster = u64::try_from(group >> 64).unwrap_or_default();
        head.set_cluster_id(cluster).set_member_id(status.member).set_raft_term(status.term);
        head.set_revision(revision);
    }

    async fn ask(
        &self,
        to: To,
        method: u16,
        request: Vec<u8>,
        repeat: Repeat,
    ) -> Result<Done, ClientError> {
        ask(&self.pipeline, to, method, request, repeat).await
    }

    /// Asks the leader.
    async fn ask_leader(
        &self,
        method: u16,
        request: Vec<u8>,
        repeat: Repeat,
    ) -> Result<Answered, Status> {
        let _place = self.places.acquire().await.map_err(|_| busy())?;
        let done = self.ask(To::Leader, method, request, repeat).await;
        let Done { index, bytes } = done.map_err(|error| of_client(&error))?;
        Ok(Answered { index, bytes })
    }

    /// Does a command of the store, once at most.
    pub async fn command(&self, command: &EtcdCommand<'_>) -> Result<Answered, Status> {
        let bytes = command.to_bytes();
        // It is checked here, so that its client hears what is wrong with it.
        EtcdCommand::decode(&bytes).ok_or_else(malformed)?;
        let mut request = Vec::with_capacity(bytes.len() + 32);
        Command::alone(&bytes).encode(&mut request);
        self.ask_leader(COMMAND, request, Repeat::Once).await
    }

    /// Answers a query from the latest state.
    pub async fn read(&self, query: &EtcdQuery<'_>) -> Result<Answered, Status> {
        let request = [&[0], &*query.to_bytes()].concat();
        self.ask_leader(READ, request, Repeat::Read).await
    }

    /// Answers a query from what the own member has applied.
    pub async fn read_own(&self, query: &EtcdQuery<'_>) -> Result<Answered, Status> {
        let request = [&[1], &*query.to_bytes()].concat();
        let _place = self.places.acquire().await.map_err(|_| busy())?;
        self.ask_own(READ, request).await
    }

    /// Answers a query from what the own member has applied, once that is more than an entry, or
    /// after a second.
    pub async fn follow(&self, index: u64, query: &EtcdQuery<'_>) -> Result<Answered, Status> {
        let request = [&index.to_le_bytes(), &*query.to_bytes()].concat();
        self.ask_own(FOLLOW, request).await
    }

    async fn ask_own(&self, method: u16, request: Vec<u8>) -> Result<Answered, Status> {
        let done = self.ask(To::Member(self.own), method, request, Repeat::Read).await;
        let done = done.map_err(|error| of_client(&error))?;
        let reply = Reply::decode(&done.bytes).ok_or_else(malformed)?;
        match reply.status {
            petasos_quorum::reply::Status::Done => {
                Ok(Answered { index: reply.number, bytes: reply.bytes.to_vec() })
            }
            status => Err(of_client(&ClientError::Refused(status))),
        }
    }

    /// Has the leader do what an operator asks for.
    pub async fn admin(&self, admin: &Admin) -> Result<(), Status> {
        let _place = self.places.acquire().await.map_err(|_| busy())?;
        let done = self.ask(To::Leader, ADMIN, admin.encode(), Repeat::Once).await;
        done.map(drop).map_err(|error| of_member(&error))
    }
}

async fn ask(
    pipeline: &Pipeline,
    to: To,
    method: u16,
    request: Vec<u8>,
    repeat: Repeat,
) -> Result<Done, ClientError> {
    let (tell, told) = oneshot::channel();
    // Whoever has gone does not want to know.
    let told_here = Box::new(move |result| drop(tell.send(result)));
    pipeline.ask(Ask { to, method, request, timeout: TIMEOUT, repeat, told: told_here });
    // The loop ends with the process.
    told.await.unwrap_or(Err(ClientError::Unknown))
}

/// What the member at an address says of itself.
pub(crate) async fn status_of(
    pipeline: &Pipeline,
    own: SocketAddr,
) -> Result<MemberStatus, ClientError> {
    let done = ask(pipeline, To::Member(own), STATUS, Vec::new(), Repeat::Read).await?;
    serde_json::from_slice(&done.bytes).map_err(|_| ClientError::Malformed)
}
