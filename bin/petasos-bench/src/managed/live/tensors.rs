//! Applications that push the tensors of a model as BytePS does: a key of 8 bytes, the tensor, and
//! a length of 4 bytes are fields of their own.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use petasos::{Msg, Request, Response, Status};

use super::clock::now_ns;
use crate::error::BenchError;
use crate::managed::messages::tensors::{Push, Pushed, Tensors, TensorsClient, TensorsServer};
use crate::managed::models::Model;
use crate::managed::part_args::PartArgs;
use crate::rpc::ends::Client;
use crate::rpc::looped::{LoopClient, LoopServer};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::typed::{LOOPBACK, behind};

/// Up to this length, tensors are copied into messages; longer ones are shared.
const SHORT_BYTES: usize = 4096;

/// Takes tensors.
struct Taker;

impl Tensors for Taker {
    async fn push(&self, request: Request<Push>) -> Result<Response<Pushed>, Status> {
        let told = request.length().try_into().map(u32::from_le_bytes);
        let came = request.tensor().len();
        if request.key().len() != 8 || told.ok() != u32::try_from(came).ok() {
            return Err(Status::invalid_argument("a tensor has not come whole"));
        }
        let mut answer = Pushed::new();
        answer.edit().set_length(came as u32);
        Ok(Response::new(answer))
    }
}

/// A server behind the service that the arguments name.
///
/// # Errors
/// If that does not let it serve.
pub fn server(args: &PartArgs) -> Result<LoopServer, BenchError> {
    LoopServer::start(behind(args.service.as_deref(), Some(LOOPBACK))?, TensorsServer::new(Taker))
}

/// Pushes all tensors of a model in a turn, again and again until its time is up.
pub struct TensorClient {
    ends: LoopClient,
    callers: usize,
    tensors: Rc<[Bytes]>,
}

impl TensorClient {
    /// A client behind the service that the arguments name.
    ///
    /// # Errors
    /// If the arguments name none, or no server or model.
    pub fn start(args: &PartArgs) -> Result<TensorClient, BenchError> {
        let server = *args.server.first().ok_or("--server names no server")?;
        let model = args.model.ok_or("--model names no model")?;
        let ends = LoopClient::new(behind(args.service.as_deref(), None)?, server)?;
        let lengths = model.tensor_bytes();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let all = Bytes::from(vec![1; longest as usize]);
        let tensors = lengths.iter().map(|len| all.slice(..*len as usize)).collect();
        Ok(TensorClient { ends, callers: args.shape().window, tensors })
    }
}

/// The calls of a turn. Callers share it.
#[derive(Clone)]
struct Pass {
    tensors: Rc<[Bytes]>,
    ends_ns: u64,
    /// Which tensor is next, and how many calls have ended.
    next: Rc<Cell<usize>>,
    ended: Rc<Cell<u64>>,
    /// Time of all calls together.
    call_ns: Rc<Cell<u64>>,
}

impl Pass {
    fn new(tensors: Rc<[Bytes]>, ends_ns: u64) -> Pass {
        let (next, ended, call_ns) = Default::default();
        Pass { tensors, ends_ns, next, ended, call_ns }
    }

    /// The next tensor and its number. Passes are complete: otherwise turns would differ in what
    /// they push.
    fn take(&self) -> Option<(usize, Bytes)> {
        let next = self.next.get();
        if next > 0 && next.is_multiple_of(self.tensors.len()) && now_ns() >= self.ends_ns {
            return None;
        }
        self.next.set(next + 1);
        let index = next % self.tensors.len();
        Some((index, self.tensors[index].clone()))
    }

    async fn push_all(self, client: TensorsClient) -> Result<(), String> {
        while let Some((key, tensor)) = self.take() {
            let (len, begun_ns) = (tensor.len() as u32, now_ns());
            let answer = client.push(message(key, tensor)).await;
            let answer = answer.map_err(|status| status.to_string())?;
            self.call_ns.set(self.call_ns.get() + now_ns().saturating_sub(begun_ns));
            if answer.length() != len {
                return Err(format!("a tensor of {} bytes, not {len}", answer.length()));
            }
            self.ended.set(self.ended.get() + 1);
        }
        Ok(())
    }
}

fn message(key: usize, tensor: Bytes) -> Msg<Push> {
    let mut push = Push::new();
    let mut edit = push.edit();
    let length = (tensor.len() as u32).to_le_bytes();
    edit.set_key((key as u64).to_le_bytes().as_slice()).set_length(length.as_slice());
    if tensor.len() < SHORT_BYTES {
        edit.set_tensor(&tensor[..]);
    } else {
        edit.set_tensor(tensor);
    }
    push
}

impl Client for TensorClient {
    fn turn(&mut self, _: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let begun_ns = now_ns();
        let pass = Pass::new(Rc::clone(&self.tensors), begun_ns + duration.as_nanos() as u64);
        let caller = |_| {
            let client = TensorsClient::new(self.ends.channel.clone());
            self.ends.event_loop.spawn(pass.clone().push_all(client))
        };
        let callers: Vec<_> = (0..self.callers).map(caller).collect();
        self.ends.event_loop.block_on(async {
            for caller in callers {
                caller.await.ok_or("a caller has panicked")??;
            }
            Ok::<_, BenchError>(())
        })?;
        let elapsed_s = (now_ns() - begun_ns) as f64 / 1e9;
        let (completed, call_s) = (pass.ended.get(), pass.call_ns.get() as f64 / 1e9);
        Ok(Turn { completed, elapsed_s, call_s, ..Turn::default() })
    }
}

/// How the part of a model is told of it.
pub fn option(model: Model) -> [&'static str; 2] {
    ["--model", model.name()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_complete_however_short_a_turn_is() {
        let tensors: Rc<[Bytes]> = [3, 5].map(|len| Bytes::from(vec![0; len])).into();
        let pass = Pass::new(Rc::clone(&tensors), 0);
        let taken: Vec<_> = std::iter::from_fn(|| pass.take()).map(|(index, _)| index).collect();
        assert_eq!(taken, [0, 1]);
        let endless = Pass::new(tensors, u64::MAX);
        let taken = (0..5).filter_map(|_| endless.take()).map(|(_, tensor)| tensor.len());
        assert_eq!(taken.collect::<Vec<_>>(), [3, 5, 3, 5, 3]);
    }
}
