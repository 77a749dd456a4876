// Package parquet writes events as Apache Parquet files, in a folder per service and day:
//
//	service=shop/day=2026-11-20/events-000000000000000017.3-000000000000004711.parquet
//
// DuckDB, ClickHouse, Spark, Trino and BigQuery read the names of such folders as the columns service and day. A file
// is named after the log record and the index of its first event, and after its last record.
package parquet

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// SiteMkdir is the sync of the folders; files are written by fsys.WriteAtomic.
const SiteMkdir fsys.Site = "parquet.mkdir"

// Extension of a file that is whole. Others end in fsys.TempSuffix.
const Extension = ".parquet"

const (
	groupRows = 122_880 // of a row group, as DuckDB writes them
	partBytes = 32 << 20
	allBytes  = 128 << 20
	batchRows = 64
)

func utf8Text() parquet.Node { return parquet.String() }

// names are those of few values, which a dictionary holds once.
func names() parquet.Node { return parquet.Encoded(utf8Text(), &parquet.RLEDictionary) }

// deltas are numbers that rise slowly.
func deltas(n parquet.Node) parquet.Node { return parquet.Encoded(n, &parquet.DeltaBinaryPacked) }

func micros() parquet.Node { return deltas(parquet.Timestamp(parquet.Microsecond)) }

// schema has its columns by name. Times are in microseconds, rounded down, which each reader of Parquet knows.
var schema = parquet.NewSchema("event", parquet.Group{
	"attributes":  parquet.Map(names(), names()),
	"bad":         parquet.Optional(parquet.Int(64)),
	"count":       deltas(parquet.Int(64)),
	"duration_ns": parquet.Optional(parquet.Int(64)),
	"durations":   parquet.List(parquet.Group{"count": parquet.Int(64), "duration_ns": parquet.Int(64)}),
	"good":        parquet.Optional(parquet.Int(64)),
	"id":          utf8Text(),
	"index":       deltas(parquet.Int(64)),
	"outcome":     names(),
	"received":    micros(),
	"record":      deltas(parquet.Int(64)),
	"severity":    parquet.Optional(names()),
	"time":        micros(),
	"type":        names(),
	"weight":      deltas(parquet.Int(64)),
})

// The columns of the schema, in its order. A test holds them to it.
const (
	colAttributeKey = iota
	colAttributeValue
	colBad
	colCount
	colDuration
	colDurationsCount
	colDurationsDuration
	colGood
	colID
	colIndex
	colOutcome
	colReceived
	colRecord
	colSeverity
	colTime
	colType
	colWeight
)

// Row is an event with its place in the log.
type Row struct {
	Event    *event.View
	Binary   []byte // of which Event is the view
	Received int64  // Unix nanoseconds, of the record
	Record   uint64 // its number
	Index    int    // of the event within the record

	// What the event counts as for one SLO, if Judged.
	Judged    bool
	Good, Bad uint64
}

// Writer writes events to files in a folder. It holds up to 128 MiB of them until a file of a service and day is worth
// writing. It is for one goroutine.
type Writer struct {
	fs  fsys.FS
	dir string
	out *parquet.GenericWriter[any]

	parts  map[partition]*part
	bytes  int // of all parts
	most   int // of allBytes and partBytes, which tests make smaller
	files  int
	rows   int64
	cells  []parquet.Row
	values []parquet.Value // of cells
	texts  []byte          // of values
}

type partition struct {
	service string
	day     int64 // since 1970
}

// part is what the next file of a partition will hold.
type part struct {
	key    partition
	rows   []place
	events []byte // in their binary form
}

type place struct {
	received int64
	record   uint64
	index    int
	good     int64 // -1 if it was not judged
	bad      int64
}

const placeBytes = 40

// NewWriter writes to a folder, which it makes.
func NewWriter(f fsys.FS, dir string) (*Writer, error) {
	if err := fsys.MkdirAllSynced(f, dir, SiteMkdir); err != nil {
		return nil, err
	}
	out := parquet.NewGenericWriter[any](nil, schema, parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		parquet.CreatedBy("sloengine", "", ""), parquet.MaxRowsPerRowGroup(groupRows))
	return &Writer{fs: f, dir: dir, out: out, parts: map[partition]*part{}, most: allBytes}, nil
}

// Written are the events and the files of the Writer so far.
func (w *Writer) Written() (rows int64, files int) { return w.rows, w.files }

// Write adds an event, whose bytes it copies. An error is of a file, of which nothing is left.
func (w *Writer) Write(r *Row) error {
	p := w.Hold(r)
	if p.size() < min(partBytes, w.most) && w.bytes < w.most {
		return nil
	}
	for _, x := range w.parts {
		if x.size() > p.size() {
			p = x
		}
	}
	return w.flush(p)
}

// Hold adds an event, whose bytes it copies, and writes nothing.
func (w *Writer) Hold(r *Row) *part {
	day := r.Event.Time / int64(24*time.Hour)
	if r.Event.Time%int64(24*time.Hour) < 0 {
		day--
	}
	key := partition{string(r.Event.Service), day}
	p := w.parts[key]
	if p == nil {
		p = &part{key: key}
		w.parts[key] = p
	}
	at := place{r.Received, r.Record, r.Index, -1, -1}
	if r.Judged {
		at.good, at.bad = int64(r.Good), int64(r.Bad)
	}
	p.rows = append(p.rows, at)
	p.events = append(p.events, r.Binary...)
	w.bytes += placeBytes + len(r.Binary)
	return p
}

// Held are the bytes and the folders of the events that are held.
func (w *Writer) Held() (bytes, folders int) { return w.bytes, len(w.parts) }

// Drop forgets what is held.
func (w *Writer) Drop() {
	clear(w.parts)
	w.bytes = 0
}

func (p *part) size() int { return len(p.events) + placeBytes*len(p.rows) }

func (w *Writer) sorted() []*part {
	return slices.SortedFunc(maps.Values(w.parts), func(a, b *part) int {
		return cmp.Or(strings.Compare(a.key.service, b.key.service), cmp.Compare(a.key.day, b.key.day))
	})
}

// Close writes what is held.
func (w *Writer) Close() error {
	for _, p := range w.sorted() {
		if err := w.flush(p); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the file of a part, durably.
func (w *Writer) flush(p *part) error {
	delete(w.parts, p.key)
	w.bytes -= p.size()
	name := filepath.Join(w.dir, p.name(Events))
	if err := fsys.MkdirAllSynced(w.fs, filepath.Dir(name), SiteMkdir); err != nil {
		return err
	}
	if err := fsys.WriteAtomic(w.fs, name, func(out io.Writer) error { return w.write(p, out) }); err != nil {
		return err
	}
	w.files++
	w.rows += int64(len(p.rows))
	return nil
}

func (w *Writer) write(p *part, out io.Writer) error {
	w.out.Reset(out)
	var view event.View
	body := p.events
	for i := range p.rows {
		n, err := view.Parse(body)
		if err != nil {
			return err
		}
		body = body[n:]
		w.add(&view, &p.rows[i])
		if len(w.cells) == batchRows || i == len(p.rows)-1 {
			_, err := w.out.WriteRows(w.cells)
			clear(w.values)
			w.cells, w.values, w.texts = w.cells[:0], w.values[:0], w.texts[:0]
			if err != nil {
				return err
			}
		}
	}
	return w.out.Close()
}

// escape writes a service as part of a folder's name, as Hive does.
func escape(service string) string {
	var b strings.Builder
	for _, c := range []byte(service) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// add appends the row of an event.
func (w *Writer) add(e *event.View, at *place) {
	begin := len(w.values)
	number := func(column int, n int64) { w.values = append(w.values, parquet.Int64Value(n).Level(0, 0, column)) }
	text := func(s []byte) parquet.Value {
		from := len(w.texts)
		if utf8.Valid(s) {
			w.texts = append(w.texts, s...)
		} else {
			w.texts = append(w.texts, strings.ToValidUTF8(string(s), "\uFFFD")...)
		}
		return parquet.ByteArrayValue(w.texts[from:len(w.texts):len(w.texts)])
	}
	attributes := func(column int, pick func(name, value []byte) []byte) {
		n := 0
		for name, value := range e.Attrs {
			w.values = append(w.values, text(pick(name, value)).Level(min(n, 1), 1, column))
			n++
		}
		if n == 0 {
			w.values = append(w.values, parquet.NullValue().Level(0, 0, column))
		}
	}
	durations := func(column int, pick func(d int64, n uint32) int64) {
		n := 0
		for d, times := range e.Durations {
			w.values = append(w.values, parquet.Int64Value(pick(d, times)).Level(min(n, 1), 1, column))
			n++
		}
		if n == 0 {
			w.values = append(w.values, parquet.NullValue().Level(0, 0, column))
		}
	}
	optional := func(column int, is bool, v func() parquet.Value) {
		if is {
			w.values = append(w.values, v().Level(0, 1, column))
		} else {
			w.values = append(w.values, parquet.NullValue().Level(0, 0, column))
		}
	}
	attributes(colAttributeKey, func(name, _ []byte) []byte { return name })
	attributes(colAttributeValue, func(_, value []byte) []byte { return value })
	optional(colBad, at.bad >= 0, func() parquet.Value { return parquet.Int64Value(at.bad) })
	number(colCount, int64(e.Count))
	optional(colDuration, e.Duration >= 0, func() parquet.Value { return parquet.Int64Value(e.Duration) })
	durations(colDurationsCount, func(_ int64, n uint32) int64 { return int64(n) })
	durations(colDurationsDuration, func(d int64, _ uint32) int64 { return d })
	optional(colGood, at.good >= 0, func() parquet.Value { return parquet.Int64Value(at.good) })
	w.values = append(w.values, text(e.ID).Level(0, 0, colID))
	number(colIndex, int64(at.index))
	w.values = append(w.values, text([]byte(e.Outcome.String())).Level(0, 0, colOutcome))
	number(colReceived, floorMicros(at.received))
	number(colRecord, int64(at.record))
	optional(colSeverity, e.Severity != nil, func() parquet.Value { return text(e.Severity) })
	number(colTime, floorMicros(e.Time))
	w.values = append(w.values, text(e.Type).Level(0, 0, colType))
	number(colWeight, int64(e.Weight))
	w.cells = append(w.cells, w.values[begin:len(w.values):len(w.values)])
}

func floorMicros(ns int64) int64 {
	if us := ns / 1000; ns%1000 >= 0 {
		return us
	}
	return ns/1000 - 1
}
