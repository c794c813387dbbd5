//! The service Maintenance.

use petasos::{Request, Response, Status};
use petasos_quorum::etcd::{EtcdQuery, SizeAnswer};
use petasos_quorum::member::Admin;
use petasos_raft::MemberId;

use crate::api;
use crate::failure::{malformed, not_here};
use crate::group::Group;

/// The version of etcd whose services these are.
const ETCD_VERSION: &str = "3.4.0";

pub(crate) struct Operators(pub Group);

impl Operators {
    /// How large the own member's store is, with its revision.
    async fn size(&self) -> Result<(i64, SizeAnswer), Status> {
        let answered = self.0.read_own(&EtcdQuery::Size).await?;
        let (revision, mut body) = answered.found()?;
        Ok((revision, SizeAnswer::read(&mut body).ok_or_else(malformed)?))
    }
}

/// What fits into the messages of a digest.
fn hash(size: &SizeAnswer) -> u32 {
    let [a, b, c, d, ..] = size.digest.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl api::Maintenance for Operators {
    async fn alarm(
        &self,
        _: Request<api::AlarmRequest>,
    ) -> Result<Response<api::AlarmResponse>, Status> {
        let mut response = api::AlarmResponse::new();
        self.0.head(response.edit().header_mut(), 0);
        Ok(Response::new(response))
    }

    async fn status(
        &self,
        _: Request<api::StatusRequest>,
    ) -> Result<Response<api::StatusResponse>, Status> {
        let (revision, size) = self.size().await?;
        let status = self.0.status_now().await?;
        let mut response = api::StatusResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        let bytes = i64::try_from(size.bytes).unwrap_or(i64::MAX);
        edit.set_version(ETCD_VERSION).set_db_size(bytes).set_db_size_in_use(bytes);
        edit.set_leader(status.leader.unwrap_or_default());
        edit.set_raft_index(status.committed).set_raft_term(status.term);
        edit.set_raft_applied_index(status.applied);
        let own = status.members.iter().find(|member| member.member == status.member);
        edit.set_is_learner(own.is_some_and(|own| own.part == "learner"));
        if status.leader.is_none() {
            edit.errors_mut().push("etcdserver: no leader");
        }
        if status.is_full {
            edit.errors_mut().push("etcdserver: mvcc: database space exceeded");
        }
        Ok(Response::new(response))
    }

    async fn defragment(
        &self,
        _: Request<api::DefragmentRequest>,
    ) -> Result<Response<api::DefragmentResponse>, Status> {
        let mut response = api::DefragmentResponse::new();
        self.0.head(response.edit().header_mut(), 0);
        Ok(Response::new(response))
    }

    async fn hash(
        &self,
        _: Request<api::HashRequest>,
    ) -> Result<Response<api::HashResponse>, Status> {
        let (revision, size) = self.size().await?;
        let mut response = api::HashResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        edit.set_hash(hash(&size));
        Ok(Response::new(response))
    }

    async fn hash_kv(
        &self,
        request: Request<api::HashKVRequest>,
    ) -> Result<Response<api::HashKVResponse>, Status> {
        let (revision, size) = self.size().await?;
        if request.revision() != 0 && request.revision() != revision {
            return Err(not_here("only the latest revision has a digest"));
        }
        let mut response = api::HashKVResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        edit.set_hash(hash(&size)).set_compact_revision(size.compacted);
        Ok(Response::new(response))
    }

    async fn move_leader(
        &self,
        request: Request<api::MoveLeaderRequest>,
    ) -> Result<Response<api::MoveLeaderResponse>, Status> {
        self.0.admin(&Admin::HandOver(MemberId(request.target_id()))).await?;
        let mut response = api::MoveLeaderResponse::new();
        self.0.head(response.edit().header_mut(), 0);
        Ok(Response::new(response))
    }
}
