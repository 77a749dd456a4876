package parquet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// The beginnings of the names of files.
const (
	Events   = "events"
	Replayed = "replayed" // dead letters that were replayed, out of the order of the log
)

// Place is where an event is in the log: the number of its record, and its index within.
type Place struct {
	Record uint64
	Index  int
}

// Before orders places as the log does.
func (p Place) Before(q Place) bool {
	return p.Record < q.Record || p.Record == q.Record && p.Index < q.Index
}

func (k partition) folder() string {
	return filepath.Join("service="+escape(k.service), "day="+time.Unix(k.day*24*60*60, 0).UTC().Format(time.DateOnly))
}

// name is that of the part's file, in the Writer's folder.
func (p *part) name(kind string) string {
	first, last := p.rows[0], p.rows[len(p.rows)-1]
	return filepath.Join(p.key.folder(), fmt.Sprintf("%s-%018d.%d-%018d%s", kind, first.record, first.index, last.record,
		Extension))
}

// Stage writes what is held to files of one folder, durably, and returns where in the Writer's folder each belongs. It
// calls name for the base name of each. What is held stays until Drop.
func (w *Writer) Stage(folder, kind string, name func(n int) string) (belongs []string, err error) {
	for n, p := range w.sorted() {
		file := filepath.Join(folder, name(n))
		if err := fsys.WriteAtomic(w.fs, file, func(out io.Writer) error { return w.write(p, out) }); err != nil {
			return nil, err
		}
		belongs = append(belongs, p.name(kind))
	}
	return belongs, nil
}

// Forget takes out of what is held the events that files of the Writer's folder hold already, and returns how many are
// left. It reads only files whose log range overlaps.
func (w *Writer) Forget() (left int, err error) {
	for key, p := range w.parts {
		there, err := w.there(p)
		if err != nil {
			return 0, err
		}
		if len(there) > 0 {
			w.bytes -= p.size()
			if err := p.remove(there); err != nil {
				return 0, err
			}
			w.bytes += p.size()
		}
		if left += len(p.rows); len(p.rows) == 0 {
			delete(w.parts, key)
		}
	}
	return left, nil
}

// there are the places of the files that overlap a part.
func (w *Writer) there(p *part) (map[Place]bool, error) {
	dir := filepath.Join(w.dir, p.key.folder())
	names, err := w.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	from, to := p.rows[0].record, p.rows[0].record
	for _, r := range p.rows {
		from, to = min(from, r.record), max(to, r.record)
	}
	there := map[Place]bool{}
	for _, name := range names {
		var first, last uint64
		var index int
		_, places, _ := strings.Cut(name, "-")
		if n, _ := fmt.Sscanf(places, "%d.%d-%d"+Extension, &first, &index, &last); n != 3 || last < from || first > to {
			continue
		}
		if err := w.read(filepath.Join(dir, name), there); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
		}
	}
	return there, nil
}

// read adds the places of a file.
func (w *Writer) read(name string, to map[Place]bool) (err error) {
	f, err := w.fs.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(f, size)
	if err != nil {
		return err
	}
	type place struct {
		Index  int64 `parquet:"index"`
		Record int64 `parquet:"record"`
	}
	r := parquet.NewGenericReader[place](file)
	defer func() { err = errors.Join(err, r.Close()) }()
	rows := make([]place, 1024)
	for {
		n, err := r.Read(rows)
		for _, x := range rows[:n] {
			to[Place{uint64(x.Record), int(x.Index)}] = true
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// remove takes events out of a part.
func (p *part) remove(these map[Place]bool) error {
	var view event.View
	rows, events, body := p.rows[:0], p.events[:0], p.events
	for _, at := range p.rows {
		n, err := view.Parse(body)
		if err != nil {
			return err
		}
		if !these[Place{at.record, at.index}] {
			rows, events = append(rows, at), append(events, body[:n]...)
		}
		body = body[n:]
	}
	p.rows, p.events = rows, events
	return nil
}
