package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/remote"
)

// Metrics are the series of outbox sources besides those of every source.
type Metrics struct{ sources *source.Metrics }

// NewMetrics makes them leave with those of their source.
func NewMetrics(m *source.Metrics) *Metrics { return &Metrics{m} }

// tooMany is from when on rows are not counted any more, which would cost more than the number is worth.
const (
	tooMany   = "100001"
	mostCount = 100_000
	noteFor   = time.Hour        // how long it is shown that the table is another one
	blocker   = 10 * time.Second // bounds the search for that transaction
)

// Status is how far a source is in its table, by the last measurement.
type Status struct {
	Table  string
	Way    string
	Behind int64 // rows that are not in the log, up to 100000
	Oldest time.Duration
	// Held is how many of the committed rows wait for a transaction that began before, up to 100000, and HeldFor is the
	// age of the oldest.
	Held    int64
	HeldFor time.Duration
}

// shown is the published state of a source. It is safe for concurrent use.
type shown struct {
	in *source.Intake

	behind, oldest, held, heldFor *metrics.Gauge

	mu    sync.Mutex
	now   Status
	notes map[string]time.Time
}

func (s *shown) init(m *Metrics, in *source.Intake, way string) {
	s.in, s.notes = in, map[string]time.Time{}
	s.now.Way = way
	name := in.Name()
	m.sources.Add(name, func(g *metric.Group) {
		s.behind, s.oldest = g.Gauge(metric.OutboxSourceBehind, name), g.Gauge(metric.OutboxSourceOldest, name)
		s.held, s.heldFor = g.Gauge(metric.OutboxSourceHeld, name), g.Gauge(metric.OutboxSourceHeldSeconds, name)
	})
}

// end sets the gauges of a stopped source to 0, since they are no longer measured.
func (s *shown) end() {
	for _, g := range []*metrics.Gauge{s.behind, s.oldest, s.held, s.heldFor} {
		g.Set(0)
	}
}

// note shows for a while that the table is another one than before.
func (s *shown) note(table, brief, reason string) {
	s.mu.Lock()
	_, told := s.notes[brief]
	s.notes[brief] = s.in.Now()
	s.mu.Unlock()
	if !told {
		s.in.Fails(source.TroublePosition, table, brief, reason)
	}
}

// forget ends notes that were shown for long enough.
func (s *shown) forget(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for brief, at := range s.notes {
		if s.in.Now().Sub(at) > noteFor {
			delete(s.notes, brief)
		}
	}
	if len(s.notes) == 0 {
		s.in.Works(source.TroublePosition, table)
	}
}

// Status is how far the source is in its table.
func (s *Source) Status() Status {
	s.show.mu.Lock()
	defer s.show.mu.Unlock()
	return s.show.now
}

// measure finds out how far the source is behind.
func (x *session) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s := x.s
	var args []any
	if s.set.Way == XID {
		from := s.places.first(x.owned)
		args = []any{strconv.FormatUint(from.xid, 10), from.id}
	}
	now := Status{Table: s.places.table, Way: s.set.Way}
	var oldest, held *float64
	var foreign bool
	if err := x.pool.QueryRow(ctx, x.q.measure, args...).Scan(&now.Behind, &oldest, &now.Held,
		&held, &foreign); err != nil {
		return err
	}
	now.Behind, now.Held = min(now.Behind, mostCount), min(now.Held, mostCount)
	now.Oldest, now.HeldFor = seconds(oldest), seconds(held)
	s.show.behind.Set(float64(now.Behind))
	s.show.oldest.Set(now.Oldest.Seconds())
	s.show.held.Set(float64(now.Held))
	s.show.heldFor.Set(now.HeldFor.Seconds())
	s.show.mu.Lock()
	s.show.now = now
	s.show.mu.Unlock()
	s.show.forget(s.places.table)
	if foreign {
		s.in.Fails(
			source.TroubleTopic, foreignName, "rows have transaction numbers of another database cluster, and are not read",
			fmt.Sprintf(
				"a restored dump keeps them; give the rows new ones: UPDATE %s SET %s = pg_current_xact_id() WHERE %s >= "+
					"pg_snapshot_xmax(pg_current_snapshot())",
				s.set.table.Name, s.set.table.Columns.XID, s.set.table.Columns.XID))
	} else {
		s.in.Works(source.TroubleTopic, foreignName)
	}
	if now.HeldFor < s.o.HeldTooLong {
		s.in.Works(source.TroubleHeldBack, "")
		return nil
	}
	s.in.Fails(source.TroubleHeldBack, "", fmt.Sprintf("a transaction that is still open holds rows back for %s (end it)",
		now.HeldFor.Round(time.Second)), x.blocker(ctx))
	return nil
}

const foreignName = "transaction numbers"

func seconds(f *float64) time.Duration {
	if f == nil {
		return 0
	}
	return max(0, time.Duration(*f*float64(time.Second)))
}

// blocker says which transaction holds rows back, as far as the user may see it.
func (x *session) blocker(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, blocker)
	defer cancel()
	var text string
	err := x.pool.QueryRow(ctx, `SELECT string_agg(t, '; ') FROM (
		SELECT format('session %s of user %s, application %s, %s since %s', pid, coalesce(usename, '?'),
			coalesce(nullif(application_name, ''), '?'), coalesce(state, '?'), coalesce(xact_start::text, '?')) AS t
			FROM pg_stat_activity WHERE backend_xid = pg_snapshot_xmin(pg_current_snapshot())::xid
		UNION ALL SELECT format('prepared transaction %s of user %s since %s', gid, owner, prepared)
			FROM pg_prepared_xacts WHERE transaction = pg_snapshot_xmin(pg_current_snapshot())::xid LIMIT 3) b`).Scan(&text)
	if err != nil || text == "" {
		return "its session is not visible to this user (GRANT pg_read_all_stats to it, or look for the oldest backend_xid " +
			"in pg_stat_activity)"
	}
	return remote.Text(text)
}

// classify returns the kind of an error, and a description of it without text from outside.
func classify(err error) (source.Kind, string) {
	var known *remote.BrokerError
	if !errors.As(postgres.Explain(err), &known) {
		return source.TroubleConnection, "the database is not reachable"
	}
	if kind := source.KindOf(known); kind != source.TroubleConnection {
		return kind, known.Brief()
	}
	if known.Text != "" {
		return source.TroubleConnection, known.Text
	}
	return source.TroubleConnection, "the database is not reachable"
}

// failed notes why the table cannot be read.
func (s *Source) failed(err error) {
	kind, brief := classify(err)
	var schema *outbox.SchemaError
	if errors.As(err, &schema) {
		kind, brief = source.TroubleTopic, strings.ReplaceAll(schema.Error(), "\n", " ")
	}
	for _, other := range kinds {
		if other != kind {
			s.in.Works(other, "")
		}
	}
	s.in.Fails(kind, "", brief, err.Error())
}

var kinds = []source.Kind{source.TroubleConnection, source.TroubleCredentials, source.TroubleTLS, source.TroubleTopic}

// works notes that the table can be read.
func (s *Source) works() {
	for _, kind := range kinds {
		s.in.Works(kind, "")
	}
}
