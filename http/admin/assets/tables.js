// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Metrics and flags: tables with a search.

import { ask, askJson, h } from './base.js';

function searchField(label, changed) {
  const input = h('input', { type: 'search', id: 'search', input: () => changed(input.value.trim().toLowerCase()) });
  return h('div.controls', h('label.grow', label, input));
}

// --- Metrics ---

// Of the text that Prometheus reads: [{name, type, help, values: [{labels, value}]}].
export function familiesOf(text) {
  const families = new Map();
  const family = name => {
    if (!families.has(name)) families.set(name, { name, type: '', help: '', values: [] });
    return families.get(name);
  };
  let last = null;
  for (const line of text.split('\n')) {
    const about = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
    const value = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (about) {
      last = family(about[2]);
      last[about[1].toLowerCase()] = about[3].replaceAll('\\n', ' ').replaceAll('\\\\', '\\');
    } else if (value) {
      const of = last && value[1].startsWith(last.name) ? last : family(value[1]);
      of.values.push({ name: value[1].slice(of.name.length), labels: value[2] ?? '', value: value[3] });
    }
  }
  return [...families.values()];
}

function familyRow({ name, type, help, values }, isOpen) {
  const only = values.length === 1 && !values[0].labels;
  const rows = only ? null : h('table', h('tbody', values.map(one => h('tr',
    h('td', h('code', one.name ? `${one.name} ` : '', one.labels || '(no labels)')), h('td.number', one.value)))));
  return h('details', { open: isOpen, 'data-name': name }, h('summary', h('code', name), h('span.state', type),
    h('span.dim', help), only ? h('b', values[0].value) : h('span.dim', values.length === 1 ? '1 value' : `${values.length} values`)), rows);
}

export const metrics = {
  title: 'Metrics',
  show(main) {
    let search = '';
    let families = [];
    const list = h('section.panel', { id: 'metrics' });
    const draw = () => {
      const open = new Set([...list.querySelectorAll('details[open]')].map(one => one.dataset.name));
      const fitting = families.filter(one => `${one.name} ${one.help}`.toLowerCase().includes(search));
      list.replaceChildren(...(fitting.length ? fitting.map(one => familyRow(one, open.has(one.name)))
                                              : [h('p.empty', 'Nothing fits.')]));
    };
    main.append(h('p.note', 'For Prometheus they are at ', h('a', { href: 'metrics' }, 'metrics'), '.'),
                searchField('Search names and descriptions', text => { search = text; draw(); }), list);
    return {
      async update() {
        try {
          families = familiesOf(await (await ask('metrics')).text());
          draw();
        } catch (error) {
          list.replaceChildren(h('p.banner.bad', error.message));
        }
      },
    };
  },
};

// --- Flags ---

// Answers with all flags; throws what the server says.
const setFlag = async (name, value) =>
  (await ask('api/flags', { method: 'PUT', headers: { 'x-weft-admin': '1' }, body: `${name}=${value}` })).json();

export const flags = {
  title: 'Flags',
  show(main) {
    let search = '';
    let all = { flags: [], may_change: false };
    const said = h('p.note', { 'aria-live': 'polite' });
    const body = h('tbody');

    async function change(flag) {
      const value = prompt(`--${flag.name}`, flag.value);
      if (value === null) return;
      try {
        all = await setFlag(flag.name, value);
        said.textContent = `--${flag.name}=${value} is set. The runtime reads most of its flags only when it starts.`;
        draw();
      } catch (error) {
        said.textContent = error.message;
      }
    }

    function row(flag) {
      const edit = all.may_change && flag.type !== 'string'
        ? h('button.small', { type: 'button', click: () => change(flag) }, 'Set') : null;
      return h(flag.is_default ? 'tr' : 'tr.changed', { 'data-name': flag.name },
        h('td', h('code', flag.name), h('div.description', flag.description)),
        h('td.value-cell', { title: flag.value }, h('code', flag.value || '""'), ' ', edit,
          flag.is_default ? null : h('div.dim', 'default: ', h('code', flag.default || '""'))),
        h('td.dim.wide', flag.type));
    }

    function draw() {
      const mine = flag => !/gflags|glog|vlog_is_on|logging\.cc|utilities\.cc/.test(flag.file);
      const fitting = all.flags.filter(flag => `${flag.name} ${flag.description}`.toLowerCase().includes(search));
      fitting.sort((a, b) => a.is_default - b.is_default || mine(b) - mine(a) || a.name.localeCompare(b.name));
      body.replaceChildren(...fitting.map(row));
    }

    main.append(said, searchField('Search names and descriptions', text => { search = text; draw(); }),
      h('section.panel.scroll', { id: 'flags' }, h('table',
        h('thead', h('tr', h('th', 'Flag'), h('th', 'Value'), h('th.wide', 'Type'))), body)));
    askJson('api/flags').then(found => {
      all = found;
      said.textContent = all.may_change ? 'Numbers and switches may be set here.'
                                        : 'For reading. Those that differ from their defaults come first.';
      draw();
    }).catch(error => { said.textContent = error.message; });
  },
};
