package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// row is what another program reads of a file.
type row struct {
	Attributes map[string]string `parquet:"attributes"`
	Bad        *int64            `parquet:"bad"`
	Count      int64             `parquet:"count"`
	Duration   *int64            `parquet:"duration_ns"`
	Durations  []struct {
		Count    int64 `parquet:"count"`
		Duration int64 `parquet:"duration_ns"`
	} `parquet:"durations,list"`
	Good     *int64  `parquet:"good"`
	ID       string  `parquet:"id"`
	Index    int64   `parquet:"index"`
	Outcome  string  `parquet:"outcome"`
	Received int64   `parquet:"received"`
	Record   int64   `parquet:"record"`
	Severity *string `parquet:"severity"`
	Time     int64   `parquet:"time"`
	Type     string  `parquet:"type"`
	Weight   int64   `parquet:"weight"`
}

func TestColumns(t *testing.T) {
	paths := schema.Columns()
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.Join(path, ".")
	}
	require.Equal(t, []string{
		colAttributeKey: "attributes.key_value.key", colAttributeValue: "attributes.key_value.value", colBad: "bad",
		colGood: "good", colCount: "count",
		colDuration: "duration_ns", colDurationsCount: "durations.list.element.count",
		colDurationsDuration: "durations.list.element.duration_ns", colID: "id", colIndex: "index", colOutcome: "outcome",
		colReceived: "received", colRecord: "record", colSeverity: "severity", colTime: "time", colType: "type",
		colWeight: "weight",
	}, names)
}

// TestEvents: random events of many services and days are read again, each once, in its folder.
func TestEvents(t *testing.T) {
	m := fsystest.New()
	w, err := NewWriter(m, "/out")
	require.NoError(t, err)
	w.most = 100_000
	r := randv2.New(randv2.NewPCG(1, 2))
	day0 := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	want := map[string]string{}
	var (
		body []byte
		view event.View
	)
	for n := range 2000 {
		e := event.Event{
			ID: fmt.Sprintf("id %d", n), Service: fmt.Sprint("shop", n%10), Type: "checkout", Count: 1, Weight: 1,
			Outcome: event.Outcome(n % 2), Time: day0.AddDate(0, 0, n%17).Add(rand(r, time.Minute)),
		}
		for range r.IntN(3) {
			e.Attributes = append(e.Attributes, event.Attr{
				Name: fmt.Sprint("a", len(e.Attributes)), Value: strings.Repeat("wert ü ", r.IntN(3)),
			})
		}
		switch n % 3 {
		case 1:
			e.Duration, e.HasDuration, e.Severity = rand(r, time.Second), true, "error"
		case 2:
			e.Count, e.Weight = 5, 2
			e.Durations = []event.DurationCount{{Duration: rand(r, time.Second), Count: 2},
				{Duration: 2 * time.Second, Count: 3}}
		}
		body = event.AppendBinary(body[:0], &e)
		_, err := view.Parse(body)
		require.NoError(t, err)
		row := Row{Event: &view, Binary: body, Received: view.Time + 1999, Record: uint64(n / 10), Index: n % 10,
			Judged: n%3 > 0, Good: uint64(n), Bad: uint64(n % 3)}
		require.NoError(t, w.Write(&row))
		e.Time = e.Time.Truncate(time.Microsecond)
		want[fmt.Sprintf("service=%s/day=%s %d.%d", e.Service, e.Time.Format(time.DateOnly), row.Record, row.Index)] =
			asJSON(t, &e)
	}
	require.NoError(t, w.Close())
	rows, files := w.Written()
	require.EqualValues(t, len(want), rows)
	read := 0
	for name, list := range readFolder(t, m, "/out") {
		read++
		for _, r := range list {
			key := fmt.Sprintf("%s %d.%d", filepath.Dir(name), r.Record, r.Index)
			require.Equal(t, want[key], r.json(t, name), key)
			n := 10*r.Record + r.Index
			require.Equal(t, n%3 > 0, r.Good != nil && *r.Good == n, key)
			require.Equal(t, n%3 > 0, r.Bad != nil && *r.Bad == n%3, key)
			delete(want, key)
		}
	}
	require.Empty(t, want)
	require.Equal(t, files, read)
	require.Greater(t, read, 170, "some partitions have several files")
}

func rand(r *randv2.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}

func asJSON(t *testing.T, e *event.Event) string {
	data, err := e.MarshalJSON()
	require.NoError(t, err)
	return string(data)
}

// json is the event that a row was made of, to the microsecond.
func (r *row) json(t *testing.T, name string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(name, "service="), "/")
	e := event.Event{ID: r.ID, Service: service, Type: r.Type, Count: uint32(r.Count), Weight: uint32(r.Weight),
		Time: time.UnixMicro(r.Time).UTC()}
	if r.Outcome == event.Failure.String() {
		e.Outcome = event.Failure
	}
	if r.Duration != nil {
		e.Duration, e.HasDuration = time.Duration(*r.Duration), true
	}
	if r.Severity != nil {
		e.Severity = *r.Severity
	}
	for i := range len(r.Attributes) {
		name := fmt.Sprint("a", i)
		e.Attributes = append(e.Attributes, event.Attr{Name: name, Value: r.Attributes[name]})
	}
	for _, d := range r.Durations {
		e.Durations = append(e.Durations, event.DurationCount{Duration: time.Duration(d.Duration), Count: uint32(d.Count)})
	}
	require.InDelta(t, r.Received, r.Time, 2)
	return asJSON(t, &e)
}

// readFolder reads the files of a Writer, by name.
func readFolder(t *testing.T, m *fsystest.Mem, dir string) map[string][]row {
	list := func(dir string) []string {
		names, err := m.List(dir)
		require.NoError(t, err)
		return names
	}
	out := map[string][]row{}
	for _, service := range list(dir) {
		for _, day := range list(filepath.Join(dir, service)) {
			for _, name := range list(filepath.Join(dir, service, day)) {
				require.Equal(t, Extension, filepath.Ext(name))
				short := filepath.Join(service, day, name)
				data, err := m.ReadFile(filepath.Join(dir, short))
				require.NoError(t, err)
				r := parquet.NewGenericReader[row](bytes.NewReader(data))
				rows := make([]row, r.NumRows())
				n, err := r.Read(rows)
				if !errors.Is(err, io.EOF) {
					require.NoError(t, err)
				}
				require.Len(t, rows, n)
				require.NoError(t, r.Close())
				out[short] = rows
			}
		}
	}
	return out
}

func TestNames(t *testing.T) {
	require.Equal(t, "a-b_c.D9", escape("a-b_c.D9"))
	require.Equal(t, "a%2Fb%3D%25%20%C3%BC", escape("a/b=% ü"))
	require.Equal(t, []int64{1, 1, 0, -1, -1, -2}, []int64{floorMicros(1999), floorMicros(1000), floorMicros(0),
		floorMicros(-1), floorMicros(-1000), floorMicros(-1001)})
}

// TestFaults: whatever fails, an error says so, and after Abort no file is left that is not whole.
func TestFaults(t *testing.T) {
	write := func(m *fsystest.Mem) error {
		w, err := NewWriter(m, "/out")
		if err != nil {
			return err
		}
		var view event.View
		for n := range 300 {
			body := event.AppendBinary(nil, &event.Event{ID: "i", Service: fmt.Sprint("s", n%2), Type: "t",
				Time: time.Unix(int64(n), 0)})
			_, err := view.Parse(body)
			require.NoError(t, err)
			if err := w.Write(&Row{Event: &view, Binary: body, Record: uint64(n)}); err != nil {
				return err
			}
		}
		return w.Close()
	}
	whole := fsystest.New()
	require.NoError(t, write(whole))
	for n := int64(1); n <= whole.Ops(); n++ {
		m := fsystest.New()
		m.FailAt(n, syscall.ENOSPC)
		require.ErrorIs(t, write(m), syscall.ENOSPC, "operation %d", n)
		if _, err := m.List("/out"); err == nil {
			readFolder(t, m, "/out")
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	var (
		views  [1000]event.View
		bodies [len(views)][]byte
	)
	for n := range views {
		bodies[n] = event.AppendBinary(nil, &event.Event{
			ID: fmt.Sprintf("%016x%d", n*7919, n), Service: fmt.Sprint("s", n%200), Type: "checkout", HasDuration: true,
			Duration: time.Duration(n) * 1e5, Time: time.Unix(int64(n)*86400/200, int64(n)),
			Attributes: []event.Attr{{Name: "bank", Value: fmt.Sprint("b", n%20)}, {Name: "route", Value: "/pay"}},
		})
		_, err := views[n].Parse(bodies[n])
		require.NoError(b, err)
	}
	w, err := NewWriter(fsys.OS(), b.TempDir())
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		require.NoError(b, w.Write(&Row{Event: &views[n%len(views)], Binary: bodies[n%len(bodies)], Record: uint64(n / 100),
			Index: n % 100}))
		n++
	}
	require.NoError(b, w.Close())
}
