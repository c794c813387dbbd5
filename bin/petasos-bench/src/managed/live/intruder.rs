//! A hostile application of the managed service: it attaches, does what it may not, and attaches
//! again when it is given up, as fast as it can.

use std::hint::black_box;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use petasos_abi::{CallNumber, Contents, Descriptor, Released, Request, Side, TIME_NEVER};
use petasos_attach::ask::Ask;
use petasos_attach::hello::Hello;
use petasos_attach::reason::Text;
use petasos_attach::{Attachment, Lane, PushError};
use petasos_base::{Rng, random_seed};
use petasos_shm::HeapKind;

use crate::error::BenchError;
use crate::managed::part_args::PartArgs;
use crate::managed::relay::end_with_input;

/// What the service knows intruders as.
const NAME: &str = "intruder";
const PATIENCE: Duration = Duration::from_secs(5);
const HEAP_BYTES: u64 = 1 << 20;
/// After so many steps, an attachment that still stands is left for another one.
const STEPS: u32 = 20_000;

/// Harms the service as well as it can, until the standard input ends. With two threads, it
/// computes besides.
///
/// # Errors
/// If no service is named.
pub fn intrude(args: &PartArgs) -> Result<(), BenchError> {
    let service = args.service.as_deref().and_then(|path| path.strip_prefix("unix:"));
    let path = Path::new(service.ok_or("--service names no service")?);
    println!("ready");
    std::io::stdout().flush()?;
    end_with_input();
    if args.shape().threads > 1 {
        // It takes as much of the processor as it gets, as well.
        std::thread::spawn(|| {
            let mut sum = 0_u64;
            loop {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(1));
            }
        });
    }
    let mut rng = Rng::new(random_seed());
    loop {
        match rng.below(8) {
            0 => stammer(path, &mut rng),
            _ => drop(attached(path, &mut rng)),
        }
    }
}

/// Begins to say something at the socket, and leaves.
fn stammer(path: &Path, rng: &mut Rng) {
    for _ in 0..16 {
        let Ok(mut socket) = UnixStream::connect(path) else { return };
        let bytes: Vec<u8> = (0..rng.below(64)).map(|_| rng.below(256) as u8).collect();
        // It may have been refused already.
        let _ = socket.write_all(&bytes);
    }
}

/// Attaches, and does one thing over and over, until it is given up or has done enough.
fn attached(path: &Path, rng: &mut Rng) -> Option<()> {
    let hello = Hello::new(NAME, 1).ok()?;
    let mut attachment = Attachment::connect(path, &hello, PATIENCE).ok()?;
    let extent = attachment.grow(HeapKind::Send, HEAP_BYTES).ok()?;
    let mut lane = attachment.take_lanes().pop()?;
    let way = rng.below(5);
    for step in 0..STEPS {
        match way {
            // Schemas of any bytes, in memory that changes.
            0 => {
                let bytes = 1 + rng.below(60_000) as u32;
                let noise: Vec<u8> = (0..256).map(|_| rng.below(256) as u8).collect();
                attachment.write(extent.offset + rng.below(60_000), &noise).ok()?;
                let (offset, service) = (extent.offset, Text::new("any.Service"));
                let bind = Ask::Bind { offset, bytes, is_served: true, service };
                // It is refused; an error is the end.
                if matches!(attachment.ask(&bind), Err(petasos_attach::AskError::Ended(_))) {
                    return None;
                }
            }
            // Names without end.
            1 => {
                let ask = Ask::Target(Text::new(&format!("name {}", rng.below(u64::MAX))));
                let _ = attachment.ask(&ask);
                let _ = attachment.ask(&Ask::Serve(Text::new(&rng.below(9999).to_string())));
            }
            // Calls of nothing, which are answered and never released or read.
            2 => push(&mut lane, &request(rng, u64::from(step)))?,
            // Calls that go back in their numbers, and releases of what it does not have.
            3 => {
                let number = rng.below(100);
                push(&mut lane, &request(rng, number))?;
            }
            _ => {
                let mut released = Released::new();
                released.push(rng.below(HEAP_BYTES)).ok()?;
                push(&mut lane, &Descriptor::Release(released))?;
            }
        }
    }
    Some(())
}

/// A request of anything, with a message anywhere.
fn request(rng: &mut Rng, number: u64) -> Descriptor {
    let message = Contents { offset: rng.below(2 * HEAP_BYTES), bytes: rng.below(70_000) as u32 };
    Descriptor::Request(Request {
        call: CallNumber::new(Side::Application, number),
        binding: rng.below(3) as u16,
        method: rng.below(3) as u16,
        partner: rng.below(3) as u32,
        is_stream: false,
        is_idempotent: false,
        waits_for_ready: false,
        time_left_us: TIME_NEVER,
        message,
        metadata: Contents::NONE,
    })
}

/// Puts a descriptor into the lane. Waits for no room for long: the service may not hear it.
fn push(lane: &mut Lane, said: &Descriptor) -> Option<()> {
    for _ in 0..1000 {
        match lane.push(said) {
            Ok(()) => {
                lane.flush();
                return Some(());
            }
            Err(PushError::Full(_)) => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    None
}
