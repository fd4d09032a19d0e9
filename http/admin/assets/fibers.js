// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers: what a dump says of them (weft/observe/dump_fibers.h), grouped by stack or by what they wait for, or each.

import { askJson, count, h, time } from './base.js';

const REASONS = ['mutex', 'shared_mutex', 'condition_variable', 'latch', 'barrier', 'wait_group', 'event', 'semaphore',
                 'channel_put', 'channel_get', 'select', 'join', 'scope', 'sleep', 'readable', 'writable', 'descriptor',
                 'blocking_pool', 'name_look_up', 'timer_callback'];
const MOST_ROWS = 500;
const MOST_FRAMES = 4;

// All fibers of a dump, each with its group's state, reason and stack.
export function fibersOf(dump) {
  return dump.groups.flatMap(({ fibers: all, ...rest }) => all.map(fiber => ({ ...fiber, ...rest })));
}

export const nameOf = fiber => fiber.name ? `${fiber.name} (${fiber.id})` : `fiber ${fiber.id}`;

export function objectOf(fiber) {
  if (fiber.descriptor !== undefined) return `fd ${fiber.descriptor}`;
  return fiber.object ?? '';
}

const age = fiber => fiber.waits_for_ms === undefined ? '' : time(fiber.waits_for_ms * 1e6);

function ages(fibers) {
  const all = fibers.filter(fiber => fiber.waits_for_ms !== undefined).map(fiber => fiber.waits_for_ms);
  if (!all.length) return '';
  const [least, most] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  return least === most ? `for ${time(most * 1e6)}` : `for ${time(least * 1e6)} to ${time(most * 1e6)}`;
}

const stateOf = group => h(`span.state.${group.state}`, group.reason ? `${group.state}: ${group.reason}` : group.state);

function frame({ address, function: name, file, line, module }) {
  const where = file ? `${file.split('/').pop()}:${line}` : module.split('/').pop();
  return h('li', h('code', name || address), ' ', h('span.where', { title: file || module }, where));
}

// How Weft parks a fiber, below the call that waits.
const INSIDE = /^(weft_switch_context|weft_context_start|weft::(context|scheduling_group|sync(hronization)?|timer)::)/;

function frames(stack) {
  const first = Math.max(0, stack.findIndex(({ function: name }) => !INSIDE.test(name ?? '')));
  const shown = stack.slice(first, first + MOST_FRAMES);
  const list = h('ol.frames', shown.map(frame));
  if (shown.length < stack.length) {
    const all = () => list.replaceChildren(...stack.map(frame));
    list.append(h('li', h('button.more', { type: 'button', click: all }, `all ${stack.length} frames`)));
  }
  return list;
}

function names(fibers) {
  const shown = fibers.slice(0, 6).map(nameOf).join(', ');
  return h('div.names', fibers.length > 6 ? `${shown} … and ${count(fibers.length - 6)} more` : shown);
}

function oneGroup(group, stacks) {
  return h('section.panel.group',
    h('div.group-head', h('b', count(group.count)), group.count === 1 ? 'fiber' : 'fibers', stateOf(group),
      h('span.dim', ages(group.fibers))),
    group.stack === undefined ? null : frames(stacks[group.stack]), names(group.fibers));
}

function byStack(dump) {
  const shown = dump.groups.slice(0, MOST_ROWS).map(group => oneGroup(group, dump.stacks));
  const rest = dump.groups.length - shown.length;
  return rest ? [...shown, h('p.panel.empty', `${count(rest)} more groups are not shown; a filter makes them fewer.`)] : shown;
}

function byReason(dump) {
  const kinds = new Map();
  for (const fiber of fibersOf(dump)) {
    const key = fiber.reason ?? fiber.state;
    if (!kinds.has(key)) kinds.set(key, []);
    kinds.get(key).push(fiber);
  }
  const rows = [...kinds].sort(([, a], [, b]) => b.length - a.length).map(([kind, fibers]) => {
    const objects = new Set(fibers.map(objectOf).filter(Boolean));
    return h('tr', h('td', h('code', kind)), h('td.number', count(fibers.length)), h('td.number', count(objects.size)),
             h('td', ages(fibers)), h('td.wide', names(fibers)));
  });
  return h('section.panel.scroll', h('table',
    h('thead', h('tr', h('th', 'Waits for'), h('th.number', 'Fibers'), h('th.number', 'Objects'), h('th', 'Since'),
                 h('th.wide', 'Who'))), h('tbody', rows)));
}

const groupOf = fiber => fiber.group_name ? `${fiber.group_name} (${fiber.group})` : fiber.group ?? '';

function each(dump) {
  const all = fibersOf(dump);
  const owners = new Map(all.map(fiber => [fiber.id, fiber]));
  const rows = all.slice(0, MOST_ROWS).map(fiber => h('tr',
    h('td.number', fiber.id), h('td', fiber.name || h('span.dim', '-')), h('td', stateOf(fiber)),
    h('td.wide', h('code', objectOf(fiber))), h('td.number', age(fiber)),
    h('td', fiber.owner === undefined ? '' : nameOf(owners.get(fiber.owner) ?? { id: fiber.owner })),
    h('td.number.wide', groupOf(fiber))));
  const note = all.length > MOST_ROWS ? h('p.empty', `${MOST_ROWS} of ${count(all.length)} are shown`) : null;
  return h('section.panel.scroll', h('table',
    h('thead', h('tr', h('th.number', 'Id'), h('th', 'Name'), h('th', 'State'), h('th.wide', 'Object'),
                 h('th.number', 'For'), h('th', 'Owner'), h('th.number.wide', 'Group'))), h('tbody', rows)), note);
}

const VIEWS = { 'By stack': byStack, 'By reason': byReason, Each: each };

// As DumpOptions::filter wants it. In a name a comma would begin another term.
export function filterOf({ name, state, reason, age: least }) {
  const terms = [];
  if (name) terms.push(/^\d+$/.test(name) ? `id=${name}` : `name=*${name.replace(/[,[\]\\]/g, '?')}*`);
  if (state) terms.push(`state=${state}`);
  if (reason) terms.push(`reason=${reason}`);
  if (least) terms.push(`age=${least}`);
  return terms.join(',');
}

const choice = (id, label, options) => h('label', label, h('select', { id },
  options.map(([value, text]) => h('option', { value }, text))));

export const fibers = {
  title: 'Fibers',
  show(main) {
    let view = 'By stack';
    let dump = null;
    let asked = 0;  // questions: the last one's answer counts
    const result = h('div', { id: 'fibers' });
    const said = h('p.note', { 'aria-live': 'polite' });
    const field = id => form.querySelector(`#${id}`);

    function draw() {
      if (!dump) return;
      const shown = dump.groups.reduce((all, group) => all + group.count, 0);
      said.textContent = `${count(shown)} of ${count(dump.fibers)} fibers, at ${dump.at}.` +
        (view === 'By stack' && dump.why_no_stacks ? ` No stacks: ${dump.why_no_stacks}.` : '');
      result.replaceChildren(...(shown ? [VIEWS[view](dump)].flat() : [h('p.panel.empty', 'No fiber fits.')]));
    }

    async function look(event) {
      event?.preventDefault();
      const filter = filterOf({ name: field('name').value.trim(), state: field('state').value,
                                reason: field('reason').value, age: field('age').value });
      said.textContent = 'Looking…';
      const mine = ++asked;
      try {
        const stacks = view === 'By stack' ? 1 : 0;
        const found = await askJson(`api/fibers?stacks=${stacks}&filter=${encodeURIComponent(filter)}`);
        if (mine !== asked) return;
        dump = { ...found, at: new Date().toLocaleTimeString() };
        draw();
      } catch (error) {
        if (mine !== asked) return;
        dump = null;
        said.textContent = '';
        result.replaceChildren(h('p.banner.bad', error.message));
      }
    }

    const views = h('div.segmented', { role: 'group', 'aria-label': 'Show' }, Object.keys(VIEWS).map(name =>
      h('button', { type: 'button', 'aria-pressed': `${name === view}`, click: event => {
        view = name;
        for (const button of views.children) button.setAttribute('aria-pressed', `${button === event.currentTarget}`);
        look();
      } }, name)));
    const form = h('form.controls', { submit: look },
      h('label.grow', 'Name or id',
        h('input', { id: 'name', type: 'search', placeholder: 'a part of the name, * and ? fit any' })),
      choice('state', 'State', [['', 'any'], ...['running', 'ready', 'parked', 'new'].map(s => [s, s])]),
      choice('reason', 'Waits for', [['', 'anything'], ...REASONS.map(s => [s, s])]),
      choice('age', 'At least for', [['', 'any time'], ['100ms', '0.1 s'], ['1s', '1 s'], ['10s', '10 s'], ['1m', '1 min'],
                                      ['1h', '1 h']]),
      h('button.main', { type: 'submit', id: 'look' }, 'Look'), views);
    for (const select of form.querySelectorAll('select')) select.addEventListener('change', () => look());
    main.append(form, said, result);
    look();
  },
};
