package web

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/site"
)

// errReadOnly is for what no address of a limited reader asks for.
var errReadOnly = errors.New("a reader of some services changes nothing")

// scopedIncidents are those of the services. One that was opened by hand without a service is nobody's.
type scopedIncidents struct {
	site.Incidents
	in   scope
	view func() *incident.View
}

func (s scope) incidents(v *incident.View) *incident.View {
	return v.Only(func(inc *incident.Incident) bool {
		if !s.has(inc.Service) {
			return false
		}
		for _, a := range inc.Affected() {
			if a.SLO != "" && !s.hasSLO(slo.ID(a.SLO)) {
				return false
			}
		}
		return true
	})
}

func (i *scopedIncidents) View() *incident.View { return i.view() }

func (i *scopedIncidents) Do(context.Context, incident.Operation) (*incident.Incident, error) {
	return nil, errReadOnly
}

func (i *scopedIncidents) Measure(from, to time.Time) incident.Measures {
	m := i.view().Measure(from, to, nil)
	for _, c := range i.Incidents.Measure(from, to).Comparisons {
		if i.in.has(c.Service) {
			m.Comparisons = append(m.Comparisons, c)
		}
	}
	return m
}

// scopedTraces are those of the SLOs of the services.
type scopedTraces struct {
	all site.Traces
	in  scope
}

func (t *scopedTraces) Of(id slo.ID, group slo.Group, now time.Time) []traces.Trace {
	if !t.in.hasSLO(id) {
		return nil
	}
	return t.all.Of(id, group, now)
}

func (t *scopedTraces) All(now time.Time) []traces.Of {
	return only(t.all.All(now), func(x *traces.Of) bool { return t.in.hasSLO(x.SLO) })
}

// scopedSilences are those of one of the services. Others keep their alerts quiet, too, and are only not listed.
type scopedSilences struct {
	all site.Silences
	in  scope
}

func (s *scopedSilences) Silences() []silence.Silence {
	return only(s.all.Silences(), func(x *silence.Silence) bool { return s.in.named(x.Matchers) })
}

// named reports whether matchers ask for one of the services, and say nothing else of the label service.
func (s scope) named(matchers string) bool {
	const label = "service"
	if !strings.Contains(matchers, label) {
		return false // most of them, without reading them
	}
	parsed, err := labels.ParseMatchers(matchers)
	if err != nil {
		return false
	}
	parsed = slices.DeleteFunc(parsed, func(m *labels.Matcher) bool { return m.Name != label })
	return len(parsed) == 1 && parsed[0].Type == labels.MatchEqual && s.has(parsed[0].Value)
}

func (s *scopedSilences) HasReceivers() bool { return s.all.HasReceivers() }

// Previews leaves out messages that mention any other service.
func (s *scopedSilences) Previews() ([]notify.Preview, bool) {
	list, on := s.all.Previews()
	return only(list, func(m *notify.Preview) bool {
		return !slices.ContainsFunc(m.Services, func(name string) bool { return !s.in.has(name) })
	}), on
}

func (s *scopedSilences) Silencing() func(a *state.Alert) []string { return s.all.Silencing() }

func (s *scopedSilences) Inhibiting() func(a *state.Alert) string { return s.all.Inhibiting() }

func (s *scopedSilences) AddSilence(silence.Silence) (silence.Silence, error) {
	return silence.Silence{}, errReadOnly
}

func (s *scopedSilences) ExpireSilence(string) (silence.Silence, error) {
	return silence.Silence{}, errReadOnly
}

// scopedDeadLetters are those with events of the services. Dead letters of log ranges have no service.
type scopedDeadLetters struct {
	site.DLQ
	in    scope
	names []string

	counting chan struct{} // holds one: who may read and write of and count
	of       dlq.Stats     // of all services, when they were counted
	count    int64         // of the services
}

func newScopedDeadLetters(all site.DLQ, in scope) *scopedDeadLetters {
	return &scopedDeadLetters{DLQ: all, in: in, names: slices.Sorted(maps.Keys(in)),
		counting: make(chan struct{}, 1), count: -1}
}

// List returns whole pages, since pages that are short for what was skipped would tell of it. For the same reason a
// page names the next one only if that has something.
func (d *scopedDeadLetters) List(ctx context.Context, q dlq.Query) (page dlq.Page, err error) {
	q.Services = d.names
	if q.Cursor, err = d.in.open(q.Cursor); err != nil {
		return page, err
	}
	want, next := cmp.Or(q.Limit, dlq.DefaultLimit), ""
	for {
		part, err := d.DLQ.List(ctx, q)
		if err != nil {
			return dlq.Page{}, err
		}
		if next != "" && len(part.Entries) > 0 {
			page.Next = d.in.seal(next)
			return page, nil
		}
		page.Entries = append(page.Entries, part.Entries...)
		if part.Next == "" {
			return page, nil
		}
		q.Cursor, q.Limit = part.Next, want-len(page.Entries)
		if q.Limit == 0 {
			next, q.Limit = cmp.Or(next, part.Next), 1
		}
	}
}

// cursorKey seals cursors: those of a store are numbers, which tell how many dead letters of others lie between two.
var cursorKey = sync.OnceValue(func() cipher.AEAD {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is valid
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block is of AES
	}
	return sealer
})

// cursorBytes is more than any cursor of a store has. All are padded to it, since the length of a number tells its
// size.
const cursorBytes = 32

// seal makes a cursor of a store one for readers of the same services, until the process ends.
func (s scope) seal(cursor string) string {
	padded := append(make([]byte, 0, cursorBytes), cursor...)
	padded = padded[:max(len(padded), cursorBytes)]
	return base64.RawURLEncoding.EncodeToString(cursorKey().Seal(nil, nil, padded, []byte(s.key())))
}

func (s scope) open(sealed string) (cursor string, err error) {
	if sealed == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err == nil {
		data, err = cursorKey().Open(nil, nil, data, []byte(s.key()))
	}
	if err != nil {
		return "", fmt.Errorf("%w: cursor %q (a restart of the engine voids the cursors of limited tokens)",
			dlq.ErrInvalid, sealed)
	}
	return strings.TrimRight(string(data), "\x00"), nil
}

func (d *scopedDeadLetters) Get(ctx context.Context, id string) (dlq.Entry, error) {
	e, err := d.DLQ.Get(ctx, id)
	if err == nil && !d.in.has(e.Service) {
		return dlq.Entry{}, dlq.ErrNotFound
	}
	return e, err
}

// Stats has only the number, since a store does not count by service: the names of sinks and the sizes are of all
// services. It counts once for all of them, and again only when the store has changed.
func (d *scopedDeadLetters) Stats(ctx context.Context) (dlq.Stats, error) {
	select {
	case d.counting <- struct{}{}:
	case <-ctx.Done():
		return dlq.Stats{}, ctx.Err()
	}
	defer func() { <-d.counting }()
	all, err := d.DLQ.Stats(ctx)
	if err != nil {
		return dlq.Stats{}, err
	}
	if d.count < 0 || !sameContent(&all, &d.of) {
		n, err := d.DLQ.DiscardMatching(ctx, dlq.Query{Services: d.names}, true)
		if err != nil {
			return dlq.Stats{}, err
		}
		d.of, d.count = all, int64(n)
	}
	return dlq.Stats{Backend: all.Backend, Count: d.count}, nil
}

// sameContent reports whether a store holds what it held: as many entries and bytes, from and to the same times.
func sameContent(a, b *dlq.Stats) bool {
	return a.Count == b.Count && a.Bytes == b.Bytes && a.Oldest.Equal(b.Oldest) && a.Newest.Equal(b.Newest)
}

func (d *scopedDeadLetters) Replay(context.Context, dlq.Query, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{}, errReadOnly
}

func (d *scopedDeadLetters) ReplayIDs(context.Context, []string, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{}, errReadOnly
}

func (d *scopedDeadLetters) Discard(context.Context, []string) (int, error) { return 0, errReadOnly }

func (d *scopedDeadLetters) DiscardMatching(context.Context, dlq.Query, bool) (int, error) {
	return 0, errReadOnly
}

func (d *scopedDeadLetters) Purge(context.Context, time.Time, bool) (int, error) {
	return 0, errReadOnly
}
