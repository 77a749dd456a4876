package subscription

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/remote"
)

const secret = "a secret of tests"

// world is the subscriptions, their clock and disk, and a server whose paths are subscribed.
type world struct {
	*Webhooks
	t       *testing.T
	now     time.Time
	disk    *fsystest.Mem
	set     *metrics.Set
	log     bytes.Buffer
	items   []Item
	server  *httptest.Server
	private bool

	mu     sync.Mutex
	status map[string]int      // of the answers, by path; 0: 204
	got    map[string][]string // bodies by path
	keys   map[string]bool     // that were in use
	silent bool                // it does not confirm
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), disk: fsystest.New(), private: true,
		status: map[string]int{}, got: map[string][]string{}, keys: map[string]bool{}}
	require.NoError(t, w.disk.MkdirAll("/data"))
	w.server = httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(w.server.Close)
	w.restart()
	w.step()
	return w
}

// restart makes new subscriptions from the same file.
func (w *world) restart() {
	w.t.Helper()
	w.set = metrics.NewSet()
	var err error
	w.Webhooks, err = New(Options{File: "/data/subscriptions.json", Files: w.disk, Private: w.private, Set: w.set,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Now: func() time.Time { return w.now }})
	require.NoError(w.t, err)
}

// step delivers what is due now.
func (w *world) step() {
	var group sync.WaitGroup
	w.Webhooks.step(w.t.Context(), &group, func(context.Context) ([]Item, bool) { return w.items, true })
	group.Wait()
	w.Webhooks.mu.Lock()
	defer w.Webhooks.mu.Unlock()
	w.save()
}

func (w *world) receive(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	switch {
	case err != nil || r.Header.Get("Content-Type") != "application/json" || key == "" ||
		remote.Verify([]byte(secret), body, r.Header.Get(remote.SignatureHeader), w.now, time.Minute) != nil:
		http.Error(rw, "not a signed request", http.StatusBadRequest)
		return
	case w.status[r.URL.Path] != 0:
		rw.Header().Set("Location", "/else")
		http.Error(rw, "refused", w.status[r.URL.Path])
		return
	}
	var ask challenge
	if json.Unmarshal(body, &ask) == nil && ask.Challenge != "" {
		if !w.silent {
			fmt.Fprintln(rw, ask.Challenge)
		}
		return
	}
	if w.keys[key] {
		body = append(body, " again"...)
	}
	w.keys[key] = true
	w.got[r.URL.Path] = append(w.got[r.URL.Path], string(body))
	rw.WriteHeader(http.StatusNoContent)
}

// received returns what a path received since the last call.
func (w *world) received(path string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := strings.Join(w.got[path], " ")
	delete(w.got, path)
	return got
}

func (w *world) answer(path string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status[path] = status
}

func (w *world) subscribe(path string) string {
	w.t.Helper()
	token, err := w.Subscribe(w.t.Context(), "192.0.2.1", w.server.URL+path, secret)
	require.NoError(w.t, err)
	return token
}

func (w *world) metric(name string) float64 {
	var text bytes.Buffer
	w.set.WritePrometheus(&text)
	for line := range strings.Lines(text.String()) {
		var v float64
		if _, err := fmt.Sscanf(line, name+" %g", &v); err == nil {
			return v
		}
	}
	require.Fail(w.t, "no metric "+name)
	return 0
}

func item(id, version string) Item {
	return Item{id, version, json.RawMessage(`"` + id + version + `"`)}
}

// Each version of a document reaches a subscriber once, in the order of the changes and also across restarts.
func TestChangesArriveOnce(t *testing.T) {
	w := newWorld(t)
	w.items = []Item{item("old", "1")}
	w.step()
	token := w.subscribe("/a")
	w.step()
	require.Empty(t, w.received("/a"), "what was published before")
	w.items = append(w.items, item("b", "1"), item("a", "1"))
	w.step()
	require.Equal(t, `"b1" "a1"`, w.received("/a"))
	w.restart()
	w.subscribeAfterRead("/late")
	w.items = []Item{item("a", "2"), item("old", "1"), item("b", "1")}
	w.step()
	w.step()
	require.Equal(t, `"a2"`, w.received("/a"))
	require.Equal(t, `"a2"`, w.received("/late"))

	w.items = []Item{item("a", "3"), item("old", "1")} // b is hidden
	w.restart()
	w.step()
	require.Equal(t, `"a3"`, w.received("/a"))
	w.items = append(w.items, item("b", "1"))
	w.step()
	require.Equal(t, `"b1" again`, w.received("/a"), "published again, and the key says that the content is known")

	require.ErrorIs(t, w.Unsubscribe(token+"x"), ErrNotFound)
	require.NoError(t, w.Unsubscribe(token))
	require.ErrorIs(t, w.Unsubscribe(token), ErrNotFound)
	w.restart()
	w.items = []Item{item("a", "4")}
	w.step()
	require.Empty(t, w.received("/a"))
	require.Equal(t, `"a3" "b1" "a4"`, w.received("/late"))
	require.NotContains(t, w.log.String(), token)
	require.NotContains(t, w.log.String(), secret)
}

// subscribeAfterRead waits for the documents: before, nobody knows which are old.
func (w *world) subscribeAfterRead(path string) {
	_, err := w.Subscribe(w.t.Context(), "192.0.2.1", w.server.URL+path, secret)
	require.ErrorIs(w.t, err, ErrNotYet)
	w.step()
	w.subscribe(path)
}

// A webhook that fails is tried again with growing delays, receives the newest version only, and is removed after a
// week or by status 410.
func TestFailingWebhooks(t *testing.T) {
	w := newWorld(t)
	w.subscribe("/a")
	w.subscribe("/gone")
	w.answer("/a", http.StatusServiceUnavailable)
	for v := range 4 {
		w.items = []Item{item("a", fmt.Sprint(v))}
		w.step()
	}
	require.Equal(t, `"a0" "a1" "a2" "a3"`, w.received("/gone"))
	require.InDelta(t, 1, w.metric(`sloengine_subscription_deliveries_total{result="failed"}`), 0,
		"it waits for the next attempt")
	require.InDelta(t, 1, w.metric("sloengine_subscriptions_failing"), 0)
	w.answer("/a", 0)
	w.now = w.now.Add(10 * time.Second)
	w.step()
	require.Equal(t, `"a3"`, w.received("/a"))
	require.InDelta(t, 0, w.metric("sloengine_subscriptions_failing"), 0)

	w.answer("/a", http.StatusFound)
	w.answer("/gone", http.StatusGone)
	w.items = []Item{item("a", "x")}
	w.step()
	require.InDelta(t, 1, w.metric(`sloengine_subscriptions_removed_total{reason="gone"}`), 0)
	w.restart() // the week goes on
	for range 6*24 - 1 {
		w.now = w.now.Add(time.Hour)
		w.step()
	}
	require.InDelta(t, 1, w.metric("sloengine_subscriptions"), 0)
	require.InDelta(t, 143, w.metric(`sloengine_subscription_deliveries_total{result="failed"}`), 0, "an attempt an hour")
	w.now = w.now.Add(25 * time.Hour)
	w.step()
	require.InDelta(t, 0, w.metric("sloengine_subscriptions"), 0)
	require.InDelta(t, 1, w.metric(`sloengine_subscriptions_removed_total{reason="failing"}`), 0)
	require.Empty(t, w.received("/a"))
	require.Empty(t, w.received("/else"))
}

func TestConfirmation(t *testing.T) {
	w := newWorld(t)
	refused := func(path, want string) {
		t.Helper()
		_, err := w.Subscribe(t.Context(), "192.0.2.1", w.server.URL+path, secret)
		require.EqualError(t, err, "the address did not confirm: "+want)
	}
	w.answer("/missing", http.StatusNotFound)
	refused("/missing", "it answered 404 Not Found")
	w.answer("/moved", http.StatusFound)
	refused("/moved", "it answered 302 Found")
	w.silent = true
	refused("/silent", "it has to answer with the text of the field challenge, and nothing else")
	w.silent = false
	_, err := w.Subscribe(t.Context(), "192.0.2.1", w.server.URL+"/a", secret+" of another")
	require.EqualError(t, err, "the address did not confirm: it answered 400 Bad Request",
		"the signature covers the secret")
	require.InDelta(t, 4, w.metric(`sloengine_subscription_requests_total{result="unconfirmed"}`), 0)
	require.InDelta(t, 0, w.metric("sloengine_subscriptions"), 0)
	w.subscribe("/a")
	_, err = w.Subscribe(t.Context(), "192.0.2.1", w.server.URL+"/a", secret)
	require.ErrorIs(t, err, ErrKnown)

	w.private = false
	w.restart()
	w.step()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"} {
		_, err := w.Subscribe(t.Context(), "192.0.2.1", "https://"+host+"/", secret)
		require.EqualError(t, err, "the address did not confirm: its address is not public", host)
	}
	w.items = []Item{item("a", "1")}
	w.step()
	require.Empty(t, w.received("/a"), "an address that was accepted with other settings")
}

func TestInvalidSubscriptions(t *testing.T) {
	w := newWorld(t)
	w.private = false
	w.restart()
	w.step()
	for to, want := range map[string]string{
		"":                          "url: must begin with http:// or https:// and have a host",
		"http://example.org/":       "url: must begin with https://",
		"ftp://example.org/":        "url: must begin with http:// or https:// and have a host",
		"https://u:p@example.org/":  "url: must not contain credentials",
		"https://example.org/#part": "url: must not have a fragment, which is never sent",
		"https://a/" + strings.Repeat("x", maxURL): "url: want at most 512 bytes",
	} {
		_, err := w.Subscribe(t.Context(), "192.0.2.1", to, secret)
		require.EqualError(t, err, want, to)
	}
	for _, short := range []string{"", "123456789012345", strings.Repeat("x", maxSecret+1)} {
		_, err := w.Subscribe(t.Context(), "192.0.2.1", "https://example.org/", short)
		require.EqualError(t, err, "secret: want 16 to 128 bytes")
	}
}

// Requests of an hour are bounded for each client and in all, subscriptions for each host and in all.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	w.silent = true
	ask := func(client string) error {
		_, err := w.Subscribe(t.Context(), client, w.server.URL+"/a", secret)
		return err
	}
	var unconfirmed *ConfirmError
	for i := range maxPerClient {
		require.ErrorAs(t, ask(fmt.Sprintf("2001:db8::%x", i+1)), &unconfirmed)
	}
	require.ErrorIs(t, ask("2001:db8::ffff"), ErrLimited, "one network of IPv6")
	for i := range maxRequests - maxPerClient {
		require.ErrorAs(t, ask(fmt.Sprintf("192.0.2.%d", i)), &unconfirmed)
	}
	require.ErrorIs(t, ask("198.51.100.1"), ErrLimited)
	w.now = w.now.Add(time.Hour)
	require.ErrorAs(t, ask("2001:db8::ffff"), &unconfirmed)

	w.silent = false
	for i := range maxPerHost {
		_, err := w.Subscribe(t.Context(), fmt.Sprint(i), fmt.Sprintf("%s/%d", w.server.URL, i), secret)
		require.NoError(t, err)
	}
	require.ErrorIs(t, ask("198.51.100.1"), ErrFull)
	for i := maxPerHost; i < maxWebhooks; i++ {
		w.state.Webhooks = append(w.state.Webhooks, webhook{ID: fmt.Sprint(i),
			URL: fmt.Sprintf("https://h%d.example.org/%s", i,
				strings.Repeat("x", maxURL-40)), Secret: strings.Repeat("s", maxSecret), Since: w.now})
		w.hooks[fmt.Sprint(i)] = &progress{}
	}
	w.unsaved = true
	w.save()
	data, err := w.disk.ReadFile("/data/subscriptions.json")
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
	_, err = w.Subscribe(t.Context(), "", "http://other.example.org/", secret)
	require.ErrorIs(t, err, ErrFull)
	w.restart()
	require.Len(t, w.state.Webhooks, maxWebhooks)
}

// A subscription that cannot be saved is refused, deliveries continue, and the file follows later.
func TestDiskFailures(t *testing.T) {
	w := newWorld(t)
	token := w.subscribe("/a")
	w.disk.FailAlways(fsystest.OpCreate, syscall.ENOSPC)
	_, err := w.Subscribe(t.Context(), "192.0.2.1", w.server.URL+"/b", secret)
	require.ErrorIs(t, err, ErrUnsaved)
	w.items = []Item{item("a", "1")}
	w.step()
	require.Equal(t, `"a1"`, w.received("/a"))
	require.Equal(t, w.now, w.UnsavedSince())
	require.Equal(t, 1, strings.Count(w.log.String(), "saving subscriptions failed"))
	w.disk.ClearFaults()
	w.step()
	require.Zero(t, w.UnsavedSince())
	w.restart()
	w.step()
	require.Empty(t, w.received("/a"))
	require.Empty(t, w.received("/b"))

	w.disk.FailAlways(fsystest.OpCreate, syscall.ENOSPC)
	require.ErrorIs(t, w.Unsubscribe(token), ErrUnsaved)
	w.items = []Item{item("a", "2")}
	w.step()
	require.Empty(t, w.received("/a"))
	w.disk.ClearFaults()
	w.step()
	w.restart()
	require.Empty(t, w.state.Webhooks)
}

func TestDamagedFile(t *testing.T) {
	for _, damage := range []string{"{", `{"version":1,"webhooks":[{"id":"a","url":"https://a/","secret":"short"}]}`,
		`{"version":1,"webhooks":[{"id":"a","url":"https://a/","secret":"1234567890123456","sent":1}]}`} {
		w := newWorld(t)
		write(t, w.disk, damage)
		w.restart()
		require.Contains(t, w.log.String(), "subscriptions are unreadable, starting without them")
		kept, err := w.disk.ReadFile("/data/subscriptions.json.broken")
		require.NoError(t, err)
		require.Equal(t, damage, string(kept))
		w.step()
		w.subscribe("/a")
	}
	disk := fsystest.New()
	require.NoError(t, disk.MkdirAll("/data"))
	write(t, disk, `{"version":2}`)
	_, err := New(Options{File: "/data/subscriptions.json", Files: disk})
	require.ErrorContains(t, err, "reads formats up to 1")
}

func write(t *testing.T, disk *fsystest.Mem, text string) {
	f, err := disk.Create("/data/subscriptions.json")
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// Run sends, and saves what was sent before it ends.
func TestRun(t *testing.T) {
	w := newWorld(t)
	w.subscribe("/a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- w.Run(ctx, func(context.Context) ([]Item, bool) { return []Item{item("a", "1")}, true })
	}()
	require.Eventually(t, func() bool { return w.received("/a") == `"a1"` }, testkit.Patience, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	w.restart()
	w.items = []Item{item("a", "1")}
	w.step()
	require.Empty(t, w.received("/a"))
}
