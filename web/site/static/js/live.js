// Live updates: one event stream per visible tab says that there is something
// new, and the page is fetched at its own address and morphed in place.
(() => {
  const POLL = 10000, SPREAD = 800, names = {live: 'Live', paused: 'Paused', polling: 'Polling', waiting: 'Waiting'};
  const bar = () => document.getElementById('live');
  if (!bar() || !window.htmx) return;
  let source, timer, tries = 0, state = 'waiting', busy = false, again = false, paused = false;
  try { paused = sessionStorage.getItem('paused') === '1'; } catch { }

  function paint(root) {
    const b = root.querySelector('#live button');
    if (!b) return;
    b.hidden = false;
    b.dataset.state = state;
    b.children[1].textContent = names[state];
    b.children[2].textContent = paused ? ': resume updates' : ': pause updates';
  }
  function show(s) {
    state = s;
    paint(document);
  }
  function stop() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }
  function connect() {
    stop();
    if (paused) return show('paused');
    if (document.hidden || !bar()) return;
    // A stream that says nothing, as behind a proxy that holds it back, is no stream.
    timer = setTimeout(poll, POLL);
    source = new EventSource(bar().dataset.stream);
    source.addEventListener('report', e => {
      clearTimeout(timer);
      show('live');
      const key = JSON.parse(e.data).key;
      // All tabs hear it at once; they need not ask at once.
      if (bar() && key !== bar().dataset.key) timer = setTimeout(refresh, Math.random() * SPREAD);
    });
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) {
        clearTimeout(timer);
        timer = setTimeout(poll, POLL);
        show('polling');
      } else if (state === 'live') show('waiting');
    };
  }
  function poll() {
    refresh();
    if (tries++ % 6 === 0) return connect();
    stop();
    show('polling');
    timer = setTimeout(poll, POLL);
  }
  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      await htmx.ajax('GET', location.pathname + location.search, {source: '#live', target: 'body', swap: 'innerMorph show:none'});
    } finally {
      busy = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  }

  document.addEventListener('click', e => {
    if (!e.target.closest('#live button')) return;
    paused = !paused;
    try { sessionStorage.setItem('paused', paused ? '1' : ''); } catch { }
    connect();
    if (!paused) refresh();
  });
  document.addEventListener('visibilitychange', () => document.hidden ? stop() : connect());
  addEventListener('pagehide', stop);
  addEventListener('pageshow', e => e.persisted && connect());

  let focused;
  document.addEventListener('htmx:before:swap', e => {
    const ctx = e.detail.ctx;
    // The reader went on while the answer was under way.
    if (ctx.sourceElement.id === 'live' && ctx.request.action !== location.pathname + location.search) return e.preventDefault();
    for (const t of e.detail.tasks) paint(t.fragment);
    focused = document.activeElement;
  });
  document.addEventListener('htmx:after:swap', () => {
    if (focused && focused.isConnected && focused !== document.activeElement) focused.focus({preventScroll: true});
    paint(document);
    document.dispatchEvent(new CustomEvent('page:updated'));
  });
  // A link that htmx could not follow is followed by the browser, which shows why.
  for (const name of ['htmx:response:error', 'htmx:error']) {
    document.addEventListener(name, e => {
      const ctx = e.detail.ctx;
      if (ctx && ctx.sourceElement.id !== 'live') location.assign(ctx.request.action);
    });
  }
  connect();
})();
