package retained

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file holds the chain of erasures: a file of lines, each with the digest of the one before it. They say which
// blocks were changed, from what to what, and never what was erased.

// ChainName is the file of the chain. It is kept when the files that it names are deleted.
const ChainName = "erasures"

const chainVersion = 1

// link is a line of the chain: one erasure in one file.
type link struct {
	Version   int       `json:"version"`
	Before    string    `json:"before"` // digest of the line before it, "" for the first one
	Erasure   string    `json:"erasure"`
	Attribute string    `json:"attribute,omitempty"`
	Asked     time.Time `json:"asked"`
	File      uint64    `json:"file"` // number of its first record
	Frames    []Frame   `json:"frames"`
}

// Frame is a block that an erasure changed.
type Frame struct {
	First   uint64 `json:"first"`
	Records uint64 `json:"records"`
	Events  uint64 `json:"events"` // that were changed
	Old     string `json:"old"`    // SHA-256 of the records, before they are compressed
	New     string `json:"new"`
}

func (l *link) events() (n uint64) {
	for i := range l.Frames {
		n += l.Frames[i].Events
	}
	return n
}

// erasedBlocks has the changes of blocks by the number of their first record, in order.
type erasedBlocks map[uint64][]Frame

// erasedBlocks reads the chain. What follows a line that is damaged is not believed.
func (s *Source) erasedBlocks() (erasedBlocks, error) {
	data, err := readWhole(s.fs, filepath.Join(s.dir, ChainName))
	if err != nil {
		return nil, fmt.Errorf("read the chain of erasures: %w", err)
	}
	e := erasedBlocks{}
	_, err = readChain(data, func(l *link) {
		for _, f := range l.Frames {
			e[f.First] = append(e[f.First], f)
		}
	})
	if errors.Is(err, errDamaged) {
		err = nil
	}
	return e, err
}

// leads reports whether erasures made a block, as it was retained, what it is now.
func (e erasedBlocks) leads(b *Block, now string) bool {
	at := b.digest.String()
	for _, f := range e[b.First] {
		if f.Old == at {
			at = f.New
		}
	}
	return at == now
}

// chain is the state of the file.
type chain struct {
	size          int64
	last          string // digest of the last line
	erasure, file string // that it is about
}

// readChain checks a chain. A last line without its end is the leftover of a crash, and is not in size.
func readChain(data []byte, each func(*link)) (c chain, err error) {
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return c, nil
		}
		var l link
		if err := json.Unmarshal(line, &l); err != nil {
			return c, fmt.Errorf("%w: line %d of the chain of erasures: %w", errDamaged, n, err)
		}
		if l.Version > chainVersion {
			return c, fmt.Errorf("line %d of the chain of erasures has version %d, and this program reads %d: %w", n,
				l.Version, chainVersion, fsys.ErrNewer)
		}
		if l.Before != c.last {
			return c, fmt.Errorf("%w: line %d of the chain of erasures does not follow the one before it", errDamaged, n)
		}
		each(&l)
		c = chain{c.size + int64(len(line)) + 1, sumOf(line), l.Erasure, fileName(l.File)}
		data = rest
	}
}

// openChain reads the chain once. A damaged one is moved aside, and another begins.
func (s *Store) openChain() (*chain, error) {
	if s.erasures.chain != nil {
		return s.erasures.chain, nil
	}
	path := filepath.Join(s.o.Dir, ChainName)
	data, err := readWhole(s.o.FS, path)
	if err != nil {
		return nil, fmt.Errorf("read the chain of erasures: %w", err)
	}
	c, err := readChain(data, func(*link) {})
	if errors.Is(err, errDamaged) {
		aside := path + fsys.BrokenSuffix
		s.o.Logger.Error("the chain of erasures is damaged, another one begins", "moved_to", aside, "err", err)
		c, err = chain{}, s.o.FS.Rename(path, aside)
	}
	if err != nil {
		return nil, err
	}
	s.erasures.chain = &c
	return &c, nil
}

// readWhole reads a file. A missing one is empty.
func readWhole(fsys fsys.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	return data, readFull(f, data, 0)
}

// appendChain appends a line, durably, unless a process that was killed has appended it.
func (s *Store) appendChain(l *link) error {
	c, err := s.openChain()
	if err != nil {
		return err
	}
	if c.erasure == l.Erasure && c.file == fileName(l.File) {
		return nil
	}
	l.Version, l.Before = chainVersion, c.last
	line, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a line of the chain of erasures: %w", err)
	}
	path := filepath.Join(s.o.Dir, ChainName)
	f, err := s.o.FS.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.o.FS.Create(path)
	}
	if err != nil {
		return fmt.Errorf("open the chain of erasures: %w", err)
	}
	err = func() error {
		if err := f.Truncate(c.size); err != nil {
			return err
		}
		if _, err := f.WriteAt(append(line, '\n'), c.size); err != nil {
			return err
		}
		return fsys.SyncFile(f, SiteChain)
	}()
	if err = errors.Join(err, f.Close()); err != nil {
		s.erasures.chain = nil // what is on the disk is read again
		return fmt.Errorf("write the chain of erasures: %w", err)
	}
	if c.size == 0 {
		if err := fsys.SyncDir(s.o.FS, s.o.Dir, SiteChain); err != nil {
			return fmt.Errorf("sync the folder of the chain of erasures: %w", err)
		}
	}
	*c = chain{c.size + int64(len(line)) + 1, sumOf(line), l.Erasure, fileName(l.File)}
	return nil
}
