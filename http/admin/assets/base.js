// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What all pages use: elements, numbers as text, questions to the process.

// An element: h('td.number', {title: 'x'}, child, ...).
export function h(what, ...rest) {
  const [tag, ...classes] = what.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  if (rest.length && rest[0] != null && Object.getPrototypeOf(rest[0]) === Object.prototype) {
    for (const [name, value] of Object.entries(rest.shift())) {
      if (name.startsWith('--')) element.style.setProperty(name, value);
      else if (typeof value === 'function') element.addEventListener(name, value);
      else if (typeof value === 'boolean') element[name] = value;
      else element.setAttribute(name, value);
    }
  }
  element.append(...rest.flat().filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export const color = i => `var(--series-${i % 4 + 1})`;

export function count(n) {
  if (n < 10 && n % 1) return n.toFixed(1);
  if (n < 10000) return Math.round(n).toLocaleString('en');
  const units = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  const [size, unit] = units.find(([least]) => n >= least * 0.9995);
  return (n / size).toPrecision(3) + unit;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1000 && i < 4) [n, i] = [n / 1024, i + 1];
  return `${i && n < 100 ? n.toPrecision(3) : Math.round(n)} ${units[i]}`;
}

export function time(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} us`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)} ms`;
  const s = ns / 1e9;
  if (s < 60) return `${s.toPrecision(3)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

// The answer; throws an Error whose message is the server's line.
export async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error('the process does not answer');
  }
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer;
}

export const askJson = async path => (await ask(path)).json();
