//! Quotas of calls and memory: who has them, and who meets them.

use petasos::Code;
use petasos_admin::{ListQuotasRequest, QuotaMut, StepMut};
use petasos_attach::hello::Limits;
use petasos_shm::HeapKind;

use crate::admin::Operator;
use crate::configuration::{Config, reload};

/// Resource exhausted.
const FULL: u8 = 8;

fn text(quota: &str) -> String {
    format!("application.few.quota = {{ {quota} }}\n")
}

/// Calls, and bytes to send from and to receive in.
fn had(limits: Limits) -> [u64; 3] {
    [limits.calls_max.into(), limits.send.quota_bytes, limits.receive.quota_bytes]
}

/// What new applications of the name would have, and what those have that are attached.
fn listed(operator: &Operator) -> (Option<[u64; 3]>, Vec<[u64; 3]>) {
    let request = ListQuotasRequest::new();
    let answer = operator.ask(request, |client, request| client.list_quotas(request)).unwrap();
    let values = |quota: &petasos_admin::Quota| {
        [quota.calls_max(), quota.send_heap_bytes(), quota.receive_heap_bytes()].map(Option::unwrap)
    };
    let named = answer.quotas().iter().find(|quota| quota.application() == "few").map(values);
    let attached = answer.attached().iter().map(|one| one.quota().unwrap());
    (named, attached.filter(|quota| quota.application() == "few").map(values).collect())
}

#[test]
fn an_application_with_few_calls_is_refused_more_and_others_have_theirs() {
    let config = Config::new("quota-calls", &text("calls = 3"));
    let daemon = config.start("quota-calls");
    let [mut server, mut few, mut other] =
        ["server", "few", "other"].map(|name| daemon.attach(name));
    server.serve("greeter");
    let [of_few, of_other] = [&mut few, &mut other].map(|client| client.target("greeter"));
    for _ in 0..2 {
        for _ in 0..5 {
            few.begin(of_few, "ann");
            other.begin(of_other, "bob");
        }
        assert_eq!([few.next_status(), few.next_status()], [FULL; 2]);
        // All that was not refused is answered.
        (0..8).for_each(|_| drop(server.answer()));
        assert_eq!([0; 3].map(|_| few.next_status()), [0; 3]);
        assert_eq!([0; 5].map(|_| other.next_status()), [0; 5]);
    }
}

#[test]
fn quotas_of_calls_and_memory_change_for_those_that_attach_later_and_wrong_ones_do_not() {
    const HAD: [u64; 3] = [9, 4 << 20, 2 << 20];
    let quota = |calls: u32| {
        text(&format!("calls = {calls}, send-heap-bytes = 4194304, receive-heap-bytes = 2097152"))
    };
    let config = Config::new("quota-memory", &quota(9));
    let daemon = config.start("quota-memory");
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut few = daemon.attach("few");
    let target = few.target("greeter");
    assert_eq!(had(few.attachment.limits()), HAD);
    assert!(few.attachment.grow(HeapKind::Send, 1).is_err(), "it has taken all");
    assert_eq!(had(daemon.attach("other").attachment.limits()), had(Limits::default()));
    for (wrong, said) in [
        ("calls = 0", "`application.few`: calls_max is 1 to 1048576, and not 0"),
        ("calls = -1", "invalid value: integer `-1`"),
        ("receive-heap-bytes = 65536", "receive_heap_bytes is 1048576 to 17179869184, and not"),
        ("send-heap-bytes = 9223372036854775807", "send_heap_bytes is 1048576 to 17179869184"),
        ("send-heap-bytes = 'all'", "invalid type: string"),
    ] {
        config.write(&text(wrong));
        let (is_valid, told) = config.check(&daemon);
        assert!(!is_valid && told.contains(said), "{told}");
        let (code, why) = operator.fails(&[&reload]);
        assert!(code == Code::FailedPrecondition && why.contains(said), "{code:?}: {why}");
        assert_eq!(listed(&operator), (Some(HAD), vec![HAD]));
        assert!(few.greet(target, "ann").is_ok());
    }
    let set = |with: &'static dyn Fn(&mut QuotaMut<'_>)| {
        move |mut step: StepMut<'_>| {
            let mut set = step.set_quota_mut();
            let mut quota = set.quota_mut();
            quota.set_application("few");
            with(&mut quota);
        }
    };
    let (code, why) = operator.fails(&[&set(&|quota| {
        quota.set_calls_max(0);
    })]);
    assert!(code == Code::InvalidArgument && why.contains("calls_max is 1 to"), "{code:?}: {why}");
    config.write(&quota(7));
    assert!(config.check(&daemon).0);
    operator.change(&[&reload]);
    let later = [7, HAD[1], HAD[2]];
    assert_eq!(listed(&operator), (Some(later), vec![HAD]));
    assert_eq!(had(daemon.attach("few").attachment.limits()), later);
    operator.change(&[&set(&|quota| {
        quota.set_items_max(5).set_receive_heap_bytes(1 << 20);
    })]);
    let least = [5, HAD[1], 1 << 20];
    assert_eq!(had(daemon.attach("few").attachment.limits()), least, "as many calls as items");
    assert!(few.greet(target, "stop").is_ok());
    server.join().unwrap();
}
