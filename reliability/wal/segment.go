package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sloengine/sloengine/reliability/fsys"
)

const (
	formatVersion = 3
	oldestVersion = 2  // did not name the number of records of a batch
	segmentHead   = 40 // bytes before the first frame
	segmentMagic  = "sloe-wal"
	segmentSuffix = ".wal"
)

// segment is one file of the log. Its fields are written while it is created or surveyed, before it is in Log.segments,
// and do not change from then on, except for size and end. Readers keep a pointer to it beyond its removal from the
// list.
type segment struct {
	first    uint64 // number of its first record, also its name
	lostFrom uint64 // not 0: the records [lostFrom, first) were given up
	salt     uint32
	before   uint32 // salt of the segment before it, 0 if not known
	version  uint32
	path     string
	size     int64        // of the file, preallocated space included; guarded by Log.mu
	end      atomic.Int64 // behind its durable frames; stored by the writer before Log.durable, loaded without a lock
	bad      error        // of a head that cannot be used; while opening
	repaired error        // likewise, if it is known in spite of that
}

// start is the number at which the segment before this one ends.
//
// Without a loss it is the number of the segment's first record. Both of a segment's neighbours rely on it: the
// survey expects the segment in front to reach exactly up to it, and Truncate compares it with the bound.
func (s *segment) start() uint64 {
	if s.lostFrom != 0 {
		return s.lostFrom
	}
	return s.first
}

// counted is the number of records of a batch as it stands in the frames of the segment.
//
// A segment keeps the version that it was created with. A log that is continued by a newer program may append to an
// empty one of version 2, whose frames have zeros in that place.
func (s *segment) counted(n int) uint16 {
	if s.version == oldestVersion {
		return 0
	}
	return uint16(n)
}

// segmentName has 20 digits, which hold every 64-bit number, so that names sort like numbers.
func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// parseSegmentName is the inverse. A name in any other form is not a segment: markers, temporary copies of a
// salvage and folders lie beside them.
func parseSegmentName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// head encodes the head of a segment. See FORMAT.md.
//
// The head is written once, before the first record, and again only by a recovery. Its checksum starts from 0 and
// not from the salt, because the salt is in it.
func (s *segment) head() []byte {
	b := make([]byte, 0, segmentHead)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, s.version)
	b = binary.LittleEndian.AppendUint32(b, s.salt)
	b = binary.LittleEndian.AppendUint64(b, s.first)
	b = binary.LittleEndian.AppendUint64(b, s.lostFrom)
	b = binary.LittleEndian.AppendUint32(b, s.before)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b))
}

// errBadHead is wrapped with the problem of a segment's head.
var errBadHead = errors.New("segment head")

// readHead reads first, lostFrom and salt. The error wraps errBadHead, is a
// *VersionError, or is of the disk.
//
// The caller sets first from the name. A version that is not known is reported before first and lostFrom are
// looked at: a newer format may use these bytes for something else, and must not be called damaged.
func (s *segment) readHead(f fsys.File) error {
	var b [segmentHead]byte
	if n, err := f.ReadAt(b[:], 0); n < segmentHead {
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read head of %s: %w", s.path, err)
		}
		return fmt.Errorf("%w is cut off", errBadHead)
	}
	if string(b[:len(segmentMagic)]) != segmentMagic {
		return fmt.Errorf("%w: not a segment of this log", errBadHead)
	}
	if checksum(0, b[:36]) != binary.LittleEndian.Uint32(b[36:]) {
		return fmt.Errorf("%w: checksum does not match", errBadHead)
	}
	if s.version = binary.LittleEndian.Uint32(b[8:]); s.version < oldestVersion || s.version > formatVersion {
		return &VersionError{Segment: s.path, Version: s.version}
	}
	first, lostFrom := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	if first != s.first || lostFrom >= first {
		return fmt.Errorf("%w: begins with record %d, which is not what its name says", errBadHead, first)
	}
	s.lostFrom, s.salt, s.before = lostFrom, binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[32:])
	return nil
}

// createSegment makes a segment durable before a record goes in. On failure the file is
// removed and the caller must create a segment of the same name before it writes any
// record, since the removal itself may not survive.
//
// The segment that is returned is not in Log.segments yet. Its file is open for writing and belongs to the
// caller. After a failed sync the log must be poisoned, since it is not known whether the file exists.
func createSegment(o *Options, first, lostFrom uint64, before *segment, batchBytes int64) (*segment, fsys.File, error) {
	s, err := newSegment(o, first, lostFrom, before)
	if err != nil {
		return nil, nil, err
	}
	s.size = max(o.SegmentBytes, segmentHead+batchBytes)

	var f fsys.File
	// The file is synced before the folder. A crash in between leaves no segment, or one with a whole head; a file whose
	// name is durable and whose head is not would look like damage.
	err = fsys.ChangeDir(o.FS, o.Dir, fsys.SiteWALRoll, func() (err error) {
		if f, err = o.FS.Create(s.path); err != nil {
			return err
		}
		return s.fill(f)
	})
	if err != nil {
		if f != nil {
			_ = f.Close()
			_ = o.FS.Remove(s.path)
		}
		return nil, nil, fmt.Errorf("create segment %s: %w", s.path, passing(err))
	}
	o.Metrics.created.Inc()
	return s, f, nil
}

// newSegment describes a segment that is to be made; before may be nil.
//
// The salt is random so that frames of a deleted segment, which the file system may hand out again as unwritten
// blocks, and bytes that a sender has chosen, never pass for frames of this one. The salt of the segment before
// is stored so that the head of that one can be restored.
func newSegment(o *Options, first, lostFrom uint64, before *segment) (*segment, error) {
	s := &segment{first: first, lostFrom: lostFrom, version: formatVersion, path: filepath.Join(o.Dir, segmentName(first))}
	var salt [4]byte
	if _, err := rand.Read(salt[:]); err != nil {
		return nil, fmt.Errorf("salt a segment: %w", err)
	}
	s.salt = binary.LittleEndian.Uint32(salt[:])
	if before != nil {
		s.before = before.salt
	}
	s.end.Store(segmentHead)
	return s, nil
}

// fill reserves the space of a segment and writes its head. Reserving first means that a full disk is noticed here,
// where a batch can be refused, and that later syncs do not have to write the size of the file.
func (s *segment) fill(f fsys.File) error {
	if err := f.Preallocate(0, s.size); err != nil {
		return err
	}
	if _, err := f.WriteAt(s.head(), 0); err != nil {
		return err
	}
	return fsys.SyncFile(f, fsys.SiteWALSegment)
}

// passing adds ErrNoSpace or ErrNoFiles to an error that says no more than that.
//
// Both are conditions that end by themselves, so callers try again. Any other error is returned as it is.
func passing(err error) error {
	switch fsys.Classify(err) {
	case fsys.NoSpace:
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case fsys.NoFiles:
		return fmt.Errorf("%w: %w", ErrNoFiles, err)
	}
	return err
}
