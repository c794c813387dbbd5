//! What an experiment has found: JSON, tables and pictures.

use petasos_report::{Figure as Chart, Machine, Table, sheet};
use serde_json::{Map, Value, json};

use crate::error::BenchError;
use crate::managed::args::ManagedArgs;
use crate::publish;

/// The results of an experiment.
pub struct Report {
    /// The name on the command line.
    pub figure: &'static str,
    /// How it was measured.
    pub parameters: Value,
    /// Its results, by name.
    pub results: Map<String, Value>,
    /// What is printed.
    pub tables: Vec<Table>,
    /// What is to be said besides.
    pub notes: Vec<String>,
    pub charts: Vec<Chart>,
    /// What was not measured, and why.
    pub skipped: Vec<(&'static str, String)>,
}

impl Report {
    /// A report without results.
    pub fn new(figure: &'static str, parameters: Value) -> Report {
        Report {
            figure,
            parameters,
            results: Map::new(),
            tables: Vec::new(),
            notes: Vec::new(),
            charts: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Adds a result.
    pub fn with(&mut self, name: &str, value: Value) {
        self.results.insert(name.to_owned(), value);
    }

    /// Writes the files that are wanted, and prints.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn publish(&self, args: &ManagedArgs) -> Result<(), BenchError> {
        if let Some(path) = args.picture.as_deref() {
            petasos_report::write_atomically(path, sheet(&self.charts).as_bytes())?;
            crate::rpc::program::draw_png(path)?;
        }
        let to = (args.json.as_deref(), args.print_json);
        publish::publish(to, &self.json(), || self.print())
    }

    fn json(&self) -> Value {
        let skipped: Vec<_> = self
            .skipped
            .iter()
            .map(|(name, reason)| json!({ "name": name, "reason": reason }))
            .collect();
        let mut json = json!({
            "experiment": "managed",
            "figure": self.figure,
            "parameters": self.parameters,
            "machine": Machine::read(),
            "skipped": skipped,
        });
        if let Value::Object(all) = &mut json {
            all.extend(self.results.clone());
        }
        json
    }

    fn print(&self) -> Result<(), BenchError> {
        for table in &self.tables {
            table.print()?;
        }
        self.notes.iter().for_each(|note| println!("{note}"));
        for (name, reason) in &self.skipped {
            println!("left out: {name}: {reason}");
        }
        Ok(())
    }
}
