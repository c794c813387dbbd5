//! A control connection that breaks under typed calls, and is restored.

use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;
use petasos::block_on;

/// The connections that a proxy carries, both halves.
type Carried = Arc<Mutex<Vec<TcpStream>>>;

/// Carries connections to `server` until they are cut.
fn proxy(server: SocketAddr) -> (SocketAddr, Carried) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let carried = Carried::default();
    let shared = carried.clone();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(server).expect("the server listens");
            for (from, to) in [(&near, &far), (&far, &near)] {
                let mut from = from.try_clone().expect("descriptors");
                let mut to = to.try_clone().expect("descriptors");
                std::thread::spawn(move || {
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
            shared.lock().expect("nothing panics under it").extend([near, far]);
        }
    });
    (address, carried)
}

fn cut(carried: &Carried) {
    for stream in carried.lock().expect("nothing panics under it").drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Issue 10: a call that ran when its control connection broke was `UNAVAILABLE`.
#[test]
fn issue_10_calls_outlive_their_control_connection() {
    let service = Service::default();
    let server = start(&service);
    let (address, carried) = proxy(server.local_address().expect("it listens"));
    let client = GreeterClient::new(connect(&format!("petasos://{address}")));
    block_on(client.greet(name("first"))).expect("the server is up");
    let held = client.greet(name("hold"));
    until(|| service.seen().begun >= 2);
    for _ in 0..5 {
        cut(&carried);
        for _ in 0..20 {
            block_on(client.greet(name("again"))).expect("calls need no control connection");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    release(&service);
    assert_eq!(block_on(held).expect("it was not cut off").text(), "hello, held");
    assert_eq!(service.seen().begun, 2 + 5 * 20, "each call ran once");
}
