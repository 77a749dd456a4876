package record

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file takes the events of records apart into columns, in which zstd has little left to do: what events have in
// common is named once in a block, and what is random lies apart. FORMAT.md describes the columns.

// Form is that of event records in the retained log.
func Form() retained.Form {
	return retained.Form{
		Packer:   func() retained.Packer { return &packer{} },
		Unpacker: func() retained.Unpacker { return &unpacker{} },
	}
}

// The columns of a block.
const (
	colHeads    = iota // of records
	colFlags           // of events
	colUnits           // of time and duration
	colTime            // numPlanes of them
	colDuration = colTime + numPlanes
	colMerged   = colDuration + numPlanes // count and weight
	colRest     = colMerged + 1           // codes, 2 of them
	colKind     = colRest + 2             // codes
	colPair     = colKind + 2             // codes
	colName     = colPair + 2
	colShape    = colName + 1 // codes
	colHex      = colShape + 2
	colChars    = colHex + 1
	colDigits   = colChars + 1 // numPlanes
	colTexts    = colDigits + numPlanes
	numColumns  = colTexts + 1
)

// numPlanes is in how many columns the bytes of numbers lie: the first, the second, the third, and all others.
const numPlanes = 4

// units of times and durations: the largest one that divides a value is used.
var units = [4]int64{1, 1e3, 1e6, 1e9}

func unitOf(x uint64) byte {
	switch {
	case x%1000 != 0:
		return 0
	case x%1e6 != 0:
		return 1
	case x%1e9 != 0:
		return 2
	}
	return 3
}

// packer is a retained.Packer. What it names once are parts of the block's own bytes.
type packer struct {
	columns [numColumns][]byte
	out     [numColumns][]byte
	parts   []event.Parts
	time    int64 // of the event before

	rests, kinds, pairs, names dictionary
	places                     []int32 // by rest: that of its kind in the index; -1: not there
	texts                      textPacker
}

// Begin forgets what came before.
func (p *packer) Begin() {
	for i := range p.columns {
		p.columns[i] = p.columns[i][:0]
	}
	p.time, p.places = 0, p.places[:0]
	p.rests.reset()
	p.kinds.reset()
	p.pairs.reset()
	p.names.reset()
	p.texts.reset()
}

func (p *packer) Columns() [][]byte {
	p.out = p.columns
	return p.out[:]
}

// Pack takes a record of events, and tells the index of them.
func (p *packer) Pack(rec *wal.Record, s *retained.Sketch) bool {
	if rec.Type != TypeEvents && rec.Type != TypeReplay {
		return false
	}
	events, err := ParseEvents(rec.Payload)
	if err != nil {
		return false
	}
	p.parts = p.parts[:0]
	for body := events.Body; len(body) > 0; {
		p.parts = append(p.parts, event.Parts{})
		n, ok := p.parts[len(p.parts)-1].Split(body)
		if !ok {
			return false
		}
		body = body[n:]
	}
	head := rec.Payload[:len(rec.Payload)-len(events.Body)]
	c := &p.columns
	c[colHeads] = binary.AppendUvarint(c[colHeads], uint64(len(p.parts)))
	c[colHeads] = appendBytes(c[colHeads], head)
	for i := range p.parts {
		p.event(&p.parts[i], s)
	}
	return true
}

func (p *packer) event(e *event.Parts, s *retained.Sketch) {
	c := &p.columns
	unit := unitOf(uint64(max(e.Time, 1)))
	of := units[unit]
	putPlanes(c[colTime:colTime+numPlanes], zigzag(e.Time/of-p.time/of))
	p.time = e.Time
	if e.HasDuration() {
		of := unitOf(e.Duration)
		unit |= of << 2
		putPlanes(c[colDuration:colDuration+numPlanes], e.Duration/uint64(units[of]))
	}
	c[colFlags], c[colUnits] = append(c[colFlags], e.Flags), append(c[colUnits], unit)
	if e.HasCount() {
		c[colMerged] = binary.AppendUvarint(c[colMerged], e.Count)
	}
	if e.HasWeight() {
		c[colMerged] = binary.AppendUvarint(c[colMerged], e.Weight)
	}
	p.texts.put(c, e.ID)

	place := int32(-1)
	if i, slot, known := p.rests.find(e.Rest); known && !e.HasDurations() {
		putCode(c[colRest:], i+1)
		place = p.places[i]
	} else {
		putCode(c[colRest:], 0)
		p.rest(e)
		if s != nil {
			place = placeOf(e, s)
		}
		if !e.HasDurations() && p.rests.add(slot, e.Rest) {
			p.places = append(p.places, place)
		}
	}
	if s != nil {
		s.Count(place, e.Time)
	}
}

func placeOf(e *event.Parts, s *retained.Sketch) int32 {
	service, typ, ok := e.Kind()
	if !ok {
		return -1
	}
	return s.Kind(service, typ)
}

// rest takes service, type, severity, attributes and durations apart.
func (p *packer) rest(e *event.Parts) {
	c := &p.columns
	at, n, ok := e.Fields()
	for i, end := 0, at; ok && i < 2*n; i++ {
		if _, end = event.TextAt(e.Rest, end); end > len(e.Rest) {
			ok = false
		} else if i == 2*n-1 && !e.HasDurations() && end != len(e.Rest) {
			ok = false
		}
	}
	if !ok || n == 0 && !e.HasDurations() && at != len(e.Rest) {
		putCode(c[colKind:], 1)
		c[colTexts] = appendBytes(c[colTexts], e.Rest)
		return
	}
	kind := e.Rest[:at]
	if i, slot, known := p.kinds.find(kind); known {
		putCode(c[colKind:], i+2)
	} else {
		putCode(c[colKind:], 0)
		c[colTexts] = appendBytes(c[colTexts], kind)
		p.kinds.add(slot, kind)
	}
	for range n {
		_, behind := event.TextAt(e.Rest, at)
		value, end := event.TextAt(e.Rest, behind)
		name, pair := e.Rest[at:behind], e.Rest[at:end]
		prefix := e.Rest[behind : end-len(value)]
		at = end
		i, slot, known := p.pairs.find(pair)
		if known {
			putCode(c[colPair:], i+2)
			continue
		}
		if len(binary.AppendUvarint(nil, uint64(len(value)))) != len(prefix) {
			putCode(c[colPair:], 1)
			c[colTexts] = appendBytes(c[colTexts], pair)
			continue
		}
		putCode(c[colPair:], 0)
		p.pairs.add(slot, pair)
		if i, slot, known := p.names.find(name); known && i < maxNames {
			c[colName] = append(c[colName], byte(i+1))
		} else {
			c[colName] = append(c[colName], 0)
			c[colTexts] = appendBytes(c[colTexts], name)
			p.names.add(slot, name)
		}
		p.texts.put(c, value)
	}
	if e.HasDurations() {
		c[colTexts] = appendBytes(c[colTexts], e.Rest[at:])
	}
}

// maxNames is how many names of attributes have a code.
const maxNames = 254

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func zigzag(x int64) uint64   { return uint64(x<<1) ^ uint64(x>>63) }
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// putPlanes appends a number in the bytes of a varint, each to its column.
func putPlanes(planes [][]byte, x uint64) {
	i := 0
	for x >= 0x80 {
		planes[i] = append(planes[i], byte(x)|0x80)
		i, x = min(i+1, numPlanes-1), x>>7
	}
	planes[i] = append(planes[i], byte(x))
}

// putCode appends a code below 65,536 to two columns.
func putCode(columns [][]byte, code int) {
	columns[0], columns[1] = append(columns[0], byte(code)), append(columns[1], byte(code>>8))
}

// maxCodes is how many texts a dictionary names.
const maxCodes = 65_000

// dictionary finds texts of the block that came before. It may forget that it knows one, and never takes one for
// another. The number of a text is how many were added before it.
type dictionary struct {
	slots []uint32 // number plus one, by hash
	items [][]byte
}

const dictionarySlots = 1 << 13

func (d *dictionary) reset() {
	if d.slots == nil {
		d.slots = make([]uint32, dictionarySlots)
	}
	if len(d.items) > 0 {
		clear(d.slots)
		clear(d.items)
		d.items = d.items[:0]
	}
}

// find returns the number of a text, or the slot in which add puts it.
func (d *dictionary) find(b []byte) (i int, slot uint32, known bool) {
	slot = uint32(xxh3.Hash(b)) & (dictionarySlots - 1)
	for range 2 {
		n := d.slots[slot]
		if n == 0 {
			return 0, slot, false
		}
		if string(d.items[n-1]) == string(b) {
			return int(n - 1), slot, true
		}
		slot ^= 1
	}
	return 0, slot, false
}

func (d *dictionary) add(slot uint32, b []byte) bool {
	if len(d.items) == maxCodes {
		return false
	}
	d.items = append(d.items, b)
	d.slots[slot] = uint32(len(d.items))
	return true
}
