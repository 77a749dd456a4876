package retained

import (
	"encoding/binary"

	"github.com/sloengine/sloengine/internal/binread"
)

// Tag is a kind of event, and how many of them a file holds.
type Tag struct {
	Service, Type string
	Events        uint64
}

// Summary is what the index of a file says about all of it. Times are in Unix nanoseconds.
type Summary struct {
	First, Next  uint64 // its records are First <= number < Next
	Records      uint64
	Raw          uint64 // bytes of the records before they were compressed
	From, To     int64  // receive times of the first and of the last record
	Events       uint64
	EventFrom    int64 // earliest and latest time of an event; both 0 without events
	EventTo      int64
	Tags         []Tag
	MoreTags     bool     // there were more than maxTags
	Rules        []uint64 // numbers of the records of Options.RuleType
	Before       Digest   // of the records before First
	blocks       int
	tableCRC     uint32
	tableAt, end int64 // of the table of blocks in the file
}

// Block is what the index says of one frame of compressed records.
type Block struct {
	First              uint64
	Records            uint64
	From, To           int64 // receive times
	EventFrom, EventTo int64
	at                 int64 // in the file
	size, raw          uint32
	crc                uint32
	digest             Digest   // of its records, when they were retained
	tags               []uint32 // places in Summary.Tags, ascending
	anyTag             bool
}

// maxTags bounds the index. Beyond it a block may hold events of any kind.
const maxTags = 4096

// Sketch collects for the index what the owner of the log says of its records.
type Sketch struct {
	sum   *Summary
	block Block
	place map[tagKey]int32
	seen  []bool // by place, in the block
	last  tagKey // of the event before: the next one mostly is of the same kind
	at    int32
}

type tagKey struct{ service, typ string }

// Event notes an event of a record.
func (s *Sketch) Event(service, typ []byte, at int64) { s.Count(s.Kind(service, typ), at) }

// Kind is the place of a kind of event in the index, for Count while the Sketch is of the same file; -1: the index is
// full.
func (s *Sketch) Kind(service, typ []byte) int32 {
	if s.last.service == string(service) && s.last.typ == string(typ) && len(s.sum.Tags) > 0 {
		return s.at
	}
	i, ok := s.place[tagKey{string(service), string(typ)}]
	if !ok {
		if len(s.sum.Tags) == maxTags {
			return -1
		}
		i = int32(len(s.sum.Tags))
		key := tagKey{string(service), string(typ)}
		s.place[key] = i
		s.sum.Tags = append(s.sum.Tags, Tag{Service: key.service, Type: key.typ})
		s.seen = append(s.seen, false)
	}
	s.last, s.at = tagKey{s.sum.Tags[i].Service, s.sum.Tags[i].Type}, i
	return i
}

// Count notes an event of a kind. Of one at -1 the index says nothing.
func (s *Sketch) Count(kind int32, at int64) {
	sum, b := s.sum, &s.block
	if sum.Events == 0 {
		sum.EventFrom, sum.EventTo = at, at
	}
	sum.Events++
	sum.EventFrom, sum.EventTo = min(sum.EventFrom, at), max(sum.EventTo, at)
	if b.EventFrom == 0 && b.EventTo == 0 {
		b.EventFrom, b.EventTo = at, at
	}
	b.EventFrom, b.EventTo = min(b.EventFrom, at), max(b.EventTo, at)
	if kind < 0 {
		s.Unknown()
		return
	}
	s.seen[kind] = true
	sum.Tags[kind].Events++
}

// Unknown says that no query may skip the block: it may hold events of any kind and time.
func (s *Sketch) Unknown() { s.sum.MoreTags, s.block.anyTag = true, true }

// closeBlock returns the block and begins the next one.
func (s *Sketch) closeBlock() Block {
	b := s.block
	for i, seen := range s.seen {
		if seen {
			b.tags = append(b.tags, uint32(i))
			s.seen[i] = false
		}
	}
	s.block = Block{}
	return b
}

// appendTo encodes a summary. See FORMAT.md.
func (s *Summary) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, s.First)
	b = binary.AppendUvarint(b, s.Next-s.First)
	b = binary.AppendUvarint(b, s.Records)
	b = binary.AppendUvarint(b, s.Raw)
	b = binary.AppendUvarint(b, uint64(s.blocks))
	b = binary.AppendVarint(b, s.From)
	b = binary.AppendVarint(b, s.To)
	b = binary.AppendUvarint(b, s.Events)
	b = binary.AppendVarint(b, s.EventFrom)
	b = binary.AppendVarint(b, s.EventTo)
	b = binread.AppendBool(b, s.MoreTags)
	b = binary.AppendUvarint(b, uint64(len(s.Tags)))
	for _, t := range s.Tags {
		b = binread.AppendText(b, t.Service)
		b = binread.AppendText(b, t.Type)
		b = binary.AppendUvarint(b, t.Events)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Rules)))
	last := s.First
	for _, n := range s.Rules {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	return append(b, s.Before[:]...)
}

func (s *Summary) parse(b []byte) bool {
	r := binread.New(b)
	s.First = r.Uint()
	s.Next = s.First + r.Uint()
	s.Records, s.Raw, s.blocks = r.Uint(), r.Uint(), r.Count(1)
	s.From, s.To = r.Varint(), r.Varint()
	s.Events, s.EventFrom, s.EventTo = r.Uint(), r.Varint(), r.Varint()
	s.MoreTags = r.Bool()
	n := r.Count(1)
	if n > maxTags {
		return false
	}
	s.Tags = make([]Tag, n)
	for i := range s.Tags {
		s.Tags[i] = Tag{r.Text(), r.Text(), r.Uint()}
	}
	last := s.First
	for range r.Count(1) {
		last += r.Uint()
		s.Rules = append(s.Rules, last)
	}
	copy(s.Before[:], r.Take(len(s.Before)))
	return r.Done() && s.Next > s.First && s.Records <= s.Next-s.First && s.From <= s.To
}

func appendTable(dst []byte, sum *Summary, blocks []Block) []byte {
	seq, from := sum.First, sum.From
	for i := range blocks {
		b := &blocks[i]
		dst = binary.AppendUvarint(dst, b.First-seq)
		dst = binary.AppendUvarint(dst, b.Records)
		dst = binary.AppendUvarint(dst, uint64(b.size))
		dst = binary.AppendUvarint(dst, uint64(b.raw))
		dst = binary.LittleEndian.AppendUint32(dst, b.crc)
		dst = append(dst, b.digest[:]...)
		dst = binary.AppendVarint(dst, b.From-from)
		dst = binary.AppendVarint(dst, b.To-b.From)
		dst = binary.AppendVarint(dst, b.EventFrom)
		dst = binary.AppendVarint(dst, b.EventTo)
		dst = binread.AppendBool(dst, b.anyTag)
		dst = binary.AppendUvarint(dst, uint64(len(b.tags)))
		last := uint32(0)
		for _, t := range b.tags {
			dst = binary.AppendUvarint(dst, uint64(t-last))
			last = t
		}
		seq, from = b.First, b.From
	}
	return dst
}

func parseTable(b []byte, sum *Summary) (blocks []Block, ok bool) {
	r := binread.New(b)
	seq, from, at := sum.First, sum.From, int64(headBytes)
	for range sum.blocks {
		x := Block{First: seq + r.Uint(), Records: r.Uint(), at: at}
		size, raw := r.Uint(), r.Uint()
		x.crc = r.Fixed32()
		copy(x.digest[:], r.Take(len(x.digest)))
		x.From = from + r.Varint()
		x.To = x.From + r.Varint()
		x.EventFrom, x.EventTo = r.Varint(), r.Varint()
		x.anyTag = r.Bool()
		last := uint32(0)
		for range r.Count(1) {
			d := r.Uint()
			if d > maxTags {
				return nil, false
			}
			last += uint32(d)
			if int(last) >= len(sum.Tags) {
				return nil, false
			}
			x.tags = append(x.tags, last)
		}
		if r.Bad() || size > maxBlock || raw > maxBlock || x.First >= sum.Next || x.Records == 0 {
			return nil, false
		}
		x.size, x.raw = uint32(size), uint32(raw)
		at += int64(size)
		seq, from = x.First, x.From
		blocks = append(blocks, x)
	}
	return blocks, len(r.Rest) == 0 && at == sum.tableAt
}
