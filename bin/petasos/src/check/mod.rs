//! `petasos check`: whether recorded calls are linearizable.
//!
//! Exit status: 0 if they are, 1 if not, 2 if a file is no history or the command line is invalid,
//! 3 if the budget was too small to tell.

mod outcome;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;

use clap::Args;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_history::{Budget, History, Misuse, ModelKind, Reader, Verdict, check};

use outcome::Outcome;

const VIOLATED: u8 = 1;
const UNREADABLE: u8 = 2;
const UNDECIDED: u8 = 3;

/// The arguments of `petasos check`.
#[derive(Args)]
pub struct CheckArgs {
    /// Files of one history: a line of JSON for each call and each return, as the book's chapter
    /// `Checking histories` has them. `-` is standard input.
    #[arg(required = true, value_name = "HISTORY")]
    files: Vec<String>,
    /// What the calls mean: register, counter, sequence, etcd. The files' first lines may say it.
    #[arg(long, value_name = "MODEL")]
    model: Option<ModelKind>,
    /// How many calls are tried in some place before it is given up. 3 is the exit status then.
    #[arg(long, value_name = "NUMBER", default_value_t = Budget::default().steps)]
    steps: u64,
    /// How many states of the search are kept, with some 50 bytes each.
    #[arg(long, value_name = "NUMBER", default_value_t = Budget::default().configurations)]
    states: usize,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Checks, and prints the result.
pub fn run(args: &CheckArgs) -> ExitCode {
    match checked(args) {
        Ok((code, None)) => ExitCode::from(code),
        Ok((code, Some(failure))) => ended(code, &failure),
        Err(failure) => ended(UNREADABLE, &failure),
    }
}

fn ended(code: u8, failure: &Failure) -> ExitCode {
    output::note(&format!("petasos: {failure}"));
    ExitCode::from(code)
}

fn checked(args: &CheckArgs) -> Result<(u8, Option<Failure>), Failure> {
    let history = read(&args.files)?;
    let model = model(args, &history)?;
    let budget = Budget { steps: args.steps, configurations: args.states };
    let report = check(&history, model, budget).map_err(|misuse| unfit(&args.files, &misuse))?;
    let outcome = Outcome { files: &args.files, history: &history, model, report: &report };
    match args.json {
        true => output::answer(format!("{:#}", outcome.json()).as_bytes())?,
        false => output::answer(outcome.text().as_bytes())?,
    }
    Ok(match &report.verdict {
        Verdict::Good => (0, None),
        Verdict::Violated(_) => {
            let what = "no service of this model can have answered so";
            let advice = "look at the calls above, and at what the service did then";
            (VIOLATED, Some(Failure::with_advice(what, advice)))
        }
        Verdict::Undecided(_) => {
            let advice = "raise --steps or --states, or record fewer calls at a time";
            (UNDECIDED, Some(Failure::with_advice("it was given up", advice)))
        }
    })
}

fn read(files: &[String]) -> Result<History, Failure> {
    let mut reader = Reader::new();
    for file in files {
        let input: Box<dyn BufRead> = match file.as_str() {
            "-" => Box::new(io::stdin().lock()),
            path => {
                let opened = File::open(path).map_err(|error| {
                    let what = format_args!("cannot read {path}: {error}");
                    Failure::with_advice(what, "name a file of recorded calls")
                })?;
                Box::new(BufReader::new(opened))
            }
        };
        reader.read(input).map_err(|error| {
            let what = format_args!("{file} is no history: {error}");
            Failure::with_advice(what, "the format is in the book, `Checking histories`")
        })?;
    }
    let history = reader.finish();
    if history.calls.is_empty() {
        let advice = "name a file of recorded calls";
        return Err(Failure::with_advice("there are no calls", advice));
    }
    Ok(history)
}

fn model(args: &CheckArgs, history: &History) -> Result<ModelKind, Failure> {
    match (args.model, history.header.model) {
        (Some(asked), Some(said)) if asked != said => {
            let (asked, said) = (asked.name(), said.name());
            let what = format_args!("--model is {asked}, and the file says {said}");
            Err(Failure::with_advice(what, "leave --model out"))
        }
        (Some(model), _) | (None, Some(model)) => Ok(model),
        (None, None) => {
            let advice = "give --model register, counter, sequence or etcd";
            Err(Failure::with_advice("the file does not say what the calls mean", advice))
        }
    }
}

fn unfit(files: &[String], misuse: &Misuse) -> Failure {
    let (file, line) = (&files[misuse.place.file], misuse.place.line);
    let what = format_args!("{file}, line {line}: {misuse}");
    Failure::with_advice(what, "see --model, and the book's chapter `Checking histories`")
}
