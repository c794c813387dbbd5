//! What an experiment has found: JSON, tables and pictures.

use petasos_report::{Figure as Chart, Machine, Table, sheet};
use serde_json::{Map, Value, json};

use crate::error::BenchError;
use crate::publish;

/// Where results go.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Wanted {
    /// Also write the result as JSON to this file
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
    /// Also draw the result as SVG to this file, and as PNG next to it
    #[arg(long)]
    pub picture: Option<std::path::PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    pub print_json: bool,
}

/// The results of an experiment.
pub struct Report {
    /// The command: `petasos bench managed`, say.
    pub experiment: &'static str,
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
    /// A report without results, of `petasos bench managed`.
    pub fn new(figure: &'static str, parameters: Value) -> Report {
        Report::of("managed", figure, parameters)
    }

    /// A report without results.
    pub fn of(experiment: &'static str, figure: &'static str, parameters: Value) -> Report {
        Report {
            experiment,
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
    pub fn publish(&self, wanted: &Wanted) -> Result<(), BenchError> {
        if let Some(path) = wanted.picture.as_deref() {
            petasos_report::write_atomically(path, sheet(&self.charts).as_bytes())?;
            crate::rpc::program::draw_png(path)?;
        }
        let to = (wanted.json.as_deref(), wanted.print_json);
        publish::publish(to, &self.json(), || self.print())
    }

    fn json(&self) -> Value {
        let skipped: Vec<_> = self
            .skipped
            .iter()
            .map(|(name, reason)| json!({ "name": name, "reason": reason }))
            .collect();
        let mut json = json!({
            "experiment": self.experiment,
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
