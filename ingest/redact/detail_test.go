package redact

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// No mistake that one wrong byte makes in an event brings its attribute's value into
// an error.
func TestErrorsDoNotTell(t *testing.T) {
	const secret = "Qx1Wz2Kv3Jy4Hq5"
	r, err := New([]Rule{{Attributes: []string{"email"}, Action: Remove}}, nil)
	require.NoError(t, err)
	good := `{"service":"s","type":"t","id":"1","time":"2026-11-20T09:00:00Z","attributes":{"a":1,"email":"` + secret +
		`","n":"` + secret + `"},"count":1}`
	told := func(text string) bool {
		for i := range len(secret) - 3 {
			if strings.Contains(text, secret[i:i+4]) {
				return true
			}
		}
		return false
	}
	var d event.Decoder
	var b event.Batch
	opt := event.DecodeOptions{Now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	errors, leaks := 0, 0
	check := func(body string) {
		for _, format := range []event.Format{event.NDJSON, event.JSON} {
			err := d.Decode(format, []byte(body), opt, &b)
			if broken, ok := err.(*event.BodyError); ok {
				errors++
				if told(broken.Reason) {
					leaks++
				}
				r.BodyError(broken)
				require.False(t, told(broken.Reason), "%s: %s", body, broken.Reason)
			}
			for i := range b.Errors {
				errors++
				if told(b.Errors[i].Detail) {
					leaks++
				}
				r.ItemError(&b.Errors[i])
				require.False(t, told(b.Errors[i].Detail), "%s: %s", body, b.Errors[i].Detail)
				require.NotEmpty(t, b.Errors[i].Detail)
			}
		}
	}
	for i := range len(good) {
		check(good[:i])
		check(good[:i] + good[i+1:])
		for _, c := range "\"\\{}[],:x1-\x00\xff" {
			check(good[:i] + string(c) + good[i+1:])
			check(good[:i] + string(c) + good[i:])
		}
	}
	require.Greater(t, errors, 2000)
	require.Positive(t, leaks, "the test must be able to fail")
}

func TestErrorTexts(t *testing.T) {
	r, err := New([]Rule{{Attributes: []string{"email"}, Action: Remove}}, nil)
	require.NoError(t, err)
	var none *Redactor
	for _, c := range []struct {
		code         event.Code
		detail, want string
	}{
		{event.CodeInvalidJSON, `Column 9: expected a comma or a closing brace, found "jane@x".`,
			"Column 9: expected a comma or a closing brace."},
		{event.CodeInvalidJSON, `expected a value, found "jane, found "`, "expected a value"},
		{event.CodeInvalidJSON, "Column 9: expected a value, found end of input.",
			"Column 9: expected a value, found end of input."},
		{event.CodeUnknownType, `The spec has no type "x, found y".`, `The spec has no type "x, found y".`},
	} {
		e, b := event.ItemError{Code: c.code, Detail: c.detail}, event.BodyError{Code: c.code, Reason: c.detail}
		none.ItemError(&e)
		none.BodyError(&b)
		require.Equal(t, c.detail, e.Detail)
		r.ItemError(&e)
		r.BodyError(&b)
		require.Equal(t, c.want, e.Detail)
		require.Equal(t, c.want, b.Reason, fmt.Sprint(c))
	}
}
