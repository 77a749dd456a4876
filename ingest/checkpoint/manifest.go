package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file holds the manifest: its content and its bytes. Packs and id files share the small header that is
// defined here, too.

// manifest lists the contents of a checkpoint. FORMAT.md describes its bytes. It does not change once it is written
// or read.
//
// A checkpoint is whole if its manifest is whole and every part and id that it names has the checksum that it
// names. Files that no manifest names mean nothing. Times are Unix nanoseconds, lengths and offsets bytes.
type manifest struct {
	number uint64 // of the checkpoint; each has the next one

	// The state and the ids stand at positions of their own, since different goroutines own them: the committer, with
	// the ids, is usually ahead of the reader.
	seq   uint64 // the parts hold the log up to this record
	at    int64  // receive time of that record, Unix ns
	idSeq uint64 // the ids hold the log up to this record
	idAt  int64  // receive time of that record, Unix ns

	dead uint64 // events that the fold refused up to seq

	// Ids have ticks of 2^shift ns, and those of ticks before the floor are not known. A shift of 0 means that version 3
	// wrote the manifest, whose ids have no ticks.
	shift  uint8
	floor  int64
	ids    []savedIDs // the older first
	packs  []savedPack
	parts  []savedPart
	epochs map[string]uint64 // how often each service was forgotten, up to idSeq

	size int64 // of the manifest file; not stored
}

// savedIDs is a file of ids. It may be longer than length: the rest was left by a checkpoint that did not finish.
//
// crc is over length bytes, the header of the file included.
type savedIDs struct {
	number uint64
	start  int64 // receive time before its first id, Unix ns
	last   int64 // latest tick of its ids
	keys   uint64
	length int64 // bytes of the file that count
	crc    uint32
}

// savedPack is a file of parts. It may hold parts that no checkpoint refers to any more.
//
// size includes the header of the file. It says how much of the pack is unused, see Store.retired.
type savedPack struct {
	number uint64 // of the checkpoint that wrote it
	size   int64
}

// savedPart says where a part of the state lies. It may be in the pack of an earlier checkpoint.
//
// offset and length are bytes in the pack, and crc is over those bytes. So a part can be verified without the
// rest of its pack.
type savedPart struct {
	name   string
	pack   uint64
	offset int64
	length int64
	crc    uint32
}

// The formats. Numbers rise and are never used again. fileHead is magic, version and checksum, 8 + 4 + 4 bytes.
// idBlockHead is count and checksum, 4 + 4 bytes.
const (
	manifestMagic   = "SLOECKPT"
	manifestVersion = 4
	manifestBefore  = 3 // of 0.1.0 and 0.2.0; no release wrote 1 or 2
	packMagic       = "SLOEPACK"
	idsMagic        = "SLOEIDS\x00"
	packVersion     = 1
	idsVersion      = 2
	idsBefore       = 1 // named by manifests of version 3
	fileHead        = 16
	idBlockHead     = 8
	idBlockKeys     = 4096 // at most, in a block
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// crcOf is CRC-32C, as in the log.
func crcOf(b []byte) uint32 { return crc32.Checksum(b, crcTable) }

// appendHead appends the header of a pack or id file.
func appendHead(dst []byte, magic string, version uint32) []byte {
	from := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	return binary.LittleEndian.AppendUint32(dst, crcOf(dst[from:]))
}

// checkHead verifies a header. The version counts only if the checksum holds: a damaged version must not pass for
// a newer one.
func checkHead(b []byte, magic string, version uint32) error {
	if len(b) < fileHead || string(b[:8]) != magic {
		return errors.New("invalid magic number")
	}
	if crcOf(b[:12]) != binary.LittleEndian.Uint32(b[12:]) {
		return errors.New("checksum mismatch in the header")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > version {
		return fmt.Errorf("version %d, and this program reads %d: %w", v, version, fsys.ErrNewer)
	} else if v != version {
		return fmt.Errorf("version %d instead of %d", v, version)
	}
	return nil
}

// encode gives the bytes of the manifest in the newest version. Equal manifests have equal bytes: maps are
// written in sorted order.
func (m *manifest) encode() []byte {
	b := append([]byte{}, manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, manifestVersion)
	u := func(values ...uint64) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
	}
	u(m.number, m.seq, uint64(m.at), m.idSeq, uint64(m.idAt))
	u(m.dead, uint64(m.shift), uint64(m.floor), uint64(len(m.ids)))
	for _, f := range m.ids {
		u(f.number, uint64(f.start), uint64(f.last), f.keys, uint64(f.length), uint64(f.crc))
	}
	u(uint64(len(m.packs)))
	for _, p := range m.packs {
		u(p.number, uint64(p.size))
	}
	u(uint64(len(m.parts)))
	for _, p := range m.parts {
		u(uint64(len(p.name)))
		b = append(b, p.name...)
		u(p.pack, uint64(p.offset), uint64(p.length), uint64(p.crc))
	}
	u(uint64(len(m.epochs)))
	for _, service := range slices.Sorted(maps.Keys(m.epochs)) {
		u(uint64(len(service)))
		b = append(b, service...)
		u(m.epochs[service])
	}
	return binary.LittleEndian.AppendUint32(b, crcOf(b))
}

// decodeManifest is the inverse of encode. The checksum is verified before the version is looked at, so an error that
// wraps fsys.ErrNewer is certain, and everything else is damage. The counts are bounded by the bytes that are left.
func decodeManifest(b []byte) (*manifest, error) {
	const head, tail = len(manifestMagic) + 4, 4
	if len(b) < head+tail || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, errors.New("invalid magic number")
	}
	if crcOf(b[:len(b)-tail]) != binary.LittleEndian.Uint32(b[len(b)-tail:]) {
		return nil, errors.New("checksum mismatch")
	}
	version := binary.LittleEndian.Uint32(b[len(manifestMagic):])
	if version != manifestVersion && version != manifestBefore {
		return nil, fmt.Errorf("version %d, and this program reads %d and %d: %w", version, manifestBefore, manifestVersion,
			fsys.ErrNewer)
	}
	r := binread.New(b[head : len(b)-tail])
	m := &manifest{number: r.Uint(), seq: r.Uint(), at: r.Int(), idSeq: r.Uint(), idAt: r.Int(),
		dead: r.Uint(), epochs: map[string]uint64{}}
	if version == manifestBefore {
		r.Uint() // number of the next generation
		m.ids = make([]savedIDs, r.Count(5))
		for i := range m.ids {
			m.ids[i] = savedIDs{number: r.Uint(), start: r.Int(), keys: r.Uint(), length: r.Int(), crc: uint32(r.Uint())}
		}
	} else {
		if m.shift = uint8(r.Uint()); m.shift == 0 {
			return nil, errors.New("invalid ticks")
		}
		m.floor = r.Int()
		m.ids = make([]savedIDs, r.Count(6))
		for i := range m.ids {
			m.ids[i] = savedIDs{r.Uint(), r.Int(), r.Int(), r.Uint(), r.Int(), uint32(r.Uint())}
		}
	}
	m.packs = make([]savedPack, r.Count(2))
	for i := range m.packs {
		m.packs[i] = savedPack{r.Uint(), r.Int()}
	}
	m.parts = make([]savedPart, r.Count(5))
	for i := range m.parts {
		m.parts[i] = savedPart{r.Text(), r.Uint(), r.Int(), r.Int(), uint32(r.Uint())}
	}
	for range r.Count(2) {
		service := r.Text()
		m.epochs[service] = r.Uint()
	}
	if !r.Done() {
		return nil, errors.New("invalid fields")
	}
	return m, nil
}

// stateBytes is the size of everything that the checkpoint refers to.
func (m *manifest) stateBytes() int64 {
	n := m.size
	for i := range m.parts {
		n += m.parts[i].length
	}
	for i := range m.ids {
		n += m.ids[i].length
	}
	return n
}
