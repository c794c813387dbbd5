//! The service Lease.

use petasos::{Msg, Request, Response, Sender, Status, Streaming};
use petasos_quorum::etcd::{EtcdCommand, EtcdQuery, LeaseAnswer, read_lease};

use crate::api;
use crate::failure::{malformed, of_refusal};
use crate::group::{Answered, Group};

pub(crate) struct Leases(pub Group);

impl Leases {
    fn renewed(&self, answered: &Answered) -> Result<Msg<api::LeaseKeepAliveResponse>, Status> {
        let (revision, mut body) = answered.found()?;
        let (id, ttl_s) = read_lease(&mut body).ok_or_else(malformed)?;
        let mut response = api::LeaseKeepAliveResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        edit.set_id(id).set_ttl(ttl_s);
        Ok(response)
    }
}

impl api::Lease for Leases {
    async fn lease_grant(
        &self,
        request: Request<api::LeaseGrantRequest>,
    ) -> Result<Response<api::LeaseGrantResponse>, Status> {
        let (id, ttl_s) = (request.id(), request.ttl());
        if id < 0 {
            return Err(of_refusal(petasos_quorum::etcd::Refusal::LeaseNotFound));
        }
        let answered = self.0.command(&EtcdCommand::Grant { id, ttl_s }).await?;
        let (revision, mut body) = answered.found()?;
        let (id, ttl_s) = read_lease(&mut body).ok_or_else(malformed)?;
        let mut response = api::LeaseGrantResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        edit.set_id(id).set_ttl(ttl_s);
        Ok(Response::new(response))
    }

    async fn lease_revoke(
        &self,
        request: Request<api::LeaseRevokeRequest>,
    ) -> Result<Response<api::LeaseRevokeResponse>, Status> {
        let answered = self.0.command(&EtcdCommand::Revoke(request.id())).await?;
        let (revision, _) = answered.found()?;
        let mut response = api::LeaseRevokeResponse::new();
        self.0.head(response.edit().header_mut(), revision);
        Ok(Response::new(response))
    }

    async fn lease_keep_alive(
        &self,
        mut requests: Streaming<api::LeaseKeepAliveRequest>,
        mut responses: Sender<api::LeaseKeepAliveResponse>,
    ) -> Result<(), Status> {
        while let Some(request) = requests.message().await? {
            let answered = self.0.command(&EtcdCommand::KeepAlive(request.id())).await?;
            responses.send(self.renewed(&answered)?).await?;
        }
        Ok(())
    }

    async fn lease_time_to_live(
        &self,
        request: Request<api::LeaseTimeToLiveRequest>,
    ) -> Result<Response<api::LeaseTimeToLiveResponse>, Status> {
        let (id, wants_keys) = (request.id(), request.keys());
        let answered = self.0.read(&EtcdQuery::Lease { id, wants_keys }).await?;
        let (revision, mut body) = answered.found()?;
        let lease = LeaseAnswer::read(&mut body).ok_or_else(malformed)?;
        let mut response = api::LeaseTimeToLiveResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        edit.set_id(id);
        match lease {
            None => drop(edit.set_ttl(-1)),
            Some(LeaseAnswer { ttl_s, left_ms, keys }) => {
                let left_s = i64::try_from(left_ms.div_ceil(1000)).unwrap_or(i64::MAX);
                edit.set_ttl(left_s).set_granted_ttl(ttl_s);
                edit.keys_mut().extend(keys);
            }
        }
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<api::LeaseLeasesRequest>,
    ) -> Result<Response<api::LeaseLeasesResponse>, Status> {
        let mut response = api::LeaseLeasesResponse::new();
        let mut next = Some(i64::MIN);
        while let Some(from) = next.take() {
            let answered = self.0.read(&EtcdQuery::Leases(from)).await?;
            let (revision, mut body) = answered.found()?;
            let mut edit = response.edit();
            self.0.head(edit.header_mut(), revision);
            let mut leases = edit.leases_mut();
            while let Some(id) = body.u64() {
                leases.add().set_id(id.cast_signed());
                next = id.cast_signed().checked_add(1);
            }
        }
        Ok(Response::new(response))
    }
}
