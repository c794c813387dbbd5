use super::*;

fn histogram(count: u64) -> Histogram {
    let mut histogram = Histogram::new();
    (0..count).for_each(|i| histogram.record_ns(4000 + i));
    histogram
}

fn assert_sound(svg: &str) {
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn percentile_curves_carry_names_values_and_nines() {
    let series =
        [("Petasos", Tone::Primary, histogram(2000)), ("raw", Tone::Muted, histogram(100))];
    let svg = Figure::percentiles("Latency", series).svg(1);
    assert_sound(&svg);
    for text in [">Petasos<", ">raw<", ">50 %<", ">99 %<", ">99.9 %<", ">Latency [µs]<"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(!svg.contains(">99.99 %<"), "2000 latencies do not tell 99.99 %");
    assert!(svg.contains(">5.00 µs<"), "the median is labelled: {svg}");
}

#[test]
fn bars_carry_names_values_units_and_ranges() {
    let bars = vec![
        Bar::new("Petasos", 6.5e6, Tone::Primary).range(6e6, 7e6),
        Bar::new("raw", 10e6, Tone::Secondary),
    ];
    let figure = Figure::bars("Rate", Axis::linear("Rate", "RPC/s"), bars);
    let svg = figure.svg(1);
    assert_sound(&svg);
    for text in [">Petasos<", ">6.50 M RPC/s<", ">10.0 M RPC/s<", ">Rate [RPC/s]<"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert_eq!(svg.matches("\"whisker\"").count(), 3);
    assert_eq!(figure.table().rows()[0], ["Petasos", "6,500,000", "6,000,000", "7,000,000"]);
}

#[test]
fn lines_are_sorted_and_tabulated_by_x() {
    let series = vec![
        Series::new("a", Tone::Primary, [(64.0, 2.0), (1.0, 1.0), (f64::NAN, 5.0)]),
        Series::new("b", Tone::Secondary, [(64.0, 3.0)]),
    ];
    let figure = Figure::lines("F", Axis::log("Size", "B"), Axis::linear("Time", "µs"), series);
    assert_sound(&figure.svg(1));
    assert_eq!(figure.table().rows(), [["1", "1.00", "–"], ["64", "2.00", "3.00"]]);
}

#[test]
fn figures_without_drawable_data_say_so_or_stay_empty() {
    let axis = || Axis::log("x", "");
    let nothing = Series::new("none", Tone::Primary, [(0.0, 1.0), (1.0, -1.0)]);
    let lines = Figure::lines("F", axis(), axis(), vec![nothing]).svg(1);
    let curve = Figure::percentiles("F", [("none", Tone::Primary, Histogram::new())]).svg(2);
    for svg in [&lines, &curve] {
        assert_sound(svg);
        assert!(svg.contains("no data"), "{svg}");
    }
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0].map(|v| Bar::new("b", v, Tone::Muted));
    assert_sound(&Figure::bars("F", axis(), odd.to_vec()).svg(3));
    assert_sound(&Figure::bars("F", axis(), Vec::new()).svg(4));
}

#[test]
fn names_are_escaped_and_bounded() {
    let name = format!("<script>{}", "x".repeat(200));
    let bars = vec![Bar::new(name, 1.0, Tone::Primary)];
    let svg = Figure::bars("F", Axis::linear("y", ""), bars).svg(1);
    assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;xxx"), "{svg}");
    let label = svg.lines().find(|line| line.contains("class=\"name\"")).expect("it is labelled");
    assert!(label.contains('…'), "{label}");
}

/// Texts that end at a place, with that place: the labels at the left.
fn labels_at_the_left(svg: &str) -> Vec<(f64, String)> {
    let texts = svg.lines().filter(|line| line.contains("text-anchor=\"end\""));
    let labels = texts.map(|line| {
        let x = line.split_once(" x=\"").and_then(|(_, rest)| rest.split_once('"'));
        let text = line.rsplit_once("</").and_then(|(rest, _)| rest.rsplit_once('>'));
        (x.unwrap().0.parse().unwrap(), text.unwrap().1.to_owned())
    });
    labels.collect()
}

#[test]
fn long_labels_and_large_values_are_not_cut_at_the_left() {
    let widest = "W".repeat(30);
    let bars = vec![Bar::new(widest.clone(), 1.0, Tone::Primary)];
    let bars = Figure::bars("F", Axis::linear("y", "calls/s"), bars).svg(1);
    let series = vec![Series::new("a", Tone::Primary, [(0.0, 9.123e-7), (1.0, 0.5e-7)])];
    let lines = Figure::lines("F", Axis::linear("x", ""), Axis::log("y", "B"), series).svg(2);
    assert!(bars.contains(&widest), "{bars}");
    for svg in [bars, lines] {
        let labels = labels_at_the_left(&svg);
        assert!(!labels.is_empty(), "{svg}");
        for (x, text) in labels {
            assert!(x > svg::text_width(&text), "{text} ends at {x}: {svg}");
        }
    }
}

#[test]
fn times_have_units_and_no_prefixes_before_them() {
    let bars =
        vec![Bar::new("managed", 1760.0, Tone::Primary), Bar::new("tonic", 870.0, Tone::Secondary)];
    let figure = Figure::bars("Mean", Axis::linear("Time", "µs"), bars);
    let svg = figure.svg(1);
    for text in [">1.76 ms<", ">870 µs<", ">Time [ms]<", ">0.5<", "managed: 1.76 ms."] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(!svg.contains(" k "), "{svg}");
    // Tables are for programs and people who compare: one unit for all.
    assert_eq!(figure.table().rows()[0][1], "1,760");
}
