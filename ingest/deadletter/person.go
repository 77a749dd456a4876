package deadletter

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/sloengine/sloengine/reliability/dlq"
)

// Holding says how much of an attribute's value a dead letter holds.
type Holding uint8

// The values of Holding.
const (
	Nothing  Holding = iota
	Value            // its event has the attribute with the value
	Unclear          // it is no readable event, and the name and the value of the attribute stand in it
	LogRange         // it stands for a range of the log, which is not searched
)

// Holds reports whether a dead letter holds an attribute with a value, as matchers compare it: numbers and booleans by
// their text.
func Holds(e *dlq.Entry, attribute, value string) Holding {
	switch {
	case e.SeqEnd > 0:
		return LogRange
	case len(e.Event) == 0:
		return unclear(e.Raw, attribute, value)
	}
	var v struct{ Attributes map[string]any }
	d := json.NewDecoder(bytes.NewReader(e.Event))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return unclear(e.Event, attribute, value)
	}
	var have string
	switch x := v.Attributes[attribute].(type) {
	case string:
		have = x
	case json.Number:
		have = x.String()
	case bool:
		have = strconv.FormatBool(x)
	default:
		return Nothing
	}
	if have == value {
		return Value
	}
	return Nothing
}

func unclear(raw []byte, attribute, value string) Holding {
	if bytes.Contains(raw, []byte(attribute)) && bytes.Contains(raw, []byte(value)) {
		return Unclear
	}
	return Nothing
}
