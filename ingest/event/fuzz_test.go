package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func seeds(f *testing.F) {
	f.Add([]byte(typicalLine))
	for _, c := range errorCases {
		if len(c.event) < 2000 {
			f.Add([]byte(c.event))
		}
	}
	f.Add([]byte(with(`"attributes":{"a\u0062":"\ud83d\ude00\/","n":-1.5e+3,"b":true,"z":null}`)))
	f.Add([]byte(with(`"durations":[[1.5,2],[3,1]],"count":3`)))
	f.Add([]byte(with(`"weight":10,"count":3`)))
	f.Add([]byte(with(`"weight":null`)))
	f.Add([]byte(with(`"time":1700000000.5,"duration":1e-9,"id":"é"`)))
}

// FuzzDecode holds the decoder against a slow one made of encoding/json: both
// take the same texts and read the same event.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		var e Event
		err := d.DecodeEvent(data, &e)
		var ee *EventError
		if err != nil {
			require.ErrorAs(t, err, &ee)
			require.True(t, utf8.ValidString(ee.Detail))
		}
		if len(data) > 60_000 || ee != nil && ee.Code == CodeTooDeep {
			return
		}
		plain := bytes.TrimPrefix(data, []byte(BOM))
		require.Equal(t, json.Valid(plain), ee == nil || ee.Code != CodeInvalidJSON, "%v", err)
		want, ok := slowDecode(plain, true)
		var weighted Event
		require.Equal(t, ok, weighted.UnmarshalJSON(data) == nil)
		if ok {
			require.Equal(t, want, &weighted)
		}
		want, ok = slowDecode(plain, false)
		require.Equal(t, ok, err == nil, "%v", err)
		if ok {
			require.Equal(t, want, &e)
		}

		// The same text within NDJSON and an array.
		var b Batch
		opt := DecodeOptions{Now: e.Time}
		if !bytes.ContainsAny(data, "\n") && len(bytes.TrimLeft(plain, " \t\r")) > 0 {
			require.NoError(t, d.Decode(NDJSON, slices.Concat([]byte("{}\n"), data, []byte("\n{}")), opt, &b))
			require.Equal(t, 3, b.Received)
			require.Len(t, b.Events, btoi(ok))
		}
		err = d.Decode(JSON, slices.Concat([]byte("[{},"), plain, []byte(",{}]")), opt, &b)
		if ok {
			require.NoError(t, err)
			require.Len(t, b.Events, 1)
			var v View
			_, err = v.Parse(b.Event(0))
			require.NoError(t, err)
			require.Equal(t, e.ID, string(v.ID))
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

var (
	nameRE = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	attrRE = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]*$`)
)

type member struct {
	key   string
	value json.RawMessage
}

// slowMembers splits an object. It refuses text that encoding/json would repair.
func slowMembers(data []byte) (members []member, err error) {
	if !utf8.Valid(data) || loneSurrogate(data) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("no object")
	}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: tok.(string)}
		if slices.ContainsFunc(members, func(o member) bool { return o.key == m.key }) {
			return nil, errors.New("duplicate")
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more follows")
	}
	return members, nil
}

var escapes = regexp.MustCompile(`(?i)\\(u[0-9a-f]{4}|.)`)

// loneSurrogate finds escaped halves by their text.
func loneSurrogate(data []byte) bool {
	all := escapes.FindAllIndex(data, -1)
	for i := 0; i < len(all); i++ {
		hi := surrogate(data, all[i])
		switch {
		case hi == 0:
		case hi < 0xdc00 && i+1 < len(all) && all[i+1][0] == all[i][1] && surrogate(data, all[i+1]) >= 0xdc00:
			i++
		default:
			return true
		}
	}
	return false
}

func surrogate(data []byte, at []int) uint64 {
	if at[1]-at[0] != 6 {
		return 0
	}
	r, _ := strconv.ParseUint(string(data[at[0]+2:at[1]]), 16, 32)
	if r < 0xd800 || r > 0xdfff {
		return 0
	}
	return r
}

func slowDecode(data []byte, weights bool) (*Event, bool) {
	if !json.Valid(data) {
		return nil, false
	}
	members, err := slowMembers(data)
	if err != nil {
		return nil, false
	}
	e := &Event{Count: 1, Weight: 1}
	ok := true
	must := func(good bool) { ok = ok && good }
	text := func(m member) (s string) {
		must(m.value[0] == '"' && json.Unmarshal(m.value, &s) == nil)
		return s
	}
	pairs, durations := false, 0
	for _, m := range members {
		if string(m.value) == "null" && (slices.Contains(fieldNames, m.key) || weights && m.key == "weight") {
			continue
		}
		switch m.key {
		case "id":
			e.ID = text(m)
			must(len(e.ID) > 0 && len(e.ID) <= 256)
			must(!strings.ContainsFunc(e.ID, func(r rune) bool { return r < 32 || r >= 127 && r < 160 }))
		case "service":
			e.Service = text(m)
			must(nameRE.MatchString(e.Service) && len(e.Service) <= 128)
		case "type":
			e.Type = text(m)
			must(nameRE.MatchString(e.Type) && len(e.Type) <= 128)
		case "severity":
			e.Severity = text(m)
			must(nameRE.MatchString(e.Severity) && len(e.Severity) <= 64)
		case "outcome":
			s := text(m)
			must(s == "success" || s == "failure")
			e.Outcome = Outcome(btoi(s == "failure"))
		case "time":
			var good bool
			e.Time, good = slowTime(m.value)
			must(good)
		case "duration", "duration_ms":
			unit := int64(time.Second)
			if m.key == "duration_ms" {
				unit = int64(time.Millisecond)
			}
			n, good := slowNumber(m.value, unit, 0, int64(MaxDuration), false)
			must(good)
			e.Duration, e.HasDuration = time.Duration(n), true
			durations++
		case "count":
			n, good := slowNumber(m.value, 1, 1, 1<<32-1, true)
			must(good)
			e.Count = uint32(n)
		case "weight":
			n, good := slowNumber(m.value, 1, 1, 1<<32-1, true)
			must(good && weights)
			e.Weight = uint32(n)
		case "attributes":
			must(slowAttributes(m.value, e))
		case "durations":
			var list [][]json.RawMessage
			must(m.value[0] == '[' && json.Unmarshal(m.value, &list) == nil && len(list) <= 1000)
			for _, p := range list {
				if must(len(p) == 2); !ok {
					break
				}
				ns, good := slowNumber(p[0], int64(time.Millisecond), 0, int64(MaxDuration), false)
				n, good2 := slowNumber(p[1], 1, 1, 1<<32-1, true)
				must(good && good2)
				e.Durations = append(e.Durations, DurationCount{time.Duration(ns), uint32(n)})
			}
			pairs = true
		default:
			must(false)
		}
	}
	must(e.Service != "" && e.Type != "" && durations < 2)
	if pairs {
		sum := uint64(0)
		for _, p := range e.Durations {
			sum += uint64(p.Count)
		}
		must(sum == uint64(e.Count) && durations == 0)
	}
	return e, ok
}

func slowAttributes(data []byte, e *Event) bool {
	members, err := slowMembers(data)
	if err != nil || len(members) > 64 {
		return false
	}
	for _, m := range members {
		value := string(m.value)
		switch value[0] {
		case '{', '[':
			return false
		case '"':
			value = ""
			if json.Unmarshal(m.value, &value) != nil {
				return false
			}
		}
		reserved := slices.Contains(
			[]string{"service", "type", "outcome", "severity", "id", "time", "result", "le", "window", "slo", "sla"}, m.key) ||
			strings.HasPrefix(m.key, "slo_") || strings.HasPrefix(m.key, "sla_")
		if !attrRE.MatchString(m.key) || len(m.key) > 128 || reserved || len(value) > 1024 {
			return false
		}
		if string(m.value) != "null" {
			e.Attributes = append(e.Attributes, Attr{m.key, value})
		}
	}
	slices.SortFunc(e.Attributes, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) })
	return true
}

func slowRat(data []byte) (*big.Rat, bool) {
	if strings.IndexByte("-0123456789", data[0]) < 0 {
		return nil, false
	}
	if _, exp, found := bytes.Cut(bytes.ToLower(data), []byte("e")); found {
		if n, err := strconv.Atoi(string(exp)); err != nil || n > 5000 || n < -5000 {
			// Too big or too small for big.Rat: put a number in its place that is judged in the same way.
			mantissa, _, _ := bytes.Cut(bytes.ToLower(data), []byte("e"))
			r, ok := new(big.Rat).SetString(string(mantissa))
			if !ok || r.Sign() == 0 {
				return r, ok
			}
			tiny, _ := new(big.Rat).SetString("1e-4000")
			if exp[0] != '-' {
				tiny.Inv(tiny)
			}
			return tiny.Mul(tiny, big.NewRat(int64(r.Sign()), 1)), true
		}
	}
	return new(big.Rat).SetString(string(data))
}

func roundRat(r *big.Rat, unit int64) *big.Int {
	r = new(big.Rat).Mul(r, new(big.Rat).SetInt64(unit))
	negative := r.Sign() < 0
	r.Abs(r)
	r.Add(r, big.NewRat(1, 2))
	n := new(big.Int).Div(r.Num(), r.Denom())
	if negative {
		n.Neg(n)
	}
	return n
}

func slowNumber(data []byte, unit, low, high int64, integer bool) (int64, bool) {
	r, ok := slowRat(data)
	if !ok || integer && !r.IsInt() || r.Sign() < 0 {
		return 0, false
	}
	n := roundRat(r, unit)
	return n.Int64(), n.IsInt64() && n.Int64() >= low && n.Int64() <= high
}

func slowTime(data []byte) (time.Time, bool) {
	if data[0] == '"' {
		var s string
		var when time.Time
		if json.Unmarshal(data, &s) != nil || when.UnmarshalText([]byte(s)) != nil || !rfc3339.MatchString(s) {
			return when, false
		}
		return when.UTC(), when.Year() > 1677 && when.Year() < 2262
	}
	r, ok := slowRat(data)
	if !ok {
		return time.Time{}, false
	}
	size := new(big.Rat).Abs(r)
	unit := int64(time.Second)
	switch {
	case size.Cmp(big.NewRat(1e14, 1)) >= 0:
		return time.Time{}, false
	case size.Cmp(big.NewRat(1e11, 1)) >= 0:
		unit = int64(time.Millisecond)
	}
	n := roundRat(r, unit)
	if !n.IsInt64() {
		return time.Time{}, false
	}
	return time.Unix(0, n.Int64()).UTC(), true
}

// FuzzView feeds junk to Parse: it must not panic, nor read beyond the stated length, and an
// accepted event can be walked.
func FuzzView(f *testing.F) {
	f.Add(AppendBinary(nil, sample()))
	f.Add(AppendBinary(nil, &Event{Service: "s", Type: "t", ID: strings.Repeat("x", 200), Time: now,
		Duration: time.Hour, HasDuration: true}))
	f.Add([]byte{9, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(AppendBinary(nil, &Event{Service: "s", Type: "t", Time: now, Count: 300, Weight: 300}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v View
		n, err := v.Parse(data)
		if err != nil {
			require.True(t, errors.Is(err, ErrShort) || errors.Is(err, ErrNewer) || errors.Is(err, ErrMalformed))
			require.Zero(t, n)
			return
		}
		require.LessOrEqual(t, n, len(data))
		attrs, durations := 0, 0
		for range v.Attrs {
			attrs++
		}
		for d, n := range v.Durations {
			require.True(t, d >= 0 && n > 0)
			durations++
		}
		require.Equal(t, v.AttrCount(), attrs)
		require.Equal(t, v.DurationCount(), durations)
		var e Event
		v.Event(&e)
		require.True(t, json.Valid(v.AppendJSON(nil)))
		require.True(t, json.Valid(e.AppendJSON(nil)))
		require.True(t, v.Count > 0 && v.Weight > 0)

		heavy, err := AppendWeighted(nil, data[:n], 3)
		if v.Weight > math.MaxUint32/3 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		var w View
		_, err = w.Parse(heavy)
		require.NoError(t, err)
		require.Equal(t, 3*v.Weight, w.Weight)
		var same Event
		w.Event(&same)
		same.Weight = e.Weight
		require.Equal(t, e, same)
	})
}
