package source

import (
	"errors"

	"github.com/valyala/fastjson"
)

// This file is for sources that take each message for itself: they look at it before it becomes an event, and want to know
// what became of it.

// Refuse adds a message that the source itself cannot read. It becomes a dead letter with the reason when the batch is
// submitted.
func (b *Batch) Refuse(m *Message, why error) {
	b.begin(m)
	b.unreadable(why)
	b.current = nil
}

// Outcomes calls f for each message of a submitted batch, in order: how many of its events were accepted, which includes
// merged, sampled and dropped ones, how many were duplicates, and whether it or an event in it became a dead letter.
func (b *Batch) Outcomes(f func(message, accepted, duplicates int, refused bool)) {
	next := 0
	for i := range b.messages {
		m := &b.messages[i]
		accepted, duplicates := 0, 0
		for ; next < len(b.events.Events) && b.events.Events[next].Index < m.first+m.count; next++ {
			if b.duplicates[b.events.Events[next].Index] {
				duplicates++
			} else {
				accepted++
			}
		}
		f(i, accepted, duplicates, m.refused || accepted+duplicates < m.count)
	}
}

// Mapper makes the JSON of an event of foreign JSON. It is for sources that add something to the event before it is
// decoded. It is not safe for concurrent use.
type Mapper struct {
	mapping *Mapping
	parser  fastjson.Parser
}

// NewMapper checks the settings. nil settings take values that are events already.
func NewMapper(s *MapSettings) (*Mapper, error) {
	m := &Mapper{}
	if s == nil {
		return m, nil
	}
	var err error
	m.mapping, err = newMapping(s, false)
	return m, err
}

// Event returns the JSON object of the event in a value, which is one JSON object.
func (m *Mapper) Event(value []byte) ([]byte, error) {
	v, err := m.parser.ParseBytes(value)
	if err != nil {
		return nil, errors.New("invalid JSON: " + firstLine(err))
	}
	if v.Type() != fastjson.TypeObject {
		return nil, errors.New("the message is not a JSON object")
	}
	if m.mapping == nil {
		return v.MarshalTo(nil), nil
	}
	return m.mapping.appendEvent(nil, v, nil), nil
}
