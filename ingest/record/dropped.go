package record

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
)

// Dropped says that the rate limits dropped N events of a service and type, around a time.
type Dropped struct {
	Service, Type, Reason []byte // valid as long as the record
	Time                  int64  // Unix nanoseconds
	N                     uint64
}

func (d *Dropped) Append(dst []byte) []byte {
	for _, text := range [][]byte{d.Service, d.Type, d.Reason} {
		dst = binary.AppendUvarint(dst, uint64(len(text)))
		dst = append(dst, text...)
	}
	dst = binary.AppendVarint(dst, d.Time)
	return binary.AppendUvarint(dst, d.N)
}

// ParseDropped calls f with every entry of a record of dropped events.
func ParseDropped(payload []byte, f func(d *Dropped)) error {
	for r := binread.New(payload); len(r.Rest) > 0; {
		at := len(payload) - len(r.Rest)
		d := Dropped{Service: r.Bytes(), Type: r.Bytes(), Reason: r.Bytes(), Time: r.Varint(), N: r.Uint()}
		if r.Bad() {
			return fmt.Errorf("invalid record of dropped events: entry at byte %d is cut off", at)
		}
		f(&d)
	}
	return nil
}
