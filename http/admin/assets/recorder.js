// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Recorder: what happened in the last moments (weft/observe/flight_recorder.h): a trace to keep, and profiles to keep
// or to look at.

import { ask, askJson, count, h, time } from './base.js';

const LEVELS = ['off', 'sampled', 'full'];
const SPANS = [['100', '0.1 s'], ['1000', '1 s'], ['10000', '10 s'], ['60000', '1 min']];
const PROFILES = [
  ['cpu', 'CPU', 'Time on workers, by names of fibers. Needs the level full.'],
  ['waits', 'Off CPU', 'What fibers waited for, and how long they were ready. Estimates, if the level is sampled.'],
  ['locks', 'Locks', 'Which lock made whom wait, and who gave it up. Estimates, if the level is sampled.'],
  ['contention', 'Contention', 'Who had a mutex while others waited, with the stacks of both. Estimates, since the process began.'],
];
const MOST_ROWS = 100;

// Of folded stacks: [{stack: [...], us}], the most first.
export function linesOf(folded) {
  const lines = folded.split('\n').filter(Boolean).map(line => {
    const space = line.lastIndexOf(' ');
    return { stack: line.slice(0, space).split(';'), us: Number(line.slice(space + 1)) };
  });
  return lines.sort((a, b) => b.us - a.us);
}

function table(lines) {
  if (!lines.length) return h('p.empty', 'Nothing was recorded.');
  const all = lines.reduce((sum, { us }) => sum + us, 0);
  const rows = lines.slice(0, MOST_ROWS).map(({ stack, us }) => h('tr',
    h('td', h('code', stack.join(' ; '))), h('td.number', time(us * 1e3)),
    h('td.number', all ? `${(100 * us / all).toPrecision(3)} %` : '')));
  const rest = lines.length - rows.length;
  return [h('table', h('thead', h('tr', h('th', 'What'), h('th.number', 'Time'), h('th.number', 'Part'))),
            h('tbody', rows)), rest > 0 ? h('p.empty', `${count(rest)} more lines are not shown.`) : null];
}

export const recorder = {
  title: 'Recorder',
  show(main) {
    const said = h('p.note', { 'aria-live': 'polite' });
    const result = h('section.panel.scroll', { id: 'profile', hidden: true });
    const span = h('select', { id: 'span', change: () => draw() }, SPANS.map(([ms, text]) =>
      h('option', { value: ms }, `the last ${text}`)));
    const levels = h('div.segmented', { id: 'levels', role: 'group', 'aria-label': 'Level' });
    const files = h('tbody');
    let asked = 0;  // questions: the last one's answer counts

    // Contention is since the process began.
    const query = what => `what=${what}` + (what === 'contention' ? '' : `&ms=${span.value}`);
    // download: a refusal does not take this page's place.
    const link = (path, text) => h('a', { href: `api/${path}`, download: '' }, text);

    function draw() {
      files.replaceChildren(
        h('tr', h('td', h('b', 'Trace'), h('div.description', 'Who ran where, who waited, who woke whom. ',
                    h('code', 'ui.perfetto.dev'), ' and ', h('code', 'chrome://tracing'), ' open the file.')),
          h('td.files', link(`trace?ms=${span.value}`, 'JSON'))),
        ...PROFILES.map(([what, name, about]) => h('tr', { 'data-profile': what },
          h('td', h('b', name), h('div.description', about)),
          h('td.files', h('button.small', { type: 'button', click: () => look(what) }, 'Look'), ' ',
            link(`profile?${query(what)}`, 'folded'), ' ', link(`profile?${query(what)}&format=pprof`, 'pprof')))));
    }

    async function look(what) {
      const mine = ++asked;
      let shown;
      try {
        shown = table(linesOf(await (await ask(`api/profile?${query(what)}`)).text()));
      } catch (error) {
        shown = h('p.banner.bad', error.message);
      }
      if (mine !== asked) return;
      result.hidden = false;
      result.dataset.profile = what;
      result.replaceChildren(...[shown].flat().filter(Boolean));
    }

    function showLevel({ level, may_change: mayChange }) {
      said.textContent = `The recorder's level is ${level}.` + (level === 'full' ? ' Each switch is recorded.' : '');
      levels.hidden = !mayChange;
      levels.replaceChildren(...LEVELS.map(name => h('button', { type: 'button', 'aria-pressed': `${name === level}`,
        click: () => setLevel(name) }, name)));
    }

    async function setLevel(level) {
      try {
        showLevel(await (await ask('api/recorder', { method: 'PUT', headers: { 'x-weft-admin': '1' }, body: level })).json());
      } catch (error) {
        said.textContent = error.message;
      }
    }

    draw();
    main.append(said, h('div.controls', h('label', 'Of', span), levels),
                h('section.panel.scroll', { id: 'files' }, h('table', files)), result);
    askJson('api/recorder').then(showLevel).catch(error => { said.textContent = error.message; });
  },
};
