//! What a scraper reads.

use crate::operator::{
    GET_METRICS, Router, call_while, metrics_of, page, pass, until, value, worker,
};

#[test]
fn a_scraper_reads_what_is_counted_of_groups_and_workers() {
    let router = Router::start("scraped", "", "metrics = \"127.0.0.1:0\"");
    let address = metrics_of(&router.process);
    let target = router.target();
    let _workers = [worker(&target), worker(&target)];
    let operator = router.operator();
    operator.until_workers(2);
    let calls = call_while(&target, |answered| pass(answered, 100));
    let group = format!("group=\"{}\"", router.group);
    // A page is given again for a while.
    let mut text = String::new();
    let given = format!("petasos_router_given_total{{{group}}} ");
    until(|| {
        text = page(&address, GET_METRICS);
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
