package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
)

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
func (c *checkpoints) takeIDs(ids *dedup.Capture) {
	for _, g := range ids.Generations {
		f := c.files[g.Number]
		if f == nil {
			f = &idFile{}
			c.files[g.Number] = f
		}
		f.waiting = append(f.waiting, g.Keys...)
	}
}

// writeIDs appends what was captured, now or by an earlier checkpoint that
// failed, to the files of the generations.
func (c *checkpoints) writeIDs(m *manifest, ids *dedup.Capture) (written int64, err error) {
	for _, g := range ids.Generations {
		f := c.files[g.Number]
		n, err := c.appendIDs(g.Number, f)
		if err != nil {
			return written, fmt.Errorf("write %s: %w", idsName(g.Number), err)
		}
		written += n
		if f.keys != uint64(g.Count) {
			return written, fmt.Errorf("%s holds %d ids instead of %d", idsName(g.Number), f.keys, g.Count)
		}
		m.generations = append(m.generations, savedGeneration{g.Number, g.Start, f.keys, f.length, f.crc})
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

// readIDs reads a generation back, as far as the manifest says and its blocks are whole,
// and says where they are not. Behind a damaged block it looks for the next whole one.
func readIDs(file fsys.File, saved savedGeneration, add func(key xxh3.Uint128)) (read uint64, bad []string, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, nil, err
	}
	buf := make([]byte, idBlockHead+idBlockKeys*dedup.KeyBytes)
	whole := func(offset, n int64) bool { // leaves them in buf
		if offset+n > min(size, saved.length) {
			return false
		}
		got, _ := file.ReadAt(buf[:n], offset)
		return int64(got) == n
	}
	if !whole(0, fileHead) {
		bad = append(bad, "the head cannot be read")
	} else if err := checkHead(buf[:fileHead], idsMagic); errors.Is(err, errNewerFormat) {
		return 0, nil, err
	} else if err != nil {
		bad = append(bad, err.Error())
	}
	crc := crc32.Update(0, crcTable, buf[:fileHead])
	from := int64(-1) // of the damage at hand
	for at := int64(fileHead); at < saved.length; {
		var count uint32
		if whole(at, idBlockHead) {
			count = binary.LittleEndian.Uint32(buf)
		}
		n := idBlockHead + int64(count)*dedup.KeyBytes
		if count == 0 || count > idBlockKeys || !whole(at, n) || crcOf(buf[idBlockHead:n]) != binary.LittleEndian.Uint32(buf[4:]) {
			if from < 0 {
				from = at
			}
			if at += idBlockHead; at >= size { // blocks begin at multiples of that
				at = saved.length
			}
			continue
		}
		if from >= 0 {
			bad = append(bad, fmt.Sprintf("bytes %d to %d cannot be read", from, at))
			from = -1
		}
		crc = crc32.Update(crc, crcTable, buf[:n])
		for keys := buf[idBlockHead:n]; len(keys) > 0; keys = keys[dedup.KeyBytes:] {
			add(xxh3.Uint128{Hi: binary.LittleEndian.Uint64(keys), Lo: binary.LittleEndian.Uint64(keys[8:])})
		}
		read += uint64(count)
		at += n
	}
	switch {
	case from >= 0:
		bad = append(bad, fmt.Sprintf("bytes %d to %d cannot be read", from, saved.length))
	case len(bad) == 0 && (crc != saved.crc || read != saved.keys):
		bad = append(bad, fmt.Sprintf("it holds %d ids instead of %d, or others", read, saved.keys))
	}
	return read, bad, nil
}
