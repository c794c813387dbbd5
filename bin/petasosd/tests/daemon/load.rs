//! Calls under way while a test changes something: that none is lost or repeated.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::support::Client;

/// Calls in bursts, each with a number of its own, until they are told to end.
pub struct Load {
    stop: Sender<()>,
    bursts: Receiver<()>,
    calls: JoinHandle<i32>,
}

/// The word with which servers end ([`Daemon::serve_until`](crate::support::Daemon)).
pub const LAST: &str = "stop";

impl Load {
    /// Begins to call a target. A call that fails is a panic.
    pub fn begin(mut client: Client, target: &'static str) -> Load {
        let (ready, bursts) = channel();
        let (stop, stopped) = channel::<()>();
        let calls = std::thread::spawn(move || {
            let target = client.target(target);
            let mut count = 0;
            while stopped.try_recv().is_err() {
                for _ in 0..32 {
                    client.begin(target, &count.to_string());
                    count += 1;
                }
                let statuses: Vec<_> = (0..32).map(|_| client.next_status()).collect();
                assert_eq!(statuses, [0; 32], "none fails");
                let _ = ready.send(());
            }
            assert_eq!(client.greet(target, LAST), Ok(format!("hello, {LAST}")));
            count
        });
        let load = Load { stop, bursts, calls };
        load.await_bursts(1);
        load
    }

    /// Waits for so many bursts from now on.
    pub fn await_bursts(&self, count: usize) {
        self.bursts.try_iter().for_each(drop);
        (0..count).for_each(|_| self.bursts.recv().unwrap());
    }

    /// Ends it, and the server with it. Each call has to have run once.
    pub fn end(self, server: JoinHandle<Vec<String>>) {
        self.stop.send(()).unwrap();
        let count = self.calls.join().unwrap();
        let mut names = server.join().unwrap();
        assert_eq!(names.pop().as_deref(), Some(LAST));
        let mut served: Vec<i32> = names.iter().map(|name| name.parse().unwrap()).collect();
        served.sort_unstable();
        assert!(served == (0..count).collect::<Vec<_>>(), "each once: {} of {count}", served.len());
    }
}
