// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The workloads of bench/workload in Go: the same work, as one would write it in Go.
//
// It prints one line for each figure, in the form of bench/workload/harness.h. A call of this program runs what
// --workload names in this one process, so a comparison calls it once for each workload.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"
)

type figure struct {
	name  string
	unit  string
	value float64
}

// One execution of a workload: what it is asked for and what it found.
type round struct {
	scale   float64
	figures []figure
}

// The definition's count, shortened by --scale: a multiple of multipleOf, at least one of it.
func (r *round) scaled(count, multipleOf int) int {
	multiples := int(math.Round(float64(count) * r.scale / float64(multipleOf)))
	if multiples < 1 {
		multiples = 1
	}
	return multiples * multipleOf
}

// One figure of this round. Lower is better.
func (r *round) report(name string, value float64, unit string) {
	r.figures = append(r.figures, figure{name, unit, value})
}

type workload struct {
	name   string
	row    string
	run    func(*round)
	rounds int
}

// A figure of a wrong result is worth nothing.
func require(condition bool, what string) {
	if !condition {
		fmt.Fprintln(os.Stderr, "workload failed: it does not hold that", what)
		os.Exit(1)
	}
}

func nanosecondsPer(since time.Time, operations int) float64 {
	return float64(time.Since(since).Nanoseconds()) / float64(operations)
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e6 }

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func reportPercentiles(r *round, prefix string, samples []float64) {
	sort.Float64s(samples)
	at := func(fraction float64) float64 { return samples[int(fraction*float64(len(samples)-1))] }
	r.report(prefix+"p50_us", at(0.50), "us")
	r.report(prefix+"p99_us", at(0.99), "us")
	r.report(prefix+"p999_us", at(0.999), "us")
}

func format(value float64) string {
	if math.Abs(value) >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}

func printFigures(w workload, workers int, rounds []round) {
	for f, first := range rounds[0].figures {
		var each []string
		var sorted []float64
		for _, r := range rounds {
			each = append(each, format(r.figures[f].value))
			sorted = append(sorted, r.figures[f].value)
		}
		sort.Float64s(sorted)
		best := format(sorted[0])
		fmt.Printf("%s %s %s %s workers=%d groups=1 best=%s median=%s rounds=%d each=%s runtime=go\n", w.row, first.name,
			best, first.unit, workers, best, format(sorted[len(sorted)/2]), len(rounds), strings.Join(each, ","))
	}
}

func main() {
	selected := flag.String("workload", "", "names of workloads, separated by commas, or `all`")
	workers := flag.Int("workers", 2, "GOMAXPROCS")
	roundsWanted := flag.Int("rounds", 0, "rounds of each workload; 0: as many as suit it")
	scale := flag.Float64("scale", 1, "part of the work to do; figures are comparable at 1 only")
	flag.Parse()
	runtime.GOMAXPROCS(*workers)

	known := map[string]workload{}
	var names []string
	for _, w := range workloads {
		known[w.name] = w
		names = append(names, w.name)
	}
	if *selected != "all" {
		names = strings.Split(*selected, ",")
	}
	for _, name := range names {
		w, found := known[name]
		if !found {
			fmt.Fprintf(os.Stderr, "no workload %q\n", name)
			os.Exit(2)
		}
		count := w.rounds
		if *roundsWanted > 0 {
			count = *roundsWanted
		}
		rounds := make([]round, count)
		for i := range rounds {
			rounds[i].scale = *scale
			w.run(&rounds[i])
		}
		printFigures(w, *workers, rounds)
	}
}
