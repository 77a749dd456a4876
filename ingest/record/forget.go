package record

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/ingest/binread"
)

// Forget names the counts that its record drops. The State drops them when it reaches the record. The committer, which
// is ahead of the State, forgets the ids of the services at the same place in the log.
type Forget struct {
	// Generations are numbers that mean something to the State alone.
	Generations []uint64
	// Services are those of which nothing is counted any more. The record begins a new epoch for each: an id from
	// before the record is unknown after it.
	Services []string
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
	if !r.Done() {
		return Forget{}, fmt.Errorf("invalid forget record: fields do not fit into %d bytes", len(payload))
	}
	return f, nil
}
