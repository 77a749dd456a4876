package ratelimit

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// keysOf are the layers and rules that an event is charged to.
func keysOf(p *Policy, b *Tickets, i int) (names []string) {
	for _, c := range b.Charges(i) {
		names = append(names, c.Layer.String()+"/"+p.rules[c.Rule].name)
	}
	return names
}

func add(p *Policy, c *Caller, s *Subject) *Tickets {
	b := &Tickets{}
	p.Add(c, s, b)
	return b
}

func TestLayersOfAnEvent(t *testing.T) {
	p := mustCompile(t, Config{
		Global: &Values{},
		Types:  []TypeRule{{Match: "payment.*"}},
		Contexts: []ContextRule{
			{Name: "user", From: []Source{{Kind: FromAttribute, Name: "user_id"}}},
			{Name: "address", From: []Source{{Kind: FromClientIP}}},
		},
	})
	s := typed("payment.retry")
	b := add(p, &Caller{}, s)
	require.Equal(t, []string{"global/global", "type/payment.*"}, keysOf(p, b, 0))
	s.Attrs = attrs{"user_id": "u1"}
	p.Add(&Caller{IP: "::1"}, s, b)
	require.Equal(t, []string{"global/global", "type/payment.*", "context/user", "context/address"}, keysOf(p, b, 1))
	s.Attrs = attrs{"user_id": ""}
	p.Add(&Caller{}, s, b)
	require.Equal(t, []string{"global/global", "type/payment.*"}, keysOf(p, b, 2), "no value, no layer")
}

// Keys are made of names: the same in each process and after each reload.
func TestKeys(t *testing.T) {
	c := Config{
		Global:   &Values{},
		Types:    []TypeRule{{Match: "payment.*"}},
		Contexts: []ContextRule{{Name: "user", From: []Source{{Kind: FromAttribute, Name: "user_id"}}}},
	}
	s := typed("payment.retry")
	s.Attrs = attrs{"user_id": "u1"}
	b := add(mustCompile(t, c), &Caller{}, s)
	require.Equal(t, hashKey([]byte("global\x00global\x00")), b.charges[0].Key)
	require.Equal(t, hashKey([]byte("type\x00payment.*\x00")), b.charges[1].Key)
	require.Equal(t, hashKey([]byte("context\x00user\x00u1")), b.charges[2].Key)

	// A pattern is one counter, the default rule is one for each type.
	c.Types = append([]TypeRule{{Match: "new"}}, c.Types...)
	c.Global.Limit = new(int64(5))
	p := mustCompile(t, c)
	require.Equal(t, b.charges[1].Key, add(p, &Caller{}, typed("payment.failed")).charges[1].Key)
	require.Equal(t, hashKey([]byte("type\x00(default)\x00x")), add(p, &Caller{}, typed("x")).charges[1].Key)
	require.NotEqual(t, add(p, &Caller{}, typed("x")).charges[1].Key, add(p, &Caller{}, typed("y")).charges[1].Key)
}

func TestContextSources(t *testing.T) {
	asked := 0
	headers := map[string]string{"X-User": "from-header"}
	full := Caller{Token: "from-token", IP: "from-ip", Header: func(n string) string { asked++; return headers[n] }}
	value := func(p *Policy, c *Caller, a Attributes) string {
		s := typed("a")
		s.Attrs = a
		b := add(p, c, s)
		if len(b.Charges(0)) < 2 {
			return ""
		}
		return string(b.valueAt(b.Charges(0)[1].value))
	}
	for name, c := range map[string]struct {
		from   []Source
		caller Caller
		attrs  Attributes
		want   string
	}{
		"attribute":     {[]Source{{FromAttribute, "user"}}, full, attrs{"user": "x"}, "x"},
		"no attributes": {[]Source{{FromAttribute, "user"}}, full, nil, ""},
		"header":        {[]Source{{FromHeader, "X-User"}}, full, nil, "from-header"},
		"no headers":    {[]Source{{FromHeader, "X-User"}}, Caller{}, nil, ""},
		"other header":  {[]Source{{FromHeader, "X-Other"}}, full, nil, ""},
		"address":       {[]Source{{FromClientIP, ""}}, full, nil, "from-ip"},
		"token":         {[]Source{{FromToken, ""}}, full, nil, "from-token"},
		"in order": {[]Source{{FromAttribute, "user"}, {FromHeader, "X-User"}, {FromClientIP, ""}}, full,
			attrs{"user": "x"}, "x"},
		"second": {[]Source{{FromAttribute, "user"}, {FromHeader, "X-User"}, {FromClientIP, ""}}, full,
			attrs{}, "from-header"},
		"third": {[]Source{{FromHeader, "X-Other"}, {FromAttribute, "user"}, {FromClientIP, ""}}, full,
			attrs{"user": "x"}, "x"},
		"none of several": {[]Source{{FromHeader, "X-Other"}, {FromAttribute, "user"}}, Caller{}, attrs{"user": ""}, ""},
	} {
		p := mustCompile(t, Config{Authentication: true, Contexts: []ContextRule{{Name: "c", From: c.from}}})
		require.Equal(t, c.want, value(p, &c.caller, c.attrs), name)
	}

	p := mustCompile(t, Config{Contexts: []ContextRule{{
		Name: "c", From: []Source{{Kind: FromClientIP}},
		Extractor: func(c *Caller, s *Subject) string {
			v, _ := s.Attrs.Attr("tenant")
			return strings.ToLower(string(v))
		},
	}}})
	require.Equal(t, "acme", value(p, &full, attrs{"tenant": "ACME"}))
	require.Equal(t, "from-ip", value(p, &full, attrs{}))

	// The caller's values are read once per request.
	asked = 0
	p = mustCompile(
		t, Config{Contexts: []ContextRule{{Name: "c", From: []Source{{FromHeader, "X-Other"}, {FromHeader, "X-User"}}}}})
	b := &Tickets{}
	for range 10 {
		p.Add(&full, typed("a"), b)
	}
	require.Equal(t, 2, asked)
	require.Equal(t, b.charges[1].Key, b.charges[19].Key)
	b.Reset()
	headers["X-User"] = "next"
	p.Add(&full, typed("a"), b)
	require.Equal(t, 4, asked, "another request is asked again")
	require.Equal(t, "next", string(b.valueAt(b.charges[1].value)))
	p.Add(&Caller{}, typed("a"), b)
	require.Len(t, b.Charges(1), 1, "another caller, too")
}

// The key is made of all of a value, even where only its beginning is kept.
func TestLongValues(t *testing.T) {
	p := mustCompile(t, Config{Contexts: []ContextRule{{Name: "c", From: []Source{{FromAttribute, "a"}}}}})
	long := strings.Repeat("x", 10_000)
	b := &Tickets{}
	var want []Key
	for _, v := range []string{long + "1", long + "2", long + "1", long[:maxKept], "y", "y", long[:maxKept]} {
		s := typed("a")
		s.Attrs = attrs{"a": v}
		p.Add(&Caller{}, s, b)
		want = append(want, hashKey([]byte("context\x00c\x00"+v)))
	}
	for i := range want {
		c := b.Charges(i)[1]
		require.Equal(t, want[i], c.Key, i)
		require.LessOrEqual(t, len(b.valueAt(c.value)), maxKept)
	}
	require.Less(t, len(b.values), 7*maxKept+100)
}

func TestBypass(t *testing.T) {
	fatal, admin := []string{"fatal", "error"}, map[string][]string{"role": {"admin", "root"}, "env": {"production"}}
	for name, c := range map[string]struct {
		rules  []BypassRule
		anon   bool
		exempt bool
	}{
		"type":                {rules: []BypassRule{{Types: []string{"payment.fraud"}}}, exempt: true},
		"pattern":             {rules: []BypassRule{{Types: []string{"other", "pay*"}}}, exempt: true},
		"not the type":        {rules: []BypassRule{{Types: []string{"order.*"}}}},
		"severity":            {rules: []BypassRule{{Severities: fatal}}, exempt: true},
		"not the severity":    {rules: []BypassRule{{Severities: []string{"info"}}}},
		"attributes":          {rules: []BypassRule{{Attributes: admin}}, exempt: true},
		"not all attributes":  {rules: []BypassRule{{Attributes: map[string][]string{"role": {"admin"}, "env": {"test"}}}}},
		"a missing attribute": {rules: []BypassRule{{Attributes: map[string][]string{"none": {""}}}}},
		"token":               {rules: []BypassRule{{Tokens: []string{"billing"}}}, exempt: true},
		"another token":       {rules: []BypassRule{{Tokens: []string{"web"}}}},
		"all of a rule": {rules: []BypassRule{
			{Types: []string{"payment.*"}, Severities: fatal, Attributes: admin, Tokens: []string{"billing"}}}, exempt: true},
		"all of a rule but one": {
			rules: []BypassRule{{Types: []string{"payment.*"}, Severities: fatal, Attributes: admin, Tokens: []string{"web"}}}},
		"one of two rules": {
			rules: []BypassRule{{Severities: []string{"info"}}, {Tokens: []string{"billing"}}}, exempt: true},
		"check": {rules: []BypassRule{{Check: func(c *Caller, s *Subject) bool {
			return string(s.Service) == "shop"
		}}}, exempt: true},
		"no check": {rules: []BypassRule{{Types: []string{"*"}, Check: func(c *Caller, s *Subject) bool {
			return false
		}}}},
		"anybody": {
			rules: []BypassRule{{Types: []string{"*"}, Severities: fatal, Tokens: []string{"billing"}}}, anon: true},
	} {
		p := mustCompile(t, Config{Authentication: true, Bypass: c.rules})
		s := typed("payment.fraud")
		s.Severity, s.Attrs = []byte("fatal"), attrs{"role": "admin", "env": "production"}
		b := add(p, &Caller{Authenticated: !c.anon, Token: "billing"}, s)
		require.Equal(t, c.exempt, b.List[0].Exempt, name)
		require.Equal(t, c.exempt, len(b.Charges(0)) == 0, name)
	}
}

func TestAudit(t *testing.T) {
	p := mustCompile(t, Config{Audit: []string{"audit.*", "user.deleted"}})
	for typ, exempt := range map[string]bool{"audit.login": true, "user.deleted": true,
		"user.created": false, "audit": false} {
		require.Equal(t, exempt, add(p, &Caller{}, typed(typ)).List[0].Exempt, typ)
	}
}

// Any number of invented types gives right answers in bounded memory, from many
// goroutines.
func TestTypeCache(t *testing.T) {
	p := mustCompile(t, Config{Types: []TypeRule{{Match: "t1*"}, {Match: "t2000"}}, Audit: []string{"a*"}})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 30_000 {
				i = (i*7 + g) % 30_000
				typ := fmt.Sprintf("t%d", i)
				e := p.typeOf([]byte(typ))
				want := DefaultRule
				switch {
				case typ == "t2000":
					want = typ
				case strings.HasPrefix(typ, "t1"):
					want = "t1*"
				}
				if got := p.rules[e.rule].name; got != want || e.name != typ || e.audit {
					t.Errorf("type %s has rule %s, not %s", typ, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
	require.True(t, p.typeOf([]byte("abc")).audit)
}

func TestAddAllocates(t *testing.T) {
	p := mustCompile(t, Config{
		Authentication: true,
		Global:         &Values{},
		Types:          []TypeRule{{Match: "a*"}},
		Contexts: []ContextRule{
			{Name: "user", From: []Source{{FromAttribute, "user_id"}}},
			{Name: "address", From: []Source{{FromHeader, "X-Real-IP"}, {FromClientIP, ""}}},
		},
		Bypass: []BypassRule{{Severities: []string{"fatal"}, Attributes: map[string][]string{"region": {"moon"}}}},
	})
	c := &Caller{Authenticated: true, IP: "::1", Header: func(string) string { return "" }}
	a := &benchAttrs{[]byte("u1"), []byte("eu")}
	s := &Subject{Type: []byte("abc"), Severity: []byte("fatal"), Attrs: a}
	b := &Tickets{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.Reset()
		for i := range 100 {
			a.user[0] = byte(i)
			p.Add(c, s, b)
		}
	}))
	require.Len(t, b.Charges(99), 4)
}
