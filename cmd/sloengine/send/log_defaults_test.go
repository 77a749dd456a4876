package send

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

func TestDefaultsOfEvents(t *testing.T) {
	tests := []struct{ line, service, typ string }{
		{`{}`, "shop", "order"},
		{` { "id" : "x" } `, "shop", "order"},
		{`{"service":"own"}`, "own", "order"},
		{`{"type":"own"}`, "shop", "own"},
		{`{"service":"a","type":"b"}`, "a", "b"},
		{`{"attributes":{"a":"service"}}`, "shop", "order"},
	}
	for _, tt := range tests {
		p, err := NewParser(NDJSON, ParserOptions{Service: "shop", Type: "order"})
		require.NoError(t, err)
		var e event.Event
		require.NoError(t, p.Parse([]byte(tt.line), 0, &e), tt.line)
		require.Equal(t, tt.service, e.Service, tt.line)
		require.Equal(t, tt.typ, e.Type, tt.line)
	}
	p, err := NewParser(NDJSON, ParserOptions{Service: "shop", Type: "order"})
	require.NoError(t, err)
	for _, line := range []string{`{"service":null}`, `[]`, `1`, `{`, `{"service":"a","service":"b"}`, `{"service":""}`} {
		var e event.Event
		require.Error(t, p.Parse([]byte(line), 0, &e), line)
	}
	_, err = NewParser(NDJSON, ParserOptions{Service: `a","id":"b`})
	require.Error(t, err, "a default must not be able to add fields")
}

func TestDefaultsAreNotPartOfTheID(t *testing.T) {
	line := []byte(`{"service":"s","type":"t"}`)
	var with, without event.Event
	for _, c := range []struct {
		opt ParserOptions
		e   *event.Event
	}{{ParserOptions{Service: "x", Type: "y"}, &with}, {ParserOptions{}, &without}} {
		p, err := NewParser(NDJSON, c.opt)
		require.NoError(t, err)
		require.NoError(t, p.Parse(line, 0, c.e))
	}
	require.Equal(t, without.ID, with.ID)
}

func TestRecordGivesTheLineThatWasRead(t *testing.T) {
	const text = "{\"service\":\"s\",\"type\":\"t\"}\n\nnope\n{\"service\":\"s\",\"type\":\"u\"}"
	p, err := NewParser(NDJSON, ParserOptions{})
	require.NoError(t, err)
	r := NewReader(strings.NewReader(text), p)
	var e event.Event
	require.NoError(t, r.Next(&e))
	line, raw := r.Record()
	require.Equal(t, 1, line)
	require.Equal(t, `{"service":"s","type":"t"}`+"\n", string(raw))
	require.Error(t, r.Next(&e))
	line, raw = r.Record()
	require.Equal(t, 3, line)
	require.Equal(t, "nope\n", string(raw))
	require.ErrorIs(t, r.Next(&e), io.EOF)
	require.NoError(t, r.Flush(&e))
	line, raw = r.Record()
	require.Equal(t, 4, line)
	require.Equal(t, `{"service":"s","type":"u"}`, string(raw))
}
