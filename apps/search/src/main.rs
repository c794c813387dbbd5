//! Full-text search in Debian's dictionaries, over Petasos and HTTP/1.1. `README.md` says how to
//! run it.

mod answer;
mod ask;
mod corpus;
mod engine;
mod error;
mod http;
mod messages;
mod query;
mod record;
mod recording;
#[cfg(test)]
mod scan;
mod serve;
mod source;
mod words;
mod worker;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use answer::Answer;
use ask::{AskArgs, QueryArgs};
use error::Failed;
use query::draw;
use record::QueriesArgs;
use source::CorpusArgs;

/// Full-text search in dictionaries, over Petasos and HTTP/1.1
#[derive(Debug, Parser)]
#[command(name = "search", version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ask(AskArgs),
    Find(FindArgs),
    Queries(DrawArgs),
    Record(record::RecordArgs),
    Serve(serve::ServeArgs),
}

/// Answer one query, without a server
#[derive(Args, Debug)]
struct FindArgs {
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
}

/// Print queries that are drawn from the dictionaries, a line each
#[derive(Args, Debug)]
struct DrawArgs {
    #[command(flatten)]
    queries: QueriesArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
}

fn find(FindArgs { query, corpus }: &FindArgs) -> Result<(), Failed> {
    // What is no query needs no index.
    query.text.parse::<query::Query>().map_err(answer::Refusal::from)?;
    query.show(&Answer::find(&corpus.engine()?, &query.text, query.limit)?)
}

fn print_drawn(args: &DrawArgs) -> Result<(), Failed> {
    let drawn = draw(&args.corpus.load()?, args.queries.count as usize, args.queries.seed);
    let lines: Vec<_> = drawn.into_iter().map(|drawn| drawn.text + "\n").collect();
    ask::print(&lines.concat())
}

fn main() -> ExitCode {
    let outcome = match &Line::parse().command {
        Command::Ask(args) => ask::ask(args),
        Command::Find(args) => find(args),
        Command::Queries(args) => print_drawn(args),
        Command::Record(args) => record::record(args),
        Command::Serve(args) => serve::serve(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("search: {error}");
            ExitCode::FAILURE
        }
    }
}
