// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// linePlot(): values over the last minutes, with a scale, and a cross that says the values below the pointer;
// sparkline(): the same in a tile, without either.

import { h } from './base.js';

const SVG = 'http://www.w3.org/2000/svg';

// The seconds that are shown: what there is, from half a minute to all that is kept.
function spanOf(samples) {
  return Math.min(180, Math.max(30, samples[samples.length - 1].at - samples[0].at));
}

function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('--')) element.style.setProperty(name, value);
    else element.setAttribute(name, value);
  }
  if (text !== undefined) element.textContent = text;
  return element;
}

// At or above `value`: 1, 2 or 5 times a power of ten; of `least` at least.
function roundUp(value, least) {
  const wanted = Math.max(value, least);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= wanted * 0.9999);
}

function line(samples, of, x, y) {
  let path = '';
  for (const sample of samples) {
    const value = of(sample);
    path += value === undefined ? '' : `${path ? 'L' : 'M'}${x(sample).toFixed(1)},${y(value).toFixed(1)}`;
  }
  return path;
}

export function sparkline(of, color) {
  const [width, height] = [120, 30];
  const area = svg('path', { class: 'area', '--color': color });
  const stroke = svg('path', { '--color': color });
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  root.append(area, stroke);
  return {
    root,
    update(samples) {
      const end = samples[samples.length - 1].at;
      const span = spanOf(samples);
      const most = Math.max(...samples.map(sample => of(sample) ?? 0), 1e-9);
      const x = sample => width - (end - sample.at) / span * width;
      const path = line(samples, of, x, value => height - 2 - value / most * (height - 5));
      stroke.setAttribute('d', path);
      const first = samples.find(sample => of(sample) !== undefined);
      area.setAttribute('d', first ? `${path}V${height}H${x(first).toFixed(1)}Z` : '');
    },
  };
}

// series: [{name, color, of(sample)}]; `least`: the top of the scale, at least; format(value).
export function linePlot({ title, series, format, least = 1 }) {
  const root = svg('svg', { role: 'img', 'aria-label': title });
  const keys = series.map(one => h('span.key', { '--color': one.color }, one.name));
  const tip = h('div.tip', { hidden: true });
  const element = h('section.plot.panel', h('div.plot-head', h('h2', title), keys.length > 1 ? keys : null), root, tip);
  let samples = [];
  let pointer = null;

  function drawScale(left, right, top, bottom, most, span) {
    for (let i = 0; i <= 2; ++i) {
      const y = bottom - (bottom - top) * i / 2;
      root.append(svg('line', { class: 'gridline', x1: left, x2: right, y1: y, y2: y }));
      root.append(svg('text', { x: left - 8, y: y + 4, 'text-anchor': 'end' }, format(most * i / 2)));
    }
    const past = [[0, `${Math.round(span)} s ago`, 'start'], [0.5, `${Math.round(span / 2)} s`, 'middle'], [1, 'now', 'end']];
    for (const [part, text, anchor] of past) {
      root.append(svg('text', { x: left + (right - left) * part, y: bottom + 17, 'text-anchor': anchor }, text));
    }
  }

  function drawCross(left, right, top, bottom, x) {
    tip.hidden = true;
    if (pointer === null || !samples.length) return;
    const distance = sample => Math.abs(x(sample) - pointer);
    const nearest = samples.reduce((best, sample) => distance(sample) < distance(best) ? sample : best);
    const at = x(nearest);
    root.append(svg('line', { class: 'cross', x1: at, x2: at, y1: top, y2: bottom }));
    const ago = Math.round(samples[samples.length - 1].at - nearest.at);
    tip.replaceChildren(h('div.dim', ago ? `${ago} s ago` : 'now'), ...series.map(one =>
      h('div', h('span.key', { '--color': one.color }, one.name), h('b', format(one.of(nearest) ?? 0)))));
    tip.hidden = false;
    const over = at > (left + right) / 2;
    tip.style.left = over ? 'auto' : `${at + 26}px`;
    tip.style.right = over ? `${element.clientWidth - at}px` : 'auto';
  }

  function draw() {
    const width = root.clientWidth;
    const height = root.clientHeight;
    if (!width || !samples.length) return;
    root.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const [left, right, top, bottom] = [58, width - 4, 8, height - 22];
    const most = roundUp(Math.max(...series.flatMap(one => samples.map(sample => one.of(sample) ?? 0))), least);
    const end = samples[samples.length - 1].at;
    const span = spanOf(samples);
    const x = sample => right - (end - sample.at) / span * (right - left);
    const y = value => bottom - value / most * (bottom - top);
    root.replaceChildren();
    drawScale(left, right, top, bottom, most, span);
    for (const one of series) {
      root.append(svg('path', { d: line(samples, one.of, x, y), '--color': one.color }));
    }
    drawCross(left, right, top, bottom, x);
  }

  root.addEventListener('pointermove', event => {
    pointer = event.clientX - root.getBoundingClientRect().left;
    draw();
  });
  root.addEventListener('pointerleave', () => {
    pointer = null;
    draw();
  });
  const resized = new ResizeObserver(draw);
  resized.observe(root);
  return {
    element,
    update(all) {
      samples = all.slice();
      draw();
    },
    stop() { resized.disconnect(); },
  };
}
