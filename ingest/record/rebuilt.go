package record

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
)

// RebuiltKind is what a rebuilt record says.
type RebuiltKind byte

// The kinds of rebuilt records. Apart from the first, they have indicators only.
const (
	RebuiltTaken    RebuiltKind = iota // counts that were made from the retained log take the place of those in use
	RebuiltAsked                       // counts in use are to be rebuilt
	RebuiltCanceled                    // they are not to be rebuilt
	rebuiltKinds
)

// Rebuilt is about counts that are made from the retained log. A file holds them up to a record, and the log what
// follows up to this one.
type Rebuilt struct {
	Kind       RebuiltKind
	Indicators []string // their IDs
	First      uint64   // the oldest record that was read
	Next       uint64   // the first that the file does not count
	File       string   // its name
	Hash       [32]byte // SHA-256 of the file
}

func (r *Rebuilt) Append(dst []byte) []byte {
	dst = binread.AppendTexts(append(dst, byte(r.Kind)), r.Indicators)
	dst = binary.AppendUvarint(dst, r.First)
	dst = binary.AppendUvarint(dst, r.Next)
	dst = binread.AppendText(dst, r.File)
	return append(dst, r.Hash[:]...)
}

// ParseRebuilt reads the payload of a rebuilt record.
func ParseRebuilt(payload []byte) (Rebuilt, error) {
	c := binread.New(payload)
	r := Rebuilt{Kind: RebuiltKind(c.Byte()), Indicators: c.Texts(), First: c.Uint(), Next: c.Uint(), File: c.Text()}
	copy(r.Hash[:], c.Take(len(r.Hash)))
	if !c.Done() || r.Kind >= rebuiltKinds {
		return Rebuilt{}, fmt.Errorf("invalid rebuilt record: fields do not fit into %d bytes", len(payload))
	}
	return r, nil
}
