//! A stage that people and tests drive by lines.

use std::io::BufRead;

use clap::Args;
use tokio::sync::mpsc;

use super::{Stack, StackName, Stage, StageArgs};
use crate::error::Error;
use crate::service::Service;

/// Run the whole application on this machine
///
/// It runs until standard input ends, or a signal comes. Lines of it end a service, `stop STACK
/// SERVICE`, and start it again, `start STACK SERVICE`.
#[derive(Args, Clone, Debug)]
pub struct PlayArgs {
    /// What carries calls; each gets services of its own
    #[arg(value_delimiter = ',', required = true)]
    stacks: Vec<StackName>,
    #[command(flatten)]
    stage: StageArgs,
}

/// Runs stacks until standard input ends. It has to run in a local set on the main thread.
///
/// # Errors
/// A program is missing, or does not come up.
pub async fn play(args: &PlayArgs) -> Result<(), Error> {
    let stage = Stage::start(&args.stage).await?;
    let mut stacks = Vec::new();
    for name in &args.stacks {
        let stack = Stack::start(&stage, *name).await?;
        println!("{}: http://{}", name.name(), stack.frontend);
        stacks.push(stack);
    }
    println!("ready");
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        match act(&stage, &mut stacks, &line).await {
            Ok(()) => println!("done: {line}"),
            Err(error) => println!("failed: {line}: {error}"),
        }
    }
    // Those who use the stores first.
    drop(stacks);
    drop(stage);
    Ok(())
}

/// The lines of standard input. A thread waits for them: this one starts programs, which end with
/// the thread that has started them, so it must be the main one.
fn lines() -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.map(|line| tell.blocking_send(line)).take_while(Result::is_ok).for_each(drop);
    });
    lines
}

async fn act(stage: &Stage, stacks: &mut [Stack], line: &str) -> Result<(), Error> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [what, stack, service] = words[..] else {
        return Err(Error::invalid("not `stop STACK SERVICE` or `start STACK SERVICE`"));
    };
    let stack = stacks.iter_mut().find(|one| one.name.name() == stack);
    let stack = stack.ok_or_else(|| Error::invalid("no such stack runs"))?;
    let service = Service::named(service).ok_or_else(|| Error::invalid("no such service"))?;
    match what {
        "stop" => {
            stack.stop(service);
            Ok(())
        }
        "start" => stack.restart(stage, service).await,
        _ => Err(Error::invalid("only `stop` and `start`")),
    }
}
