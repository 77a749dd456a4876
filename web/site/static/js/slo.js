// The charts of a service level are drawn by the server. This adds a cursor that
// moves in all of them, the numbers under it, a selection that becomes the range,
// axes in the reader's zone, and buttons that copy.
(() => {
  const DAY = 86400, STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, DAY, 2 * DAY, 5 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY];
  const form = o => new Intl.DateTimeFormat('en-GB', Object.assign({hourCycle: 'h23'}, o));
  const date = {day: 'numeric', month: 'short'}, time = {hour: '2-digit', minute: '2-digit'};
  const day = form(date), clock = form(time), exact = {format: ms => day.format(ms) + ' ' + clock.format(ms)}, whole = new Intl.NumberFormat('en');
  const svgOf = box => box.querySelector('svg.ts'), all = (root, what) => root.querySelectorAll(what);

  // Ticks at round times of the reader's day; days of 23 and 25 hours stay days.
  function ticks(from, to) {
    const most = innerWidth <= 560 ? 5 : 8, step = STEPS.find(s => (to - from) / s < most) || DAY * 182, out = [];
    const at = new Date(from * 1000);
    at.setHours(0, 0, 0, 0);
    while (at / 1000 < to) {
      const share = (at / 1000 - from) / (to - from);
      if (share >= 0 && share < .99) out.push([share, step >= DAY || at.getHours() + at.getMinutes() === 0 ? day.format(at) : clock.format(at)]);
      if (step >= DAY) at.setDate(at.getDate() + step / DAY);
      else at.setTime(+at + step * 1000);
    }
    return out;
  }
  function localise(svg) {
    const old = all(svg, 'text.x');
    if (!old.length) return;
    for (const [share, text] of ticks(+svg.dataset.from, +svg.dataset.to)) {
      const n = old[0].cloneNode();
      n.setAttribute('x', share * 100 + '%');
      n.setAttribute('class', 'x ' + (share < .03 ? 'start' : share > .97 ? 'end' : 'middle'));
      n.textContent = text;
      svg.append(n);
    }
    old.forEach(n => n.remove());
  }

  // A new version of the page is made ready before it is shown, so nothing flickers.
  function prepare(root) {
    all(root, 'svg[data-from]').forEach(localise);
    if (navigator.clipboard) for (const box of all(root, '.copy')) {
      const b = document.createElement('button');
      b.type = 'button';
      b.textContent = 'Copy';
      box.append(b);
    }
  }
  document.addEventListener('click', async e => {
    const b = e.target.closest('.copy button');
    if (!b) return;
    const code = b.parentNode.querySelector('code');
    try {
      await navigator.clipboard.writeText(code.textContent);
      b.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      b.textContent = 'Selected';
    }
    setTimeout(() => { b.textContent = 'Copy'; }, 2000);
  });

  function took(s) {
    if (s < 1) return Math.round(s * 1e3) + 'ms';
    if (s < 10) return +s.toFixed(2) + 's';
    const p = [];
    s = Math.round(s);
    for (const [u, n] of [['d', DAY], ['h', 3600], ['m', 60], ['s', 1]]) {
      if (s >= n && p.length < 2) p.push(Math.floor(s / n) + u);
      s %= n;
    }
    return p.join(' ');
  }
  // As on the server, a percentage is rounded down to two decimals, or to three digits if it is small.
  const floor = p => { const k = 10 ** Math.max(2, 2 - Math.floor(Math.log10(Math.abs(p) || 1))); return Math.floor(p * k + 1e-6) / k; };
  const minus = x => String(x).replace('-', '\u2212');
  const say = {count: whole.format, percent: v => minus(floor(v * 100)) + '%', times: v => +v.toPrecision(3) + '×', seconds: took};

  const parsed = new WeakMap();
  function data(box) {
    let d = parsed.get(box);
    if (!d || d.raw !== box.dataset.plot) parsed.set(box, d = {raw: box.dataset.plot, ...JSON.parse(box.dataset.plot)});
    return d;
  }
  function mark(box, cls, a, b) {
    let m = box.querySelector('.' + cls);
    if (!m) {
      m = document.createElement('div');
      m.className = cls;
      box.append(m);
    }
    const r = svgOf(box).getBoundingClientRect(), at = box.getBoundingClientRect();
    Object.assign(m.style, {left: r.left - at.left + a * r.width + 'px', width: (b - a) * r.width + 'px', top: r.top - at.top + 'px', height: r.height + 'px'});
  }
  const clear = () => {
    all(document, '.cursor, .selection').forEach(m => m.remove());
    all(document, '.readout').forEach(p => { p.textContent = ''; });
  };

  // point puts the cursor of every chart with the same times at one.
  function point(box, t) {
    clear();
    const said = new Map();
    for (const b of data(box).own ? [box] : all(document, '.plotbox')) {
      const d = data(b), share = (t - d.from) / (d.to - d.from);
      if (b !== box && d.own || share < 0 || share > 1) continue;
      mark(b, 'cursor', share, share);
      if (!d.series.length) continue;
      // A step has its number from its beginning on; a line has that of a step at its end.
      const n = (t - d.first) / d.every, i = Math.max(0, Math.min(d.series[0].v.length - 1, d.steps ? Math.floor(n) : Math.ceil(n - 1e-9)));
      const fig = b.closest('.fig'), line = said.get(fig) || [(d.steps ? '' : 'until ') + exact.format(Math.min(d.to, d.first + i * d.every) * 1000)];
      for (const s of d.series) line.push(s.name + ' ' + (s.v[i] == null ? '–' : say[d.unit](s.v[i]) + (s.is ? ' (' + s.is[i] + ')' : '')));
      said.set(fig, line);
    }
    for (const [fig, line] of said) fig.querySelector('.readout').textContent = line.join(' · ');
  }

  let drag;
  const where = (box, e) => {
    const r = svgOf(box).getBoundingClientRect();
    return Math.min(1, Math.max(0, (e.clientX - r.left) / r.width));
  };
  document.addEventListener('pointerdown', e => {
    const box = e.button === 0 && e.pointerType !== 'touch' && e.target.closest('.plotbox');
    if (!box) return;
    drag = {box, x: e.clientX, from: where(box, e)};
    e.preventDefault();
  });
  document.addEventListener('pointermove', e => {
    const box = drag ? drag.box : e.target.closest && e.target.closest('.plotbox');
    if (!box || !box.isConnected) return clear();
    const d = data(box), at = where(box, e);
    point(box, d.from + at * (d.to - d.from));
    if (drag) {
      drag.to = Math.abs(e.clientX - drag.x) > 4 ? at : null;
      if (drag.to != null) mark(box, 'selection', Math.min(drag.from, at), Math.max(drag.from, at));
    }
  });
  document.addEventListener('pointerup', () => {
    const was = drag, stack = document.querySelector('[data-zoom]');
    drag = null;
    if (!was || was.to == null || !stack || !was.box.isConnected) return;
    const d = data(was.box), to = new URL(stack.dataset.zoom, location.href), at = x => Math.round(d.from + x * (d.to - d.from));
    to.searchParams.set('from', at(Math.min(was.from, was.to)));
    to.searchParams.set('to', at(Math.max(was.from, was.to)));
    to.hash = 'history';
    location.assign(to);
  });
  document.addEventListener('keydown', e => {
    if (e.key !== 'Escape') return;
    drag = null;
    clear();
  });
  document.addEventListener('pointercancel', () => { drag = null; });

  prepare(document);
  document.addEventListener('htmx:before:swap', e => e.detail.tasks.forEach(t => prepare(t.fragment)));
})();
