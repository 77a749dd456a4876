package send

import (
	"errors"
	"fmt"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/mapping"
)

// holdsEvents reports whether records of the format are events already.
func holdsEvents(f Format) bool { return f == NDJSON || f == JSON }

// asEvent returns the text of the event in a record.
func (p *Parser) asEvent(line []byte) ([]byte, error) {
	if p.opt.Map == nil {
		return p.withDefaults(line), nil
	}
	v, err := mapping.Parse(&p.json, line)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if v.Type() != fastjson.TypeObject {
		return nil, errors.New("not a JSON object")
	}
	p.defaulted = p.opt.Map.AppendEvent(p.defaulted[:0], v, p.opt.Service, p.opt.Type)
	return p.defaulted, nil
}

// withDefaults adds ParserOptions.Service and ParserOptions.Type to the text of an event that
// names none. The decoder reports text that is not an object.
func (p *Parser) withDefaults(line []byte) []byte {
	if p.opt.Service == "" && p.opt.Type == "" {
		return line
	}
	root, err := p.json.ParseBytes(line)
	if err != nil {
		return line
	}
	object, err := root.Object()
	if err != nil {
		return line
	}
	start := 0
	for line[start] != '{' {
		start++
	}
	b := append(p.defaulted[:0], line[:start+1]...)
	for _, d := range []struct{ key, value string }{{"service", p.opt.Service}, {"type", p.opt.Type}} {
		if d.value == "" || object.Get(d.key) != nil {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(append(b, '"'), d.key...), `":"`...), d.value...) // names need no escapes
		b = append(b, '"')
	}
	if object.Len() > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	p.defaulted = append(b, line[start+1:]...)
	return p.defaulted
}
