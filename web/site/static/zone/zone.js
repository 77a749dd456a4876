// Times in the reader's zone, with the moment on hover. The public page has no other script.
(() => {
  const full = new Intl.DateTimeFormat([], {dateStyle: 'full', timeStyle: 'long', hourCycle: 'h23'}), zone = full.resolvedOptions().timeZone;
  // The form is the server's, so that a page has one: 2026-11-20 09:00:05, and the time alone if that is today.
  const two = n => String(n).padStart(2, '0'), day = d => [d.getFullYear(), two(d.getMonth() + 1), two(d.getDate())].join('-');
  const clock = (d, seconds) => two(d.getHours()) + ':' + two(d.getMinutes()) + (seconds ? ':' + two(d.getSeconds()) : '');
  const both = (d, today, seconds) => (day(d) === today ? '' : day(d) + ' ') + clock(d, seconds);

  // What the server wrote into a sentence: a time, or a span that ends with the zone.
  const WHEN = /(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d(?::\d\d)?)(?: to (?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d(?::\d\d)?))? UTC/g;
  function span(m, now, today) {
    const first = m[1] || now.toISOString().slice(0, 10), out = [];
    for (const [date, time] of [[first, m[2]], [m[3] || first, m[4]]]) {
      const at = time && new Date(date + 'T' + time + 'Z');
      if (at && !isNaN(at)) out.push({at, text: both(at, out.length ? day(out[0].at) : today, time.length > 5)});
    }
    return out;
  }
  const leave = 'time, bdi, code, pre, svg, script, textarea, .prose, .report';
  function texts(root, now, today) {
    const list = [], walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) if (walk.currentNode.data.includes(' UTC')) list.push(walk.currentNode);
    for (const n of list) {
      if (!n.parentElement || n.parentElement.closest(leave)) continue;
      const parts = [];
      let end = 0;
      for (const m of n.data.matchAll(WHEN)) {
        parts.push(n.data.slice(end, m.index));
        span(m, now, today).forEach((x, i) => {
          const t = document.createElement('time');
          t.dateTime = x.at.toISOString();
          t.textContent = x.text;
          parts.push(...(i ? [' to ', t] : [t]));
        });
        end = m.index + m[0].length;
      }
      if (end) n.replaceWith(...parts, n.data.slice(end));
    }
  }
  function local(root) {
    const now = new Date(), today = day(now);
    texts(root, now, today);
    for (const t of root.querySelectorAll('time[datetime]')) {
      const at = new Date(t.dateTime);
      if (isNaN(at)) continue;
      t.title = full.format(at) + ', ' + t.dateTime;
      if (t.textContent.endsWith(' UTC')) t.textContent = both(at, today, true);
    }
    for (const svg of root.querySelectorAll('svg[aria-label*=" UTC"]')) {
      svg.setAttribute('aria-label', svg.getAttribute('aria-label').replace(WHEN, (...m) => span(m, now, today).map(x => x.text).join(' to ')));
      const title = svg.querySelector('title');
      if (title) title.textContent = svg.getAttribute('aria-label');
    }
    for (const form of root.querySelectorAll('form.span')) {
      for (const i of form.querySelectorAll('input[type=datetime-local]')) {
        const at = new Date(i.getAttribute('value') + 'Z');
        if (!isNaN(at)) i.setAttribute('value', day(at) + 'T' + clock(at));
      }
      for (const n of form.querySelectorAll('.note')) n.textContent = zone;
    }
    for (const z of root.querySelectorAll('[data-zone]')) z.textContent = 'Times are in ' + zone + '.';
  }
  local(document);
  document.addEventListener('htmx:before:swap', e => e.detail.tasks.forEach(t => local(t.fragment)));
})();
