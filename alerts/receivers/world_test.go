package receivers

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text reads sections as engine.yaml has them.
func text(dir, sections string) (string, error) {
	var r yamldoc.Reader
	root := r.Document("engine.yaml", []byte(sections))
	if root == nil {
		return "", r.Problems().Err()
	}
	p := Parts{Receivers: root.Peek("receivers"), Global: root.Peek("global"), Dir: dir}
	out := p.Text()
	return out, r.Problems().Err()
}

func mustText(t testing.TB, sections string) string {
	t.Helper()
	out, err := text(t.TempDir(), sections)
	require.NoError(t, err)
	return out
}

// hooks are webhooks, each a receiver of its own by the name of its index: r0, r1.
func hooks(t testing.TB, list ...*hook) string {
	var b strings.Builder
	for i, h := range list {
		fmt.Fprintf(&b, "  - {name: r%d, webhook_configs: [{url: %q}]}\n", i, h.URL+"/hook?secret=hush")
	}
	return mustText(t, "receivers:\n"+b.String())
}

// quick groups by service and severity, with times that a test can wait for.
const quick = `
route:
  receiver: r0
  group_by: [service, severity]
  group_wait: 20ms
  group_interval: 50ms
  repeat_interval: 1h
receivers: [{name: r0}]
`

func routing(document string) alertmanager.Routing {
	return alertmanager.Routing{Document: []byte(document), Classes: map[string]alertmanager.Class{
		"page": alertmanager.Critical, "critical": alertmanager.Critical, "ticket": alertmanager.Warning,
	}}
}

// hook is a webhook as Alertmanager's receivers call it.
type hook struct {
	*httptest.Server

	mu   sync.Mutex
	got  []hooked
	then func(w http.ResponseWriter, r *http.Request) // nil: 200
}

type hooked struct {
	Receiver, Status, GroupKey string
	GroupLabels                map[string]string
	Alerts                     []struct {
		Status              string
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	at time.Time
}

// told is a notification in short: checkout=firing pay=resolved.
func (h hooked) told() string {
	var out []string
	for _, a := range h.Alerts {
		out = append(out, a.Labels["alertname"]+"="+a.Status)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func newHook(t testing.TB, then func(w http.ResponseWriter, r *http.Request)) *hook {
	t.Helper()
	h := &hook{then: then}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got hooked
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		got.at = time.Now()
		h.mu.Lock()
		h.got = append(h.got, got)
		then := h.then
		h.mu.Unlock()
		if then != nil {
			then(w, r)
		}
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

func (h *hook) set(then func(w http.ResponseWriter, r *http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.then = then
}

func (h *hook) all() []hooked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

func (h *hook) told() []string {
	var out []string
	for _, x := range h.all() {
		out = append(out, x.told())
	}
	return out
}

// alarms are live alerts that a test begins and ends.
type alarms struct {
	view state.View
}

func labelled(name string, more ...string) []state.Label {
	out := []state.Label{{Name: "alertname", Value: name}}
	for _, kv := range more {
		k, v, _ := strings.Cut(kv, "=")
		out = append(out, state.Label{Name: k, Value: v})
	}
	slices.SortFunc(out, func(a, b state.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func fingerprintOf(l []state.Label) string {
	h := fnv.New64a()
	fmt.Fprint(h, l)
	return fmt.Sprintf("%016x", h.Sum64())
}

func (a *alarms) fire(name string, more ...string) *alarms {
	l := labelled(name, more...)
	x := state.Alert{Fingerprint: fingerprintOf(l), Labels: l, Name: name, State: state.Firing, FiredAt: time.Now()}
	x.Severity = x.Label("severity")
	x.Urgent = x.Severity == "page"
	a.view.Active = append(slices.Clone(a.view.Active), x)
	return a
}

func (a *alarms) end(name string) *alarms {
	var left []state.Alert
	ended := slices.Clone(a.view.Resolved)
	for _, x := range a.view.Active {
		if x.Name != name {
			left = append(left, x)
			continue
		}
		x.State, x.ResolvedAt = state.Resolved, time.Now()
		ended = append(ended, x)
	}
	a.view.Active, a.view.Resolved = left, ended
	return a
}

// views counts those of all tests.
var views atomic.Uint64

func (a *alarms) now() *state.View {
	v := a.view
	v.Time, v.Step = time.Now(), views.Add(1)
	return &v
}

// run starts a Dispatcher and stops it at the end of the test.
func run(t testing.TB, o Options) (d *Dispatcher, stop func()) {
	t.Helper()
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "notifications.json")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	d, err := New(o)
	require.NoError(t, err)
	stop = sync.OnceFunc(notify.Start(t.Context(), func(ctx context.Context) { _ = d.Run(ctx) }))
	t.Cleanup(stop)
	return d, stop
}

// looks waits until d has looked once more from the beginning to the end: it takes the second call only after that.
func looks(t testing.TB, d *Dispatcher) {
	t.Helper()
	for range 2 {
		d.poke()
		testkit.Eventually(t, "it looks", func() bool { return len(d.wake) == 0 })
	}
}

// flushes waits until d has taken over the last view and each group was due three times, and what it sent is answered.
func flushes(t testing.TB, d *Dispatcher) {
	t.Helper()
	looks(t, d)
	for range 3 {
		was := d.dues()
		testkit.Eventually(t, "every group is due again", func() bool {
			now := d.dues()
			for key, at := range was {
				if later, there := now[key]; there && later.Equal(at) {
					return false
				}
			}
			return true
		})
	}
	testkit.Eventually(t, "nothing waits", func() bool {
		return !slices.ContainsFunc(d.Status(), func(s notify.Status) bool { return s.Pending > 0 })
	})
}

// dues are the times at which the groups are due next.
func (d *Dispatcher) dues() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := map[string]time.Time{}
	for key, g := range d.groups {
		at[key] = g.due
	}
	return at
}

func status(t testing.TB, d *Dispatcher, name string) notify.Status {
	t.Helper()
	for _, s := range d.Status() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no status of %s", name)
	return notify.Status{}
}
