// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

//! The workloads of bench/workload on tokio's multi-threaded runtime: the same work, as one would write it for tokio.
//!
//! One line is printed for each figure, of the form that bench/workload/harness.h describes. Every call of this program
//! runs what --workload names in this one process, so whoever compares calls it once for each workload.
//!
//! Tasks have no stack: `memory` and `skynet` are what a future costs, and there is neither a condition variable
//! (no pingpong_cv) nor a timer without a task that waits for it (`timers` spawns one for each).

mod workloads;

use std::process::exit;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

pub struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
}

/// One execution of a workload: what it is asked for and what it found.
pub struct Round<'a> {
    pub runtime: &'a Runtime,
    scale: f64,
    figures: Vec<Figure>,
}

impl Round<'_> {
    /// The definition's count, shortened by --scale: a multiple of `multiple_of`, at least one of it.
    pub fn scaled(&self, count: usize, multiple_of: usize) -> usize {
        let multiples = (count as f64 * self.scale / multiple_of as f64).round() as usize;
        multiples.max(1) * multiple_of
    }

    /// One figure of this round. Lower is better.
    pub fn report(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure {
            name: name.into(),
            unit,
            value,
        });
    }

    pub fn report_percentiles(&mut self, prefix: &str, samples: &mut [f64]) {
        samples.sort_by(|a, b| a.partial_cmp(b).expect("a duration is a number"));
        for (name, fraction) in [("p50_us", 0.50), ("p99_us", 0.99), ("p999_us", 0.999)] {
            let rank = (fraction * (samples.len() - 1) as f64) as usize;
            self.report(format!("{prefix}{name}"), samples[rank], "us");
        }
    }
}

pub struct Workload {
    pub name: &'static str,
    pub row: &'static str,
    pub run: fn(&mut Round),
    pub rounds: usize,
}

/// A figure of a wrong result is worth nothing.
pub fn require(condition: bool, what: &str) {
    if !condition {
        eprintln!("workload failed: it does not hold that {what}");
        exit(1);
    }
}

pub fn nanoseconds_per(since: Instant, operations: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / operations as f64
}

pub fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64 / 1e6
}

pub fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

fn format_value(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 { 0 } else { 4 };
    format!("{value:.decimals$}")
}

fn print_figures(workload: &Workload, workers: usize, rounds: &[Vec<Figure>]) {
    for (f, first) in rounds[0].iter().enumerate() {
        let values: Vec<f64> = rounds.iter().map(|figures| figures[f].value).collect();
        let each: Vec<String> = values.iter().copied().map(format_value).collect();
        let mut sorted = values.clone();
        sorted.sort_by(|a, b| a.partial_cmp(b).expect("a figure is a number"));
        let best = format_value(sorted[0]);
        let median = format_value(sorted[sorted.len() / 2]);
        println!(
            "{} {} {best} {} workers={workers} groups=1 best={best} median={median} rounds={} each={} runtime=tokio",
            workload.row,
            first.name,
            first.unit,
            rounds.len(),
            each.join(",")
        );
    }
}

struct Flags {
    workloads: Vec<String>,
    workers: usize,
    rounds: usize,
    scale: f64,
}

fn parse_flags() -> Result<Flags, String> {
    let mut flags = Flags {
        workloads: Vec::new(),
        workers: 2,
        rounds: 0,
        scale: 1.0,
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument
            .split_once('=')
            .ok_or(format!("{argument}: expected --name=value"))?;
        let not_a_number = || format!("{argument}: not a number");
        match name {
            "--workload" => flags.workloads = value.split(',').map(String::from).collect(),
            "--workers" => flags.workers = value.parse().map_err(|_| not_a_number())?,
            "--rounds" => flags.rounds = value.parse().map_err(|_| not_a_number())?,
            "--scale" => flags.scale = value.parse().map_err(|_| not_a_number())?,
            _ => {
                return Err(format!(
                    "{name}: no such flag; there are --workload, --workers, --rounds, --scale"
                ))
            }
        }
    }
    if flags.workloads == ["all"] {
        flags.workloads = workloads::all()
            .iter()
            .map(|workload| workload.name.to_string())
            .collect();
    }
    Ok(flags)
}

fn main() {
    let flags = parse_flags().unwrap_or_else(|error| {
        eprintln!("{error}");
        exit(2);
    });
    let runtime = Builder::new_multi_thread()
        .worker_threads(flags.workers)
        .enable_time()
        .build()
        .expect("the runtime starts");
    let known = workloads::all();
    for name in &flags.workloads {
        let workload = known.iter().find(|workload| workload.name == name).unwrap_or_else(|| {
            eprintln!("no workload {name:?}");
            exit(2);
        });
        let rounds = if flags.rounds > 0 {
            flags.rounds
        } else {
            workload.rounds
        };
        let mut results = Vec::new();
        for _ in 0..rounds {
            let mut round = Round {
                runtime: &runtime,
                scale: flags.scale,
                figures: Vec::new(),
            };
            (workload.run)(&mut round);
            results.push(round.figures);
        }
        print_figures(workload, flags.workers, &results);
    }
}
