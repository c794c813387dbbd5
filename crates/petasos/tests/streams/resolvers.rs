//! Calls of channels whose servers cannot be found say why.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use petasos::{Channel, Code, FoundServers, Resolver, Server, Status, block_on};

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::{Service, chunk};

/// Says the same to whoever asks, like one that follows a store.
#[derive(Clone, Debug, Default)]
struct Store {
    asked: Arc<Mutex<Vec<FoundServers>>>,
    known: Arc<Mutex<Option<Vec<SocketAddr>>>>,
}

const WHY: &str = "the store's password is wrong";

impl Store {
    fn learn(&self, servers: Vec<SocketAddr>) {
        *self.known.lock().expect("no test panics under the lock") = Some(servers.clone());
        let asked = self.asked.lock().expect("no test panics under the lock");
        asked.iter().for_each(|found| found.set(Ok(servers.clone())));
    }
}

impl Resolver for Store {
    fn resolve(&self, found: FoundServers) {
        let known = self.known.lock().expect("no test panics under the lock").clone();
        let mut asked = self.asked.lock().expect("no test panics under the lock");
        // Only the first who asks is told of failures, as by one that follows a store.
        match known {
            Some(servers) => found.set(Ok(servers)),
            None if asked.is_empty() => found.set(Err(io::Error::other(WHY))),
            None => {}
        }
        asked.push(found);
    }
}

async fn chat(client: &FlowClient) -> Result<(), Status> {
    let (mut out, mut back) = client.chat().await?;
    out.send(chunk(0, 10)).await?;
    out.close();
    while back.message().await?.is_some() {}
    Ok(())
}

#[test]
fn calls_say_why_no_server_is_known_until_one_is() {
    for streams_first in [false, true] {
        let store = Store::default();
        let channel = Channel::builder("petasos://listed").resolver(store.clone());
        let channel = channel.connect_lazily().expect("it has a resolver");
        let client = FlowClient::new(channel);
        // Streams have sessions of their own.
        for is_stream in [streams_first, !streams_first] {
            let outcome = match is_stream {
                true => block_on(chat(&client)),
                false => block_on(client.echo(chunk(0, 10))).map(drop),
            };
            let status = outcome.expect_err("no server is known");
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            assert!(status.message().contains(WHY), "{status}");
        }
        let server = Server::builder().add(FlowServer::new(Service::default()));
        let server = server.listen("127.0.0.1:0").start().expect("loopback has ports");
        store.learn(vec![server.local_address().expect("it listens")]);
        while block_on(chat(&client)).is_err() {}
        block_on(client.echo(chunk(0, 10))).expect("the server is known");
    }
}
