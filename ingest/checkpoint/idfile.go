package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file stores the ids of the deduplication table: in append-only files, in blocks with checksums of their own.
// Appending keeps the cost of a checkpoint in proportion to the new ids: otherwise a table of up to 512 MiB would be
// written each time.
//
// Ids are in the order in which they came, whatever their times. A file is dropped when all its ids are evicted. When
// many that are evicted stand among others, the oldest file is copied without them.

// fileShare: a file ends with this part of the ids of a full table, or of the time after which an id is too old.
const fileShare = 8

// writeIDs brings the files up to date with the captured ids, and puts them into the manifest.
func (s *Store) writeIDs(m *manifest, ids *dedup.Capture) (written int64, err error) {
	if last := len(s.ids) - 1; last >= 0 && s.ids[last].last < ids.Floor { // the next ids are appended to another one
		if err := s.Close(); err != nil {
			return 0, fmt.Errorf("close ids: %w", err)
		}
	}
	s.ids = slices.DeleteFunc(s.ids, func(f savedIDs) bool { return f.last < ids.Floor })
	if written, err = s.compactIDs(ids); err != nil {
		return written, err
	}
	for len(s.waiting) > 0 {
		n, err := s.appendIDs(ids, &s.waiting)
		written += n
		if err != nil {
			return written, err
		}
	}
	m.ids = slices.Clone(s.ids)
	return written, nil
}

// compactIDs copies the oldest files without evicted ids while all files have more than half again as
// many as a full table. A crash before the manifest finds the ids twice, which means the same.
func (s *Store) compactIDs(ids *dedup.Capture) (written int64, err error) {
	for range len(s.ids) - 1 {
		total := uint64(0)
		for _, f := range s.ids {
			total += f.keys
		}
		if total <= uint64(max(ids.Count, s.opt.IDs.Capacity()))*3/2 {
			break
		}
		var live []dedup.Keys
		file, err := s.opt.FS.Open(s.path(idsName(s.ids[0].number)))
		if err != nil {
			return written, fmt.Errorf("open %s: %w", idsName(s.ids[0].number), err)
		}
		_, bad, err := readIDs(file, s.ids[0], idsVersion, func(b idBlock) {
			if keys := b.live(ids.Floor); len(keys.Slots) > 0 {
				live = append(live, keys)
			}
		})
		if err = errors.Join(err, file.Close()); err == nil && len(bad) > 0 {
			err = errors.New(bad[0])
		}
		if err != nil { // it stays as it is, and the next start says what it costs
			if s.damaged != s.ids[0].number {
				s.opt.Logger.Error("file of ids is not compacted", "file", idsName(s.ids[0].number), "err", err)
			}
			s.damaged = s.ids[0].number
			return written, nil
		}
		for len(live) > 0 {
			n, err := s.appendIDs(ids, &live)
			written += n
			if err != nil {
				return written, err
			}
		}
		s.ids = slices.Delete(s.ids, 0, 1)
	}
	return written, nil
}

// appendIDs takes ids off keys and writes them in one write and one sync, up to the end of a file. Its entry changes
// after the sync. A failed append changes nothing, and the next one overwrites its remains.
func (s *Store) appendIDs(ids *dedup.Capture, keys *[]dedup.Keys) (written int64, err error) {
	most := uint64(max(1, s.opt.IDs.Capacity()/fileShare))
	if last := len(s.ids) - 1; last < 0 || s.ids[last].keys >= most ||
		ids.At-s.ids[last].start >= int64(s.opt.IDs.MaxAge)/fileShare {
		if err := s.createIDs(ids); err != nil {
			return 0, err
		}
	}
	f := s.ids[len(s.ids)-1]
	chunks, room, size := 0, most-min(most, f.keys), fileHead
	for _, chunk := range *keys {
		size += len(chunk.Slots)*dedup.KeyBytes + (len(chunk.Slots)/idBlockKeys+1)*(idBlockHead+7)
		room -= min(room, uint64(len(chunk.Slots)))
		if chunks++; room == 0 {
			break
		}
	}
	b := make([]byte, 0, size) // megabytes under load, which growing would copy several times
	if f.length == 0 {
		b = appendHead(b, idsMagic, idsVersion)
	}
	for _, chunk := range (*keys)[:chunks] {
		f.keys += uint64(len(chunk.Slots))
		for i := 0; i < len(chunk.Slots); i += idBlockKeys {
			end := min(i+idBlockKeys, len(chunk.Slots))
			b = appendIDBlock(b, chunk.Slots[i:end], chunk.Shards[i:end])
		}
		for _, slot := range chunk.Slots {
			f.last = max(f.last, dedup.Tick(slot, ids.Floor))
		}
	}
	if err := s.openIDs(&f); err != nil {
		return 0, err
	}
	if _, err := s.open.WriteAt(b, f.length); err != nil {
		return 0, fmt.Errorf("write %s: %w", idsName(f.number), err)
	}
	if err := fsys.SyncFile(s.open, SiteIDs); err != nil {
		return 0, fmt.Errorf("write %s: %w", idsName(f.number), err)
	}
	f.length += int64(len(b))
	f.crc = crc32.Update(f.crc, crcTable, b)
	s.ids[len(s.ids)-1] = f
	clear((*keys)[:chunks])
	*keys = (*keys)[chunks:]
	return int64(len(b)), nil
}

// createIDs begins a file. It needs the sync of the folder: without it, a power loss could take the file that a durable
// manifest names.
func (s *Store) createIDs(ids *dedup.Capture) error {
	f := savedIDs{number: s.lastIDs + 1, start: ids.At, last: ids.Floor}
	if s.newest != nil {
		f.start = s.newest.idAt
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("close ids: %w", err)
	}
	err := fsys.ChangeDir(s.opt.FS, s.dir, SiteIDsDir, func() (err error) {
		s.open, err = s.opt.FS.Create(s.path(idsName(f.number)))
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("create %s: %w", idsName(f.number), err), s.Close())
	}
	s.lastIDs++
	s.ids = append(s.ids, f)
	return nil
}

// openIDs opens the last file after a start. Bytes beyond its length are overwritten.
func (s *Store) openIDs(f *savedIDs) (err error) {
	if s.open == nil {
		if s.open, err = s.opt.FS.OpenReadWrite(s.path(idsName(f.number))); err != nil {
			s.open = nil
			return fmt.Errorf("open %s: %w", idsName(f.number), err)
		}
	}
	return nil
}

// Close closes the file of ids that is open.
//
// It syncs nothing: files that a manifest names are durable already.
func (s *Store) Close() error {
	if s.open == nil {
		return nil
	}
	open := s.open
	s.open = nil
	return open.Close()
}

// appendIDBlock appends the number of ids, their checksum, and the ids: 16 bytes of each, then the shards, up to a
// multiple of 8 bytes.
//
// Blocks have at most idBlockKeys ids, so that damage to a byte costs one block and not the file.
func appendIDBlock(b []byte, slots []xxh3.Uint128, shards []uint8) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, slot := range slots {
		b = binary.LittleEndian.AppendUint64(b, slot.Hi)
		b = binary.LittleEndian.AppendUint64(b, slot.Lo)
	}
	b = append(b, shards...)
	b = append(b, make([]byte, -len(shards)&7)...)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(slots)))
	binary.LittleEndian.PutUint32(b[at+4:], crcOf(b[at+idBlockHead:]))
	return b
}

// idBlock is the ids of a block. In version 1, shards is nil, and an id is a whole key.
type idBlock struct{ slots, shards []byte }

// each calls f with every id. The shard is 0 in version 1.
func (b idBlock) each(f func(shard uint8, slot xxh3.Uint128)) {
	for i := 0; i < len(b.slots); i += 16 {
		shard := uint8(0)
		if b.shards != nil {
			shard = b.shards[i/16]
		}
		f(shard, xxh3.Uint128{Hi: binary.LittleEndian.Uint64(b.slots[i:]), Lo: binary.LittleEndian.Uint64(b.slots[i+8:])})
	}
}

// addTo adds the ids to a table. Those of version 1 have no ticks: they are known as long as the last of their file.
func (b idBlock) addTo(to *dedup.Restore, last int64) {
	if b.shards == nil {
		b.each(func(_ uint8, key xxh3.Uint128) { to.Add(key, last) })
		return
	}
	b.each(to.AddSaved)
}

// live is a copy of the ids that are not evicted.
func (b idBlock) live(floor int64) (keys dedup.Keys) {
	b.each(func(shard uint8, slot xxh3.Uint128) {
		if dedup.Tick(slot, floor) >= floor {
			keys.Slots, keys.Shards = append(keys.Slots, slot), append(keys.Shards, shard)
		}
	})
	return keys
}

// idsForm is the version of the files of ids that the manifest names.
func (m *manifest) idsForm() uint32 {
	if m.shift == 0 {
		return idsBefore
	}
	return idsVersion
}

// readIDs reads a file of ids up to the length in the manifest, passes the valid blocks to add, and returns the places
// of the others. After a damaged block it searches for the next valid one. A block is valid during the call only.
func readIDs(file fsys.File, saved savedIDs, version uint32, add func(idBlock)) (read uint64, bad []string, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, nil, err
	}
	keyBytes := int64(dedup.KeyBytes)
	if version == idsBefore {
		keyBytes = 16
	}
	buf := make([]byte, idBlockHead+idBlockKeys*keyBytes)
	fill := func(offset, n int64) bool { // reads n bytes into buf
		if offset+n > min(size, saved.length) {
			return false
		}
		got, _ := file.ReadAt(buf[:n], offset)
		return int64(got) == n
	}
	if !fill(0, fileHead) {
		bad = append(bad, "the header is unreadable")
	} else if err := checkHead(buf[:fileHead], idsMagic, version); errors.Is(err, fsys.ErrNewer) {
		return 0, nil, err
	} else if err != nil {
		bad = append(bad, err.Error())
	}
	// The checksum over the whole file finds errors that those of the blocks cannot: a block that is missing, or
	// one of another file.
	crc := crc32.Update(0, crcTable, buf[:fileHead])
	from := int64(-1) // start of the current damage, or -1
	for at := int64(fileHead); at < saved.length; {
		var count int64
		if fill(at, idBlockHead) {
			count = int64(binary.LittleEndian.Uint32(buf))
		}
		n := idBlockHead + (count*keyBytes+7)&^7
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
		block := idBlock{slots: buf[idBlockHead : idBlockHead+count*16]}
		if version != idsBefore {
			block.shards = buf[idBlockHead+count*16 : idBlockHead+count*keyBytes]
		}
		add(block)
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
