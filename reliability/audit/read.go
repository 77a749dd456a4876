package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Query picks entries. Empty fields pick all.
type Query struct {
	Action string    // or its prefix, up to a dot: dlq picks dlq.replay
	Token  string    // name
	From   time.Time // and later
	Before uint64    // entries with a smaller number; 0: from the newest on
	Limit  int       // of the answer
}

func (q *Query) picks(e *Entry) bool {
	action := q.Action == "" || e.Action == q.Action || strings.HasPrefix(e.Action, q.Action+".")
	return action && (q.Token == "" || e.Token == q.Token) && (q.Before == 0 || e.Seq < q.Before)
}

// Read lists entries, the newest first. more reports whether there are others behind the last one.
func (l *Log) Read(q Query) (list []Entry, more bool, err error) {
	l.mu.Lock()
	numbers, size, pending := slices.Clone(l.numbers), l.size, slices.Clone(l.pending)
	if l.file == nil {
		size = -1 // a sync failed: the last file is read as far as possible
	}
	l.mu.Unlock()
	last := uint64(math.MaxUint64)
	take := func(e *Entry) (done bool) {
		if e.Seq >= last {
			return false // written again after a sync that failed
		}
		last = e.Seq
		if !q.From.IsZero() && e.Time.Before(q.From) {
			return true
		}
		if q.picks(e) {
			if more = len(list) == q.Limit; more {
				return true
			}
			list = append(list, *e)
		}
		return false
	}
	for _, e := range slices.Backward(pending) {
		if take(&e) {
			return list, more, nil
		}
	}
	for i, number := range slices.Backward(numbers) {
		most := int64(-1)
		if i == len(numbers)-1 {
			most = size // a write may be in progress behind it
		}
		data, err := l.read(number, most)
		if errors.Is(err, fs.ErrNotExist) {
			break // removed meanwhile
		} else if err != nil {
			return nil, false, err
		}
		for e := range backward(data) {
			if take(&e) {
				return list, more, nil
			}
		}
	}
	return list, false, nil
}

// read reads a file up to a size; all of it if that is negative.
func (l *Log) read(number int, most int64) (data []byte, err error) {
	f, err := l.o.FS.Open(l.name(number))
	if err != nil {
		return nil, err
	}
	if most < 0 {
		most = math.MaxInt64
	}
	data, err = io.ReadAll(io.LimitReader(f, most))
	return data, errors.Join(err, f.Close())
}

// backward yields the entries of a file, the last one first. It skips an invalid line, which the disk
// damaged.
func backward(data []byte) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for len(data) > 0 {
			data = bytes.TrimSuffix(data, []byte("\n"))
			at := bytes.LastIndexByte(data, '\n') + 1
			var e Entry
			if json.Unmarshal(data[at:], &e) == nil && e.Seq > 0 && !yield(e) {
				return
			}
			data = data[:at]
		}
	}
}
