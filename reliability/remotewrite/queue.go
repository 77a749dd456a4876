package remotewrite

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
)

const (
	// magic begins a file: its form and version.
	magic = "slorw1\n"
	// fileSuffix ends the names of files, which are the time stamp of the samples in milliseconds, and their number.
	fileSuffix = ".samples"
	// maxFile bounds what is read of a file: ten times what 100,000 groups take.
	maxFile = 1 << 30
)

var table = crc32.MakeTable(crc32.Castagnoli)

// shot is one file of the queue.
type shot struct {
	ms      int64
	samples int
	bytes   int64
}

func (s shot) at() time.Time { return time.UnixMilli(s.ms) }

// queue is the files that are not sent yet, oldest first.
type queue struct {
	dir string

	mu      sync.Mutex // guards the fields below
	shots   []shot
	bytes   int64
	sending int64 // time stamp of the file that is being sent; 0: none is
}

// openQueue finds what an earlier process left.
func openQueue(dir string) (*queue, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	q := &queue{dir: dir}
	for _, e := range entries {
		s, ok := parseName(e.Name())
		if !ok {
			if strings.HasSuffix(e.Name(), fileSuffix+fsys.TempSuffix) {
				_ = os.Remove(filepath.Join(dir, e.Name())) // of a crash; a leftover does no harm
			}
			continue
		}
		if info, err := e.Info(); err == nil {
			s.bytes = info.Size()
			q.shots = append(q.shots, s)
			q.bytes += s.bytes
		}
	}
	order.By(q.shots, func(a, b *shot) int { return cmp.Compare(a.ms, b.ms) })
	return q, nil
}

func (q *queue) name(s shot) string {
	return filepath.Join(q.dir, fmt.Sprintf("%d-%d%s", s.ms, s.samples, fileSuffix))
}

func parseName(name string) (s shot, ok bool) {
	text, ok := strings.CutSuffix(name, fileSuffix)
	ms, samples, both := strings.Cut(text, "-")
	var err, err2 error
	s.ms, err = strconv.ParseInt(ms, 10, 64)
	s.samples, err2 = strconv.Atoi(samples)
	return s, ok && both && err == nil && err2 == nil && s.ms > 0 && s.samples >= 0
}

// put saves chunks durably.
func (q *queue) put(ms int64, chunks []chunk) error {
	b := []byte(magic)
	s := shot{ms: ms}
	for _, c := range chunks {
		s.samples += c.samples
		b = binary.AppendUvarint(b, uint64(c.samples))
		b = binary.AppendUvarint(b, uint64(len(c.body)))
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(c.body, table))
		b = append(b, c.body...)
	}
	if err := fsys.Replace(fsys.OS(), q.name(s), b); err != nil {
		return err
	}
	s.bytes = int64(len(b))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shots = append(q.shots, s)
	q.bytes += s.bytes
	return nil
}

var errDamaged = errors.New("the file is damaged")

// get reads the chunks of a file: those before the damage, if there is one.
func (q *queue) get(s shot) (out []chunk, err error) {
	b, err := fsys.ReadFile(q.name(s), maxFile)
	if err != nil {
		return nil, err
	}
	b, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		return nil, errDamaged
	}
	for len(b) > 0 {
		samples, n := binary.Uvarint(b)
		if n <= 0 {
			return out, errDamaged
		}
		size, m := binary.Uvarint(b[n:])
		if b = b[n:]; m <= 0 || uint64(len(b)-m) < 4 || size > uint64(len(b)-m-4) {
			return out, errDamaged
		}
		sum, body := binary.LittleEndian.Uint32(b[m:]), b[m+4:m+4+int(size)]
		if crc32.Checksum(body, table) != sum {
			return out, errDamaged
		}
		out, b = append(out, chunk{int(samples), body}), b[m+4+int(size):]
	}
	return out, nil
}

// next returns the first file, which is then the one being sent until it is removed.
func (q *queue) next() (s shot, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.shots) == 0 {
		return s, false
	}
	q.sending = q.shots[0].ms
	return q.shots[0], true
}

// span returns the time stamps of the first and of the last file, 0 without one, and the bytes of all.
func (q *queue) span() (oldest, newest, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.shots) == 0 {
		return 0, 0, 0
	}
	return q.shots[0].ms, q.shots[len(q.shots)-1].ms, q.bytes
}

// surplus forgets the oldest files beyond a number of bytes, without the one that is being sent.
func (q *queue) surplus(most int64) (out []shot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shots = slices.DeleteFunc(q.shots, func(s shot) bool {
		if q.bytes <= most || s.ms == q.sending {
			return false
		}
		out = append(out, s)
		q.bytes -= s.bytes
		return true
	})
	return out
}

// remove deletes a file. One that cannot be deleted is forgotten all the same: after a restart it is sent again, which
// changes nothing, or is too old.
func (q *queue) remove(s shot) error {
	q.mu.Lock()
	if i := slices.IndexFunc(q.shots, func(o shot) bool { return o.ms == s.ms }); i >= 0 {
		q.bytes -= q.shots[i].bytes
		q.shots = slices.Delete(q.shots, i, i+1)
	}
	if q.sending == s.ms {
		q.sending = 0
	}
	q.mu.Unlock()
	if err := os.Remove(q.name(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
