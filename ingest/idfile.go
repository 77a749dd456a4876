package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// idCapture is what the known ids gained since the last capture, and where in
// the log they were then.
type idCapture struct {
	seq         uint64
	at          int64
	next        uint64
	generations []capturedGeneration // the older first
	epochs      map[string]uint64
}

type capturedGeneration struct {
	number uint64
	start  int64
	count  int // of all its keys
	keys   keyChunks
}

// capture hands over the keys that no capture had. The caller owns them.
func (ids *knownIDs) capture(seq uint64, at int64) *idCapture {
	c := &idCapture{seq: seq, at: at, next: ids.next, epochs: ids.epochs}
	for _, g := range []*idGeneration{ids.old, ids.young} {
		if g != nil {
			c.generations = append(c.generations, capturedGeneration{g.number, g.start, g.table.count, g.unsaved})
			g.unsaved = nil
		}
	}
	return c
}

// idFile is the file of one generation. It only grows, and counts only as far
// as a manifest says.
type idFile struct {
	file    fsys.File // nil until something is written
	length  int64
	crc     uint32 // over length bytes
	keys    uint64
	waiting [][]xxh3.Uint128 // captured, not yet written
}

// takeIDs takes over what was captured. The keys are nowhere else, so this
// comes before anything that can fail.
func (c *checkpoints) takeIDs(ids *idCapture) {
	for _, g := range ids.generations {
		f := c.files[g.number]
		if f == nil {
			f = &idFile{}
			c.files[g.number] = f
		}
		f.waiting = append(f.waiting, g.keys...)
	}
}

// writeIDs appends what was captured, now or by an earlier checkpoint that
// failed, to the files of the generations.
func (c *checkpoints) writeIDs(m *manifest, ids *idCapture) (written int64, err error) {
	for _, g := range ids.generations {
		f := c.files[g.number]
		n, err := c.appendIDs(g.number, f)
		if err != nil {
			return written, fmt.Errorf("write %s: %w", idsName(g.number), err)
		}
		written += n
		if f.keys != uint64(g.count) {
			return written, fmt.Errorf("%s holds %d ids instead of %d", idsName(g.number), f.keys, g.count)
		}
		m.generations = append(m.generations, savedGeneration{g.number, g.start, f.keys, f.length, f.crc})
	}
	return written, nil
}

func (c *checkpoints) appendIDs(number uint64, f *idFile) (written int64, err error) {
	if f.length > 0 && len(f.waiting) == 0 {
		return 0, nil
	}
	var b []byte
	if f.length == 0 {
		b = appendHead(b, idsMagic)
	}
	keys := f.keys
	for _, chunk := range f.waiting {
		keys += uint64(len(chunk))
		for len(chunk) > 0 {
			n := min(len(chunk), idBlockKeys)
			b = appendIDBlock(b, chunk[:n])
			chunk = chunk[n:]
		}
	}
	if f.file == nil {
		if err := c.openIDs(number, f); err != nil {
			return 0, err
		}
	}
	if _, err := f.file.WriteAt(b, f.length); err != nil {
		return 0, err
	}
	if err := fsys.SyncFile(f.file, SiteIDs); err != nil {
		return 0, err
	}
	f.length += int64(len(b))
	f.crc = crc32.Update(f.crc, crcTable, b)
	f.keys = keys
	f.waiting = nil
	return int64(len(b)), nil
}

// openIDs opens the file of a generation, or makes it. What an unfinished
// checkpoint left beyond its length is written over.
func (c *checkpoints) openIDs(number uint64, f *idFile) (err error) {
	path := c.path(idsName(number))
	if f.length > 0 {
		f.file, err = c.fs.OpenReadWrite(path)
		return err
	}
	err = fsys.ChangeDir(c.fs, c.dir, SiteIDsDir, func() (err error) {
		f.file, err = c.fs.Create(path)
		return err
	})
	if err != nil {
		f.file = nil
	}
	return err
}

// forgetIDs closes the file of a generation that is not needed any more.
func (c *checkpoints) forgetIDs(number uint64) error {
	f := c.files[number]
	delete(c.files, number)
	if f == nil || f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Close lets go of the files.
func (c *checkpoints) Close() error {
	var errs []error
	for number := range c.files {
		errs = append(errs, c.forgetIDs(number))
	}
	return errors.Join(errs...)
}

// appendIDBlock appends the number of keys, their checksum, and the keys.
func appendIDBlock(b []byte, keys []xxh3.Uint128) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, key := range keys {
		b = binary.LittleEndian.AppendUint64(b, key.Hi)
		b = binary.LittleEndian.AppendUint64(b, key.Lo)
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(keys)))
	binary.LittleEndian.PutUint32(b[at+4:], crcOf(b[at+idBlockHead:]))
	return b
}

// loadIDs reads a generation back, as far as the manifest says.
func (c *checkpoints) loadIDs(saved savedGeneration, bytes int64) (*idGeneration, *idFile, error) {
	name := idsName(saved.number)
	file, err := c.fs.OpenReadWrite(c.path(name))
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	g := &idGeneration{number: saved.number, start: saved.start, table: newIDTable(bytes)}
	if err := readIDs(file, saved, g.table); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: %w", name, err), file.Close())
	}
	return g, &idFile{file: file, length: saved.length, crc: saved.crc, keys: saved.keys}, nil
}

func readIDs(file fsys.File, saved savedGeneration, table *idTable) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	if saved.length < fileHead || saved.length > size || saved.keys > uint64(saved.length)/idKeyBytes {
		return fmt.Errorf("has %d bytes, not %d", size, saved.length)
	}
	buf := make([]byte, idBlockHead+idBlockKeys*idKeyBytes)
	next := func(offset int64, n int) ([]byte, error) {
		b := buf[:n]
		if offset+int64(n) > saved.length {
			return nil, fmt.Errorf("block at offset %d does not fit", offset)
		}
		if got, err := file.ReadAt(b, offset); got < n {
			return nil, fmt.Errorf("read at offset %d: %w", offset, err)
		}
		return b, nil
	}
	head, err := next(0, fileHead)
	if err != nil {
		return err
	}
	if err := checkHead(head, idsMagic); err != nil {
		return err
	}
	crc := crc32.Update(0, crcTable, head)
	table.reserve(int(saved.keys))
	for at := int64(fileHead); at < saved.length; {
		head, err := next(at, idBlockHead)
		if err != nil {
			return err
		}
		crc = crc32.Update(crc, crcTable, head)
		count, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
		if count == 0 || count > idBlockKeys {
			return fmt.Errorf("block at offset %d: %d keys", at, count)
		}
		at += idBlockHead
		keys, err := next(at, int(count)*idKeyBytes)
		if err != nil {
			return err
		}
		if crcOf(keys) != sum {
			return fmt.Errorf("block at offset %d: checksum does not match", at-idBlockHead)
		}
		crc = crc32.Update(crc, crcTable, keys)
		at += int64(len(keys))
		for ; len(keys) > 0; keys = keys[idKeyBytes:] {
			table.add(xxh3.Uint128{Hi: binary.LittleEndian.Uint64(keys), Lo: binary.LittleEndian.Uint64(keys[8:])})
		}
	}
	if crc != saved.crc {
		return errors.New("checksum of the whole does not match")
	}
	if uint64(table.count) != saved.keys {
		return fmt.Errorf("holds %d ids instead of %d", table.count, saved.keys)
	}
	return nil
}
