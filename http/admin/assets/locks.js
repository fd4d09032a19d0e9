// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Locks: what fibers wait for, by object, with the owner where there is one; and cycles of fibers that wait for each
// other.

import { askJson, count, h, time } from './base.js';
import { fibersOf, nameOf, objectOf } from './fibers.js';

const PERIOD_MS = 3000;

// Waiters of each object, the most first.
function objectsOf(all) {
  const objects = new Map();
  for (const fiber of all) {
    const object = objectOf(fiber);
    if (fiber.state !== 'parked' || (!object && fiber.owner === undefined)) continue;
    const key = `${fiber.reason} ${object || fiber.owner}`;
    if (!objects.has(key)) objects.set(key, { reason: fiber.reason, object, owner: fiber.owner, waiters: [] });
    objects.get(key).waiters.push(fiber);
  }
  const rank = one => (one.owner === undefined ? 0 : 1e9) + one.waiters.length;
  return [...objects.values()].sort((a, b) => rank(b) - rank(a));
}

const waitOf = fiber => fiber.reason ? `${fiber.reason} ${objectOf(fiber)}`.trim() : fiber.state;

// In front of the next one.
const RELATIONS = { join: ', which is ', scope: ', in which runs ' };
const relationOf = fiber => RELATIONS[fiber.reason] ?? ', whose owner is ';

// A cycle of the dump: each waits for the next one, the last one for the first.
function cycleBanner({ fibers, may_end: mayEnd }) {
  const steps = fibers.map((fiber, i) =>
    `waits for ${waitOf(fiber)}${relationOf(fiber)}${nameOf(fibers[(i + 1) % fibers.length])}`);
  const end = mayEnd ? 'A deadline or a cancellation ends it.' : 'They wait for ever.';
  return h('p.banner.bad.cycle', h('b', 'A cycle: '), `${nameOf(fibers[0])} ${steps.join(', which ')}. ${end}`);
}

function table(objects, byId) {
  const rows = objects.slice(0, 200).map(({ reason, object, owner, waiters }) => {
    const holder = owner === undefined ? null : byId.get(owner) ?? { id: owner, state: 'gone' };
    const longest = waiters.reduce((most, fiber) => Math.max(most, fiber.waits_for_ms ?? 0), 0);
    const shown = waiters.slice(0, 4).map(nameOf).join(', ');
    const does = holder?.state === 'parked' ? `waits for ${waitOf(holder)}` : holder?.state;
    return h('tr', h('td', h('code', reason), ' ', h('code.dim', object)),
      h('td', holder ? [h('div', nameOf(holder)), h('div.dim', does)] : h('span.dim', '-')),
      h('td.number', count(waiters.length)), h('td.number', time(longest * 1e6)),
      h('td.wide', waiters.length > 4 ? `${shown} … ${count(waiters.length - 4)} more` : shown));
  });
  return h('table', h('thead', h('tr', h('th', 'Object'), h('th', 'Owner'), h('th.number', 'Waiters'),
                                h('th.number', 'Longest'), h('th.wide', 'Who waits'))), h('tbody', rows));
}

export const locks = {
  title: 'Locks',
  show(main) {
    const result = h('div', { id: 'locks' });
    main.append(h('p.note', 'What fibers wait for. Mutexes, writers of shared mutexes and joined fibers have owners: ' +
      'whoever must run before the waiters can go on. A list is made each 3 s.'), result);
    let next = 0;
    let asking = false;
    return {
      async update() {
        if (asking || performance.now() < next) return;
        asking = true;
        try {
          const dump = await askJson('api/fibers?stacks=0');
          const all = fibersOf(dump);
          const objects = objectsOf(all);
          const byId = new Map(all.map(fiber => [fiber.id, fiber]));
          result.replaceChildren(...dump.cycles.map(cycleBanner), h('section.panel.scroll',
            objects.length ? table(objects, byId) : h('p.empty', 'No fiber waits for an object.')));
        } catch (error) {
          result.replaceChildren(h('p.banner.bad', error.message));
        }
        next = performance.now() + PERIOD_MS;
        asking = false;
      },
    };
  },
};
