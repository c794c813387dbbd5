//! Both ends on a current-thread Tokio runtime: the fastest way with one core for each.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinSet, LocalSet};

use crate::error::Error;
use crate::lines::{Command, say, watch};
use crate::load::Load;
use crate::options::Options;
use crate::payloads::Payloads;

/// Makes calls in one RPC system. Clones share what they can.
pub trait Caller: Clone + 'static {
    /// The type that holds a response's bytes.
    type Response: AsRef<[u8]>;

    /// Makes one call.
    fn call(&self, request: Vec<u8>) -> impl Future<Output = Result<Self::Response, Error>>;
}

/// Serves. `start` returns the address, and spawns tasks that answer.
///
/// # Errors
/// Those of `start`, or if the parent breaks the contract.
pub fn serve<S>(start: S) -> Result<(), Error>
where
    S: AsyncFnOnce() -> Result<String, Error>,
{
    let local = LocalSet::new();
    local.block_on(&runtime()?, async {
        let address = start().await?;
        say(&format!("ready {address}"))?;
        let mut lines = lines();
        while let Some(command) = lines.recv().await {
            match command? {
                Command::Serve(_) => say("started")?,
                Command::Stop => say("done {}")?,
                Command::Turn(..) => return Err("a server makes no calls".into()),
            }
        }
        Ok(())
    })
}

/// Makes calls: `connect` connects, then the parent says when to call.
///
/// # Errors
/// Those of `connect` and of the calls, or if the parent breaks the contract.
pub fn call<C, F>(options: &Options, connect: F) -> Result<(), Error>
where
    C: Caller,
    F: AsyncFnOnce() -> Result<C, Error>,
{
    let local = LocalSet::new();
    local.block_on(&runtime()?, async {
        let caller = connect().await?;
        let payloads = Rc::new(Payloads::new(options));
        say("ready")?;
        let mut lines = lines();
        while let Some(command) = lines.recv().await {
            let Command::Turn(phase, duration) = command? else {
                return Err("a client serves nothing".into());
            };
            let load = Load::new(options, phase, duration);
            say(&turn(&caller, &payloads, load).await?)?;
        }
        Ok(())
    })
}

/// Every caller has one call in progress, until the time is up.
async fn turn<C: Caller>(caller: &C, payloads: &Rc<Payloads>, load: Load) -> Result<String, Error> {
    let window = load.window();
    let load = Rc::new(RefCell::new(load));
    let mut callers = JoinSet::new();
    for _ in 0..window {
        callers.spawn_local(call_on(caller.clone(), Rc::clone(payloads), Rc::clone(&load)));
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    let done = load.borrow().done();
    Ok(done)
}

async fn call_on<C: Caller>(
    caller: C,
    payloads: Rc<Payloads>,
    load: Rc<RefCell<Load>>,
) -> Result<(), Error> {
    loop {
        let Some(call) = load.borrow_mut().begin() else { return Ok(()) };
        let response = caller.call(payloads.request(call.number)).await?;
        load.borrow_mut().end(&payloads, call, response.as_ref())?;
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The parent's lines. A thread reads them, so that connections stay alive between turns.
fn lines() -> UnboundedReceiver<Result<Command, String>> {
    let (send, receive) = unbounded_channel();
    watch(move |command| send.send(command).is_ok());
    receive
}
