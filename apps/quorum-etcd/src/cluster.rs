//! The service Cluster.

use petasos::message::ListMut;
use petasos::{Request, Response, Status};
use petasos_quorum::member::Admin;
use petasos_raft::MemberId;

use crate::api;
use crate::failure::{no_member, not_here};
use crate::group::Group;

pub(crate) struct Members {
    pub group: Group,
    /// Where clients call the own member.
    pub client_url: String,
}

impl Members {
    /// Writes who belongs to the group. Where clients call the others, this member does not know.
    fn list(&self, mut to: ListMut<'_, api::Member>) {
        let status = self.group.status();
        for member in &status.members {
            let mut edit = to.add();
            edit.set_id(member.member).set_name(format!("member-{}", member.member));
            edit.set_is_learner(member.part == "learner");
            edit.peer_ur_ls_mut().push(format!("petasos://{}", member.address));
            if member.member == status.member {
                edit.client_ur_ls_mut().push(&self.client_url);
            }
        }
    }

    fn check(&self, id: u64) -> Result<MemberId, Status> {
        let status = self.group.status();
        let is_there = status.members.iter().any(|member| member.member == id);
        is_there.then_some(MemberId(id)).ok_or_else(no_member)
    }

    /// The store's revision does not change with members: 0 stands for none, as at etcd.
    fn head(&self, head: api::ResponseHeaderMut<'_>) {
        self.group.head(head, 0);
    }
}

impl api::Cluster for Members {
    async fn member_add(
        &self,
        _: Request<api::MemberAddRequest>,
    ) -> Result<Response<api::MemberAddResponse>, Status> {
        Err(not_here("a member joins with `petasos quorum serve --join`, which adds it"))
    }

    async fn member_remove(
        &self,
        request: Request<api::MemberRemoveRequest>,
    ) -> Result<Response<api::MemberRemoveResponse>, Status> {
        let member = self.check(request.id())?;
        self.group.admin(&Admin::Remove { member, forced: false }).await?;
        let mut response = api::MemberRemoveResponse::new();
        let mut edit = response.edit();
        self.head(edit.header_mut());
        self.list(edit.members_mut());
        Ok(Response::new(response))
    }

    async fn member_update(
        &self,
        _: Request<api::MemberUpdateRequest>,
    ) -> Result<Response<api::MemberUpdateResponse>, Status> {
        Err(not_here("a member's address does not change: remove it, and have another one join"))
    }

    async fn member_list(
        &self,
        _: Request<api::MemberListRequest>,
    ) -> Result<Response<api::MemberListResponse>, Status> {
        let mut response = api::MemberListResponse::new();
        let mut edit = response.edit();
        self.head(edit.header_mut());
        self.list(edit.members_mut());
        Ok(Response::new(response))
    }

    async fn member_promote(
        &self,
        request: Request<api::MemberPromoteRequest>,
    ) -> Result<Response<api::MemberPromoteResponse>, Status> {
        let member = self.check(request.id())?;
        self.group.admin(&Admin::Promote(member)).await?;
        let mut response = api::MemberPromoteResponse::new();
        let mut edit = response.edit();
        self.head(edit.header_mut());
        self.list(edit.members_mut());
        Ok(Response::new(response))
    }
}
