# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The tables in Markdown, and the plots, drawn by gnuplot.

Not by matplotlib: in Debian 12 python3-matplotlib needs (over fonttools, scipy, pythran) Boost 1.74's headers, which
cannot be installed beside the Boost 1.81 that Weft is built with.
"""

import shutil
import subprocess

from rows import BASE_WORKERS, ROWS, RUNTIMES, SAME, SWITCH, TARGETS, WEFT, WORKERS_BOUND

_BY_KEY = {row.key: row for row in ROWS}


def number(value):
    """Three digits that mean something."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _spread_text(found):
    if found is None:
        return ""
    if found.least == found.most:
        return number(found.median)
    return f"{number(found.median)} ({number(found.least)}..{number(found.most)})"


def _table(header, lines):
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


def target_text(target):
    if target.peer is None:
        return f"<= {target.bound:,g} {_BY_KEY[target.row].unit}"
    peer = "" if target.peer == SAME else RUNTIMES[target.peer]
    row = "" if target.peer_row is None else _BY_KEY[target.peer_row].label
    return f"<= {target.bound:g} x {peer}{', ' if peer and row else ''}{row}"


def judge_all(results, workers):
    """[(target, policy, spread or None, met or None)]"""
    return [(target, policy, *results.judge(target, policy, workers, _BY_KEY))
            for target in TARGETS for policy in target.policies]


def _verdict(met):
    return "" if met is None else "met" if met else "**missed**"


def targets_table(results, workers):
    lines = []
    for target in TARGETS:
        cells = [_BY_KEY[target.row].label, target_text(target)]
        for policy in WEFT:
            found, met = results.judge(target, policy, workers, _BY_KEY) if policy in target.policies else (None, None)
            cells += [_spread_text(found), _verdict(met)]
        if any(cells[2:]):
            lines.append(cells)
    header = ["row", "target"] + [cell for policy in WEFT for cell in (RUNTIMES[policy], "target")]
    return _table(header, lines)


def figures_table(results, workers):
    runtimes = [name for name in RUNTIMES if any(results.spread_of(name, workers, row) for row in ROWS)]
    lines = []
    for row in ROWS:
        cells = [_spread_text(results.spread_of(name, workers, row)) for name in runtimes]
        if any(cells):
            lines.append([row.label, row.unit, *cells])
    return _table(["row", "unit", *(RUNTIMES[name] for name in runtimes)], lines)


def workers_table(results, other_workers):
    lines = []
    for row in ROWS:
        if row.source.workload == SWITCH:
            continue
        for policy in WEFT:
            cells = [row.label, row.unit, RUNTIMES[policy], _spread_text(results.spread_of(policy, BASE_WORKERS, row))]
            found = [results.to_base(policy, workers, row) for workers in other_workers]
            for ratio in found:
                verdict = _verdict(None if ratio is None else ratio.median <= WORKERS_BOUND)
                cells += [_spread_text(ratio), verdict]
            if any(found):
                lines.append(cells)
    header = ["row", "unit", "policy", f"{BASE_WORKERS} workers"]
    for workers in other_workers:
        header += [f"{workers} worker{'s' if workers > 1 else ''}, x", f"<= {WORKERS_BOUND:g}"]
    return _table(header, lines)


_PLOT = """set terminal svg size 1500,620 font "sans,12" background "white"
set output "{name}.svg"
set title "{title}"
set ylabel "{ylabel}"
set logscale y
set grid ytics
set key outside right top
set style data histograms
set style histogram errorbars gap 1 linewidth 1
set style fill solid 0.85 border -1
set xtics rotate by -30
set datafile missing "?"
plot {series}
"""

_COLORS = {"weft_v1": "#c0392b", "weft_v2": "#e67e22", "go": "#16a2b8", "boost_shared_work": "#7d8b99",
           "boost_work_stealing": "#4a5560", "one_tbb": "#2e6fbf", "tokio": "#6c4a2f", "std_thread": "#7fb069"}


def _plot(results, workers, out, name, title, ylabel, rows, convert):
    """One cluster for each row, one bar for each runtime: median, with the spread of the runs."""
    runtimes = [runtime for runtime in RUNTIMES if any(results.spread_of(runtime, workers, row) for row in rows)]
    lines = []
    for row in rows:
        cells = [f'"{row.label}"']
        for runtime in runtimes:
            found = results.spread_of(runtime, workers, row)
            if found is None or found.least <= 0:
                cells += ["?", "?", "?"]
            else:
                ends = sorted(convert(row, value) for value in (found.least, found.most))
                cells += [f"{value:.6g}" for value in (convert(row, found.median), *ends)]
        lines.append(" ".join(cells))
    if not runtimes:
        return False
    (out / f"{name}.dat").write_text("\n".join(lines) + "\n")
    series = ", \\\n     ".join(
        f'"{name}.dat" using {2 + 3 * i}:{3 + 3 * i}:{4 + 3 * i}{":xtic(1)" if i == 0 else ""} '
        f'title "{RUNTIMES[runtime]}" noenhanced linecolor rgb "{_COLORS[runtime]}"'
        for i, runtime in enumerate(runtimes))
    (out / f"{name}.gp").write_text(_PLOT.format(name=name, title=title, ylabel=ylabel, series=series))
    subprocess.run(["gnuplot", f"{name}.gp"], cwd=out, check=True, timeout=60)
    return True


def draw_plots(results, workers, out):
    """Names of the pictures drawn in `out`, none where there is no gnuplot."""
    if shutil.which("gnuplot") is None:
        return []
    title = f"at {workers} workers: median of the runs, least and most"
    wanted = [("throughput", f"Throughput {title}", "million operations a second",
               [row for row in ROWS if row.millions_per_second is not None],
               lambda row, value: row.millions_per_second / value),
              ("latency", f"Latency {title}", "microseconds",
               [row for row in ROWS if row.latency],
               lambda row, value: value)]
    return [f"{plot[0]}.svg" for plot in wanted if _plot(results, workers, out, *plot)]


def render(results, about, out):
    """The report as Markdown. `about`: what compare.py knows of the run."""
    workers = about["workers"]
    parts = ["# Weft beside its peers\n",
             "Lower is better in every row. A figure is the median over the runs, in brackets the least and the most. "
             "A ratio is taken within each run, then treated the same.\n",
             "\n".join(f"* {line}" for line in about["lines"]) + "\n",
             f"## Targets, {workers} workers\n", targets_table(results, workers),
             f"## Figures, {workers} workers\n", figures_table(results, workers)]
    pictures = draw_plots(results, workers, out)
    parts += [f"![{picture}]({picture})\n" for picture in pictures]
    if about["other_workers"]:
        parts += ["## Other numbers of workers\n",
                  f"A figure to the same at {BASE_WORKERS} workers; none shall be above {WORKERS_BOUND:g}.\n",
                  workers_table(results, about["other_workers"])]
    if about["notes"]:
        parts += ["## Not measured, or not in every run\n", "\n".join(f"* {note}" for note in about["notes"]) + "\n"]
    return "\n".join(parts)
