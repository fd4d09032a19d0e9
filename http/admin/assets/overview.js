// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The overview: figures of now, plots of the last minutes, the scheduling groups.

import { bytes, color, count, h, time } from './base.js';
import { linePlot, sparkline } from './plot.js';

const TILES = [
  { label: 'Fibers', of: sample => sample.fibers, text: count },
  { label: 'Ready fibers', of: sample => sample.ready, text: count },
  { label: 'CPUs used', of: sample => sample.cpus, text: value => value.toFixed(2) },
  { label: 'Switches', of: sample => sample.switches, text: count, unit: '/s' },
  { label: 'Ready wait, p99', of: sample => sample.p99, text: time },
  { label: 'Resident memory', of: sample => sample.resident, text: bytes },
];

function tile({ label, of, text, unit }) {
  const value = h('div.value', '…');
  const line = sparkline(of, color(0));
  return {
    element: h('div.tile.panel', h('div.label', { title: label }, label), value, line.root),
    update(samples) {
      const now = of(samples[samples.length - 1]);
      value.replaceChildren(now === undefined ? '…' : text(now), unit ? h('small', unit) : '');
      line.update(samples);
    },
  };
}

const labelOf = group => group.name ? `${group.name} (${group.group})` : `group ${group.group}`;

// A line a group, of up to four; more are one line.
function seriesOfGroups(sample, what) {
  const of = i => one => one.groups[i]?.[what];
  if (sample.groups.length > 4) return [{ name: 'all groups', color: color(0), of: one => one[what] }];
  return sample.groups.map((group, i) => ({ name: labelOf(group), color: color(i), of: of(i) }));
}

const makePlots = sample => [
  linePlot({ title: 'Fibers', format: count, least: 4,
             series: [{ name: 'alive', color: color(0), of: one => one.fibers },
                      { name: 'ready', color: color(1), of: one => one.ready }] }),
  linePlot({ title: 'Switches per second', format: count, least: 10, series: seriesOfGroups(sample, 'switches') }),
  linePlot({ title: 'Fibers started per second', format: count, least: 10, series: seriesOfGroups(sample, 'started') }),
  linePlot({ title: 'How long ready fibers wait for a worker', format: time, least: 1000,
             series: [{ name: 'p50', color: color(0), of: one => one.p50 },
                      { name: 'p99', color: color(1), of: one => one.p99 }] }),
];

const COLUMNS = [
  ['Group', group => labelOf(group), ''],
  ['Node', group => group.node < 0 ? '-' : group.node, 'number.wide'],
  ['Workers', group => group.workers.length, 'number'],
  ['Ready', group => count(group.ready), 'number'],
  ['Switches/s', group => count(group.switches ?? 0), 'number'],
  ['Ready wait p99', group => time(group.p99 ?? 0), 'number'],
  ['Stolen in', group => count(group.stolen_in), 'number.wide'],
  ['Stolen out', group => count(group.stolen_out), 'number.wide'],
  ['Overflowed', group => count(group.overflowed), 'number.wide'],
];

const cell = (tag, how, ...children) => h(how ? `${tag}.${how}` : tag, ...children);

function groupsTable(sample) {
  return h('table', h('thead', h('tr', COLUMNS.map(([name, , how]) => cell('th', how, name)))),
           h('tbody', sample.groups.map(group =>
             h('tr', COLUMNS.map(([, of, how]) => cell('td', how, `${of(group)}`))))));
}

function rest({ raw }) {
  const { admission, blocking } = raw;
  const refused = admission.refused_ready_wait + admission.refused_fibers;
  const facts = [
    ['Blocking pool', `${count(blocking.running)} running, ${count(blocking.queued)} queued, ${count(blocking.threads)} threads`],
    ['Admission', `${count(admission.admitted)} admitted, ${count(refused)} refused`],
    ['Weft', raw.version],
  ];
  return h('table', h('tbody', facts.map(([name, value]) => h('tr', h('td.dim', name), h('td', value)))));
}

export const overview = {
  title: 'Overview',
  show(main, samples) {
    const tiles = TILES.map(tile);
    const plots = h('div.plots');
    const groups = h('div.scroll');
    const facts = h('div');
    main.append(h('div.tiles', tiles.map(one => one.element)), plots,
                h('section.panel', h('div.head', h('h2', 'Scheduling groups')), groups), h('section.panel', facts));
    let drawn = [];
    let shape = '';
    return {
      update(sample) {
        const now = sample.groups.map(labelOf).join();
        if (now !== shape || !drawn.length) {  // At first, and for another runtime.
          drawn.forEach(plot => plot.stop());
          drawn = makePlots(sample);
          shape = now;
          plots.replaceChildren(...drawn.map(plot => plot.element));
        }
        for (const one of [...tiles, ...drawn]) one.update(samples);
        groups.replaceChildren(sample.groups.length ? groupsTable(sample) : h('p.empty', 'No runtime runs.'));
        facts.replaceChildren(rest(sample));
      },
      stop() { drawn.forEach(plot => plot.stop()); },
    };
  },
};
