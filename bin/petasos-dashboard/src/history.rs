//! What was seen in the last minutes, as JSON that is made once and given to all who ask.
//!
//! Invariant: at most [`FRAMES_MAX`] frames of [`BYTES_MAX`] bytes together are kept, however many
//! applications there are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::{SystemClock, Time};
use serde_json::Value;

use crate::secret::Secret;

/// The most frames: five minutes, at one per second.
const FRAMES_MAX: usize = 300;
/// The most bytes of all frames.
const BYTES_MAX: usize = 4 << 20;

/// What was seen.
pub struct History {
    seen: Mutex<Seen>,
    /// Tells this process from one before it.
    run: String,
    clock: SystemClock,
}

#[derive(Default)]
struct Seen {
    frames: VecDeque<(u64, Arc<str>)>,
    frame_bytes: usize,
    /// Of the newest frame; they begin with 1.
    sequence: u64,
    overview: Option<Arc<str>>,
    heard_at: Option<Time>,
    away: Option<String>,
}

impl History {
    pub fn new() -> History {
        let run = Secret::new().text()[..16].to_owned();
        History { seen: Mutex::default(), run, clock: SystemClock::default() }
    }

    /// Takes what there is now, and what has happened since the last time if that is known.
    pub fn add(&self, frame: Option<Value>, overview: &Value) {
        let now = self.clock.now();
        let mut seen = self.seen();
        seen.heard_at = Some(now);
        seen.away = None;
        seen.overview = Some(overview.to_string().into());
        let Some(mut frame) = frame else { return };
        seen.sequence += 1;
        frame["sequence"] = seen.sequence.into();
        frame["time_ms"] = (now.as_nanos() / 1_000_000).into();
        let (sequence, text) = (seen.sequence, frame.to_string());
        seen.frame_bytes += text.len();
        seen.frames.push_back((sequence, text.into()));
        while seen.frames.len() > FRAMES_MAX || seen.frame_bytes > BYTES_MAX {
            let Some((_, oldest)) = seen.frames.pop_front() else { break };
            seen.frame_bytes -= oldest.len();
        }
    }

    /// Notes that the service is not there, and why.
    pub fn away(&self, why: &str) {
        self.seen().away = Some(why.to_owned());
    }

    /// The frames after one, what there is now, and whether the service is there. Whoever knows a
    /// later frame than there is knows those of another process, and is given all.
    pub fn since(&self, sequence: u64) -> String {
        let seen = self.seen();
        let sequence = if sequence > seen.sequence { 0 } else { sequence };
        let newer = seen.frames.iter().filter(|(of, _)| *of > sequence).map(|(_, text)| &**text);
        let frames = newer.collect::<Vec<_>>().join(",");
        let age_ms = seen.heard_at.map(|at| self.clock.now().nanos_since(at) / 1_000_000);
        let (run, age_ms, away) = (Value::from(&*self.run), Value::from(age_ms), &seen.away);
        let (away, overview) = (Value::from(away.clone()), seen.overview.as_deref());
        let overview = overview.unwrap_or("null");
        let newest = seen.sequence;
        format!(r#"{{"run":{run},"sequence":{newest},"age_ms":{age_ms},"away":{away},"#,)
            + &format!(r#""frames":[{frames}],"overview":{overview}}}"#)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(history: &History, since: u64) -> Value {
        serde_json::from_str(&history.since(since)).expect("it is JSON")
    }

    fn sequences(answer: &Value) -> Vec<u64> {
        let frames = answer["frames"].as_array().expect("a list");
        frames.iter().filter_map(|frame| frame["sequence"].as_u64()).collect()
    }

    #[test]
    fn who_asks_again_is_told_what_is_new() {
        let history = History::new();
        let nothing = answer(&history, 0);
        assert_eq!((&nothing["overview"], &nothing["age_ms"]), (&Value::Null, &Value::Null));
        history.add(None, &json!({"a": 1}));
        assert_eq!(answer(&history, 0)["overview"]["a"], 1);
        for _ in 0..3 {
            history.add(Some(json!({})), &json!({"a": 2}));
        }
        assert_eq!(sequences(&answer(&history, 0)), [1, 2, 3]);
        assert_eq!(sequences(&answer(&history, 2)), [3]);
        assert!(sequences(&answer(&history, 3)).is_empty());
        assert_eq!(sequences(&answer(&history, 99)), [1, 2, 3], "of another process");
        history.away("it \"ended\"");
        assert_eq!(answer(&history, 3)["away"], "it \"ended\"");
        history.add(None, &json!({}));
        let again = answer(&history, 3);
        assert!(again["away"].is_null() && again["age_ms"].is_u64(), "{again}");
    }

    #[test]
    fn frames_are_bounded_by_number_and_by_bytes() {
        let history = History::new();
        for _ in 0..FRAMES_MAX + 5 {
            history.add(Some(json!({})), &json!({}));
        }
        let kept = sequences(&answer(&history, 0));
        assert_eq!((kept.len(), kept[0]), (FRAMES_MAX, 6));
        let long = "x".repeat(BYTES_MAX / 4);
        for _ in 0..8 {
            history.add(Some(json!({ "text": long })), &json!({}));
        }
        assert_eq!(sequences(&answer(&history, 0)).len(), 3);
        assert!(history.seen().frame_bytes <= BYTES_MAX);
        history.add(Some(json!({ "text": "x".repeat(BYTES_MAX) })), &json!({}));
        assert!(sequences(&answer(&history, 0)).is_empty());
        assert_eq!(history.seen().frame_bytes, 0);
    }
}
