//! The resources that Petasos uses: memory for sessions, and processor time when idle.

use std::time::Duration;

use petasos_report::{Column, Machine, Table, significant};
use serde_json::{Value, json};

use super::args::{BenchArgs, PollingArg};
use super::load;
use super::peer::Pair;
use super::publish;
use super::turns::{ServerTurn, pin, process_cpu_s};
use crate::error::BenchError;

/// Memory per session on both sides, after every slot has completed one RPC.
pub fn sessions(args: &BenchArgs) -> Result<(), BenchError> {
    let mut pair = Pair::start(args)?;
    let (_, server) = pair.turn(ServerTurn::Petasos, |pair| load::once(&mut pair.client))?;
    let memory = pair.client.memory();
    let sessions = args.sessions() as f64;
    let rows = [
        ("client", memory.session_bytes, memory.pool.lent_bytes + memory.pool.kept_bytes),
        ("server", server.session_bytes, server.pool_bytes),
    ];
    let json = json!({
        "experiment": "sessions",
        "parameters": Value::Object(args.parameters()),
        "machine": Machine::read(),
        "rows": rows.iter().map(|(side, session, pool)| json!({
            "side": side,
            "session_bytes": *session as f64 / sessions,
            "pooled_bytes": *pool as f64 / sessions,
        })).collect::<Vec<_>>(),
    });
    let mut table = Table::new([
        Column::text("Side"),
        Column::number("Memory", "B/session"),
        Column::number("Pooled buffers", "B/session"),
    ]);
    for (side, session, pool) in rows {
        let each = |bytes: usize| significant(bytes as f64 / sessions);
        table.push([side.to_owned(), each(session), each(pool)]);
    }
    publish::publish((args.json.as_deref(), args.print_json), &json, || Ok(table.print()?))?;
    if !args.print_json {
        println!("{sessions} sessions, every slot used once; a client's pooled buffers include");
        println!("the requests that the measurement itself keeps");
    }
    Ok(())
}

/// Processor time of two idle processes in adaptive mode, with a session between them.
pub fn idle(args: &BenchArgs) -> Result<(), BenchError> {
    let args = BenchArgs { polling: PollingArg::Adaptive, ..args.clone() };
    pin(0);
    let mut pair = Pair::start(&args)?;
    pair.petasos()?;
    let wait = Duration::from_secs_f64(args.seconds());
    let run = |pair: &mut Pair| {
        let cpu_start = process_cpu_s();
        pair.client.run_for(wait, |_, _| false);
        Ok(process_cpu_s() - cpu_start)
    };
    let (client_s, server) = pair.turn(ServerTurn::Idle, run)?;
    let rows = [("client", client_s), ("server", server.cpu_s)];
    let json = json!({
        "experiment": "idle",
        "parameters": Value::Object(args.parameters()),
        "machine": Machine::read(),
        "rows": rows.iter().map(|(side, cpu_s)| json!({
            "side": side, "core_share": cpu_s / args.seconds(),
        })).collect::<Vec<_>>(),
    });
    let mut table = Table::new([Column::text("Side"), Column::number("Processor", "% of a core")]);
    for (side, cpu_s) in rows {
        table.push([side.to_owned(), significant(cpu_s / args.seconds() * 100.0)]);
    }
    publish::publish((args.json.as_deref(), args.print_json), &json, || Ok(table.print()?))
}
