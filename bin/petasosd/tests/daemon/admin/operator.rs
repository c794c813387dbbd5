//! An operator: a client of the daemon's admin service.

use petasos::message::Message;
use petasos::{Channel, Code, Msg, Request, Status, Unary, block_on};
use petasos_admin::{self as proto, AdminClient, ChangeRequest, ChangeResponse, StepMut};

use super::plan;
use crate::support::Daemon;

pub struct Operator {
    pub client: AdminClient,
}

impl Operator {
    pub fn of(daemon: &Daemon) -> Operator {
        Operator::at(&daemon.admin_socket().display().to_string()).unwrap()
    }

    pub fn at(socket: &str) -> Result<Operator, petasos::ConnectError> {
        let channel = Channel::builder(&format!("grpc+unix://{socket}"));
        Ok(Operator { client: AdminClient::new(block_on(channel.connect())?) })
    }

    /// What the service answers.
    pub fn ask<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&AdminClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Status> {
        block_on(method(&self.client, Request::new(request))).map(|answer| answer.into_message())
    }

    pub fn try_change(&self, request: Msg<ChangeRequest>) -> Result<Msg<ChangeResponse>, Status> {
        self.ask(request, |client, request| client.change(request))
    }

    pub fn change(&self, steps: &[&dyn Fn(StepMut<'_>)]) {
        let done = self.try_change(plan(steps)).unwrap();
        assert_eq!(done.done().len(), steps.len());
    }

    /// Why a change is not made.
    pub fn fails(&self, steps: &[&dyn Fn(StepMut<'_>)]) -> (Code, String) {
        let status = self.try_change(plan(steps)).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    /// Kinds and configurations of an application's engines.
    pub fn engines(&self, application: &str) -> Vec<(String, String)> {
        let mut request = proto::ListDatapathsRequest::new();
        request.edit().set_application(application);
        let answer = self.ask(request, |client, request| client.list_datapaths(request)).unwrap();
        let engines = answer.datapaths()[0].engines().iter();
        engines.map(|one| (one.kind().to_owned(), one.configuration().to_owned())).collect()
    }

    /// What the places of an application do whose engines were taken out; empty of the others.
    pub fn without(&self, application: &str) -> Vec<String> {
        let mut request = proto::ListDatapathsRequest::new();
        request.edit().set_application(application);
        let answer = self.ask(request, |client, request| client.list_datapaths(request)).unwrap();
        answer.datapaths()[0].engines().iter().map(|one| one.without().to_owned()).collect()
    }

    pub fn policies(&self) -> Msg<proto::ListPoliciesResponse> {
        let request = proto::ListPoliciesRequest::new();
        self.ask(request, |client, request| client.list_policies(request)).unwrap()
    }

    /// Numbers and message limits of applications.
    pub fn message_limits(&self) -> Vec<(u32, u64)> {
        let answer = self.quotas();
        let attached = answer.attached().iter();
        let limit = |one: &proto::AttachedQuota| one.quota().unwrap().message_bytes_max().unwrap();
        attached.map(|one| (one.number(), limit(one))).collect()
    }

    fn quotas(&self) -> Msg<proto::ListQuotasResponse> {
        let request = proto::ListQuotasRequest::new();
        self.ask(request, |client, request| client.list_quotas(request)).unwrap()
    }

    /// All that a plan can change.
    pub fn everything(&self) -> String {
        let request = proto::ListDatapathsRequest::new();
        let datapaths = self.ask(request, |client, request| client.list_datapaths(request));
        format!("{:?} {:?} {:?}", datapaths.unwrap(), self.policies(), self.quotas())
    }

    pub fn audit(&self) -> Msg<proto::ListAuditResponse> {
        let request = proto::ListAuditRequest::new();
        self.ask(request, |client, request| client.list_audit(request)).unwrap()
    }
}
