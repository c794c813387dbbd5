//! What carries packets between hosts, changed while calls run.

use petasos::Code;
use petasos_admin::StepMut;

use super::Operator;
use crate::support::Daemon;

fn gather(gathered: bool) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.configure_transport_mut().set_gathered(gathered);
    }
}

#[test]
fn gathering_is_switched_while_calls_run_and_no_call_is_lost_or_repeated() {
    let (there, address) = Daemon::start_over_tcp("gather-there", "127.0.0.2:0", &[]);
    let peers = [("greeter", &*address)];
    let (here, _) = Daemon::start_over_tcp("gather-here", "127.0.0.1:0", &peers);
    let operators = [&here, &there].map(Operator::of);
    let server = there.serve_until("server", "stop");
    let (ready, wait) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let mut client = here.attach("client");
    let calls = std::thread::spawn(move || {
        let target = client.target("greeter");
        let mut count = 0;
        while stopped.try_recv().is_err() {
            for _ in 0..32 {
                client.begin(target, &count.to_string());
                count += 1;
            }
            assert!((0..32).all(|_| client.next_status() == 0));
            let _ = ready.send(());
        }
        assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
        count
    });
    wait.recv().unwrap();
    for round in 0..50 {
        operators.iter().for_each(|one| one.change(&[&gather(round % 2 == 1)]));
        // A plan that fails changes nothing for good.
        operators[0].fails(&[&gather(round % 2 == 0), &|mut step| {
            step.remove_policy_mut().set_id(99);
        }]);
    }
    stop.send(()).unwrap();
    let count: i32 = calls.join().unwrap();
    let mut names = server.join().unwrap();
    assert_eq!(names.pop().as_deref(), Some("stop"));
    let mut served: Vec<i32> = names.iter().map(|name| name.parse().unwrap()).collect();
    served.sort_unstable();
    assert!(served == (0..count).collect::<Vec<_>>(), "each once: {} of {count}", served.len());
}

#[test]
fn datagrams_have_nothing_to_switch() {
    let (daemon, _) = Daemon::start_reached("gather-datagrams", None, "127.0.0.1:0", &[]);
    let (code, why) = Operator::of(&daemon).fails(&[&gather(true)]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.contains("--transport"), "{why}");
}
