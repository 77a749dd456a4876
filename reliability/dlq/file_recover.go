package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// spans is a set of line numbers as sorted ranges that do not touch.
type spans []span

func (s spans) has(n uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i][1] >= n })
	return i < len(s) && s[i][0] <= n
}

func (s spans) with(more []span) spans {
	if len(more) == 0 {
		return s
	}
	s = append(s, more...)
	order.By(s, func(a, b *span) int { return cmp.Compare(a[0], b[0]) })
	out := s[:1]
	for _, x := range s[1:] {
		if last := &out[len(out)-1]; x[0] <= last[1]+1 {
			last[1] = max(last[1], x[1])
			continue
		}
		out = append(out, x)
	}
	return out
}

// recover finds all segments and makes the index.
func (f *File) recover() error {
	leftovers, err := f.find()
	if err != nil {
		return err
	}
	for _, s := range f.segments {
		if err := f.checkVersion(s); err != nil {
			return err
		}
	}
	for _, name := range leftovers {
		if err := f.o.FS.Remove(name); err != nil {
			return err
		}
	}
	// A removal stands behind the entry that it removes: the newest segment comes first.
	var gone spans
	var ids []xxh3.Uint128
	kept := f.segments[:0:0]
	for i := len(f.segments) - 1; i >= 0; i-- {
		s := f.segments[i]
		above := uint64(0)
		if len(kept) > 0 {
			above = kept[len(kept)-1].first
		}
		there, err := f.load(s, len(kept) == 0, above, &gone, &ids)
		if err != nil {
			return err
		}
		if there {
			kept = append(kept, s)
		}
	}
	slices.Reverse(kept)
	f.segments = kept
	for _, s := range kept {
		if s.last < s.first && s.first < f.next { // not a line of it can be read
			s.first, s.last = f.next, f.next-1
		}
		f.next = max(f.next, s.last+1)
	}
	for _, id := range slices.Backward(ids) {
		f.known.add(id)
	}
	return nil
}

// checkVersion refuses a segment of a later version, before anything is changed. Any other
// damage to a head is judged by load.
func (f *File) checkVersion(s *segment) error {
	file, err := f.o.FS.Open(f.path(s))
	if err != nil {
		return err
	}
	head := make([]byte, segmentHead)
	n, _ := file.ReadAt(head, 0) // a short head is judged by load, too
	_, err = parseSegmentHead(head[:n], s.number)
	if version := (*VersionError)(nil); errors.As(err, &version) {
		version.Path = f.path(s)
		return errors.Join(version, file.Close())
	}
	return file.Close()
}

// find lists the segments and the remains of an interrupted compaction, and makes the entries of
// the folders durable.
func (f *File) find() (leftovers []string, err error) {
	days, err := f.o.FS.List(f.o.Dir)
	if err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(f.o.FS, f.o.Dir, SiteRecoverDir); err != nil {
		return nil, err
	}
	for _, day := range days {
		if _, err := time.Parse(dayFormat, day); err != nil {
			continue
		}
		dir := filepath.Join(f.o.Dir, day)
		names, err := f.o.FS.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".ndjson"+fsys.TempSuffix) {
				leftovers = append(leftovers, filepath.Join(dir, name))
			}
			var number uint64
			if _, err := fmt.Sscanf(name, "%d.ndjson", &number); err == nil && name == segmentName(number) {
				f.segments = append(f.segments, newSegment(number, day, 1))
			}
		}
		if err := fsys.SyncDir(f.o.FS, dir, SiteRecoverDir); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.segments, func(a, b *segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	for i := 1; i < len(f.segments); i++ {
		if a, b := f.segments[i-1], f.segments[i]; a.number == b.number {
			return nil, fmt.Errorf("two segments have the same number: %s and %s", f.path(a), f.path(b))
		}
	}
	return leftovers, nil
}

// load reads a segment into the index. Gone are the lines that later segments remove; ids
// are those of the last entries, the latest first. It reports false if the segment was
// begun and never finished, and is therefore removed.
func (f *File) load(s *segment, newest bool, above uint64, gone *spans, ids *[]xxh3.Uint128) (bool, error) {
	path := f.path(s)
	buf, err := readFile(f.o.FS, path, -1)
	if err != nil {
		return false, err
	}
	defer buffers.Put(buf)
	data := *buf
	var lines []line
	gaps, dense := scan(data, s.number, func(l *line) { lines = append(lines, *l) })
	first, err := parseSegmentHead(data, s.number)
	headErr := err
	switch {
	case len(data) == 0 && !newest:
		return false, nil // prepared, and left by a crash
	case headErr != nil && newest && len(lines) == 0 && len(data) >= segmentHead:
		return false, f.setAside(s, int64(len(data)))
	}
	if headErr != nil {
		torn := !slices.ContainsFunc(lines, func(l line) bool { return l.batch > segmentHead })
		gaps = slices.Insert(gaps, 0, gap{offset: 0, end: min(segmentHead, len(data)), torn: torn})
		first = above
		if len(lines) > 0 {
			first = lines[0].n
		}
	}
	size := len(data)
	if newest {
		// The rest of a line of kind s, which no sync waits for, is removed. Nothing else is: unreadable
		// data stays where it is, and the next segment is begun.
		if i := len(gaps) - 1; i >= 0 && gaps[i].torn && gaps[i].end == size && size-gaps[i].offset < syncedLine &&
			gaps[i].offset >= segmentHead {
			size = gaps[i].offset
			gaps = gaps[:i]
		}
		if there, err := f.makeDurable(s, int64(size), size < len(data)); err != nil || !there {
			return false, err
		}
	}
	count(gaps, data, first, above, dense)
	*s = *newSegment(s.number, s.day, max(1, first))
	s.size, s.gaps = int64(size), len(gaps)
	for i := range gaps {
		g := &gaps[i]
		switch {
		case g.torn && !newest && headErr != nil:
			g.torn = false // its last batch was synced before the next segment was begun
		case g.torn:
			f.o.Metrics.tornBytes.Add(g.end - g.offset)
			f.torn += int64(g.end - g.offset)
			continue
		}
		f.damage(Damage{Path: path, Offset: int64(g.offset), Bytes: int64(g.end - g.offset), Reason: "unreadable",
			Lost: g.lost, From: timeOf(g.from), To: timeOf(g.to)})
	}
	s.sealed = len(gaps) > 0
	var more []span
	for i := range lines {
		l := &lines[i]
		removes, err := l.removes()
		if err != nil {
			s.gaps++
			f.damage(Damage{Path: path, Offset: int64(l.offset), Bytes: int64(l.size), Reason: err.Error()})
		}
		more = append(more, removes...)
	}
	*gone = gone.with(more)
	for i := range lines {
		l := &lines[i]
		dead := gone.has(l.n)
		var key tallyKey
		if l.isEntry() && !dead {
			var err error
			if key, err = encodedKey(l.body); err != nil {
				s.gaps++
				f.damage(Damage{Path: path, Offset: int64(l.offset), Bytes: int64(l.size), Reason: "not an entry", Lost: 1,
					From: timeOf(l.saved), To: timeOf(l.saved)})
				dead = true
			}
			key = f.admit(key)
		}
		s.holds(l, key, dead)
	}
	for _, l := range slices.Backward(lines) {
		if l.isEntry() && len(*ids) < f.o.DedupIDs {
			*ids = append(*ids, hashID(string(encodedID(l.body))))
		}
	}
	return true, nil
}

// setAside renames the last segment if it is completely unreadable: either a crash interrupted its
// first write, or all of it is damaged. The two cannot be distinguished, so nothing is deleted.
func (f *File) setAside(s *segment, size int64) error {
	path := f.path(s)
	f.o.Metrics.tornBytes.Add(int(size))
	f.torn += size
	return fsys.ChangeDir(f.o.FS, filepath.Join(f.o.Dir, s.day), SiteRecoverDir, func() error {
		return f.o.FS.Rename(path, path+".torn")
	})
}

// timeOf is a time of saving, zero if there is none.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// makeDurable makes the last segment, which may have been in the middle of a write, durable as
// it is, or as it was before that write.
func (f *File) makeDurable(s *segment, size int64, cut bool) (there bool, err error) {
	dir := filepath.Join(f.o.Dir, s.day)
	if size < int64(segmentHead) {
		if err := f.o.FS.Remove(f.path(s)); err != nil {
			return false, err
		}
		return false, fsys.SyncDir(f.o.FS, dir, SiteRecoverDir)
	}
	file, err := f.o.FS.OpenReadWrite(f.path(s))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if cut {
		if err := file.Truncate(size); err != nil {
			return false, err
		}
	}
	return true, fsys.SyncFile(file, SiteRecover)
}
