// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Topology: the machine's CPUs in their caches and nodes, with the load that this process puts on each, and the threads.

import { askJson, color, h } from './base.js';

// FiberWorker_<group>_<index>; of a group with a name <name>_<group>_<index>, cut at 15 letters.
function groupOf(thread) {
  const found = /^(?:FiberWorker|.*)_(\d+)_(\d+)$/.exec(thread.name);
  return found && !thread.name.startsWith('TimerWorker') ? Number(found[1]) : undefined;
}

// The CPUs of "0-3,8".
function listed(text) {
  return text.split(',').filter(Boolean).flatMap(range => {
    const [first, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

// Adds to each thread `load`, the part of a CPU that it has used since `before`.
function withLoads(now, before) {
  const old = new Map(before ? before.threads.map(thread => [thread.id, thread.cpu_ns]) : []);
  const passed = before ? now.now_ns - before.now_ns : 0;
  return now.threads.map(thread => {
    const used = old.has(thread.id) ? (thread.cpu_ns - old.get(thread.id)) / passed : 0;
    return { ...thread, load: Math.min(Math.max(used, 0), 1), group: groupOf(thread) };
  });
}

function grouped(items, key) {
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(key(item))) groups.set(key(item), []);
    groups.get(key(item)).push(item);
  }
  return [...groups];
}

function cpuBox(cpu, threads) {
  const here = threads.filter(thread => thread.cpu === cpu.cpu);
  const load = Math.min(1, here.reduce((all, thread) => all + thread.load, 0));
  const workers = threads.filter(thread => thread.group !== undefined && listed(thread.allowed).includes(cpu.cpu));
  const groups = [...new Set(workers.map(worker => worker.group))].sort((a, b) => a - b);
  const percent = `${Math.round(load * 100)} %`;
  const title = `CPU ${cpu.cpu}: ${percent} by this process` +
    (groups.length ? `; workers of group ${groups.join(', ')} may run here` : '');
  const owner = groups.length === 1 ? { '--owner': color(groups[0]) } : {};
  return h(load > 0.55 ? 'div.cpu.hot' : 'div.cpu', { title, '--load': `${load}`, ...owner },
           h('b', `${cpu.cpu}`), h('span', percent));
}

function picture(machine, threads) {
  const element = h(machine.cpus.length > 64 ? 'div.machine.many' : 'div.machine');
  const packages = new Set(machine.cpus.map(cpu => cpu.package)).size;
  const nodes = new Set(machine.cpus.map(cpu => cpu.node)).size;
  for (const [, cpus] of grouped(machine.cpus, cpu => `${cpu.package} ${cpu.node} ${cpu.l3}`)) {
    const [{ package: socket, node }] = cpus;
    const label = [packages > 1 ? `package ${socket}` : '', nodes > 1 ? `node ${node}` : '', 'L3 domain'];
    element.append(h('div.domain', h('div.label', label.filter(Boolean).join(', ')), h('div.cores',
      grouped(cpus, cpu => cpu.core).map(([, core]) => h('div.core', core.map(cpu => cpuBox(cpu, threads)))))));
  }
  return element;
}

const bar = (load, i) => h('span.bar', { 'aria-hidden': 'true', '--load': `${load}`, '--color': color(i) }, h('i'));

function threadTable(threads) {
  const sorted = threads.slice().sort((a, b) => b.load - a.load || a.id - b.id);
  return h('table', h('thead', h('tr', h('th', 'Thread'), h('th.number.wide', 'Id'), h('th.number', 'CPU time'),
                                h('th.number', 'Last on'), h('th.wide', 'May run on'))),
    h('tbody', sorted.slice(0, 100).map(thread => h('tr',
      h('td', h('code', thread.name)), h('td.number.wide', `${thread.id}`),
      h('td.number', h('div.load', bar(thread.load, thread.group ?? 0), `${(thread.load * 100).toFixed(1)} %`)),
      h('td.number', `${thread.cpu}`), h('td.wide', thread.allowed)))));
}

function groupKeys(groups) {
  return groups.map((group, i) => h('span.key', { '--color': color(i) },
    `${group.name || `group ${group.group}`}: ${group.workers.length} workers, ${group.ready} ready`));
}

export const topology = {
  title: 'Topology',
  show(main) {
    const machine = h('div', { id: 'machine' });
    const keys = h('div.keys');
    const threads = h('div.scroll');
    main.append(h('p.note', 'What this process uses of each CPU, by the threads that ran there last. The line below a CPU ' +
                            'has the colour of the group whose workers alone may run there.'),
                h('section.panel', h('div.head', h('h2', 'CPUs')), machine, keys),
                h('section.panel', h('div.head', h('h2', 'Threads')), threads));
    let before = null;
    let asking = false;
    return {
      async update(sample) {
        if (asking) return;
        asking = true;
        try {
          const now = await askJson('api/machine');
          const loads = withLoads(now, before);
          before = now;
          machine.replaceChildren(picture(now, loads));
          keys.replaceChildren(...groupKeys(sample.groups));
          threads.replaceChildren(threadTable(loads));
        } catch (error) {
          machine.replaceChildren(h('p.banner.bad', error.message));
        }
        asking = false;
      },
    };
  },
};
