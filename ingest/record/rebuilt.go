package record

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
)

// Rebuilt says that counts that were made from the retained log take the place of those in use. A file holds them up to
// a record, and the log what follows up to this one.
type Rebuilt struct {
	Indicators []string // their IDs
	First      uint64   // the oldest record that was read
	Next       uint64   // the first that the file does not count
	File       string   // its name
	Hash       [32]byte // SHA-256 of the file
}

func (r *Rebuilt) Append(dst []byte) []byte {
	dst = binread.AppendTexts(dst, r.Indicators)
	dst = binary.AppendUvarint(dst, r.First)
	dst = binary.AppendUvarint(dst, r.Next)
	dst = binread.AppendText(dst, r.File)
	return append(dst, r.Hash[:]...)
}

// ParseRebuilt reads the payload of a rebuilt record.
func ParseRebuilt(payload []byte) (Rebuilt, error) {
	c := binread.New(payload)
	r := Rebuilt{Indicators: c.Texts(), First: c.Uint(), Next: c.Uint(), File: c.Text()}
	copy(r.Hash[:], c.Take(len(r.Hash)))
	if !c.Done() {
		return Rebuilt{}, fmt.Errorf("invalid rebuilt record: fields do not fit into %d bytes", len(payload))
	}
	return r, nil
}
