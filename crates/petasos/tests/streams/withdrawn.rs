//! Services that come to a server and leave it while it has sessions.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::*;
use petasos::{Channel, Code, Loop, LoopConfig, Status};

type Command = Box<dyn FnOnce(&Loop) + Send>;

/// A loop on its own thread that does between turns what it is told.
struct Server {
    commands: mpsc::Sender<Command>,
    address: SocketAddr,
}

impl Server {
    fn start() -> Server {
        let (commands, told) = mpsc::channel::<Command>();
        let (tell, address) = mpsc::channel();
        std::thread::spawn(move || {
            let listen = Some("127.0.0.1:0".parse().expect("an address"));
            let event_loop = Loop::new(LoopConfig { listen, ..LoopConfig::default() });
            let event_loop = event_loop.expect("loopback has ports");
            event_loop.accept_sessions().expect("it rests");
            tell.send(event_loop.local_address().expect("it listens")).expect("the test waits");
            loop {
                match told.try_recv() {
                    Ok(command) => command(&event_loop),
                    Err(mpsc::TryRecvError::Empty) => event_loop.run_turns(1),
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
                std::thread::yield_now();
            }
        });
        Server { commands, address: address.recv().expect("it listens") }
    }

    fn tell<T: Send + 'static>(&self, what: impl FnOnce(&Loop) -> T + Send + 'static) -> T {
        let (answer, told) = mpsc::channel();
        let command = move |event_loop: &Loop| answer.send(what(event_loop)).expect("it waits");
        self.commands.send(Box::new(command)).expect("the loop lives");
        told.recv().expect("the loop answers")
    }

    fn serve(&self) {
        let served = self.tell(|event_loop| event_loop.serve(FlowServer::new(Service::default())));
        served.expect("it is not there");
    }

    fn withdraw(&self) -> bool {
        self.tell(|event_loop| event_loop.withdraw("flow.Flow")).expect("it rests")
    }
}

async fn echoed(client: &FlowClient) -> Result<(), Status> {
    client.echo(chunk(3, 5)).await.map(|back| check(&back, 3, 5))
}

async fn chatted(client: &FlowClient) -> Result<(), Status> {
    let (mut out, mut back) = client.chat().await?;
    out.send(chunk(4, 5)).await?;
    back.message().await.map(|_| ())
}

#[test]
fn r1_a_service_that_comes_goes_and_comes_again_is_found_by_the_same_channel() {
    in_time(|| async {
        let server = Server::start();
        let channel = Channel::connect(&format!("petasos://{}", server.address)).await;
        let client = FlowClient::new(channel.expect("the server listens"));
        let code = |outcome: Result<(), Status>| outcome.map_err(|status| status.code());
        assert_eq!(code(echoed(&client).await), Err(Code::Unimplemented));
        assert_eq!(code(chatted(&client).await), Err(Code::Unimplemented));
        for _ in 0..2 {
            server.serve();
            // A channel that was told to bind anew waits before it asks for the next session. Calls
            // with streams have sessions of their own, and so do the others.
            while let Err(why) = code(echoed(&client).await) {
                assert_eq!(why, Code::Unavailable);
                std::thread::sleep(Duration::from_millis(10));
            }
            let (mut out, mut back) = loop {
                match client.chat().await {
                    Ok(begun) => break begun,
                    Err(status) => assert_eq!(status.code(), Code::Unavailable),
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            out.send(chunk(1, 5)).await.expect("it is taken");
            check(&back.message().await.expect("it goes on").expect("there is one"), 1, 5);
            assert!(server.withdraw() && !server.withdraw());
            // What runs goes on, and nothing begins.
            assert_eq!(code(echoed(&client).await), Err(Code::Unavailable));
            assert_eq!(code(chatted(&client).await), Err(Code::Unavailable));
            out.send(chunk(2, 5)).await.expect("it is taken");
            check(&back.message().await.expect("it goes on").expect("there is one"), 2, 5);
            out.close();
            assert!(back.message().await.expect("it went well").is_none());
        }
    });
}
