//! Applications behind the service, and a policy.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use petasos::{Channel, Loop, Msg, Request, Response, Sender, Server, Status, Streaming};

use crate::facade::managed::{Item, Work, WorkClient, WorkServer};
use crate::facade::{Daemon, item};
use crate::tonic_work::{Leaves, Told};

/// For what takes no time unless something is broken.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Refuses calls of `eve`.
pub const NO_EVE: &str = r#"[{"application": "*", "kind": "access", "configuration": {
    "default": "allow",
    "rules": [{"name": "no eve", "action": "deny", "methods": ["managed.Work/Echo"],
        "fields": [{"path": "text", "is": {"equals": "eve"}}]}]}}]"#;

/// An application that serves behind a service, and what happens there.
pub struct Application {
    server: Server,
    pub told: Receiver<Told>,
}

impl Application {
    pub fn start(daemon: &Daemon) -> Application {
        let (tell, told) = mpsc::channel();
        let server = Server::builder().add(WorkServer::new(Worker(tell))).listen("127.0.0.1:0");
        let server = server.service(daemon.service("server")).start().unwrap();
        Application { server, told }
    }

    /// Where it is called.
    pub fn target(&self) -> String {
        format!("petasos://{}", self.server.local_address().unwrap())
    }

    /// The next thing that has happened.
    pub fn next(&self) -> Told {
        self.told.recv_timeout(PATIENCE).unwrap()
    }
}

struct Worker(mpsc::Sender<Told>);

impl Work for Worker {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let _ = self.0.send(Told::Echoed(request.text().to_owned()));
        let seen = request.metadata().get("asked").map(str::to_owned);
        let raw = request.metadata().get_bin("raw-bin").map(<[u8]>::to_vec);
        let mut response = Response::new(request.into_message());
        if let Some(seen) = seen {
            response.metadata_mut().append("seen", &seen).unwrap();
            response.trailers_mut().append("after", "all").unwrap();
        }
        if let Some(raw) = raw {
            response.metadata_mut().append_bin("seen-bin", &raw).unwrap();
        }
        Ok(response)
    }

    async fn fail(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let code = petasos::Code::from_number(request.number() as u32);
        let mut status = Status::new(code, request.text().to_owned());
        status.metadata_mut().append("why", "asked").unwrap();
        Err(status)
    }

    async fn hold(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let _leaves = Leaves(self.0.clone());
        let _ = self.0.send(Told::Holds(request.timeout().is_some()));
        core::future::pending().await
    }

    async fn count(&self, upto: Request<Item>, mut out: Sender<Item>) -> Result<(), Status> {
        out.metadata_mut().append("counts", "on").unwrap();
        let blob = upto.blob().to_vec();
        for number in 0..upto.number() {
            let mut item: Msg<Item> = item(upto.text(), number);
            item.set_blob(&blob);
            out.send(item).await?;
        }
        out.trailers_mut().append("after", "all").unwrap();
        Ok(())
    }

    async fn sum(&self, mut items: Streaming<Item>) -> Result<Response<Item>, Status> {
        let mut sum = 0;
        while let Some(item) = items.message().await? {
            sum += item.number();
        }
        Ok(Response::new(item("sum", sum)))
    }

    async fn chat(&self, mut items: Streaming<Item>, mut out: Sender<Item>) -> Result<(), Status> {
        let _leaves = Leaves(self.0.clone());
        while let Some(item) = items.message().await? {
            out.send(item).await?;
        }
        Ok(())
    }
}

/// A client behind a service, in a loop on this thread.
pub fn client(daemon: &Daemon, target: &str) -> (Loop, WorkClient) {
    let event_loop = daemon.event_loop("client");
    let channel = Channel::builder(target).connect_lazily().unwrap();
    (event_loop, WorkClient::new(channel))
}
