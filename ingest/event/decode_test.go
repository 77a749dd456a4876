package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func decode(t *testing.T, format Format, body string, opt DecodeOptions) *Batch {
	t.Helper()
	if opt.Now.IsZero() {
		opt.Now = now
	}
	var d Decoder
	var b Batch
	require.NoError(t, d.Decode(format, []byte(body), opt, &b))
	require.Equal(t, b.Received, len(b.Events)+b.Rejected)
	return &b
}

func (b *Batch) view(t *testing.T, i int) *View {
	t.Helper()
	var v View
	n, err := v.Parse(b.Event(i))
	require.NoError(t, err)
	require.Equal(t, b.Events[i].End-b.Events[i].Start, n)
	return &v
}

// with wraps members into an event that is otherwise fine.
func with(members string) string { return `{"service":"s","type":"t",` + members + `}` }

var errorCases = []struct {
	name, event string
	code        Code
	detail      string // part of it
}{
	{"trailing comma", `{"service":"s","type":"t",}`, CodeInvalidJSON,
		`Column 27: expected a key in double quotes, found "}".`},
	{"cut", `{"service":"s"`, CodeInvalidJSON, "found end of input"},
	{"two on a line", `{"service":"s","type":"t"}{}`, CodeInvalidJSON, "expected the end of the line after the event"},
	{"single quotes", `{'service':"s"}`, CodeInvalidJSON, "JSON strings use double quotes"},
	{"second byte order mark", "\xef\xbb\xbf\xef\xbb\xbf{}", CodeInvalidJSON, "byte order mark"},
	{"NaN", with(`"duration_ms":NaN`), CodeInvalidJSON, "JSON has no NaN"},
	{"nan", with(`"duration_ms":nan`), CodeInvalidJSON, "JSON has no NaN"},
	{"Infinity", with(`"duration_ms":-Infinity`), CodeInvalidJSON, "JSON has no NaN"},
	{"plus sign", with(`"count":+1`), CodeInvalidJSON, "expected a value"},
	{"leading zero", with(`"count":01`), CodeInvalidJSON, "comma or a closing brace"},
	{"bare point", with(`"count":1.`), CodeInvalidJSON, "expected a digit after the decimal point"},
	{"bare exponent", with(`"count":1e`), CodeInvalidJSON, "expected a digit after the exponent"},
	{"minus alone", with(`"count":-`), CodeInvalidJSON, "expected a value"},
	{"control character", "{\"service\":\"s\x01\"}", CodeInvalidJSON, "control character"},
	{"raw tab", "{\"service\":\"s\t\"}", CodeInvalidJSON, "control character"},
	{"no such escape", `{"service":"\x41"}`, CodeInvalidJSON, "expected one of the escapes"},
	{"short escape", `{"service":"\u12"}`, CodeInvalidJSON, "expected one of the escapes"},
	{"no colon", `{"service" "s"}`, CodeInvalidJSON, "colon"},
	{"long literal", with(`"id":nulls`), CodeInvalidJSON, "comma or a closing brace"},
	{"cut literal", with(`"id":nul`), CodeInvalidJSON, "expected a value"},
	{"syntax wins over fields", `{"nonsense":1,"service":}`, CodeInvalidJSON, "expected a value"},

	{"broken UTF-8", with("\"id\":\"a\xffb\""), CodeInvalidUTF8, `"a\xffb" is not UTF-8`},
	{"overlong UTF-8", with("\"attributes\":{\"a\":\"\xc0\x80\"}"), CodeInvalidUTF8, ""},
	{"broken UTF-8 in a key", with("\"\xff\":1"), CodeInvalidUTF8, ""},
	{"half a surrogate pair", with(`"attributes":{"a":"\ud83d"}`), CodeInvalidUTF8, "both halves"},
	{"wrong half", with(`"attributes":{"a":"\udc00\ud800"}`), CodeInvalidUTF8, "both halves"},
	{"surrogate before the text of an escape", with(`"attributes":{"a":"\ud83dxude00"}`), CodeInvalidUTF8, "both halves"},

	{"duplicate field", `{"service":"s","type":"t","type":"t"}`, CodeDuplicateKey, `Duplicate field "type"`},
	{"duplicate null", with(`"id":null,"id":"x"`), CodeDuplicateKey, ""},
	{"duplicate, escaped", `{"service":"s","type":"t","\u0074ype":"t"}`, CodeDuplicateKey, ""},
	{"duplicate attribute", with(`"attributes":{"b":1,"a":1,"b":2}`), CodeDuplicateKey, `Duplicate attribute "b"`},
	{"duplicate null attribute", with(`"attributes":{"a":null,"a":2}`), CodeDuplicateKey, ""},

	{"deep", with(`"x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20)), CodeUnknownField, ""},
	{"deep attribute", with(`"attributes":` + strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20)),
		CodeBadAttribute, "Flatten"},
	{"too large", with(`"attributes":{"a":"` + strings.Repeat("x", 70_000) + `"}`), CodeEventTooLarge, "maximum is 65536"},

	{"a number", `7`, CodeNotAnObject, "one event object"},
	{"an array", `[{"service":"s","type":"t"}]`, CodeNotAnObject, "application/json"},
	{"null", `null`, CodeNotAnObject, ""},
	{"no service", `{"type":"t"}`, CodeMissingField, `"service" is required`},
	{"null service", `{"type":"t","service":null}`, CodeMissingField, ""},
	{"no type", `{"service":"s"}`, CodeMissingField, `"type" is required`},

	{"unknown field", with(`"durationms":1`), CodeUnknownField, `Did you mean "duration_ms"?`},
	{"known elsewhere", with(`"timestamp":1`), CodeUnknownField, `Did you mean "time"?`},
	{"capitals", with(`"Outcome":1`), CodeUnknownField, `Did you mean "outcome"?`},
	{"far from all", with(`"customer_segment":1`), CodeUnknownField, `Put it into attributes`},
	{"nasty unknown field", with(`"\u001b[31m` + strings.Repeat("x", 100) + `":1`), CodeUnknownField, `"\x1b[31m`},

	{"service is a number", `{"service":1,"type":"t"}`, CodeWrongType, `"service" must be a string`},
	{"count is a string", with(`"count":"1"`), CodeWrongType, "without quotes"},
	{"duration is a bool", with(`"duration":true`), CodeWrongType, ""},
	{"time is a bool", with(`"time":true`), CodeWrongType, ""},
	{"attributes is an array", with(`"attributes":[]`), CodeWrongType, ""},
	{"durations is an object", with(`"durations":{}`), CodeWrongType, ""},

	{"empty id", with(`"id":""`), CodeBadID, "Leave it out"},
	{"long id", with(`"id":"` + strings.Repeat("x", 257) + `"`), CodeBadID, "..."},
	{"control character in id", with(`"id":"a\n"`), CodeBadID, ""},
	{"C1 control character in id", with(`"id":"a\u0085"`), CodeBadID, ""},
	{"bad service", `{"service":"a b","type":"t"}`, CodeBadService, `"a b" must be`},
	{"empty service", `{"service":"","type":"t"}`, CodeBadService, ""},
	{"long service", `{"service":"` + strings.Repeat("x", 129) + `","type":"t"}`, CodeBadService, ""},
	{"bad type", `{"service":"s","type":"a/b"}`, CodeBadType, ""},
	{"bad outcome", with(`"outcome":"error"`), CodeBadOutcome, `must be "failure"`},
	{"other outcome", with(`"outcome":"meh"`), CodeBadOutcome, `must be "success" or "failure"`},
	{"bad severity", with(`"severity":"very bad"`), CodeBadSeverity, ""},
	{"long severity", with(`"severity":"` + strings.Repeat("x", 65) + `"`), CodeBadSeverity, ""},

	{"bad time", with(`"time":"yesterday"`), CodeBadTime, "RFC 3339"},
	{"time without zone", with(`"time":"2026-11-20T09:00:00"`), CodeBadTime, ""},
	{"time in microseconds", with(`"time":1795165200000000`), CodeBadTime, "seconds or milliseconds"},
	{"future", with(`"time":"2026-11-20T09:05:30.000000001Z"`), CodeTimeInFuture, "2026-11-20T09:00:30Z"},
	{"far future", with(`"time":"9999-01-01T00:00:00Z"`), CodeTimeInFuture, ""},
	{"too old", with(`"time":"2026-11-19T09:00:29.999999999Z"`), CodeTimeTooOld, "backfill=true"},
	{"far past", with(`"time":"0001-01-01T00:00:00Z"`), CodeTimeTooOld, ""},
	{"epoch", with(`"time":0`), CodeTimeTooOld, ""},

	{"negative duration", with(`"duration_ms":-1`), CodeBadDuration, "between 0 and 366 days"},
	{"tiny negative duration", with(`"duration_ms":-1e-30`), CodeBadDuration, ""},
	{"long duration", with(`"duration":31622401`), CodeBadDuration, ""},
	{"huge duration", with(`"duration":1e400`), CodeBadDuration, ""},
	{"both durations", with(`"duration":1,"duration_ms":1000`), CodeBadDuration, "not both"},
	{"a sender's weight", with(`"weight":10`), CodeUnknownField, `Did you mean "count"?`},
	{"zero count", with(`"count":0`), CodeBadCount, "from 1 to 4294967295"},
	{"negative count", with(`"count":-1`), CodeBadCount, ""},
	{"broken count", with(`"count":1.5`), CodeBadCount, ""},
	{"large count", with(`"count":4294967296`), CodeBadCount, ""},
	{"huge count", with(`"count":1e99999999999999999999`), CodeBadCount, ""},

	{"durations do not add up", with(`"count":3,"durations":[[1,1],[2,1]]`), CodeBadDurations,
		"add up to 2, but count is 3"},
	{"durations empty", with(`"durations":[]`), CodeBadDurations, "add up to 0"},
	{"durations and duration", with(`"durations":[[1,1]],"duration":1`), CodeBadDurations, "not both"},
	{"no pair", with(`"durations":[1]`), CodeBadDurations, "pairs"},
	{"half a pair", with(`"durations":[[1]]`), CodeBadDurations, "pairs"},
	{"triple", with(`"durations":[[1,1,1]]`), CodeBadDurations, "pairs"},
	{"text in a pair", with(`"durations":[["1",1]]`), CodeBadDurations, "pairs"},
	{"NaN in a pair", with(`"durations":[[NaN,1]]`), CodeInvalidJSON, "NaN"},
	{"negative in a pair", with(`"durations":[[-1,1]]`), CodeBadDurations, "between 0"},
	{"zero count in a pair", with(`"durations":[[1,0]]`), CodeBadDurations, "integer from 1"},
	{"too many pairs", with(`"count":1001,"durations":[[1,1]` + strings.Repeat(",[1,1]", 1000) + `]`),
		CodeBadDurations, "at most 1000"},

	{"nested attribute", with(`"attributes":{"a":{}}`), CodeBadAttribute, `"a" must be a string, number or boolean`},
	{"array attribute", with(`"attributes":{"a":[1]}`), CodeBadAttribute, ""},
	{"attribute name", with(`"attributes":{"1a":1}`), CodeBadAttribute, `name "1a"`},
	{"empty attribute name", with(`"attributes":{"":1}`), CodeBadAttribute, ""},
	{"attribute name with space", with(`"attributes":{"a b":1}`), CodeBadAttribute, ""},
	{"long attribute name", with(`"attributes":{"` + strings.Repeat("a", 129) + `":1}`), CodeBadAttribute, ""},
	{"long value", with(`"attributes":{"a":"` + strings.Repeat("x", 1025) + `"}`), CodeBadAttribute, "has 1025 bytes"},
	{"too many attributes", with(`"attributes":{` + members(65) + `}`), CodeTooManyAttributes, "at most 64"},
	{"reserved service", with(`"attributes":{"service":1}`), CodeReservedLabel, "Rename the attribute"},
	{"reserved le", with(`"attributes":{"le":1}`), CodeReservedLabel, ""},
	{"reserved slo", with(`"attributes":{"slo_id":1}`), CodeReservedLabel, ""},
	{"reserved sla", with(`"attributes":{"sla":1}`), CodeReservedLabel, ""},
	{"reserved sla_type", with(`"attributes":{"sla_type":1}`), CodeReservedLabel, ""},

	{"unknown service", `{"service":"billng","type":"t"}`, CodeUnknownService, `Did you mean "billing"?`},
	{"unknown service, nothing near", `{"service":"warehouse","type":"t"}`, CodeUnknownService, "Add it to the spec."},
	{"unknown type", `{"service":"billing","type":"invoces"}`, CodeUnknownType, `Did you mean "invoice"?`},
	{"forbidden service", `{"service":"secret","type":"t"}`, CodeServiceNotAllowed, "may not send"},
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"a%d":%d`, i, i)
	}
	return b.String()[1:]
}

func strictOptions() DecodeOptions {
	return DecodeOptions{
		Now:          now,
		Catalog:      NewCatalog(map[string][]string{"s": nil, "billing": {"invoice", "payment"}}),
		AllowService: func(s []byte) bool { return string(s) != "secret" },
	}
}

func TestErrorCodes(t *testing.T) {
	for _, c := range errorCases {
		t.Run(c.name, func(t *testing.T) {
			body := with(`"id":"before"`) + "\n\n" + c.event + "\r\n" + with(`"id":"after"`)
			b := decode(t, NDJSON, body, strictOptions())
			require.Equal(t, 3, b.Received)
			require.Len(t, b.Errors, 1, "the events around it are good")
			e := b.Errors[0]
			require.Equal(t, c.code, e.Code, e.Detail)
			require.Contains(t, e.Detail, c.detail)
			require.Less(t, len(e.Detail), 400)
			require.False(t, e.Retryable)
			require.Equal(t, 1, e.Index)
			require.Equal(t, 3, e.Line)
			require.Equal(t, "before", string(b.view(t, 0).ID))
			require.Equal(t, "after", string(b.view(t, 1).ID))
			require.Equal(t, 2, b.Events[1].Index)
			require.Equal(t, 4, b.Events[1].Line)
		})
	}
}

// Every code of single events has a case above, or in the CloudEvents tests.
func TestErrorCasesCoverTheCodes(t *testing.T) {
	seen := map[Code]bool{CodeTooDeep: true, CodeBadCloudEvent: true} // the two others' own tests
	for _, c := range errorCases {
		seen[c.code] = true
	}
	for _, code := range []Code{
		CodeInvalidJSON, CodeInvalidUTF8, CodeDuplicateKey, CodeTooDeep, CodeEventTooLarge, CodeNotAnObject,
		CodeMissingField, CodeUnknownField, CodeWrongType, CodeBadID, CodeBadService, CodeBadType, CodeBadOutcome,
		CodeBadSeverity, CodeBadTime, CodeTimeInFuture, CodeTimeTooOld, CodeBadDuration, CodeBadCount,
		CodeBadDurations, CodeBadAttribute, CodeTooManyAttributes, CodeReservedLabel, CodeUnknownService,
		CodeUnknownType, CodeServiceNotAllowed, CodeBadCloudEvent,
	} {
		require.True(t, seen[code], code)
	}
}

func TestDecodeWholeEvent(t *testing.T) {
	b := decode(t, JSON, `
	{ "id" : "pol-42-issued", "time":"2026-11-20T12:00:00.123+03:00", "service":"insurance-unpaid", "type":"application",
	  "outcome":"failure", "severity":"critical", "duration_ms":812.000001, "count":7,
	  "attributes":{"product":"MED\u0043ARE \ud83d\ude00","stage":"","status":503,"ratio":-1.50e+2,"retry":true,
	  "cold":false,"none":null}}
	`, DecodeOptions{})
	require.Empty(t, b.Errors)
	item := b.Events[0]
	require.True(t, item.HasKey)
	require.Equal(t, Key([]byte("insurance-unpaid"), []byte("pol-42-issued")), item.Key)
	require.Zero(t, item.Line)

	var e Event
	b.view(t, 0).Event(&e)
	want := Event{
		ID: "pol-42-issued", Time: time.Date(2026, 11, 20, 9, 0, 0, 123e6, time.UTC),
		Service: "insurance-unpaid", Type: "application", Outcome: Failure, Severity: "critical",
		Duration: 812*time.Millisecond + 1, HasDuration: true, Count: 7, Weight: 1,
		Attributes: []Attr{{"cold", "false"}, {"product", "MEDCARE 😀"}, {"ratio", "-1.50e+2"}, {"retry", "true"},
			{"stage", ""}, {"status", "503"}},
	}
	require.Equal(t, want.Attributes, e.Attributes)
	e.Durations = nil
	require.Equal(t, want, e)
	require.Equal(t, item.Time, b.MinTime)
	require.Equal(t, item.Time, b.MaxTime)
}

func TestDecodeDefaults(t *testing.T) {
	b := decode(t, JSON,
		`{"service":"s","type":"T","id":null,"time":null,"outcome":null,"severity":null,"duration":null,"duration_ms":null,`+
			`"count":null,"attributes":null,"durations":null}`, DecodeOptions{
			AssignID: func(i int) string { return fmt.Sprintf("made-%d", i) },
		})
	require.Empty(t, b.Errors)
	v := b.view(t, 0)
	require.Equal(t, "made-0", string(v.ID))
	require.Equal(t, "made-0", b.Events[0].Assigned)
	require.False(t, b.Events[0].HasKey)
	require.True(t, v.Assigned)
	require.Equal(t, now.UnixNano(), v.Time)
	require.Equal(t, Success, v.Outcome)
	require.Equal(t, NoDuration, v.Duration)
	require.Equal(t, uint32(1), v.Count)
	require.Nil(t, v.Severity)
	require.Zero(t, v.AttrCount())
	require.Zero(t, v.DurationCount())

	v = decode(t, JSON, `{"service":"s","type":"t"}`, DecodeOptions{}).view(t, 0)
	require.Empty(t, v.ID, "nobody assigns ids")
}

func TestDurations(t *testing.T) {
	v := decode(t, JSON, with(`"durations":[[812.5,2],[0,1],[1e3,4294967292]],"count":4294967295`),
		DecodeOptions{}).view(t, 0)
	var got [][2]int64
	for d, n := range v.Durations {
		got = append(got, [2]int64{d, int64(n)})
	}
	require.Equal(t, [][2]int64{{812_500_000, 2}, {0, 1}, {1e9, 4294967292}}, got)

	for text, want := range map[string]int64{
		`"duration":0.3`: 3e8, `"duration":0.29999999999999998`: 3e8, `"duration":1e-9`: 1, `"duration":4e-10`: 0,
		`"duration_ms":-0`: 0, `"duration_ms":5.300000000745058`: 5_300_000, `"duration_ms":12345.678901`: 12_345_678_901,
		`"duration":31622400`: int64(MaxDuration), `"duration":31622400000000000000e-12`: int64(MaxDuration),
	} {
		b := decode(t, JSON, with(text), DecodeOptions{})
		require.Empty(t, b.Errors, text)
		require.Equal(t, want, b.view(t, 0).Duration, text)
	}
}

func TestLateness(t *testing.T) {
	limits := SizeLimits{AllowedLateness: time.Hour, MaxFuture: time.Minute, MaxBackfill: 48 * time.Hour}
	at := func(d time.Duration, backfill bool) Code {
		b := decode(t, JSON, with(fmt.Sprintf(`"time":%q`, now.Add(d).Format(time.RFC3339Nano))),
			DecodeOptions{SizeLimits: limits, Backfill: backfill})
		require.Equal(t, backfill, b.Backfill)
		if len(b.Errors) == 0 {
			return ""
		}
		return b.Errors[0].Code
	}
	require.Equal(t, Code(""), at(-time.Hour, false))
	require.Equal(t, CodeTimeTooOld, at(-time.Hour-1, false))
	require.Equal(t, Code(""), at(time.Minute, false))
	require.Equal(t, CodeTimeInFuture, at(time.Minute+1, false))
	require.Equal(t, Code(""), at(-48*time.Hour, true))
	require.Equal(t, CodeTimeTooOld, at(-48*time.Hour-1, true))
	require.Equal(t, CodeTimeInFuture, at(time.Minute+1, true))
}

func TestDepth(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	b := decode(t, NDJSON, `{"attributes":{"a":1}}`, DecodeOptions{SizeLimits: SizeLimits{MaxDepth: 1}})
	require.Equal(t, CodeTooDeep, b.Errors[0].Code)
	b = decode(t, JSON, `[`+with(`"x":`+deep(900))+`,`+with(`"id":"good"`)+`]`, DecodeOptions{})
	require.Len(t, b.Events, 1)
	b = decode(t, NDJSON, deep(100_000)+"\n"+deep(30_000)+"\n"+with(`"id":"good"`), DecodeOptions{})
	require.Len(t, b.Events, 1)
	require.Equal(t, CodeEventTooLarge, b.Errors[0].Code)
	require.Equal(t, CodeTooDeep, b.Errors[1].Code)

	var d Decoder
	var bodyErr *BodyError
	require.ErrorAs(t, d.Decode(JSON, []byte(strings.Repeat("[", 1_000_000)), DecodeOptions{Now: now}, b), &bodyErr)
	require.Equal(t, CodeTooDeep, bodyErr.Code)
}

func TestBodies(t *testing.T) {
	good := with(`"id":"a"`)
	for _, c := range []struct {
		name     string
		format   Format
		body     string
		received int
		rejected int
	}{
		{"unterminated last line", NDJSON, good + "\n" + good, 2, 0},
		{"byte order mark", JSON, "\xef\xbb\xbf" + good, 1, 0},
		{"byte order marks of joined files", NDJSON, "\xef\xbb\xbf" + good + "\n\xef\xbb\xbf" + good + "\n", 2, 0},
		{"byte order mark within a line", NDJSON, good + "\xef\xbb\xbf\n", 1, 1},
		{"CRLF", NDJSON, good + "\r\n\r\n" + good + "\r\n", 2, 0},
		{"bad lines", NDJSON, "{\n" + good + "\n}\n", 3, 2},
		{"empty array", JSON, " [ ] ", 0, 0},
		{"array", JSON, "[" + good + " , 1,\n" + good + ",null]", 4, 2},
		{"object", JSON, "\n" + good + "\n", 1, 0},
		{"bad object", JSON, "{}", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := decode(t, c.format, c.body, DecodeOptions{})
			require.Equal(t, c.received, b.Received)
			require.Equal(t, c.rejected, b.Rejected)
			for _, e := range b.Errors {
				require.Equal(t, c.format == NDJSON, e.Line > 0)
			}
		})
	}
}

func TestBodyErrors(t *testing.T) {
	good := with(`"id":"a"`)
	for _, c := range []struct {
		name                 string
		format               Format
		body                 string
		code                 Code
		offset, line, column int
		reason               string
	}{
		{"empty", JSON, "", CodeEmptyBody, 0, 1, 1, "send at least one event"},
		{"blank", JSON, " \n", CodeEmptyBody, 2, 2, 1, ""},
		{"only a byte order mark", NDJSON, "\xef\xbb\xbf", CodeEmptyBody, 3, 1, 4, "send at least one event"},
		{"broken behind a byte order mark", JSON, "\xef\xbb\xbf}", CodeInvalidJSON, 3, 1, 4, ""},
		{"empty NDJSON", NDJSON, "", CodeEmptyBody, 0, 1, 1, "send at least one event"},
		{"blank NDJSON", NDJSON, " \n\r\n", CodeEmptyBody, 4, 3, 1, ""},
		{"scalar", JSON, "7", CodeNotAnObject, 0, 1, 1, "an event object or an array of them"},
		{"no JSON", JSON, "hello", CodeInvalidJSON, 0, 1, 1, `found "hello"`},
		{"NDJSON as JSON", JSON, good + "\n" + good, CodeInvalidJSON, len(good) + 1, 2, 1, "application/x-ndjson"},
		{"broken object", JSON, `{"service":"s",`, CodeInvalidJSON, 15, 1, 16, "found end of input"},
		{"broken in the third", JSON, "[" + good + ",\n" + good + ",\n {\"service\":tru}]", CodeInvalidJSON, 2*len(good) + 17,
			3, 13, `found "tru}]"`},
		{"unclosed array", JSON, "[" + good, CodeInvalidJSON, len(good) + 1, 1, len(good) + 2, ""},
		{"trailing comma", JSON, "[" + good + ",]", CodeInvalidJSON, len(good) + 2, 1, len(good) + 3, ""},
		{"behind the array", JSON, "[]]", CodeInvalidJSON, 2, 1, 3, "expected the end of the body"},
		{"array as CloudEvent", CloudEvent, "[]", CodeNotAnObject, 0, 1, 1, "cloudevents-batch"},
		{"object as batch", CloudEventBatch, "{}", CodeNotAnObject, 0, 1, 1, "an array of CloudEvents"},
		{"format", Format(9), "{}", CodeInvalidJSON, 0, 1, 1, "unknown format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			b := Batch{Events: make([]Item, 3), Received: 3}
			var e *BodyError
			require.ErrorAs(t, d.Decode(c.format, []byte(c.body), DecodeOptions{Now: now}, &b), &e)
			require.Equal(t, c.code, e.Code)
			require.Contains(t, e.Error(), c.reason)
			require.Equal(t, []int{c.offset, c.line, c.column}, []int{e.Offset, e.Line, e.Column}, e.Error())
			require.Zero(t, b.Received)
			require.Empty(t, b.Events)
		})
	}
}

func TestBatchLimits(t *testing.T) {
	var d Decoder
	var b Batch
	opt := DecodeOptions{Now: now, SizeLimits: SizeLimits{MaxBatchEvents: 3, MaxErrors: 2}}
	lines := strings.Repeat("{}\n", 3)
	require.NoError(t, d.Decode(NDJSON, []byte(lines+"\n"), opt, &b))
	require.Equal(t, 3, b.Rejected)
	require.Len(t, b.Errors, 2)
	require.True(t, b.ErrorsTruncated)
	require.Equal(t, []Run{{2, 2, CodeMissingField}}, b.Unlisted)

	var e *BodyError
	require.ErrorAs(t, d.Decode(NDJSON, []byte(lines+"{}"), opt, &b), &e)
	require.Equal(t, CodeBatchTooLarge, e.Code)
	require.Equal(t, 4, e.Line)
	require.ErrorAs(t, d.Decode(JSON, []byte("[{},{},{},{}]"), opt, &b), &e)
	require.Equal(t, CodeBatchTooLarge, e.Code)

	opt.SizeLimits.MaxErrors = 3
	require.NoError(t, d.Decode(NDJSON, []byte(lines), opt, &b))
	require.False(t, b.ErrorsTruncated)
}

// Decoded events stay when the sender's buffer is reused.
func TestBatchDoesNotAliasTheBody(t *testing.T) {
	body := []byte(with(`"id":"abc","attributes":{"a":"b\n"}`) + "\n" + `{"id":"bad","x":1}`)
	var d Decoder
	var b Batch
	require.NoError(t, d.Decode(NDJSON, body, DecodeOptions{Now: now}, &b))
	for i := range body {
		body[i] = '#'
	}
	require.Equal(t, "abc", string(b.view(t, 0).ID))
	require.Equal(t, "bad", b.Errors[0].ID)
	require.Contains(t, b.Errors[0].Detail, `"x"`)
}

// An implausible time is named as it was sent.
func TestFarTimesAreNamedAsSent(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"0000-01-01T00:00:00Z"`, `Time "0000-01-01T00:00:00Z" is more than`},
		{`"0001-01-01T00:00:00Z"`, `Time "0001-01-01T00:00:00Z" is more than`},
		{`"9999-12-31T23:59:59Z"`, `Time "9999-12-31T23:59:59Z" is more than`},
		{`-99999999999`, `Time "-99999999999" is more than`},
		{`99999999999999`, `Time "99999999999999" is more than`},
		{`"1999-01-01T00:00:00Z"`, `Time 1999-01-01T00:00:00Z is more than`},
	} {
		b := decode(
			t, JSON, `[{"service":"s","type":"t","time":`+c.text+`},{"service":"s","type":"t","time":1}]`, DecodeOptions{})
		require.Len(t, b.Errors, 2)
		require.Contains(t, b.Errors[0].Detail, c.want)
		require.Contains(t, b.Errors[1].Detail, "Time 1970-01-01T00:00:01Z", "what the event before left")
		if c.text[0] == '"' {
			b = decode(
				t, CloudEvent, `{"specversion":"1.0","id":"1","source":"s","type":"t","time":`+c.text+`}`, DecodeOptions{})
			require.Contains(t, b.Errors[0].Detail, c.want)
		}
	}
}
