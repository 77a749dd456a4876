// Package trace reads trace ids (W3C Trace Context), and hands those that no event carries from the request that they
// came with to the reader of the log. They are not in the log: a restart loses them. It knows no SLO.
package trace

import (
	"encoding/hex"
	"sync"

	"github.com/zeebo/xxh3"
)

// ID is a trace id. Zero is none.
type ID [16]byte

// Parse reads a trace id: 32 lower-case hexadecimal digits that are not all zero.
func Parse[T ~string | ~[]byte](text T) (id ID, ok bool) {
	if len(text) != 2*len(id) || !lowerHex(text) {
		return id, false
	}
	_, _ = hex.Decode(id[:], []byte(text)) // the digits are valid
	return id, id != ID{}
}

// OfSpan reads the trace id from the id of an event that was made of a span: the trace id, a hyphen, and the span id.
func OfSpan(id []byte) (ID, bool) {
	const trace, all = 32, 32 + 1 + 16
	if len(id) != all || id[trace] != '-' || !lowerHex(id[trace+1:]) {
		return ID{}, false
	}
	return Parse(id[:trace])
}

// Header is the name of the header that Parent reads.
const Header = "Traceparent"

// Parent reads the trace id from the values of a header traceparent (W3C Trace Context, 3.2). An invalid one has none,
// and so have several.
func Parent(values []string) (ID, bool) {
	if len(values) != 1 {
		return ID{}, false
	}
	// version, trace id, parent id and flags; a version above 00 may go on behind another hyphen
	const version00 = 2 + 1 + 32 + 1 + 16 + 1 + 2
	v := values[0]
	if len(v) < version00 || v[2] != '-' || v[35] != '-' || v[52] != '-' || !lowerHex(v[:2]) || !lowerHex(v[36:52]) ||
		!lowerHex(v[53:55]) || v[:2] == "ff" || v[36:52] == "0000000000000000" {
		return ID{}, false
	}
	if len(v) > version00 && (v[:2] == "00" || v[version00] != '-') {
		return ID{}, false
	}
	return Parse(v[3:35])
}

func lowerHex[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Batch is the trace ids of a request whose events do not carry them. A nil one has none.
type Batch struct {
	request ID // of events that have no other
	own     []item
	byKey   map[xxh3.Uint128]ID // of own; made by the first Of
}

type item struct {
	key xxh3.Uint128
	id  ID
}

// OfRequest is the trace id that a request came with.
func OfRequest(id ID) *Batch { return &Batch{request: id} }

// Add adds the trace id of the event with a key.
func (b *Batch) Add(key xxh3.Uint128, id ID) { b.own = append(b.own, item{key, id}) }

// Of is the trace id of the event with a key. It is for one goroutine.
func (b *Batch) Of(key func() xxh3.Uint128) (ID, bool) {
	if b == nil {
		return ID{}, false
	}
	if len(b.own) > 0 {
		if b.byKey == nil {
			b.byKey = make(map[xxh3.Uint128]ID, len(b.own))
			for _, x := range b.own {
				b.byKey[x.key] = x.id
			}
		}
		if id, ok := b.byKey[key()]; ok {
			return id, true
		}
	}
	return b.request, b.request != ID{}
}

// The bounds of a Table. A reader that is further behind finds no trace ids.
const (
	maxRecords   = 1 << 10
	maxItems     = 1 << 17 // of all batches, 32 bytes each
	requestItems = 4       // what a batch takes besides its own
)

// Table holds the trace ids of records that are written and not read yet, by the number of the record. It is safe for
// concurrent use. A nil one holds none.
type Table struct {
	mu    sync.Mutex
	slots [maxRecords]slot
	items int
}

type slot struct {
	seq   uint64
	batch *Batch
}

// Put adds the trace ids of a record, unless too many wait already.
func (t *Table) Put(seq uint64, b *Batch) {
	if t == nil || b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[seq%maxRecords]
	t.clear(s)
	if n := requestItems + len(b.own); t.items+n <= maxItems {
		*s = slot{seq, b}
		t.items += n
	}
}

// Take removes the trace ids of a record and returns them; nil if there are none.
func (t *Table) Take(seq uint64) *Batch {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[seq%maxRecords]
	if s.seq != seq {
		return nil
	}
	b := s.batch
	t.clear(s)
	return b
}

func (t *Table) clear(s *slot) {
	if s.batch != nil {
		t.items -= requestItems + len(s.batch.own)
	}
	*s = slot{}
}
