//! `petasos bench` over shared memory and AF_XDP.

mod support;

use support::bench;

#[test]
fn bench_measures_rings_and_the_choice_of_them() {
    for transport in ["shm", "auto"] {
        for experiment in ["latency", "rate", "bandwidth"] {
            let args = [experiment, "--transport", transport, "--seconds", "0.1"];
            let finished = bench(&[&args[..], &["--print-json"]].concat());
            let text = finished.success();
            assert!(text.contains(&format!("\"transport\": \"{transport}\"")), "{text}");
            assert!(text.contains("\"ratio\""), "{text}");
        }
    }
}

#[test]
fn bench_measures_af_xdp_in_a_network_of_its_own() {
    if !rustix::process::geteuid().is_root() {
        return petasos_skips::skip("root", "AF_XDP and network namespaces need root");
    }
    for experiment in ["latency", "rate"] {
        let args = [experiment, "--transport", "xdp", "--seconds", "0.1"];
        let finished = bench(&[&args[..], &["--print-json"]].concat());
        assert!(finished.success().contains("\"ratio\""), "{finished:?}");
    }
    let finished = bench(&["latency", "--transport", "xdp", "--interface", "eth9"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("--connect"), "{finished:?}");
}

#[test]
fn nothing_is_sent_in_the_clear_beyond_this_host_unasked() {
    // An address for documentation, to which nothing is sent.
    for experiment in ["latency", "rate", "bandwidth"] {
        let finished = bench(&[experiment, "--connect", "192.0.2.1:7411", "--seconds", "0.1"]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        let said = &finished.stderr;
        assert!(said.contains("is not on this host") && said.contains("--plaintext"), "{said}");
    }
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "ca.pem"];
    for experiment in ["latency", "factors", "rpc", "incast"] {
        let finished = bench(&[&[experiment][..], &tls].concat());
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("go with --connect"), "{finished:?}");
    }
    for experiment in ["factors", "sessions", "idle"] {
        let finished = bench(&[experiment, "--connect", "127.0.0.1:7411"]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("leave --connect away"), "{finished:?}");
    }
}
