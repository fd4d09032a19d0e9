// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The frame of the admin pages: which page is shown, the theme, and the samples of the overview, which are taken each
// second whatever page is shown, so that its plots have no gaps.

import { askJson, h } from './base.js';
import { fibers } from './fibers.js';
import { locks } from './locks.js';
import { overview } from './overview.js';
import { recorder } from './recorder.js';
import { flags, metrics } from './tables.js';
import { topology } from './topology.js';

const PAGES = { overview, fibers, locks, recorder, topology, metrics, flags };
const PERIOD_MS = 1000;
const KEPT = 181;  // samples: three minutes

const samples = [];
let shown = null;  // the page: {update(sample), stop()}, both optional
let live = true;

// --- Samples ---

// The wait that `part` of the fibers did not exceed, between two answers; within a bucket in proportion.
function percentile(now, before, part) {
  const all = now.fibers - before.fibers;
  if (all <= 0) return 0;
  let [low, below] = [0, 0];
  for (let i = 0; i < now.below.length; ++i) {
    const high = now.first_ns * 4 ** i;
    const upTo = now.below[i] - before.below[i];
    if (upTo >= part * all) return low + (high - low) * (part * all - below) / Math.max(upTo - below, 1e-9);
    [low, below] = [high, upTo];
  }
  return now.max_ns;
}

const sum = (items, of) => items.reduce((all, item) => all + of(item), 0);
const EMPTY = { below: Array(13).fill(0), fibers: 0 };

function mergedWaits(groups) {
  const all = { first_ns: 1024, below: Array(13).fill(0), fibers: 0, max_ns: 0 };
  for (const { ready_wait: wait } of groups) {
    wait.below.forEach((n, i) => { all.below[i] += n; });
    all.fibers += wait.fibers;
    all.max_ns = Math.max(all.max_ns, wait.max_ns);
  }
  return all;
}

// What needs two answers is undefined in the first sample.
function derive(now, before) {
  const seconds = before ? (now.now_ns - before.now_ns) / 1e9 : 1;
  const rate = (value, then) => Math.max(0, value - then) / seconds;
  const groups = now.groups.map((group, i) => {
    const old = before?.groups[i];
    const total = (of, what) => sum(of.workers, worker => worker[what]);
    return {
      ...group,
      switches: old && rate(total(group, 'switches'), total(old, 'switches')),
      started: old && rate(total(group, 'begun'), total(old, 'begun')),
      p99: old && percentile(group.ready_wait, old.ready_wait, 0.99),
      stolen_in: sum(group.steals, steal => steal.stolen_in),
    };
  });
  const [waits, oldWaits] = [mergedWaits(now.groups), before ? mergedWaits(before.groups) : EMPTY];
  return {
    raw: now,
    at: now.now_ns / 1e9,
    groups,
    fibers: now.fibers,
    ready: sum(now.groups, group => group.ready),
    cpus: before && rate(now.process.cpu_ns, before.process.cpu_ns) / 1e9,
    resident: now.process.resident_bytes,
    switches: before && sum(groups, group => group.switches),
    started: before && sum(groups, group => group.started),
    p50: before && percentile(waits, oldWaits, 0.5),
    p99: before && percentile(waits, oldWaits, 0.99),
  };
}

async function sample() {
  const lost = document.getElementById('lost');
  try {
    const now = await askJson('api/overview');
    const last = samples[samples.length - 1]?.raw;
    // Another process, or another runtime in it: its counts begin anew.
    const same = last && last.process.pid === now.process.pid && last.groups.length === now.groups.length;
    if (last && !same) samples.length = 0;
    samples.push(derive(now, same ? last : undefined));
    if (samples.length > KEPT) samples.shift();
    document.getElementById('title').textContent = now.title;
    document.getElementById('process').textContent = `pid ${now.process.pid}`;
    document.title = `${now.title} - Weft`;
    lost.hidden = true;
    shown?.update?.(samples[samples.length - 1]);
  } catch (error) {
    lost.textContent = `No answer: ${error.message}. Asking again each second.`;
    lost.hidden = false;
  }
}

// --- The frame ---

function show() {
  const asked = location.hash.slice(2).split('?')[0];
  const name = Object.hasOwn(PAGES, asked) ? asked : 'overview';
  const page = PAGES[name];
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#/${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.querySelector('nav a[aria-current]').scrollIntoView({ block: 'nearest', inline: 'center' });
  shown?.stop?.();
  const main = document.querySelector('main');
  main.replaceChildren(h('h1', page.title));
  main.dataset.page = name;
  shown = page.show(main, samples) || {};
  if (samples.length) shown.update?.(samples[samples.length - 1]);
}

const THEMES = ['auto', 'light', 'dark'];
const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function applyTheme(theme) {
  const dark = theme === 'dark' || (theme === 'auto' && systemIsDark.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  const button = document.getElementById('theme');
  button.textContent = theme[0].toUpperCase() + theme.slice(1);
  button.dataset.theme = theme;
}

function start() {
  for (const [name, page] of Object.entries(PAGES)) {
    document.querySelector('nav').append(h('a', { href: `#/${name}` }, page.title));
  }
  applyTheme(THEMES.includes(kept('weft-theme')) ? kept('weft-theme') : 'auto');
  document.getElementById('theme').addEventListener('click', event => {
    const next = THEMES[(THEMES.indexOf(event.target.dataset.theme) + 1) % THEMES.length];
    try { localStorage.setItem('weft-theme', next); } catch { /* It counts until the page is left. */ }
    applyTheme(next);
  });
  systemIsDark.addEventListener('change', () => applyTheme(document.getElementById('theme').dataset.theme));
  document.getElementById('live').addEventListener('click', event => {
    live = !live;
    event.target.setAttribute('aria-pressed', live);
    event.target.textContent = live ? 'Live' : 'Paused';
  });
  addEventListener('hashchange', show);
  show();
  const tick = async () => {
    if (live && !document.hidden) await sample();
    setTimeout(tick, PERIOD_MS);
  };
  tick();
}

start();
