//! What a scraper reads.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::operator::{Router, call_while, pass, until, worker};

fn page(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it is text");
    text
}

/// The value of a metric with these labels.
fn value(page: &str, metric: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(metric));
    let line = line.unwrap_or_else(|| panic!("{metric} is not in {page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("it has a value")
}

#[test]
fn a_scraper_reads_what_is_counted_of_groups_and_workers() {
    let router = Router::start("scraped", "", "metrics = \"127.0.0.1:0\"");
    let said = router.process.first.join("\n");
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.expect("it says where").to_owned();
    let target = router.target();
    let _workers = [worker(&target), worker(&target)];
    let operator = router.operator();
    operator.until_workers(2);
    let calls = call_while(&target, |answered| pass(answered, 100));
    let get = "GET /metrics HTTP/1.1\r\nHost: petasos\r\n\r\n";
    let group = format!("group=\"{}\"", router.group);
    // A page is given again for a while.
    let mut text = String::new();
    let given = format!("petasos_router_given_total{{{group}}} ");
    until(|| {
        text = page(&address, get);
        value(&text, &given) >= calls as f64
    });
    let of_group = |name: &str| value(&text, &format!("petasos_router_{name}{{{group}}} "));
    assert_eq!((of_group("workers"), of_group("waiting_requests")), (2.0, 0.0));
    assert!(of_group("feedback_total") > 0.0 && of_group("probes_total") >= 0.0);
    assert!(of_group("epochs_total") >= 1.0 && of_group("active") == 1.0);
    for (name, label) in [
        ("rejected_total", "code=\"queue_full\""),
        ("turned_away_total", "reason=\"aged\""),
        ("dropped_total", "reason=\"from_strangers\""),
        ("feedback_dropped_total", "reason=\"stale\""),
    ] {
        assert!(value(&text, &format!("petasos_router_{name}{{{group},{label}}} ")) >= 0.0);
    }
    let workers = operator.workers();
    let given: f64 = workers
        .workers()
        .iter()
        .map(|worker| {
            let (number, address) = (worker.worker(), worker.address());
            let labels = format!("{group},worker=\"{number}\",address=\"{address}\"");
            assert_eq!(value(&text, &format!("petasos_router_worker_bound{{{labels}}} ")), 16.0);
            let state = format!("petasos_router_worker_state{{{labels},state=\"there\"}} ");
            assert_eq!(value(&text, &state), 1.0);
            value(&text, &format!("petasos_router_worker_given_total{{{labels}}} "))
        })
        .sum();
    assert!(given >= calls as f64, "{given} of {calls}");
    for (request, status) in
        [("GET / HTTP/1.1\r\n\r\n", "404"), ("POST /metrics HTTP/1.1\r\n\r\n", "405")]
    {
        assert!(page(&address, request).starts_with(&format!("HTTP/1.1 {status}")), "{request}");
    }
}
