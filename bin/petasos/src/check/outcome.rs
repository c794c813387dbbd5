//! What a check has found, for people and programs.

use std::fmt::Write;

use petasos_history::{
    Happening, History, Mention, ModelKind, Op, Outcome as Ended, Place, Prefix, Report, Verdict,
    Violation,
};
use serde::Serialize;
use serde_json::{Value, json};

/// So many calls of an order are shown: the last ones.
const ORDER_SHOWN: usize = 8;
/// So many calls are shown that are left.
const LEFT_SHOWN: usize = 16;
/// So many violations are shown.
const VIOLATIONS_SHOWN: usize = 4;
/// So many characters of a call or an answer.
const CHARACTERS_SHOWN: usize = 160;

/// A history and what was found.
pub struct Outcome<'a> {
    pub files: &'a [String],
    pub history: &'a History,
    pub model: ModelKind,
    pub report: &'a Report,
}

impl Outcome<'_> {
    /// Some lines.
    pub fn text(&self) -> String {
        let Report { verdict, outcomes: [done, not_done, unknown], parts, .. } = self.report;
        let word = match verdict {
            Verdict::Good => "linearizable",
            Verdict::Violated(_) => "NOT linearizable",
            Verdict::Undecided(_) => "undecided",
        };
        let calls = done + not_done + unknown;
        let mut text = format!(
            "{word}: {calls} calls ({done} done, {not_done} not done, {unknown} unknown) in \
             {parts} independent {}, as {}\n",
            if *parts == 1 { "part" } else { "parts" },
            self.model.name(),
        );
        match verdict {
            Verdict::Good => {}
            Verdict::Undecided(parts) => text += &format!("  given up: {}\n", some(parts)),
            Verdict::Violated(violations) => {
                for violation in violations.iter().take(VIOLATIONS_SHOWN) {
                    self.violation(&mut text, violation);
                }
                if let Some(more) = violations.len().checked_sub(VIOLATIONS_SHOWN + 1) {
                    text += &format!("  and {} more\n", more + 1);
                }
            }
        }
        text
    }

    fn violation(&self, text: &mut String, violation: &Violation) {
        match violation {
            Violation::Contradiction { calls, what } => {
                *text += &format!("  {what}:\n");
                for call in calls {
                    self.call(text, &self.done(*call));
                }
            }
            Violation::NoOrder { part, calls, prefix } => {
                let Prefix { order, state, left, .. } = prefix;
                let placed = order.len();
                *text += &format!("  {part}: {placed} of {calls} calls have an order that fits");
                let shown = &order[placed.saturating_sub(ORDER_SHOWN)..];
                *text += match (placed, placed > ORDER_SHOWN) {
                    (0, _) => "\n",
                    (_, true) => ", the last of which are\n",
                    (_, false) => ":\n",
                };
                self.calls(text, shown);
                *text += &format!("  then {state}, and none of these fits next:\n");
                self.calls(text, &left[..left.len().min(LEFT_SHOWN)]);
                if let Some(more) = left.len().checked_sub(LEFT_SHOWN + 1) {
                    *text += &format!("    and {} more\n", more + 1);
                }
            }
        }
    }

    fn calls(&self, text: &mut String, mentions: &[Mention]) {
        mentions.iter().for_each(|mention| self.call(text, mention));
    }

    fn call(&self, text: &mut String, mention: &Mention) {
        let call = &self.history.calls[mention.call];
        let ended = match (mention.what, &call.outcome) {
            (Happening::Sight, _) => "was told of a revision".into(),
            (Happening::Expiry, _) => "ends by itself".into(),
            _ if matches!(call.op, Op::Watch { .. }) => "a watch".into(),
            (_, Ended::Ok(_, reply)) => shortened(reply),
            (_, Ended::NotDone) => "not done".into(),
            (_, Ended::Unknown) => "unknown".into(),
        };
        let (place, op) = (self.place(mention.place), shortened(&call.op));
        // Writing to a text does not fail.
        let _ = writeln!(text, "    {place}: process {}, {op} -> {ended}", call.id.process);
    }

    /// A call as such.
    fn done(&self, call: usize) -> Mention {
        Mention { call, place: self.history.calls[call].place, what: Happening::Call }
    }

    /// The file is said if there are several.
    fn place(&self, place: Place) -> String {
        match self.files {
            [_] => format!("line {}", place.line),
            files => format!("{}, line {}", files[place.file], place.line),
        }
    }

    /// All that is known. Calls are the lines that mention them.
    pub fn json(&self) -> Value {
        let Report { verdict, outcomes: [done, not_done, unknown], parts, steps } = self.report;
        let (word, violations, undecided): (_, &[Violation], &[String]) = match verdict {
            Verdict::Good => ("good", &[], &[]),
            Verdict::Violated(violations) => ("violated", violations, &[]),
            Verdict::Undecided(parts) => ("undecided", &[], parts),
        };
        let violations: Vec<Value> =
            violations.iter().map(|one| self.violation_json(one)).collect();
        json!({
            "verdict": word,
            "model": self.model.name(),
            "calls": { "done": done, "not_done": not_done, "unknown": unknown },
            "parts": parts,
            "steps": steps,
            "violations": violations,
            "undecided": undecided,
        })
    }

    fn violation_json(&self, violation: &Violation) -> Value {
        let place = |mention: &Mention| {
            let Place { file, line } = mention.place;
            json!({ "file": self.files[file], "line": line })
        };
        let places = |calls: &[Mention]| calls.iter().map(place).collect::<Vec<_>>();
        match violation {
            Violation::Contradiction { calls, what } => {
                let calls: Vec<Mention> = calls.iter().map(|call| self.done(*call)).collect();
                json!({ "what": what, "calls": places(&calls) })
            }
            Violation::NoOrder { part, calls, prefix } => json!({
                "part": part,
                "part_calls": calls,
                "order": places(&prefix.order),
                "state": prefix.state,
                "left": places(&prefix.left),
                "blocked": prefix.blocked.as_ref().map(place),
            }),
        }
    }
}

/// Names, of which only some are shown.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(VIOLATIONS_SHOWN).map(String::as_str).collect::<Vec<_>>();
    match names.len().checked_sub(VIOLATIONS_SHOWN + 1) {
        None => shown.join("; "),
        Some(more) => format!("{}; and {} more", shown.join("; "), more + 1),
    }
}

/// As in the history, and cut.
fn shortened<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    match text.char_indices().nth(CHARACTERS_SHOWN) {
        None => text,
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}
