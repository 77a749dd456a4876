package event

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A batch of several bodies holds the events of the batches of each of them.
func TestAppend(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	opt := DecodeOptions{Now: now, AppendID: func(dst []byte, i int) []byte {
		return strconv.AppendInt(append(dst, "at/"...), int64(i), 10)
	}}
	recorded := now.Add(-time.Minute)
	var d Decoder
	var b Batch
	d.Begin(opt, &b)
	require.NoError(t, d.Append(JSON, []byte(`{"id":"a","service":"shop","type":"order"}`), recorded, nil))
	require.NoError(t, d.Append(JSON, []byte(` [{"service":"shop","type":"order"}, {"service":"shop"} ]`), recorded, nil))
	var broken *BodyError
	require.ErrorAs(
		t, d.Append(JSON, []byte(`[{"service":"shop","type":"order"},{"service":1},{"id`), recorded, nil), &broken)
	require.ErrorAs(t, d.Append(JSON, nil, recorded, nil), &broken)
	require.Equal(t, CodeEmptyBody, broken.Code)
	require.NoError(t, d.Append(NDJSON,
		[]byte("\n{\"service\":\"shop\",\"type\":\"order\",\"time\":\"2026-11-20T11:00:00Z\"}\n{\"x\n"), recorded, nil))
	d.End()

	require.Equal(t, 5, b.Received)
	require.Equal(t, 2, b.Rejected)
	require.Len(t, b.Events, 3)
	require.Equal(t, now.Add(-time.Hour).UnixNano(), b.MinTime)
	require.Equal(t, recorded.UnixNano(), b.MaxTime)
	var ids []string
	for i := range b.Events {
		var v View
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		ids = append(ids, string(v.ID))
		require.Equal(t, b.Events[i].Time, v.Time)
	}
	require.Equal(t, []string{"a", "at/1", "at/3"}, ids)
	require.Equal(t, []int{0, 1, 3}, []int{b.Events[0].Index, b.Events[1].Index, b.Events[2].Index})
	require.Len(t, b.Errors, 2)
	require.Equal(
		t, ItemError{Index: 2, Code: CodeMissingField, Detail: b.Errors[0].Detail, From: 37, To: 55}, b.Errors[0])
	require.Equal(
		t, ItemError{Index: 4, Line: 3, Code: CodeInvalidJSON, Detail: b.Errors[1].Detail, From: 65, To: 68}, b.Errors[1])
}

func TestExtraAttributes(t *testing.T) {
	var d Decoder
	var b Batch
	d.Begin(DecodeOptions{Now: time.Now()}, &b)
	extra := []Extra{{"tenant", []byte("t1")}, {"a", []byte("header")}}
	for _, body := range []string{
		`{"service":"shop","type":"order"}`,
		`{"service":"shop","type":"order","attributes":{"z":"1","a":"own"}}`,
		`{"service":"shop","type":"order","attributes":{"z":"2","a":"own"}}`, // in the shape that was learned
		`{"service":"shop","type":"order","attributes":{"tenant":null}}`,
	} {
		require.NoError(t, d.Append(JSON, []byte(body), time.Now(), extra))
	}
	for _, bad := range []string{strings.Repeat("x", 1025), "\xff"} {
		require.NoError(
			t, d.Append(JSON, []byte(`{"service":"shop","type":"order"}`), time.Now(), []Extra{{"tenant", []byte(bad)}}))
	}
	d.End()
	var got []map[string]string
	for i := range b.Events {
		var v View
		require.NoError(t, v.ParseAll(b.Event(i)))
		got = append(got, v.AttributeMap())
	}
	require.Equal(t, []map[string]string{
		{"a": "header", "tenant": "t1"}, {"a": "own", "tenant": "t1", "z": "1"}, {"a": "own", "tenant": "t1", "z": "2"},
		{"a": "header", "tenant": "t1"},
	}, got)
	require.Equal(t, []Code{CodeBadAttribute, CodeInvalidUTF8}, []Code{b.Errors[0].Code, b.Errors[1].Code})
	for _, name := range []string{"tenant", "slot", "slow", "slave", "slack_channel", "sla2", "slo-x"} {
		require.True(t, ValidAttribute(name), name)
		require.Empty(t, decode(t, JSON, with(`"attributes":{"`+name+`":"a"}`), DecodeOptions{}).Errors)
	}
	for _, name := range []string{"", "1x", "slo_id", "result", "a b", strings.Repeat("x", 129)} {
		require.False(t, ValidAttribute(name), name)
	}
}

// Messages of one event each cost no memory once the batch has grown.
func TestAppendAllocatesNothing(t *testing.T) {
	now := time.Now()
	body := []byte(`{"id":"o-1","service":"shop","type":"order","duration_ms":12,"attributes":{"b":"1","a":"2"}}`)
	var d Decoder
	var b Batch
	fill := func() {
		d.Begin(DecodeOptions{Now: now}, &b)
		for range 100 {
			if err := d.Append(JSON, body, now, nil); err != nil {
				t.Fatal(err)
			}
		}
		d.End()
	}
	fill()
	require.Zero(t, testing.AllocsPerRun(10, fill))
}
