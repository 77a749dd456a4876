package receivers

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// TestNotifications follows alerts through a group: they begin together, one is added, they end one by one.
func TestNotifications(t *testing.T) {
	h := newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick),
		ExternalLabels: map[string]string{"cluster": "eu", "service": "other"}}})
	var a alarms
	d.Update(a.fire("Burn", "service=shop", "severity=page").fire("Slow", "service=shop", "severity=page").fire("Late",
		"service=shop", "severity=ticket").now())
	testkit.Eventually(t, "two groups", func() bool { return len(h.all()) == 2 })
	require.ElementsMatch(t, []string{"Burn=firing Slow=firing", "Late=firing"}, h.told())
	first := h.all()[slices.IndexFunc(h.all(), func(x hooked) bool { return len(x.Alerts) == 2 })]
	require.Equal(t, map[string]string{"service": "shop", "severity": "page"}, first.GroupLabels)
	require.Equal(t, "eu", first.Alerts[0].Labels["cluster"])
	require.Equal(t, `{}:{service="shop", severity="page"}`, first.GroupKey)

	d.Update(a.fire("Down", "service=shop", "severity=page").now())
	testkit.Eventually(t, "one more", func() bool { return len(h.all()) == 3 })
	require.Equal(t, "Burn=firing Down=firing Slow=firing", h.told()[2])
	d.Update(a.end("Slow").now())
	testkit.Eventually(t, "one less", func() bool { return len(h.all()) == 4 })
	require.Equal(t, "Burn=firing Down=firing Slow=resolved", h.told()[3])
	d.Update(a.end("Burn").end("Down").now())
	testkit.Eventually(t, "all over", func() bool { return len(h.all()) == 5 })
	require.Equal(t, "Burn=resolved Down=resolved", h.told()[4])
	require.Equal(t, "resolved", h.all()[4].Status)
	d.Update(a.end("Late").now())
	testkit.Eventually(t, "nothing is left", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.groups) == 0 && len(d.items) == 0 || d.news.Load() == d.read && len(d.groups) == 0
	})
	require.Len(t, h.all(), 6)

	// What fires again is new.
	d.Update(a.fire("Late", "service=shop", "severity=ticket").now())
	testkit.Eventually(t, "again", func() bool { return len(h.all()) == 7 })
}

// TestRepeat repeats what goes on, and nothing before its time.
func TestRepeat(t *testing.T) {
	h, calm := newHook(t, nil), newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h, calm), Routing: routing(`
route:
  receiver: r0
  group_by: [service]
  group_wait: 0s
  group_interval: 20ms
  repeat_interval: 200ms
  routes: [{matchers: ['severity="ticket"'], receiver: r1, repeat_interval: 1h}]
receivers: [{name: r0}, {name: r1}]
`)}})
	var a alarms
	d.Update(a.fire("Burn", "service=shop", "severity=page").fire("Late", "service=shop", "severity=ticket").now())
	testkit.Eventually(t, "repeated", func() bool { return len(h.all()) == 4 })
	got := h.all()
	for i := 1; i < len(got); i++ {
		require.GreaterOrEqual(t, got[i].at.Sub(got[i-1].at), 180*time.Millisecond)
	}
	testkit.Eventually(t, "the other is notified", func() bool { return len(calm.all()) > 0 })
	require.Len(t, calm.all(), 1)
}

// TestSendResolved leaves out what has resolved, and still notices when it fires again.
func TestSendResolved(t *testing.T) {
	h := newHook(t, nil)
	sections := fmt.Sprintf("receivers: [{name: r0, webhook_configs: [{url: %q, send_resolved: false}]}]", h.URL)
	d, _ := run(t, Options{Settings: Settings{Text: mustText(t, sections), Routing: routing(quick)}})
	var a alarms
	d.Update(a.fire("A", "service=shop").fire("B", "service=shop").now())
	testkit.Eventually(t, "both fire", func() bool { return len(h.all()) == 1 })
	d.Update(a.end("B").now())
	testkit.Eventually(t, "B is gone", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.groups) == 1 && len(d.groups[`{}:{service="shop"}`].members) == 1
	})
	d.Update(a.fire("B", "service=shop").now())
	testkit.Eventually(t, "B fires again", func() bool { return len(h.all()) == 2 })
	require.Equal(t, []string{"A=firing B=firing", "A=firing B=firing"}, h.told())
}

// TestRestart sends nothing again after a restart, and what happened meanwhile.
func TestRestart(t *testing.T) {
	h := newHook(t, nil)
	file := filepath.Join(t.TempDir(), "notifications.json")
	o := Options{File: file, Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}}
	d, stop := run(t, o)
	var a alarms
	for i := range 50 {
		a.fire(fmt.Sprintf("A%d", i), fmt.Sprintf("service=s%d", i))
	}
	d.Update(a.now())
	testkit.Eventually(t, "all are notified", func() bool { return len(h.all()) == 50 })
	testkit.Eventually(t, "and nothing waits", func() bool { return status(t, d, "r0/webhook[0]").Pending == 0 })
	stop()
	a.end("A7")
	a.fire("New", "service=new")
	d, _ = run(t, o)
	d.Update(a.now())
	testkit.Eventually(t, "the news", func() bool { return len(h.all()) == 52 })
	require.ElementsMatch(t, []string{"A7=resolved", "New=firing"}, h.told()[50:])
	flushes(t, d)
	require.Len(t, h.all(), 52)
}

// TestCrash ends the process at the worst time: a message was taken, and only those before it are on disk.
func TestCrash(t *testing.T) {
	const before = 5
	var crashed atomic.Bool
	var received atomic.Int32
	file, copied := filepath.Join(t.TempDir(), "notifications.json"), filepath.Join(t.TempDir(), "notifications.json")
	h := newHook(t, func(http.ResponseWriter, *http.Request) {
		if received.Add(1) != before+1 {
			return
		}
		for _, suffix := range []string{"", JournalSuffix} { // what a kill -9 leaves behind
			data, err := os.ReadFile(file + suffix)
			if err == nil {
				err = os.WriteFile(copied+suffix, data, 0o600)
			}
			if err != nil {
				panic(err)
			}
		}
		crashed.Store(true)
	})
	settings := Settings{Text: hooks(t, h), Routing: routing(quick)}
	d, stop := run(t, Options{File: file, Settings: settings})
	var a alarms
	for i := range 20 {
		a.fire(fmt.Sprintf("A%d", i), fmt.Sprintf("service=s%d", i))
	}
	d.Update(a.now())
	testkit.Eventually(t, "one was sent", crashed.Load)
	stop()
	sent := len(h.all())
	h.mu.Lock()
	h.got = h.got[:before+1] // the others were sent by a process that was dead
	h.mu.Unlock()
	require.Positive(t, sent)
	d, _ = run(t, Options{File: copied, Settings: settings})
	d.Update(a.now())
	testkit.Eventually(t, "each is delivered", func() bool { return status(t, d, "r0/webhook[0]").Sent == 20-before })
	require.Len(t, h.all(), 21, "one extra for the kill")
}

// TestThousand delivers 1,000 alerts that begin at once.
func TestThousand(t *testing.T) {
	h := newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
	var a alarms
	for i := range 1000 {
		a.fire(fmt.Sprintf("A%d", i), "severity=page", fmt.Sprintf("service=s%d", i%200))
	}
	began := time.Now()
	d.Update(a.now())
	testkit.Eventually(t, "all are notified", func() bool { return status(t, d, "r0/webhook[0]").Sent == 1000 })
	t.Logf("1,000 alerts in 200 groups were sent after %s", time.Since(began))
	require.Len(t, h.all(), 200)
}

// TestWatchdog fires while the engine evaluates alerts.
func TestWatchdog(t *testing.T) {
	h := newHook(t, nil)
	d, _ := run(t,
		Options{Settings: Settings{Text: hooks(t, h), Watchdog: alerts.Watchdog(alerts.Options{}), Routing: routing(`
route: {receiver: r0, group_by: [alertname], group_wait: 0s, group_interval: 20ms, repeat_interval: 10ms}
receivers: [{name: r0}]
`)}})
	var a alarms
	d.Update(a.now())
	testkit.Eventually(t, "it continues", func() bool { return len(h.all()) > 3 })
	require.Equal(t, "Watchdog=firing", h.told()[0])
	require.NotEmpty(t, h.all()[0].Alerts[0].Annotations["summary"])
}

// TestReload keeps what was sent: a receiver that is new is told, the old one is not told again.
func TestReload(t *testing.T) {
	h, other := newHook(t, nil), newHook(t, nil)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
	var a alarms
	d.Update(a.fire("A", "service=shop", "severity=page").now())
	testkit.Eventually(t, "notified", func() bool { return len(h.all()) == 1 })
	sections := fmt.Sprintf("receivers: [{name: r0, webhook_configs: [{url: %q}, {url: %q}]}]", h.URL, other.URL)
	apply, err := d.Prepare(Settings{Text: mustText(t, sections), Routing: routing(quick)})
	require.NoError(t, err)
	apply()
	testkit.Eventually(t, "the new one is notified", func() bool { return len(other.all()) == 1 })
	require.Len(t, h.all(), 1)
	_, err = d.Prepare(Settings{Text: "receivers: [{}]"})
	require.ErrorContains(t, err, "notifications: receivers: missing name")

	// Without receivers there is nothing to do, and no series are left.
	apply, err = d.Prepare(Settings{})
	require.NoError(t, err)
	apply()
	testkit.Eventually(t, "no receivers", func() bool { return len(d.Status()) == 0 })
	d.Update(a.fire("B", "service=shop", "severity=page").now())
	looks(t, d)
	require.Len(t, h.all(), 1)

	// When they come back, they are told what has changed meanwhile.
	apply, err = d.Prepare(Settings{Text: hooks(t, h), Routing: routing(quick)})
	require.NoError(t, err)
	d.Update(a.end("A").fire("C", "service=pay", "severity=page").now())
	apply()
	testkit.Eventually(t, "the news", func() bool { return len(h.all()) == 3 })
	require.ElementsMatch(t, []string{"A=resolved B=firing", "C=firing"}, h.told()[1:])
}

// TestFile opens what is there, and refuses what a newer version wrote.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notifications.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"version":3,"what":1}`), 0o600))
	_, err := New(Options{File: file})
	require.ErrorIs(t, err, fsys.ErrNewer)
	require.ErrorContains(t, err, "reads formats up to 2")
	for _, broken := range []string{"", "{", `{"version":0}`, `{"version":1,"more":1}`,
		`{"version":1,"silences":[{"id":"a"}]}`} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		_, err = New(Options{File: file})
		require.NoError(t, err, broken)
		kept, err := os.ReadFile(file + ".broken")
		require.NoError(t, err)
		require.Equal(t, broken, string(kept))
		require.NoError(t, os.Remove(file+".broken"))
	}
	require.NoError(t, os.WriteFile(file,
		[]byte(strings.ReplaceAll(`{"version":1,"groups":[{"key":"k","due":"2026-01-01T00:00:00Z","flushed":true,
		"members":{"a":"2026-01-01T00:00:00Z"},"sent":{"r0/webhook[0]":{"firing":["b","a"],"at":"2026-01-01T00:00:00Z"}}}],
		"silences":[]}`, "\n", "")), 0o600))
	d, err := New(Options{File: file})
	require.NoError(t, err)
	require.Empty(t, d.groups["k"].sent, "not sorted")
	require.NoError(t, os.WriteFile(file,
		[]byte(`{"version":1,"groups":[],"silences":[{"id":"a","matchers":"tier=~\"page-.*\",sla=\"error_rate\",team=\"a\"",
		"starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z","author":"a","comment":"b",
		"created_at":"2026-01-01T00:00:00Z"}]}`), 0o600))
	d, err = New(Options{File: file})
	require.NoError(t, err)
	require.Equal(t, `slo_tier=~"page-.*",slo_kind="error_rate",team="a"`, d.Silences()[0].Matchers)
}

// TestJournal cuts and changes the journal at every byte: the groups up to there are known, and the last is the one in
// force.
func TestJournal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notifications.json")
	text := []byte(
		`{"version":2,"groups":[{"key":"a","due":"2026-01-01T00:00:00Z","flushed":true,"members":{},"sent":{}}],` +
			`"silences":[]}`)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	j := journal{name: file + JournalSuffix}
	require.NoError(t, j.begin(text))
	b, c := groupJSON{Key: "b"}, groupJSON{Key: "c", Sent: map[string]*sent{"r0/webhook[0]": {Firing: []string{"x"}}}}
	lines := j.line(j.line(j.line(nil, b), c), groupJSON{Key: "a", Gone: true})
	require.NoError(t, j.add(lines))
	j.close()
	keys := func() []string {
		d, err := New(Options{File: file})
		require.NoError(t, err)
		return slices.Sorted(maps.Keys(d.groups))
	}
	require.Equal(t, []string{"b", "c"}, keys())
	first := bytes.IndexByte(lines, '\n') + 1
	second := first + bytes.IndexByte(lines[first:], '\n') + 1
	for i := range lines {
		want := []string{"a", "b", "c"}[:1+min(1, i/first)+i/second]
		require.NoError(t, os.WriteFile(j.name, lines[:i], 0o600))
		require.Equal(t, want, keys(), "cut at %d", i)
		flipped := bytes.Clone(lines)
		flipped[i] ^= 1
		require.NoError(t, os.WriteFile(j.name, flipped, 0o600))
		require.Equal(t, want, keys(), "changed at %d", i)
	}
	require.NoError(t, os.WriteFile(j.name, lines, 0o600))
	require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte("true"), []byte("false"), 1), 0o600))
	require.Equal(t, []string{"a"}, keys(), "it belongs to another file")
}

// BenchmarkStorm sends 1,000 messages, one for each group, of alerts that begin at once.
func BenchmarkStorm(b *testing.B) {
	h := newHook(b, nil)
	for b.Loop() {
		d, stop := run(b, Options{Settings: Settings{Text: hooks(b, h), Routing: routing(quick)}})
		var a alarms
		for i := range 1000 {
			a.fire(fmt.Sprintf("A%d", i), "severity=page", fmt.Sprintf("service=s%d", i))
		}
		d.Update(a.now())
		testkit.Eventually(b, "all are sent", func() bool { return status(b, d, "r0/webhook[0]").Sent >= 1000 })
		stop()
	}
}
