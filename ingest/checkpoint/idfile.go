package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file stores the ids of the deduplication table: one append-only file per generation, in blocks with
// checksums of their own. Appending keeps the cost of a checkpoint in proportion to the new ids, where a table of
// up to 512 MiB would be written each time.

// idFile is the file of one generation of ids. It only grows, and counts only up to the length in a manifest, so an
// append that a crash cut off does no harm.
//
// length, crc and keys describe the same prefix of the file and change together, after its sync. A failed append
// changes none of them, and the next one overwrites its remains.
type idFile struct {
	file    fsys.File // nil until something is written
	length  int64     // written and synced
	crc     uint32    // over length bytes
	keys    uint64
	waiting [][]xxh3.Uint128 // captured and not written yet; a failed write leaves them here for the next checkpoint
}

// takeIDs takes over the captured ids. The table does not hand the keys out again, so this comes before anything that
// can fail.
//
// An id that was handed out and is not waiting here would be in no checkpoint. It would be recognised until the
// next restart only, and a resend after that would count twice.
func (s *Store) takeIDs(ids *dedup.Capture) {
	for _, g := range ids.Generations {
		f := s.files[g.Number]
		if f == nil {
			f = &idFile{}
			s.files[g.Number] = f
		}
		f.waiting = append(f.waiting, g.Keys...)
	}
}

// writeIDs appends the ids captured now, or for an earlier checkpoint that failed, to the files of the generations.
//
// The count is compared with that of the table, since a difference would be found only at the next start, as
// damage.
func (s *Store) writeIDs(m *manifest, ids *dedup.Capture) (written int64, err error) {
	for _, g := range ids.Generations {
		f := s.files[g.Number]
		n, err := s.appendIDs(g.Number, f)
		if err != nil {
			return written, fmt.Errorf("write %s: %w", idsName(g.Number), err)
		}
		written += n
		if f.keys != uint64(g.Count) {
			return written, fmt.Errorf("%s holds %d ids, the table has %d", idsName(g.Number), f.keys, g.Count)
		}
		m.generations = append(m.generations, savedGeneration{g.Number, g.Start, f.keys, f.length, f.crc})
	}
	return written, nil
}

// appendIDs writes the pending ids in one write and one sync. A new generation gets its file with the first
// checkpoint that names it, also without ids. The keys are counted before, and stored after the sync.
func (s *Store) appendIDs(number uint64, f *idFile) (written int64, err error) {
	if f.length > 0 && len(f.waiting) == 0 {
		return 0, nil
	}
	size := fileHead
	for _, chunk := range f.waiting {
		size += len(chunk)*dedup.KeyBytes + (len(chunk)/idBlockKeys+1)*idBlockHead
	}
	b := make([]byte, 0, size) // megabytes under load, which growing would copy several times
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
		if err := s.openIDs(number, f); err != nil {
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

// openIDs opens the file of a generation, or creates it. Bytes beyond the length, from a checkpoint that did not
// finish, are overwritten.
//
// A new file needs the sync of the folder: without it, a power loss could take the file that a durable manifest
// names.
func (s *Store) openIDs(number uint64, f *idFile) (err error) {
	path := s.path(idsName(number))
	if f.length > 0 {
		f.file, err = s.opt.FS.OpenReadWrite(path)
		return err
	}
	err = fsys.ChangeDir(s.opt.FS, s.dir, SiteIDsDir, func() (err error) {
		f.file, err = s.opt.FS.Create(path)
		return err
	})
	if err != nil {
		f.file = nil
	}
	return err
}

// forgetIDs closes the file of a generation that no checkpoint needs.
//
// The file itself is deleted by clean.
func (s *Store) forgetIDs(number uint64) error {
	f := s.files[number]
	delete(s.files, number)
	if f == nil || f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Close closes the files of ids.
//
// It syncs nothing: files that a manifest names are durable already.
func (s *Store) Close() error {
	var errs []error
	for number := range s.files {
		errs = append(errs, s.forgetIDs(number))
	}
	return errors.Join(errs...)
}

// appendIDBlock appends the number of keys, their checksum, and the keys.
//
// Blocks have at most idBlockKeys keys, 64 KiB, so that damage to a byte costs one block and not the generation.
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

// readIDs reads the file of a generation up to the length in the manifest, passes the ids of valid blocks to add, and
// returns the places of the others. After a damaged block it searches for the next valid one.
func readIDs(file fsys.File, saved savedGeneration, add func(key xxh3.Uint128)) (read uint64, bad []string, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, nil, err
	}
	buf := make([]byte, idBlockHead+idBlockKeys*dedup.KeyBytes)
	fill := func(offset, n int64) bool { // reads n bytes into buf
		if offset+n > min(size, saved.length) {
			return false
		}
		got, _ := file.ReadAt(buf[:n], offset)
		return int64(got) == n
	}
	if !fill(0, fileHead) {
		bad = append(bad, "the header is unreadable")
	} else if err := checkHead(buf[:fileHead], idsMagic); errors.Is(err, fsys.ErrNewer) {
		return 0, nil, err
	} else if err != nil {
		bad = append(bad, err.Error())
	}
	// The checksum over the whole file finds errors that those of the blocks cannot: a block that is missing, or
	// one of another file.
	crc := crc32.Update(0, crcTable, buf[:fileHead])
	from := int64(-1) // start of the current damage, or -1
	for at := int64(fileHead); at < saved.length; {
		var count uint32
		if fill(at, idBlockHead) {
			count = binary.LittleEndian.Uint32(buf)
		}
		n := idBlockHead + int64(count)*dedup.KeyBytes
		if count == 0 || count > idBlockKeys || !fill(at, n) ||
			crcOf(buf[idBlockHead:n]) != binary.LittleEndian.Uint32(buf[4:]) {
			if from < 0 {
				from = at
			}
			if at += idBlockHead; at >= size { // blocks begin at multiples of 8
				at = saved.length
			}
			continue
		}
		if from >= 0 {
			bad = append(bad, fmt.Sprintf("bytes %d to %d are damaged", from, at))
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
		bad = append(bad, fmt.Sprintf("bytes %d to %d are damaged", from, saved.length))
	case len(bad) == 0 && (crc != saved.crc || read != saved.keys):
		bad = append(bad, fmt.Sprintf("checksum mismatch: it holds %d ids, the manifest says %d", read, saved.keys))
	}
	return read, bad, nil
}
