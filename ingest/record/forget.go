package record

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/binread"
)

// Forget names the counts and keys that its record drops. The State drops them when it reaches the record. The
// committer, which is ahead of the State, forgets the ids of the services at the same place in the log.
type Forget struct {
	// Generations are numbers that mean something to the State alone.
	Generations []uint64
	// Services are those of which nothing is counted any more. The record begins a new epoch for each: an id from
	// before the record is unknown after it.
	Services []string
	// Keys are those of work in flight that people can no longer read.
	Keys []Key
}

// Key is the hash of a value of an attribute: the value itself must be erased.
type Key struct {
	Attribute string
	Hash      xxh3.Uint128
}

func (f *Forget) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(f.Generations)))
	for _, n := range f.Generations {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(f.Services)))
	for _, s := range f.Services {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	if len(f.Keys) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(f.Keys)))
	for _, k := range f.Keys {
		dst = binary.AppendUvarint(dst, uint64(len(k.Attribute)))
		dst = append(dst, k.Attribute...)
		dst = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, k.Hash.Hi), k.Hash.Lo)
	}
	return dst
}

// ParseForget reads the payload of a forget record.
func ParseForget(payload []byte) (Forget, error) {
	r := binread.New(payload)
	var f Forget
	for range r.Count(1) {
		f.Generations = append(f.Generations, r.Uint())
	}
	for range r.Count(1) {
		f.Services = append(f.Services, r.Text())
	}
	if len(r.Rest) > 0 {
		for range r.Count(1 + keyBytes) {
			k := Key{Attribute: r.Text()}
			if hash := r.Take(keyBytes); len(hash) == keyBytes {
				k.Hash = xxh3.Uint128{Hi: binary.LittleEndian.Uint64(hash), Lo: binary.LittleEndian.Uint64(hash[8:])}
			}
			f.Keys = append(f.Keys, k)
		}
	}
	if !r.Done() {
		return Forget{}, fmt.Errorf("invalid forget record: fields do not fit into %d bytes", len(payload))
	}
	return f, nil
}
