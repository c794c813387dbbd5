//! `search ask`: queries to servers, and answers as people or programs read them.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use clap::Args;
use petasos::{Channel, Request, block_on};

use crate::answer::{Answer, HITS};
use crate::error::Failed;
use crate::messages::{Query, SearchClient};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A query, and how its answer is shown
#[derive(Args, Clone, Debug)]
pub struct QueryArgs {
    /// Words, +words, -words, "words nearby"~3 and wild*cards
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    pub text: String,
    /// The most hits to show, at most 100
    #[arg(long, value_name = "HITS", default_value_t = HITS)]
    pub limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Ask a server, or a group of servers
#[derive(Args, Clone, Debug)]
pub struct AskArgs {
    /// petasos://HOST:PORT, or router://HOST:PORT[,HOST:PORT…]
    target: String,
    #[command(flatten)]
    query: QueryArgs,
}

/// Asks.
///
/// # Errors
/// If nobody answers, or the query is refused.
pub fn ask(AskArgs { target, query }: &AskArgs) -> Result<(), Failed> {
    let told = |error: &dyn std::fmt::Display| Failed(format!("{target}: {error}"));
    let answer = block_on(async {
        let channel = Channel::connect(target).await.map_err(|error| told(&error))?;
        let mut message = Query::new();
        message.set_text(&query.text).set_limit(query.limit);
        let request = Request::new(message).with_timeout(TIMEOUT);
        SearchClient::new(channel).find(request).await.map_err(|status| told(&status))
    })?;
    query.show(&Answer::of(&answer))
}

impl QueryArgs {
    /// Prints an answer.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, answer: &Answer) -> Result<(), Failed> {
        if self.json {
            let json = serde_json::to_string(answer).expect("texts and numbers can be JSON");
            return print(&(json + "\n"));
        }
        let mut shown = format!("{} entries\n", answer.total);
        for hit in &answer.hits {
            let (name, word, excerpt) = (&hit.dictionary, &hit.headword, &hit.excerpt);
            let _ = writeln!(shown, "{:7.3}  {name}/{word}: {excerpt}", hit.score);
        }
        print(&shown)
    }
}

/// Prints a text. Whoever reads it may stop.
///
/// # Errors
/// The system's.
pub fn print(text: &str) -> Result<(), Failed> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
