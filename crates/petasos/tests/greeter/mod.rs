//! A service that behaves as its requests ask, in a loop over memory and a virtual clock.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod generated;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::{Loop, Msg, Request, Response, Status};
use petasos_base::{Clock, Time, VirtualClock};
use petasos_endpoint::EndpointConfig;
use petasos_netio::memory::{Hub, MemoryConfig};

/// What the service has seen.
#[derive(Default)]
pub struct Seen {
    pub begun: u64,
    /// Handlers that were dropped before they were done.
    pub dropped: u64,
    pub held: Vec<Waker>,
    pub release: bool,
    pub timeout: Option<Duration>,
    pub metadata: Option<String>,
}

#[derive(Clone, Default)]
pub struct Service {
    pub seen: Arc<Mutex<Seen>>,
}

impl Service {
    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no test panics under the lock")
    }
}

/// Waits until the test says so.
struct Held {
    service: Service,
    done: bool,
}

impl Future for Held {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let released = self.service.seen().release;
        if released {
            self.done = true;
            return Poll::Ready(());
        }
        self.service.seen().held.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.service.seen().dropped += u64::from(!self.done);
    }
}

impl Greeter for Service {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        {
            let mut seen = self.seen();
            seen.begun += 1;
            seen.timeout = request.timeout();
            seen.metadata = request.metadata().get("from").map(str::to_owned);
        }
        match request.name() {
            "" => {
                let mut status = Status::invalid_argument("nobody is named");
                status.metadata_mut().append("why", "empty").expect("a fine key");
                Err(status.with_details(vec![1, 2, 3]))
            }
            "panic" => panic!("a handler that fails on purpose"),
            "hold" => {
                Held { service: self.clone(), done: false }.await;
                Ok(Response::new(greeting("held")))
            }
            "hold and panic" => {
                Held { service: self.clone(), done: false }.await;
                panic!("a handler that fails on purpose, later");
            }
            name => {
                let mut response = Response::new(greeting(name));
                if let Some(from) = request.metadata().get("from") {
                    response.metadata_mut().append("to", from).expect("a fine key");
                    response.trailers_mut().append("end", from).expect("a fine key");
                }
                Ok(response)
            }
        }
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

pub fn greeting(name: &str) -> Msg<Greeting> {
    let mut greeting = Greeting::new();
    greeting.edit().set_text(format!("hello, {name}"));
    greeting
}

pub fn name(name: &str) -> Msg<Name> {
    let mut message = Name::new();
    message.edit().set_name(name);
    message
}

pub fn blob(bytes: &[u8]) -> Msg<Blob> {
    let mut message = Blob::new();
    message.edit().set_bytes(bytes);
    message
}

/// Both ends in one loop.
pub struct World {
    pub event_loop: Loop,
    pub time: VirtualClock,
    pub service: Service,
    pub client: GreeterClient,
}

impl World {
    pub fn new() -> World {
        let world = World::without_services();
        let server = GreeterServer::new(world.service.clone());
        world.event_loop.serve(server).expect("it is the only service");
        world
    }

    /// Its service is not served.
    pub fn without_services() -> World {
        let time = VirtualClock::default();
        let config = EndpointConfig { seed: Some(5), ..EndpointConfig::default() };
        let port = Hub::direct(MemoryConfig::default()).port();
        let event_loop = Loop::over(config, port, Clock::Virtual(time.clone()));
        let event_loop = event_loop.expect("this thread has no other loop");
        let service = Service::default();
        let client = GreeterClient::new(event_loop.channel_to_itself());
        World { event_loop, time, service, client }
    }

    /// Starts a greeting in a task; its outcome comes to the list.
    pub fn spawn(&self, request: Request<Name>) -> Outcomes {
        let outcomes = Outcomes::default();
        let (client, list) = (self.client.clone(), outcomes.clone());
        self.event_loop.spawn(async move {
            let outcome = client.greet(request).await;
            list.0.borrow_mut().push(outcome.map(|greeting| greeting.text().to_owned()));
        });
        outcomes
    }

    pub fn turn(&self) {
        self.event_loop.run_turns(8);
    }

    /// Lets `ms` milliseconds pass.
    pub fn pass_ms(&self, ms: u64) {
        for _ in 0..ms {
            self.time.set(Time::from_nanos(self.time.now().as_nanos() + 1_000_000));
            self.event_loop.run_turns(2);
        }
    }

    /// Lets held handlers go on.
    pub fn release(&self) {
        let held = {
            let mut seen = self.service.seen();
            seen.release = true;
            std::mem::take(&mut seen.held)
        };
        held.into_iter().for_each(Waker::wake);
    }
}

#[derive(Clone, Default)]
pub struct Outcomes(pub Rc<RefCell<Vec<Result<String, Status>>>>);

impl Outcomes {
    pub fn one(&self) -> Result<String, Status> {
        let outcomes = self.0.borrow();
        assert_eq!(outcomes.len(), 1, "the call is over, once");
        outcomes[0].clone()
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}
