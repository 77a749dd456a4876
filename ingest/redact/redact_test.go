package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/pattern"
)

var key = []byte("0123456789abcdef")

func hashed(text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func decode(t testing.TB, lines string) *event.Batch {
	t.Helper()
	var d event.Decoder
	b := new(event.Batch)
	require.NoError(t, d.Decode(event.NDJSON, []byte(lines), event.DecodeOptions{
		Now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), AssignID: func(int) string { return "assigned" },
	}, b))
	return b
}

func parse(t testing.TB, b *event.Batch, i int) *event.Event {
	t.Helper()
	var v event.View
	n, err := v.Parse(b.Event(i))
	require.NoError(t, err)
	require.Equal(t, len(b.Event(i)), n)
	e := new(event.Event)
	v.Event(e)
	return e
}

func TestValues(t *testing.T) {
	long := strings.Repeat("é", 512)
	for name, c := range map[string]struct {
		rules     []Rule
		value     string
		want      string
		untouched bool
		gone      bool
	}{
		"remove":           {rules: []Rule{{Action: Remove}}, value: "jane", gone: true},
		"mask":             {rules: []Rule{{Action: Mask}}, value: "jane", want: "***"},
		"mask with a text": {rules: []Rule{{Action: Mask, Replace: "$1"}}, value: "jane", want: "$1"},
		"masked already":   {rules: []Rule{{Action: Mask}}, value: "***", untouched: true},
		"hash":             {rules: []Rule{{Action: Hash, Key: key}}, value: "jane", want: hashed("jane")},
		"empty stays": {rules: []Rule{{Action: Hash, Key: key}, {Action: Mask}, {Action: Remove}},
			value: "", untouched: true},
		"IPv4":              {rules: []Rule{{Action: TruncateIP}}, value: "192.0.2.77", want: "192.0.2.0"},
		"IPv4 with port":    {rules: []Rule{{Action: TruncateIP}}, value: "192.0.2.77:8080", want: "192.0.2.0"},
		"IPv4 in IPv6":      {rules: []Rule{{Action: TruncateIP}}, value: "::ffff:192.0.2.77", want: "192.0.2.0"},
		"IPv6":              {rules: []Rule{{Action: TruncateIP}}, value: "2001:db8:1:2:3:4:5:6", want: "2001:db8:1::"},
		"IPv6, zone, port":  {rules: []Rule{{Action: TruncateIP}}, value: "[fe80::1%eth0]:80", want: "fe80::"},
		"no address":        {rules: []Rule{{Action: TruncateIP}}, value: "jane's laptop", want: "***"},
		"no address, named": {rules: []Rule{{Action: TruncateIP, Replace: "unknown"}}, value: "x", want: "unknown"},
		"pattern, mask": {rules: []Rule{{Action: Mask, Pattern: `\d{4}`}}, value: "card 1234 5678 ok",
			want: "card *** *** ok"},
		"pattern, no match": {rules: []Rule{{Action: Mask, Pattern: `\d{4}`}}, value: "card", untouched: true},
		"pattern, groups": {rules: []Rule{{Action: Mask, Pattern: `(\w)\w*@(?P<host>\S+)`, Replace: "$1..@${host} $$"}},
			value: "to jane@x.org", want: "to j..@x.org $"},
		"pattern, remove": {rules: []Rule{{Action: Remove, Pattern: `token=\w+`}},
			value: "a token=1 b token=2", want: "a  b "},
		"pattern, all gone": {rules: []Rule{{Action: Remove, Pattern: `\w+`}}, value: "jane", gone: true},
		"pattern, hash": {rules: []Rule{{Action: Hash, Key: key, Pattern: `u\d+`}}, value: "/u1/u2",
			want: "/" + hashed("u1") + "/" + hashed("u2")},
		"pattern, address": {rules: []Rule{{Action: TruncateIP, Pattern: `\d+\.\d+\.\d+\.\d+`}},
			value: "from 192.0.2.7 and 999.1.1.1", want: "from 192.0.2.0 and ***"},
		"pattern, anchors": {rules: []Rule{{Action: Mask, Pattern: `^a`}}, value: "aaa", want: "***aa"},
		"in order": {rules: []Rule{{Action: Mask, Pattern: `a`, Replace: "b"},
			{Action: Mask, Pattern: `b`, Replace: "c"}, {Action: Mask, Pattern: `c`, Replace: "dd"}}, value: "aa", want: "dddd"},
		"removed at the end": {rules: []Rule{{Action: Mask}, {Action: Remove}, {Action: Mask}}, value: "jane", gone: true},
		"grows to the limit": {rules: []Rule{{Action: Mask, Pattern: `é`, Replace: "日本"}}, value: long,
			want: strings.Repeat("日本", 170) + "日"},
		"never longer": {rules: []Rule{{Action: Mask, Pattern: `.+`, Replace: strings.Repeat("$0", 100)}},
			value: strings.Repeat("x", 1000), want: strings.Repeat("x", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.rules {
				c.rules[i].Attributes = []string{"user"}
			}
			r, err := New(c.rules, nil)
			require.NoError(t, err)
			e := event.Event{ID: "1", Time: time.Unix(1, 0), Service: "s", Type: "t",
				Attributes: []event.Attr{{Name: "a", Value: "jane"}, {Name: "user", Value: c.value}, {Name: "z", Value: "jane"}}}
			raw := event.AppendBinary(nil, &e)
			got, err := r.Append([]byte("before"), raw)
			require.NoError(t, err)
			require.Equal(t, "before", string(got[:6]))
			switch {
			case c.untouched:
			case c.gone:
				e.Attributes = []event.Attr{e.Attributes[0], e.Attributes[2]}
			default:
				e.Attributes[1].Value = c.want
			}
			require.Equal(t, event.AppendBinary(nil, &e), got[6:])
			if !c.untouched {
				require.NotEqual(t, raw, got[6:])
			}
		})
	}
}

func TestApply(t *testing.T) {
	b := decode(t, `{"service":"s","type":"page.view","id":"1","attributes":{"a":"1","user":"jane"}}
{"service":"s","type":"login","id":"jane","severity":"high","duration_ms":812.5,"outcome":"failure",`+
		`"attributes":{"email.home":"j@x","email_work":"j@y","user":"jane"}}
{"service":"s","type":"login","attributes":{"user":"joe"}}
{"service":"s"}
{"service":"s","type":"page.view","id":"2","count":3,"durations":[[1,1],[2000,2]],"attributes":{"user":"jane","b":"2"}}
{"service":"s","type":"login.x","id":"3"}
`)
	require.Len(t, b.Events, 5)
	set := metrics.NewSet()
	r, err := New([]Rule{
		{Attributes: []string{"user"}, Types: []string{"login*"}, Action: Hash, Key: key},
		{Attributes: []string{"email?*"}, Action: Remove},
		{Attributes: []string{"b"}, Types: []string{"page.?iew"}, Action: Mask},
	}, NewMetrics(set))
	require.NoError(t, err)
	before := make([]event.Item, len(b.Events))
	copy(before, b.Events)
	want := make([]*event.Event, len(b.Events))
	for i := range want {
		want[i] = parse(t, b, i)
	}
	want[1].Attributes = []event.Attr{{Name: "user", Value: hashed("jane")}}
	want[2].Attributes[0].Value = hashed("joe")
	want[3].Attributes[0].Value = "***"

	require.NoError(t, r.Apply(b))
	at := 0
	var v event.View
	for i := range b.Events {
		require.Equal(t, want[i], parse(t, b, i))
		require.Equal(t, at, b.Events[i].Start)
		at = b.Events[i].End
		before[i].Start, before[i].End = b.Events[i].Start, b.Events[i].End
	}
	require.Equal(t, len(b.Buf), at)
	require.Equal(t, before, b.Events, "identity, time and place in the body")
	require.Equal(t, event.Key([]byte("s"), []byte("jane")), b.Events[1].Key)
	_, err = v.Parse(b.Event(2))
	require.NoError(t, err)
	require.True(t, v.Assigned, "flags are kept")

	// Again: only hashes change.
	require.NoError(t, r.Apply(b))
	require.Equal(t, hashed(hashed("joe")), parse(t, b, 2).Attributes[0].Value)

	var out strings.Builder
	set.WritePrometheus(&out)
	require.Equal(t, `sloengine_redact_events_total 5
sloengine_redact_values_total{action="hash"} 4
sloengine_redact_values_total{action="mask"} 1
sloengine_redact_values_total{action="remove"} 2
sloengine_redact_values_total{action="truncate_ip"} 0
`, out.String())
}

// The number of attributes takes two bytes from 128 on.
func TestManyAttributes(t *testing.T) {
	r, err := New([]Rule{{Attributes: []string{"x*"}, Action: Remove}}, nil)
	require.NoError(t, err)
	for _, n := range []int{126, 127, 128, 129, 300} {
		for _, gone := range []int{0, 1, 2, 120} {
			e := event.Event{ID: "1", Time: time.Unix(1, 0), Service: "s", Type: "t", Count: 1,
				Durations: []event.DurationCount{{Duration: time.Second, Count: 1}}}
			want := e
			for i := range n {
				a := event.Attr{Name: "a" + strconv.Itoa(1000+i), Value: "v"}
				if i%2 == 0 && i/2 < gone {
					a.Name = "x" + a.Name
				} else {
					want.Attributes = append(want.Attributes, a)
				}
				e.Attributes = append(e.Attributes, a)
			}
			got, err := r.Append(nil, event.AppendBinary(nil, &e))
			require.NoError(t, err)
			require.Equal(t, event.AppendBinary(nil, &want), got, "%d of %d", gone, n)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	b := decode(t, `{"service":"s","type":"t","id":"1","attributes":{"a":"1","user":"jane"}}`)
	buf := string(b.Buf)
	var none *Redactor
	require.NoError(t, none.Apply(b))
	empty, err := New(nil, nil)
	require.NoError(t, err)
	require.NoError(t, empty.Apply(b))
	other, err := New([]Rule{{Attributes: []string{"*"}, Types: []string{"x*"}, Action: Remove},
		{Attributes: []string{"User"}, Action: Remove}}, nil)
	require.NoError(t, err)
	require.NoError(t, other.Apply(b))
	require.Equal(t, buf, string(b.Buf))
	for _, r := range []*Redactor{none, empty, other} {
		got, err := r.Append(nil, b.Buf)
		require.NoError(t, err)
		require.Equal(t, buf, string(got))
	}
}

func TestBroken(t *testing.T) {
	r, err := New([]Rule{{Attributes: []string{"*"}, Action: Remove}}, nil)
	require.NoError(t, err)
	b := decode(t, `{"service":"s","type":"t","id":"1","attributes":{"a":"1"}}
{"service":"s","type":"t","id":"2","attributes":{"a":"1"}}`)
	b.Buf = append(b.Buf, 0)
	b.Events[1].End++
	want, events := string(b.Buf), append([]event.Item(nil), b.Events...)
	require.ErrorContains(t, r.Apply(b), "redact event 1: 1 trailing bytes")
	require.Equal(t, want, string(b.Buf), "the batch is as it was")
	require.Equal(t, events, b.Events)
	dst, err := r.Append([]byte("x"), []byte{1, 0, 0, 0, 0})
	require.ErrorIs(t, err, event.ErrMalformed)
	require.Equal(t, "x", string(dst))
	// Numbers that are longer than they need be are not our writer's.
	odd := append([]byte(nil), b.Event(0)...)
	odd = append(odd[:len(odd)-5], 0x81, 0x00, 1, 'a', 1, '1')
	odd[0]++
	_, err = r.Append(nil, odd)
	require.ErrorIs(t, err, event.ErrMalformed)
}

func TestWrongRules(t *testing.T) {
	for name, c := range map[string]struct {
		rule Rule
		want []string
	}{
		"empty": {Rule{}, []string{`attributes: name at least one, or "*" for all`,
			`action: unknown action "" (want remove, mask, hash or truncate_ip)`}},
		"identity": {Rule{Attributes: []string{"a", "id"}, Action: Mask},
			[]string{
				`attributes[1]: "id" identifies the event and cannot be redacted (keep personal data out of it at the sender)`}},
		"reserved": {Rule{Attributes: []string{"severity"}, Action: Mask},
			[]string{`attributes[0]: "severity" is not a valid attribute name`}},
		"no attribute": {Rule{Attributes: []string{"a b", "c*["}, Action: Mask},
			[]string{
				`attributes[0]: "a b" is not a valid attribute name`, `attributes[1]: "c*[" is not a valid attribute name`}},
		"no type": {Rule{Attributes: []string{"a"}, Types: []string{"pay/*", ""}, Action: Mask},
			[]string{`types[0]: "pay/*" is not a valid event type`, `types[1]: "" is not a valid event type`}},
		"pattern": {Rule{Attributes: []string{"a"}, Action: Mask, Pattern: "("},
			[]string{"pattern: error parsing regexp: missing closing ): `(`"}},
		"endless pattern": {Rule{Attributes: []string{"a"}, Action: Mask, Pattern: strings.Repeat("x", 1025)},
			[]string{"pattern: longer than 1024 bytes"}},
		"empty match": {Rule{Attributes: []string{"a"}, Action: Mask, Pattern: "x*"},
			[]string{"pattern: it matches the empty string, so it would match everywhere"}},
		"no group": {Rule{Attributes: []string{"a"}, Action: Mask, Pattern: "(x)", Replace: "$2 ${n} $$3 $1"},
			[]string{`replace: the pattern has no group "2" (write $$ for a literal dollar sign)`}},
		"huge group": {Rule{Attributes: []string{"a"}, Action: Mask, Pattern: "(x)", Replace: "$99999999999999999999"},
			[]string{`replace: the pattern has no group "99999999999999999999" (write $$ for a literal dollar sign)`}},
		"replace too long": {Rule{Attributes: []string{"a"}, Action: Mask, Replace: strings.Repeat("x", 257)},
			[]string{"replace: longer than 256 bytes"}},
		"replace no text": {Rule{Attributes: []string{"a"}, Action: Mask, Replace: "\xff"},
			[]string{"replace: not valid UTF-8"}},
		"idle replace": {Rule{Attributes: []string{"a"}, Action: Remove, Replace: "x"},
			[]string{"replace: only valid for the actions mask and truncate_ip"}},
		"short key": {Rule{Attributes: []string{"a"}, Action: Hash, Key: []byte("short")},
			[]string{"key: the hash key has 5 bytes, but needs at least 16"}},
		"idle key": {Rule{Attributes: []string{"a"}, Action: Mask, Key: key},
			[]string{"key: a key is only valid for the action hash"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range c.rule.Check() {
				var f *FieldError
				require.ErrorAs(t, err, &f)
				require.ErrorIs(t, err, f.Err)
				got = append(got, err.Error())
			}
			require.Equal(t, c.want, got)
			_, err := New([]Rule{{Attributes: []string{"a"}, Action: Mask}, c.rule}, nil)
			for _, text := range c.want {
				require.ErrorContains(t, err, "redact: rule 1: "+text)
			}
		})
	}
	_, err := New(make([]Rule, 257), nil)
	require.ErrorContains(t, err, "redact: 257 rules exceed the maximum of 256")
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "ab", false}, {"", "a", false},
		{"*", "", true}, {"*", "abc", true}, {"a*", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*b*c", "aXbXbYc", true}, {"a*b*c", "aXcXb", false}, {"?", "a", true}, {"?", "", false}, {"a?c", "abc", true},
		{"*.?", "a.b.c", true}, {"**a**", "bab", true}, {"*ab", "aab", true},
	} {
		require.Equal(t, c.want, pattern.Glob(c.pattern, c.name), "%s %s", c.pattern, c.name)
	}
}

// More names than the caches hold are still redacted, and plans are shared.
func TestCachesAreBounded(t *testing.T) {
	r, err := New([]Rule{{Attributes: []string{"*"}, Types: []string{"t*"}, Action: Mask}}, nil)
	require.NoError(t, err)
	name := func(i int) string { return "n" + hex.EncodeToString([]byte{byte(i >> 8), byte(i)}) }
	for i := range 3 * maxCached {
		e := event.Event{ID: "1", Time: time.Unix(1, 0), Service: "s", Type: "t" + name(i),
			Attributes: []event.Attr{{Name: name(i), Value: "jane"}}}
		got, err := r.Append(nil, event.AppendBinary(nil, &e))
		require.NoError(t, err)
		e.Attributes[0].Value = "***"
		require.Equal(t, event.AppendBinary(nil, &e), got)
	}
	require.Len(t, *r.plans.types.known.Load(), maxCached)
	require.Len(t, r.plans.bySet, 1)
	for _, p := range r.plans.bySet {
		require.Len(t, *p.names.known.Load(), maxCached)
	}
}

func TestConcurrently(t *testing.T) {
	r, err := New([]Rule{{Attributes: []string{"u*"}, Action: Hash, Key: key},
		{Attributes: []string{"*"}, Action: Mask, Pattern: "x+"}}, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				user := string(rune('a' + (g+i)%20))
				b := decode(t, `{"service":"s","type":"t`+user+`","attributes":{"a`+user+`":"0xx1","user":"`+user+`"}}`)
				if err := r.Apply(b); err != nil {
					t.Error(err)
				}
				e := parse(t, b, 0)
				if e.Attr("user") != hashed(user) || e.Attr("a"+user) != "0***1" {
					t.Error(e)
				}
			}
		})
	}
	wg.Wait()
}

// A rule that leaves a value alone, between two that change it, must not let the third overwrite
// the result of the first.
func TestThreeRulesOnOneValue(t *testing.T) {
	r, err := New([]Rule{
		{Attributes: []string{"a"}, Action: Mask, Pattern: "1", Replace: "one-and-longer-"},
		{Attributes: []string{"a"}, Action: Mask, Pattern: "nowhere"},
		{Attributes: []string{"a"}, Action: Mask, Pattern: "one", Replace: "two-and-much-longer-than-before-"},
	}, nil)
	require.NoError(t, err)
	e := event.Event{ID: "x", Time: time.Unix(1e9, 0), Service: "s", Type: "t",
		Attributes: []event.Attr{{Name: "a", Value: "1tail"}}}
	raw := event.AppendBinary(nil, &e)
	out, err := r.Append(nil, raw)
	require.NoError(t, err)
	var v event.View
	_, err = v.Parse(out)
	require.NoError(t, err)
	value, _ := v.Attr("a")
	require.Equal(t, "two-and-much-longer-than-before--and-longer-tail", string(value))
}
