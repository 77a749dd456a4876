package record

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
)

// Tick is an evaluation: which counts it saw, and which alert states it left. So a replay of the log can evaluate when
// the engine did, and be compared with it.
type Tick struct {
	Time    int64  // of the report, Unix nanoseconds
	Folded  uint64 // the last record that it saw
	States  uint32 // hash of the alert states behind it
	Refused uint64 // ticks since the one before that were not made, since the clock could not be believed
	// Started says that it is the first of a process, whose alert states were those of a tick at Restored.
	Started  bool
	Restored int64 // Unix nanoseconds; 0: there were none
}

// The flags of a tick.
const (
	tickRefused = 1 << iota
	tickStarted
	tickEnd
)

func (t *Tick) Append(dst []byte) []byte {
	flags := byte(0)
	if t.Refused > 0 {
		flags |= tickRefused
	}
	if t.Started {
		flags |= tickStarted
	}
	dst = binary.AppendVarint(append(dst, flags), t.Time)
	dst = binary.AppendUvarint(dst, t.Folded)
	dst = binary.LittleEndian.AppendUint32(dst, t.States)
	if t.Refused > 0 {
		dst = binary.AppendUvarint(dst, t.Refused)
	}
	if t.Started {
		dst = binary.AppendVarint(dst, t.Restored)
	}
	return dst
}

// ParseTicks calls f with every tick of a ticks record.
func ParseTicks(payload []byte, f func(Tick)) error {
	for r := binread.New(payload); len(r.Rest) > 0; {
		at := len(payload) - len(r.Rest)
		flags := r.Take(1)
		if flags[0] >= tickEnd {
			return fmt.Errorf("invalid ticks record: flags %#x at byte %d (written by a newer version)", flags[0], at)
		}
		t := Tick{Time: r.Varint(), Folded: r.Uint()}
		if states := r.Take(4); len(states) == 4 {
			t.States = binary.LittleEndian.Uint32(states)
		}
		if flags[0]&tickRefused != 0 {
			t.Refused = r.Uint()
		}
		if t.Started = flags[0]&tickStarted != 0; t.Started {
			t.Restored = r.Varint()
		}
		if r.Bad() {
			return fmt.Errorf("invalid ticks record: tick at byte %d is cut off", at)
		}
		f(t)
	}
	return nil
}
