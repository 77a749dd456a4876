package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

// benchAttrs are two attributes, looked up as an event's are.
type benchAttrs struct{ user, region []byte }

func (a *benchAttrs) Attr(name string) ([]byte, bool) {
	switch name {
	case "user_id":
		return a.user, true
	case "region":
		return a.region, true
	}
	return nil, false
}

func benchPolicy(b *testing.B) *Policy {
	return mustCompile(b, Config{
		Global: &Values{Limit: new(int64(MaxLimit))},
		Types:  []TypeRule{{Match: "order.*", Values: Values{Limit: new(int64(MaxLimit))}}},
		Contexts: []ContextRule{{
			Name: "user", From: []Source{{Kind: FromAttribute, Name: "user_id"}},
			Values: Values{Limit: new(int64(MaxLimit)), Window: new(time.Minute)},
		}},
	})
}

// benchUsers gives the names of n users in no order, each as often as the others. As
// those of decoded events they are in the processor's cache.
type benchUsers struct {
	n, i int
	name [13]byte
}

func (u *benchUsers) next() []byte {
	const prime = 982_451_653
	u.i++
	copy(u.name[:], "user-")
	v := u.i * prime % u.n
	for j := len(u.name) - 1; j >= 5; j-- {
		u.name[j] = byte('0' + v%10)
		v /= 10
	}
	return u.name[:]
}

const benchBatch = 100

// One event through all of it: Add, Take and Decide, with three layers.
func BenchmarkDecide(b *testing.B) {
	for _, contexts := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("contexts=%d", contexts), func(b *testing.B) {
			users := benchUsers{n: contexts}
			l := mustLimiter(b, Options{Policy: benchPolicy(b)})
			c := &Caller{Authenticated: true}
			a := &benchAttrs{}
			s := &Subject{Service: []byte("shop"), Type: []byte("order.created"), Severity: []byte("info"), Attrs: a}
			batch := &Tickets{}
			batches := []*Tickets{batch}
			now := time.Now()
			run := func() {
				batch.Reset()
				for range benchBatch {
					a.user = users.next()
					l.Policy().Add(c, s, batch)
				}
				now = now.Add(time.Millisecond / 10)
				if err := l.Decide(b.Context(), now, batches); err != nil {
					b.Fatal(err)
				}
			}
			for range contexts/benchBatch + 1 {
				run()
			}
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/event")
		})
	}
}

// The same for events that are all over their user's limit: the cost of a flood.
func BenchmarkDecideOver(b *testing.B) {
	users := benchUsers{n: 100_000}
	l := mustLimiter(b, Options{Policy: mustCompile(b, Config{
		Global: &Values{Limit: new(int64(MaxLimit))},
		Contexts: []ContextRule{{
			Name: "user", From: []Source{{Kind: FromAttribute, Name: "user_id"}},
			Values: Values{Limit: new(int64(1)), Window: new(time.Hour), OnExceeded: new(OnExceededDrop)},
		}},
		Default: Values{Limit: new(int64(MaxLimit))},
	})})
	a := &benchAttrs{}
	s := &Subject{Type: []byte("order.created"), Attrs: a}
	batch := &Tickets{}
	batches := []*Tickets{batch}
	c, now := &Caller{}, time.Now()
	run := func() {
		batch.Reset()
		for range benchBatch {
			a.user = users.next()
			l.Policy().Add(c, s, batch)
		}
		if err := l.Decide(b.Context(), now, batches); err != nil {
			b.Fatal(err)
		}
	}
	for range users.n/benchBatch + 1 {
		run()
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/event")
}

func BenchmarkAdd(b *testing.B) {
	p := benchPolicy(b)
	users := benchUsers{n: 1000}
	c := &Caller{}
	a := &benchAttrs{}
	s := &Subject{Type: []byte("order.created"), Attrs: a}
	batch := &Tickets{}
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		for range benchBatch {
			a.user = users.next()
			p.Add(c, s, batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/event")
}
