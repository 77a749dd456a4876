// Small comforts on every page: a filter that answers while it is typed, and keys.
(() => {
  let typing;
  // The field at the top belongs to the list's form without being inside it.
  const filter = e => {
    const form = e.target.form;
    return form && form.matches('.filter') ? form : null;
  };
  document.addEventListener('input', e => {
    const form = e.target.type === 'search' && filter(e);
    clearTimeout(typing);
    if (form) typing = setTimeout(() => form.requestSubmit(), 300);
  });
  // What was chosen in the reader's zone is sent as a moment.
  document.addEventListener('formdata', e => {
    if (e.target.matches('form.span')) for (const [k, v] of [...e.formData]) if (/^\d{4}-\d\d-\d\dT/.test(v)) e.formData.set(k, Math.floor(new Date(v) / 1000));
  });
  document.addEventListener('change', e => e.target.tagName === 'SELECT' && filter(e) && filter(e).requestSubmit());
  // Fields that pick nothing are no part of an address.
  document.addEventListener('htmx:config:request', e => {
    const body = e.detail.ctx.request.body;
    if (body) for (const k of [...body.keys()]) if (body.get(k) === '') body.delete(k);
  });

  // Who has given a name in a form does not type it again, and what a form did is said once.
  const names = () => {
    try {
      const name = localStorage.getItem('name');
      if (name) document.querySelectorAll('form[method=post] input[name=by]').forEach(i => { i.value = i.value || name; });
    } catch { }
  };
  document.addEventListener('submit', e => {
    const by = e.target.elements.by;
    try { if (by && by.value) localStorage.setItem('name', by.value); } catch { }
  });
  document.addEventListener('page:updated', names);
  names();
  const here = new URL(location);
  if (here.searchParams.has('did')) {
    here.searchParams.delete('did');
    history.replaceState(history.state, '', here);
  }

  // Keys: / searches, ? lists the keys, g and one more goes to a page. Whoever speaks to the machine can turn them off.
  const pages = {l: '/', a: '/slas', s: '/services', i: '/incidents', e: '/engine'}, find = s => document.querySelector(s);
  let off = false, going = 0;
  try { off = localStorage.getItem('keys') === 'off'; } catch { }
  const help = () => {
    const d = find('#keys');
    if (!d || d.open) return;
    d.querySelector('.quiet').checked = off;
    d.showModal();
  };
  const show = root => root.querySelectorAll('button.keys').forEach(b => { b.hidden = false; });
  show(document);
  document.addEventListener('htmx:before:swap', e => e.detail.tasks.forEach(t => show(t.fragment)));
  document.addEventListener('click', e => e.target.closest && e.target.closest('button.keys') && help());
  document.addEventListener('change', e => {
    if (!e.target.matches('#keys .quiet')) return;
    off = e.target.checked;
    try { localStorage.setItem('keys', off ? 'off' : ''); } catch { }
  });
  document.addEventListener('keydown', e => {
    const at = e.target, field = at.matches && at.matches('input, select, textarea, [contenteditable]');
    if (e.key === 'Escape' && at.id === 'q') at.blur();
    if (off || field || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const dialog = find('#keys'), q = find('#q');
    if (dialog && dialog.open) return;
    if (e.key === '/' && q) {
      e.preventDefault();
      q.focus();
      q.select();
    } else if (e.key === '?') help();
    else if (e.key === 'g') going = Date.now();
    else if (Date.now() - going < 1500) {
      going = 0;
      const link = pages[e.key] && [...document.querySelectorAll('.top nav a')].find(a => a.pathname.endsWith(pages[e.key]));
      if (link) link.click();
    }
  });
})();
