package dlq

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// scanBudget is how many bytes of files one page may cost.
const scanBudget = 64 << 20

// view is a copy of the parts of a segment that a reader needs.
type view struct {
	number, first, last uint64
	path                string
	clean               bool
	dead                bits
	data                *[]byte // goes back to buffers
}

// take reads the next segment in the direction of q that may hold an answer.
func (f *File) take(q *Query, at position) (v view, ok bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return v, false, ErrClosed
	}
	for i := range f.segments {
		s := f.segments[i]
		if q.Newest {
			s = f.segments[len(f.segments)-1-i]
		}
		if at.begun && (!q.Newest && s.last <= at.n || q.Newest && s.first >= at.n) || !s.mayMatch(q) {
			continue
		}
		v = view{number: s.number, path: f.path(s), first: s.first, last: s.last, clean: s.gaps == 0,
			dead: slices.Clone(s.dead)}
		v.data, err = f.read(s)
		return v, err == nil, err
	}
	return v, false, nil
}

func (s *segment) mayMatch(q *Query) bool {
	if s.live == 0 || !q.To.IsZero() && s.oldest >= q.To.UnixMilli()+1 ||
		!q.From.IsZero() && s.newest < q.From.UnixMilli() {
		return false
	}
	for key := range s.tallies {
		if q.matchKey(key) {
			return true
		}
	}
	return false
}

// List implements Store. A page costs at most about 64 MiB of reading.
func (f *File) List(ctx context.Context, q Query) (Page, error) {
	q, at, err := q.normal()
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: []Entry{}}
	numbers := map[string]uint64{}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for id, n := range numbers {
			f.locate(id, n)
		}
	}()
	for spent := 0; ; {
		if err := ctx.Err(); err != nil {
			return Page{}, err
		}
		v, ok, err := f.take(&q, at)
		if err != nil || !ok {
			return page, err
		}
		spent += len(*v.data)
		last, full, strange := v.page(&q, at, &page, numbers)
		buffers.Put(v.data)
		for _, d := range strange {
			f.damage(d)
		}
		switch {
		case full:
			page.Next = cursor(last, q.Newest)
			return page, nil
		case q.Newest:
			at = position{v.first, true}
		default:
			at = position{v.last, true}
		}
		if spent >= scanBudget {
			page.Next = cursor(at.n, q.Newest)
			return page, nil
		}
	}
}

// page adds the matching entries of one segment. It reports whether there is more than fits, and
// the number of the last entry that did.
func (v *view) page(q *Query, at position, page *Page, numbers map[string]uint64) (last uint64,
	full bool, strange []Damage) {
	last = at.n
	visit := func(l *line) bool {
		if !l.isEntry() || at.passed(l.n, q.Newest) || v.dead.has(l.n-v.first) ||
			!q.matchTime(time.UnixMilli(l.saved)) || !q.mayMatch(l.body) {
			return true
		}
		e, decodeErr := decodeEntry(l.body)
		if decodeErr != nil { // nothing that this program wrote
			strange = append(strange, Damage{Path: v.path, Offset: int64(l.offset), Bytes: int64(l.size),
				Reason: decodeErr.Error(), Lost: 1, From: timeOf(l.saved), To: timeOf(l.saved)})
			return true
		}
		if !q.Match(&e) {
			return true
		}
		if len(page.Entries) == q.Limit {
			full = true
			return false
		}
		page.Entries = append(page.Entries, e)
		numbers[e.ID] = l.n
		last = l.n
		return true
	}
	if !q.Newest {
		eachLine(*v.data, v.number, v.clean, visit)
		return last, full, strange
	}
	var lines []line
	eachLine(*v.data, v.number, v.clean, func(l *line) bool { lines = append(lines, *l); return true })
	for i := range slices.Backward(lines) {
		if !visit(&lines[i]) {
			break
		}
	}
	return last, full, strange
}

// Get implements Store.
func (f *File) Get(ctx context.Context, id string) (Entry, error) {
	if checkID(id) != nil {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return Entry{}, ErrClosed
	}
	var found *Entry
	err := f.search(ctx, []string{id}, func(_ *segment, l *line) error {
		e, err := decodeEntry(l.body)
		found = &e
		return err
	}, nil)
	if err != nil {
		return Entry{}, err
	}
	if found == nil {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return *found, nil
}

// segmentOf is the segment that a line number belongs to, or nil.
func (f *File) segmentOf(n uint64) *segment {
	i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].first > n }) - 1
	if i < 0 || n > f.segments[i].last {
		return nil
	}
	return f.segments[i]
}

// search calls found for one living line of every ID that there is, segment by segment,
// and done, if it is not nil, with the bytes of every segment in which something was
// found. The caller holds mu, or has the turn.
func (f *File) search(ctx context.Context, ids []string, found func(*segment, *line) error,
	done func(*segment, []byte) error) error {
	missing := make(map[string]bool, len(ids))
	for _, id := range ids {
		if checkID(id) == nil {
			missing[id] = true
		}
	}
	look := func(s *segment) (err error) {
		buf, err := f.read(s)
		if err != nil {
			return err
		}
		defer buffers.Put(buf)
		hits := 0
		eachLine(*buf, s.number, s.gaps == 0, func(l *line) bool {
			if l.isEntry() && missing[string(encodedID(l.body))] && !s.isDead(l.n) {
				delete(missing, string(encodedID(l.body)))
				hits++
				err = found(s, l)
			}
			return err == nil && (len(missing) > 0 || done != nil)
		})
		if err == nil && hits > 0 && done != nil {
			err = done(s, *buf)
		}
		return err
	}
	looked := map[*segment]bool{}
	for _, id := range ids { // where they were last seen
		if s := f.segmentOf(f.located[id]); s != nil && missing[id] && !looked[s] {
			looked[s] = true
			if err := errorsFirst(ctx.Err(), look, s); err != nil {
				return err
			}
		}
	}
	for _, s := range f.segments {
		if len(missing) == 0 {
			return nil
		}
		if looked[s] || s.live == 0 {
			continue
		}
		for id := range missing {
			if s.bloom.may(hashID(id)) {
				if err := errorsFirst(ctx.Err(), look, s); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

func errorsFirst(err error, look func(*segment) error, s *segment) error {
	if err != nil {
		return err
	}
	return look(s)
}

// Snapshot opens every segment and gives it to add, by its path below the folder, with the bytes
// that are written. No write is under way meanwhile. The files are the receiver's to close. They
// stay as they are: compaction replaces a segment by another file.
func (f *File) Snapshot(ctx context.Context, add func(name string, size int64, file fsys.File)) error {
	if err := f.own(ctx); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, s := range f.segments {
		file, err := f.o.FS.Open(f.path(s))
		if err != nil {
			return fmt.Errorf("open dead letters: %w", err)
		}
		add(filepath.Join(s.day, segmentName(s.number)), s.size, file)
	}
	return nil
}
