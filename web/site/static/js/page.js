// Small comforts on every page: times in the reader's zone, and a filter that
// answers while it is typed.
(() => {
  const clock = new Intl.DateTimeFormat([], {timeStyle: 'medium', hourCycle: 'h23'}), day = new Intl.DateTimeFormat([], {dateStyle: 'medium'});
  const both = new Intl.DateTimeFormat([], {dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23'}), full = new Intl.DateTimeFormat([], {dateStyle: 'full', timeStyle: 'long', hourCycle: 'h23'});
  const zone = clock.resolvedOptions().timeZone;

  function local(root) {
    const today = day.format(new Date());
    for (const t of root.querySelectorAll('time[datetime]')) {
      const at = new Date(t.dateTime);
      if (isNaN(at)) continue;
      t.title = full.format(at) + ', ' + t.dateTime;
      if (t.textContent.endsWith(' UTC')) t.textContent = (day.format(at) === today ? clock : both).format(at);
    }
    for (const z of root.querySelectorAll('[data-zone]')) z.textContent = 'Times are in ' + zone + '.';
  }
  local(document);
  document.addEventListener('htmx:before:swap', e => e.detail.tasks.forEach(t => local(t.fragment)));

  let typing;
  const filter = e => e.target.closest && e.target.closest('form.filter');
  document.addEventListener('input', e => {
    const form = e.target.type === 'search' && filter(e);
    clearTimeout(typing);
    if (form) typing = setTimeout(() => form.requestSubmit(), 300);
  });
  document.addEventListener('change', e => e.target.tagName === 'SELECT' && filter(e) && filter(e).requestSubmit());
  // Fields that pick nothing are no part of an address.
  document.addEventListener('htmx:config:request', e => {
    const body = e.detail.ctx.request.body;
    if (body) for (const k of [...body.keys()]) if (body.get(k) === '') body.delete(k);
  });
})();
