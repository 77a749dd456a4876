package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// survey is the content of a log, as found by reading all of it. Making one changes nothing, neither on the disk nor
// in the Log: whether damage is accepted is decided afterwards.
//
// It walks the segments from the oldest to the last. At any moment it stands behind the last record that it could
// account for, and the next record is either that one's successor or the end of a gap. A gap stays open until a
// record follows that is proven to be usable.
type survey struct {
	l    *Log
	mark mark    // the lower bound of the durable end
	sc   scanner // reused for all segments

	segments      []*segment // with a head that is good, or known in spite of it; ascending
	uninitialized *segment   // the last one, if its creation was cut short
	superseded    []superseded
	gaps          []*gap

	// Where the walk stands.
	next uint64 // number of the record that must come next
	rule uint16 // of the last usable record
	time int64  // likewise
	seq  uint64 // of the last usable record, 0 if there is none
	cur  *piece // grows with every record; nil at the beginning of a segment and behind a gap
	open *gap   // no usable record has come behind it yet

	end, batchAt int64    // in the last segment: behind the last record, and where its batch begins
	last         frame    // head of the last usable record
	before       standing // where the walk stood in front of the batch of the last record
	used         int64    // end of the non-zero bytes
}

// standing is a place in the walk to which it can return: the end of a batch with no gap behind it.
type standing struct {
	ok   bool
	next uint64
	rule uint16
	time int64
	seq  uint64
	cur  *piece
	at   int64 // in the segment, behind the last record
}

// superseded is a segment that holds only records that were given up.
type superseded struct {
	s  *segment
	by *segment
}

// gap is a run of records that cannot be used.
//
// An operator reads its CorruptError, which is complete once the walk has passed the gap. above differs from
// LastSeq at the end of a log, where the number of records is unknown: LastSeq is the last that is certainly
// missing, above the last that is possible.
type gap struct {
	*CorruptError
	next  *piece // the records behind it; nil if there are none
	above uint64 // no record in it has a higher number
}

// piece is a run of usable records of one segment: [first, next), at [from, to).
//
// Pieces exist so that an accepted loss can copy the records behind a gap without reading the segment from
// its beginning again.
type piece struct {
	seg         *segment
	first, next uint64
	from, to    int64
}

// survey walks the whole log and returns its findings. An error is one of the disk or a *VersionError. Damage is
// not an error here: it is listed in gaps.
func (l *Log) survey() (*survey, error) {
	v := &survey{l: l, mark: l.mark.found}
	segments, err := listSegments(l.o.FS, l.o.Dir)
	if err != nil {
		return nil, err
	}
	if segments, err = v.heads(segments); err != nil {
		return nil, err
	}
	v.next = 1
	if len(segments) > 0 {
		v.next = segments[0].start()
	}
	for i, s := range segments {
		stop := uint64(0)
		switch {
		case i+1 < len(segments):
			stop = segments[i+1].start()
		case v.uninitialized != nil:
			stop = v.uninitialized.first
		}
		if s.bad != nil {
			if err := v.unreadable(s, stop); err != nil {
				return nil, err
			}
			continue
		}
		// The records between were given up before.
		v.next, v.cur = max(v.next, s.first), nil
		if err := l.withFile(s, func(f fsys.File) error { return v.scan(f, s, stop) }); err != nil {
			return nil, err
		}
		v.segments = append(v.segments, s)
	}
	// Without the mark, a log whose end was cut off could not be distinguished from a shorter one.
	if v.next <= v.mark.seq {
		at := filepath.Join(l.o.Dir, segmentName(v.next))
		if n := len(v.segments); n > 0 {
			at = v.segments[n-1].path
		}
		v.missing(v.mark.seq, at, v.end, fmt.Sprintf("the log ends here, but it was durable up to record %d", v.mark.seq))
	}
	return v, nil
}

// heads reads the heads of all segments and drops those that hold nothing of the log.
//
// A segment that it drops is either superseded, because a later head says that its records were given up, or
// uninitialized. The former can only be recognised by the heads behind it, so the walk goes backwards.
func (v *survey) heads(segments []*segment) ([]*segment, error) {
	for _, s := range segments {
		err := v.l.withFile(s, func(f fsys.File) (err error) {
			if s.size, err = f.Size(); err != nil {
				return fmt.Errorf("size of %s: %w", s.path, err)
			}
			return s.readHead(f)
		})
		if err != nil && !errors.Is(err, errBadHead) {
			return nil, err
		}
		s.bad = err
	}
	if n := len(segments); n > 0 && segments[n-1].bad != nil {
		uninitialized, err := v.l.isUninitialized(segments[n-1])
		if err != nil {
			return nil, err
		}
		// Where it did hold records, they are missed below.
		if uninitialized {
			v.uninitialized, segments = segments[n-1], segments[:n-1]
		}
	}
	// From the last to the first: a segment whose head names lost records decides about the ones in front of it, which a
	// crash during an accepted loss may have left in place.
	var by *segment
	kept := segments[:0:0]
	for i := len(segments) - 1; i >= 0; i-- {
		s := segments[i]
		if by != nil && s.first >= by.start() {
			v.superseded = append(v.superseded, superseded{s, by})
			continue
		}
		if s.bad != nil {
			if err := v.deduceHead(s, by); err != nil {
				return nil, err
			}
		}
		kept = append(kept, s)
		if s.bad == nil {
			by = s
		}
	}
	slices.Reverse(kept)
	return kept, nil
}

// deduceHead finds the salt of a segment whose head is damaged: in the head itself, in
// the head of the segment behind it, in the marker, or from the first frame, which lies
// at a place that no sender can choose. It is right if the first frame is whole with it.
func (v *survey) deduceHead(s, behind *segment) error {
	return v.l.withFile(s, func(f fsys.File) error {
		var head [segmentHead + frameHead]byte
		n, err := f.ReadAt(head[:], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read head of %s: %w", s.path, err)
		}
		if n < len(head) {
			return nil
		}
		first := head[segmentHead:]
		salts := []uint32{
			binary.LittleEndian.Uint32(head[12:]), startOfChecksum(binary.LittleEndian.Uint32(first), first[4:frameHead])}
		if behind != nil {
			salts = append(salts, behind.before)
		}
		if v.mark.segment == s.first {
			salts = append(salts, v.mark.salt)
		}
		for i, salt := range salts {
			var fr frame
			v.sc.open(f, salt, segmentHead)
			_, reason, err := v.sc.next(s.size, s.first, &fr)
			if err != nil {
				return fmt.Errorf("read segment %s: %w", s.path, err)
			}
			// One that was read, not computed, may be proven by any other frame.
			if reason == "" || i != 1 && v.holds(f, s, salt) {
				s.salt, s.version, s.repaired, s.bad = salt, formatVersion, s.bad, nil
				return nil
			}
		}
		return nil
	})
}

// holds reports whether the segment has a whole frame with this salt.
func (v *survey) holds(f fsys.File, s *segment, salt uint32) bool {
	data, _, err := readSegment(f, s.size)
	if err != nil || len(data) < segmentHead {
		return false
	}
	_, _, found := nextFrame(data[segmentHead:], salt, s.first-1, 0)
	return found
}

// unreadable is a segment of which not even the head is known. Without its salt no frame in it can be checked, so all
// of its records are missing: up to the next segment, or as many as fit into its bytes.
func (v *survey) unreadable(s *segment, stop uint64) error {
	last := stop - 1
	if stop == 0 {
		var used int64
		err := v.l.withFile(s, func(f fsys.File) (err error) {
			used, err = usedBytes(f, s.size)
			return err
		})
		if err != nil {
			return err
		}
		last = max(v.mark.seq, lastPossible(s.first, used))
	}
	v.missing(last, s.path, 0, s.bad.Error())
	return nil
}

// lastPossible is the highest number that a record can have, of those from first on
// that take so many bytes.
func lastPossible(first uint64, bytes int64) uint64 {
	return first + uint64(max(0, bytes)+frameHead-1)/frameHead
}

// scan reads a segment up to the record before stop, or all of the last one.
//
// Between two segments the name of the next one is the authority on where this one ends. In the last segment the
// marker is: a bad frame in front of the record that it names is damage, and one behind it is damage only if a
// later batch was begun. A batch is begun only after the one before it was synced, so a frame of a later batch
// proves that the bad bytes had been durable.
func (v *survey) scan(f fsys.File, s *segment, stop uint64) error {
	v.sc.open(f, s.salt, segmentHead)
	v.batchAt = segmentHead
	var data []byte // all of the file, once something is bad
	var reason string
	for stop == 0 || v.next < stop {
		var fr frame
		at := v.sc.off
		var err error
		if _, reason, err = v.sc.next(s.size, v.next, &fr); err != nil {
			return fmt.Errorf("read segment %s at offset %d: %w", s.path, at, err)
		}
		if reason == "" {
			v.record(s, &fr, at)
			continue
		}
		// The whole file is read only now: an undamaged log is scanned through a window of half a MiB.
		if data == nil {
			if data, v.used, err = readSegment(f, s.size); err != nil {
				return fmt.Errorf("read segment %s: %w", s.path, err)
			}
		}
		// Nothing but zeros: the regular end.
		if v.used <= at {
			reason = ""
			break
		}
		rest := data[at:]
		// A batch whose sync never returned: no later one was begun, and the marker does
		// not know it.
		if stop == 0 && v.next > v.mark.seq && !laterBatch(rest, s.salt, v.next) {
			reason = ""
			break
		}
		i, seq, found := nextFrame(rest, s.salt, v.next, stop)
		if !found {
			break
		}
		v.missing(seq-1, s.path, at, reason)
		v.sc.open(f, s.salt, at+int64(i))
	}
	v.end = v.sc.off
	if stop == 0 && reason == "" {
		v.dropPartialBatch()
	}
	s.end.Store(v.end)
	// Another segment follows: its name says how far this one must reach. In the last segment only the bytes behind the
	// bad frame bound the number of records that can have been there.
	if stop > v.next {
		v.missing(stop-1, s.path, v.end,
			cmp.Or(reason, fmt.Sprintf("segment ends here, but the next one begins with record %d", stop)))
	} else if stop == 0 && reason != "" {
		above := lastPossible(v.next, v.used-v.end)
		v.missing(max(v.next, v.mark.seq), s.path, v.end, reason)
		v.open.above = max(v.open.above, above)
	}
	return nil
}

// dropPartialBatch returns to the end of the batch before the last one if the last one is not whole. Its records
// were not acknowledged, and they only make sense together. Records up to the marker were synced, so they stay.
//
// A batch that follows a gap stays for now: the survey after the loss was accepted finds it without one.
func (v *survey) dropPartialBatch() {
	b := &v.before
	if v.last.count == 0 || v.last.delta+1 >= v.last.count || !b.ok || b.next <= v.mark.seq || v.last.batch() != b.next {
		return
	}
	v.next, v.rule, v.time, v.seq, v.cur = b.next, b.rule, b.time, b.seq, b.cur
	if v.cur != nil {
		v.cur.next, v.cur.to = b.next, b.at
	}
	v.end, v.batchAt = b.at, b.at // the batch in front of it was synced before this one was begun
}

// record takes note of a whole record at an offset of a segment.
func (v *survey) record(s *segment, f *frame, at int64) {
	if f.delta == 0 {
		v.before = standing{v.open == nil, f.seq, v.rule, v.time, v.seq, v.cur, at}
	}
	v.last = *f
	v.next = f.seq + 1
	// Readable is not enough behind a gap: if a rule was lost in it, the record would be read by the wrong one.
	g := v.open
	if g != nil && !v.proven(g, f) {
		g.Unproven = f.seq
		g.above = max(g.above, f.seq)
		return
	}
	if v.cur == nil {
		v.cur = &piece{seg: s, first: f.seq, from: at}
	}
	if g != nil {
		g.next, g.Before, v.open = v.cur, f.time, nil
	}
	if f.delta == 0 { // the start of the last batch, which a start writes again
		v.batchAt = at
	}
	v.cur.next, v.cur.to = v.next, v.sc.off
	v.rule, v.time, v.seq = f.rule, f.time, f.seq
}

// proven reports whether the record behind a gap can be read as it was meant: no rule
// was lost in the gap, or the record is one itself.
func (v *survey) proven(g *gap, f *frame) bool {
	o := &v.l.o
	return o.RuleType == 0 || f.typ == o.RuleType || g.LastSeq <= o.Covered || f.rule != 0 && f.rule == v.rule
}

// missing says that the records from the next one up to last are not there.
//
// An open gap grows: damage after a gap without a usable record in between belongs to the same loss.
func (v *survey) missing(last uint64, segment string, offset int64, reason string) {
	if g := v.open; g != nil {
		g.LastSeq = last
	} else {
		v.open = &gap{CorruptError: &CorruptError{
			Segment: segment, Offset: offset, Seq: v.next, LastSeq: last, After: v.time, Reason: reason,
		}}
		v.gaps = append(v.gaps, v.open)
	}
	v.open.above = max(v.open.above, last)
	v.next, v.cur = last+1, nil
}

// corrupt is the error for all gaps.
//
// The first gap is the error itself, and the others follow in More, in the order of the log.
func (v *survey) corrupt() *CorruptError {
	c := *v.gaps[0].CorruptError
	for _, g := range v.gaps[1:] {
		c.More = append(c.More, g.CorruptError)
	}
	return &c
}

// readSegment reads a whole file, and says behind which byte there are only zeros.
func readSegment(f fsys.File, size int64) (data []byte, used int64, err error) {
	if used, err = usedBytes(f, size); err != nil {
		return nil, 0, err
	}
	data = make([]byte, size)
	if n, err := f.ReadAt(data[:used], 0); int64(n) < used {
		return nil, 0, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return data, used, nil
}
