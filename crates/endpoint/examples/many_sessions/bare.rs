//! The memory's own limit: the lines of the cache that a call cannot do without, and nothing else.
//!
//! At either end a call needs its session (window, numbers, round trip) and its slot (the request's
//! number and times; the client's continuation, the server's response, which is kept): two lines
//! here, side by side, with no table before them. Calls go in rounds of a window, as packets do in
//! batches: each is sent, served and completed. Whoever knows the next sessions fetches them ahead,
//! as the endpoints do.

use std::collections::VecDeque;

use petasos_base::{Clock, Rng, prefetch};

/// Two lines.
#[derive(Clone)]
#[repr(C, align(64))]
struct Session {
    words: [u64; 16],
}

/// How many packets ahead an endpoint fetches their sessions.
const FRAMES_AHEAD: usize = 12;

impl Session {
    /// Reads and writes something of either line.
    fn touch(&mut self, by: u64) -> u64 {
        self.words[0] = self.words[0].wrapping_add(by);
        self.words[8] = self.words[8].wrapping_add(self.words[0]);
        self.words[8]
    }
}

/// Nanoseconds for each of so many calls, on so many sessions, of which the client knows so many
/// ahead.
pub(crate) fn ns_per_call(sessions: usize, calls: u64, ahead: usize, window: usize) -> f64 {
    let end = || vec![Session { words: [1; 16] }; sessions];
    let (mut clients, mut servers) = (end(), end());
    let mut rng = Rng::new(1);
    let mut pick = || rng.below(sessions as u64) as usize;
    let mut picked: VecDeque<usize> = (0..ahead).map(|_| pick()).collect();
    let mut under_way = vec![0; window];
    let (clock, rounds) = (Clock::system(), calls / window as u64);
    let begin = clock.now();
    let mut sum = 0;
    for _ in 0..rounds {
        for call in &mut under_way {
            let next = pick();
            prefetch(&clients[next]);
            picked.push_back(next);
            *call = picked.pop_front().expect("one has just been added");
            sum = clients[*call].touch(sum);
        }
        for sessions in [&mut servers, &mut clients] {
            for (at, call) in under_way.iter().enumerate() {
                if let Some(later) = under_way.get(at + FRAMES_AHEAD) {
                    prefetch(&sessions[*later]);
                }
                sum = sessions[*call].touch(sum);
            }
        }
    }
    core::hint::black_box(sum);
    clock.now().nanos_since(begin) as f64 / (rounds * window as u64) as f64
}

const _: () = assert!(size_of::<Session>() == 128);
