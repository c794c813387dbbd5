//! What scrapers are served.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Daemon, PATIENCE};

/// What a server answers: the status, and the body.
fn asked(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    if !request.starts_with("HEAD") {
        assert_eq!(body.len(), length.parse::<usize>().unwrap());
    }
    let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    (status, body.to_owned())
}

fn scrape(address: &str) -> Page {
    let (status, body) =
        asked(address, "GET /metrics HTTP/1.1\r\nHost: petasos\r\nAccept: text/plain\r\n\r\n");
    assert_eq!(status, 200);
    Page::parse(&body)
}

type Labels = Vec<(String, String)>;

/// A page in Prometheus' text format, judged by its rules.
struct Page {
    kinds: HashMap<String, String>,
    samples: Vec<(String, Labels, f64)>,
}

impl Page {
    fn parse(text: &str) -> Page {
        assert!(text.ends_with('\n'));
        let mut page = Page { kinds: HashMap::new(), samples: Vec::new() };
        let (mut family, mut seen) = (String::new(), HashSet::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(help.split_once(' ').is_some_and(|(_, text)| !text.is_empty()), "{line}");
                continue;
            }
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let earlier = page.kinds.insert(name.to_owned(), kind.to_owned());
                assert_eq!(earlier, None, "{name} comes once");
                family = name.to_owned();
                continue;
            }
            let (name, labels, value) = sample(line);
            let is_of_family = match &*page.kinds[&family] {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| name.strip_suffix(end) == Some(&family)),
                "counter" => name == family && name.ends_with("_total"),
                _ => name == family && !name.ends_with("_total"),
            };
            assert!(is_of_family && name.starts_with("petasos_"), "{line}");
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            page.samples.push((name, labels, value));
        }
        page.check_histograms();
        page
    }

    /// Buckets count up to what there is in all.
    fn check_histograms(&self) {
        let mut last: HashMap<Labels, (f64, f64)> = HashMap::new();
        for (name, labels, value) in &self.samples {
            let Some((bound, rest)) = labels.split_last().filter(|(last, _)| last.0 == "le") else {
                if name.ends_with("_count") {
                    assert_eq!(last[labels], (f64::INFINITY, *value), "{name} {labels:?}");
                }
                continue;
            };
            let bound = bound.1.replace("+Inf", "inf").parse::<f64>().unwrap();
            if let Some((earlier, below)) = last.insert(rest.to_vec(), (bound, *value)) {
                let is_next = earlier == f64::INFINITY || earlier < bound && below <= *value;
                assert!(is_next, "{name} {labels:?}");
            }
        }
    }

    /// The value of the sample with these labels, and perhaps others.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |all: &Labels| {
            labels.iter().all(|(key, value)| all.iter().any(|it| it.0 == *key && it.1 == *value))
        };
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|(known, all, _)| known == name && has(all))
            .map(|(_, _, value)| *value)
            .collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}");
        found[0]
    }
}

/// `name{label="value",…} 1`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    let is_name = |text: &str| {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let (value, after) = quoted(value);
            labels.push((label.to_owned(), value));
            rest = after;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    (name.to_owned(), labels, rest.strip_prefix(' ').unwrap().parse().unwrap())
}

/// A value up to its quote, and what is behind it.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    loop {
        match chars.next().unwrap() {
            (at, '"') => return (value, &text[at + 1..]),
            (_, '\\') => value.push(match chars.next().unwrap().1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                other => panic!("\\{other}"),
            }),
            (_, c) => value.push(c),
        }
    }
}

#[test]
fn a_scraper_reads_what_is_counted() {
    let policies = r#"[{"application": "*", "kind": "null"}]"#;
    let (daemon, address) = Daemon::start_metrics("metrics", Some(policies));
    let server = daemon.serve_until("server", "stop");
    let name = "shop/a.b-1";
    let mut client = daemon.attach(name);
    let target = client.target("greeter");
    (0..20).for_each(|_| assert!(client.greet(target, "ann").is_ok()));
    let page = scrape(&address);
    assert_eq!(page.value("petasos_applications", &[]), 2.0);
    let labels = [("application", name), ("method", "greet.Greeter/Greet"), ("way", "to-local")];
    assert_eq!(page.value("petasos_calls_begun_total", &labels), 20.0);
    assert_eq!(page.value("petasos_calls_under_way", &labels), 0.0);
    let ok = [&labels[..], &[("code", "OK")]].concat();
    assert_eq!(page.value("petasos_calls_ended_total", &ok), 20.0);
    assert_eq!(page.value("petasos_call_latency_seconds_count", &labels), 20.0);
    assert!(page.value("petasos_call_latency_seconds_sum", &labels) > 0.0);
    assert!(page.value("petasos_request_bytes_total", &labels) > 20.0);
    let engine = [("application", "server"), ("place", "0"), ("kind", "null")];
    assert_eq!(page.value("petasos_engine_items_total", &engine), 40.0);
    assert_eq!(page.value("petasos_gone_applications_total", &[]), 0.0);
    let runtime = [("runtime", "0")];
    assert!(page.value("petasos_runtime_applications", &runtime) >= 1.0);
    assert!(page.value("petasos_runtime_processor_seconds_total", &runtime) > 0.0);
    assert!(page.value("petasos_memory_limit_bytes", &[]) > 0.0);
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
    // A page is kept for a second.
    while scrape(&address).value("petasos_gone_applications_total", &[]) == 0.0 {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a sample has this value: pages are kept for a second.
fn until(address: &str, name: &str, labels: &[(&str, &str)], value: f64) {
    for _ in 0..200 {
        if scrape(address).value(name, labels) == value {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{name} {labels:?} is {}", scrape(address).value(name, labels));
}

#[test]
fn copies_go_to_another_server_by_its_name_and_policies_report_with_names() {
    let policies = r#"[
        {"application": "shop", "kind": "mirror", "configuration": {"to": "next", "share": 1}},
        {"application": "shop", "kind": "overload", "configuration": {"by": "peer"}},
        {"application": "shop", "kind": "access", "configuration": {"default": "allow",
            "rules": [{"name": "no \"eve\"", "action": "deny", "methods": ["*"],
                       "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}}]"#;
    let (daemon, address) = Daemon::start_metrics("reports", Some(policies));
    let server = daemon.serve_until("server", "stop");
    let next = daemon.serve_as("next", "next", "stop");
    let mut client = daemon.attach("shop");
    let target = client.target("greeter");
    (0..20).for_each(|_| assert!(client.greet(target, "ann").is_ok()));
    (0..3).for_each(|_| assert!(client.greet(target, "eve").is_err()));
    let copies = "petasos_copies_total";
    until(&address, copies, &[("runtime", "0"), ("result", "sent")], 20.0);
    let page = scrape(&address);
    assert_eq!(page.value(copies, &[("runtime", "0"), ("result", "dropped")]), 0.0);
    let at_next = [("application", "next"), ("way", "from-local"), ("code", "OK")];
    until(&address, "petasos_calls_ended_total", &at_next, 20.0);
    let report = "petasos_policy_report";
    let of = |kind, value, of| {
        let labels = [("application", "shop"), ("kind", kind), ("value", value), ("of", of)];
        scrape(&address).value(report, &labels)
    };
    // The mirror is before the policy that refuses some.
    assert_eq!(of("mirror", "mirrored", ""), 23.0);
    assert_eq!(of("access", "rules.decided", "no \"eve\""), 3.0);
    assert!(of("overload", "limits.limit", "peer greeter") > 0.0);
    assert_eq!(scrape(&address).value("petasos_policy_values_left_out", &[]), 0.0);
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
    // It was told by a copy.
    next.join().unwrap();
}

#[test]
fn what_the_grpc_port_refuses_is_counted_where_there_is_one() {
    let arguments = ["--metrics", "127.0.0.1:0", "--listen-grpc", "127.0.0.1:0"];
    let (_daemon, address) = Daemon::start_metrics_with("metrics-grpc", &arguments);
    let page = scrape(&address);
    assert_eq!(page.value("petasos_grpc_refusals_total", &[("reason", "calls")]), 0.0);
}

#[test]
fn what_is_no_scraper_is_told_so_and_costs_others_nothing() {
    let (_daemon, address) = Daemon::start_metrics("scrapers", None);
    let (status, body) = asked(&address, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((status, &*body), (200, ""));
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", 405),
        ("nonsense\r\n\r\n", 400),
        (&*"x".repeat(8 << 10), 431),
    ] {
        assert_eq!(asked(&address, request).0, expected, "{expected}");
    }
    // Those who say nothing have all places until their time is up; then others are served.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let page = scrape(&address);
    assert_eq!(page.value("petasos_applications", &[]), 0.0);
    drop(silent);
    // Many at a time, none of whom reads before all have asked.
    let mut many: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for stream in &mut many {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}
