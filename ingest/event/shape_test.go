package event

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Earlier events must not change the result for the next one: each line of many is decoded by one
// decoder after all others, and by a new one alone.
func TestShapesChangeNothing(t *testing.T) {
	catalog := NewCatalog(map[string][]string{"shop": {"order", "task"}, "bank": nil})
	allow := func(s []byte) bool { return string(s) != "secret" }
	seen := map[string]int{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		opt := DecodeOptions{
			Now: now, Catalog: catalog, AllowService: allow, SizeLimits: SizeLimits{MaxNameBytes: 8 + int(seed%2)*8}}
		var used Decoder
		var shared Batch
		for range 30 {
			lines := bytes.Join(randomLines(r, 1+r.IntN(12)), []byte("\n"))
			require.NoError(t, used.Decode(NDJSON, lines, opt, &shared))
			errs, good := 0, 0
			for i, line := range bytes.Split(lines, []byte("\n")) {
				var fresh Decoder
				var alone Batch
				require.NoError(t, fresh.Decode(NDJSON, line, opt, &alone))
				if len(alone.Errors) == 1 {
					want := alone.Errors[0]
					want.Index, want.Line = i, i+1
					got := shared.Errors[errs]
					require.Equal(t, string(line), string(lines[got.From:got.To]))
					want.From, want.To = got.From, got.To
					require.Equal(t, want, got, "%s", line)
					seen[string(want.Code)]++
					errs++
					continue
				}
				require.Equal(t, alone.Event(0), shared.Event(good), "%s", line)
				require.Equal(t, alone.Events[0].Key, shared.Events[good].Key)
				seen["good"]++
				good++
			}
			require.Len(t, shared.Errors, errs)
			require.Len(t, shared.Events, good)
		}
	}
	for _, kind := range []string{"good", string(CodeUnknownService), string(CodeUnknownType), string(CodeDuplicateKey),
		string(CodeBadAttribute), string(CodeReservedLabel), string(CodeBadSeverity), string(CodeUnknownField),
		string(CodeServiceNotAllowed)} {
		require.Greater(t, seen[kind], 20, kind)
	}
}

// randomLines are events that mostly have the same keys: now and then one is left out,
// added, given twice, or stands elsewhere.
func randomLines(r *rand.Rand, n int) [][]byte {
	fields := []string{"id", "service", "type", "severity", "attributes"}
	attrs := []string{"zone", "app", "product", "host"}
	var lines [][]byte
	for range n {
		if r.IntN(8) == 0 {
			r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		}
		if r.IntN(8) == 0 {
			r.Shuffle(len(attrs), func(i, j int) { attrs[i], attrs[j] = attrs[j], attrs[i] })
		}
		lines = append(lines, []byte("{"+randomMembers(r, fields, "extra", func(name string) string {
			return fieldText(r, name, attrs)
		})+"}"))
	}
	return lines
}

func randomMembers(r *rand.Rand, names []string, extra string, value func(name string) string) string {
	var out []byte
	add := func(name string) {
		if len(out) > 0 {
			out = append(out, pick(r, ",", ", ", ",")...)
		}
		out = fmt.Appendf(out, `"%s"%s%s`, name, pick(r, ":", ":", ": ", " :"), value(name))
	}
	for _, name := range names {
		switch r.IntN(40) {
		case 0:
			continue
		case 1:
			add(name)
			add(name)
		case 2:
			add(extra)
			add(name)
		case 3:
			add(name[:1] + fmt.Sprintf(`\u%04x`, name[1]) + name[2:])
		default:
			add(name)
		}
	}
	return string(out)
}

func fieldText(r *rand.Rand, name string, attrs []string) string {
	switch name {
	case "service":
		return pick(r, `"shop"`, `"shop"`, `"shop"`, `"shop"`, `"bank"`, `"shopp"`, `"secret"`,
			`"a-longer-name"`, `"s h"`, `null`)
	case "type":
		return pick(r, `"order"`, `"order"`, `"order"`, `"task"`, `"ordr"`)
	case "severity":
		return pick(r, `"normal"`, `"normal"`, `"critical"`, `"not so"`, `""`, `7`)
	case "attributes":
		return "{" + randomMembers(r, attrs, pick(r, "slo", "1st", "much-too-long-a-name", "le"), func(string) string {
			return pick(r, `"x"`, `"y"`, `12`, `true`, `null`, `"x"`, `"y"`)
		}) + "}"
	}
	return fmt.Sprintf(`"%d"`, r.IntN(1000))
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// TestRefrainChangesNothing reads events behind each other, and each by a decoder that has read no other.
func TestRefrainChangesNothing(t *testing.T) {
	texts := []string{
		`{"id":"1","service":"shop","type":"order","outcome":"success","severity":"low","duration_ms":5}`,
		`{"id":"2","service":"shop","type":"order","outcome":"failure","severity":"low","duration_ms":5}`,
		`{"id":"3","service":"shop","type":"order","outcome":"success","severity":"lower"}`,
		`{"id":"4","service":"shop","type":"order","outcome":"success"}`,
		`{"id":"5","type":"order","service":"shop","outcome":"success","severity":"low"}`,
		`{"id":"6","service":"shop","type":"order","outcome":"success","severity":"low","type":"twice"}`,
		`{"type":"order","id":"7","service":"shop","type":"order","outcome":"success","severity":"low"}`,
		`{"id":"8","service":"shop","type":"order","outcome":null,"severity":"low"}`,
		`{"id":"9","service":"shop","type":"\u006frder","outcome":"success","severity":"low"}`,
		`{"id":"10","service":"bank","type":"order","outcome":"success","severity":"low","attributes":{"a":"1","b":"2"}}`,
		`{"id":"11", "service": "shop", "type": "order", "outcome": "success", "severity": "low"}`,
		`{"id":"12","service":"shop","type":"order","outcome":"maybe","severity":"low"}`,
		`{"id":"13","service":"not a name","type":"order","outcome":"success","severity":"low"}`,
		`{"id":"14","service":"shop","type":"order","outcome":"success","severity":"low"`,
		`{"id":"15","outcome":"success","severity":"low","duration_ms":7,"service":"shop","type":"order"}`,
		`{"id":"16","service":"shop","type":"order","outcome":"success","severity":"low","attributes":{"service":"x"}}`,
	}
	opt := DecodeOptions{
		Now:          time.Unix(1_800_000_000, 0),
		AllowService: func(service []byte) bool { return string(service) != "bank" },
	}
	read := func(d *Decoder, text string) Batch {
		var b Batch
		if err := d.Decode(NDJSON, []byte(text), opt, &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	alone := make([]Batch, len(texts))
	for i, text := range texts {
		alone[i] = read(new(Decoder), text)
	}
	check := func(got *Batch, at, good, bad int, want *Batch, before string, text string) {
		t.Helper()
		if len(want.Events) == 1 && !bytes.Equal(got.Event(good), want.Event(0)) {
			t.Errorf("event %d\n%s\nafter\n%s\nis\n%q, want\n%q", at, text, before, got.Event(good), want.Event(0))
		}
		if len(want.Errors) == 1 {
			g, w := got.Errors[bad], want.Errors[0]
			if g.Code != w.Code || g.Detail != w.Detail || g.ID != w.ID {
				t.Errorf("event %d\n%s\nafter\n%s\nhas error\n%+v, want\n%+v", at, text, before, g, w)
			}
		}
	}
	for i := range texts {
		for j := range texts {
			order := []int{0, i, i, i, j, i} // the last one may meet the refrain of any before
			var d Decoder
			body, before := "", ""
			for _, k := range order {
				body += texts[k] + "\n"
			}
			for range 2 { // the second body meets what the decoder kept of the first
				got := read(&d, body)
				good, bad := 0, 0
				for at, k := range order {
					check(&got, at, good, bad, &alone[k], before, texts[k])
					good += len(alone[k].Events)
					bad += len(alone[k].Errors)
					before = texts[k]
				}
				if good != len(got.Events) || bad != len(got.Errors) {
					t.Fatalf("%d good and %d bad events, want %d and %d", len(got.Events), len(got.Errors), good, bad)
				}
			}
		}
	}
	var d Decoder
	read(&d, texts[0]+"\n"+texts[0])
	if !d.refrain.repeated || d.refrain.first != fieldService {
		t.Error("the second of two equal events was not recognised")
	}
}
