package traces

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func id(n int) (out ID) {
	binary.BigEndian.PutUint64(out[8:], uint64(n))
	return out
}

// add adds trace n, of an event n seconds after noon, which is received then.
func add(s *Store, slo slo.ID, n int, group ...string) {
	at := noon.Add(time.Duration(n) * time.Second)
	s.Add(slo, at.UnixNano(), &Trace{ID: id(n), Time: at, Group: group})
}

func ids(list []Trace) (out []ID) {
	for i := range list {
		out = append(out, list[i].ID)
	}
	return out
}

func TestTheLastTracesAreRemembered(t *testing.T) {
	s := NewStore()
	for n := 1; n <= MaxPerSLO+8; n++ {
		add(s, "shop/a", n)
	}
	add(s, "shop/b", 7, "eu")
	add(s, "shop/b", 8, "us")
	got := ids(s.Of("shop/a", nil, noon))
	require.Len(t, got, MaxPerSLO)
	require.Equal(t, id(MaxPerSLO+8), got[0], "the newest comes first")
	require.Equal(t, id(9), got[MaxPerSLO-1])
	require.Equal(t, []ID{id(8), id(7)}, ids(s.Of("shop/b", nil, noon)))
	require.Equal(t, []ID{id(7)}, ids(s.Of("shop/b", slo.Group{"eu"}, noon)))
	require.Empty(t, s.Of("shop/c", nil, noon))
	require.Len(t, s.All(noon), MaxPerSLO+2)

	at := noon.UnixNano()
	for n := range MaxPerSLO {
		require.False(t, s.Full("pay/c", at))
		s.Add("pay/c", at, &Trace{ID: id(n), Time: noon})
	}
	require.True(t, s.Full("pay/c", at), "of what is received together")
	require.False(t, s.Full("pay/c", at+1))
	require.False(t, s.Full("pay/d", at))
	s.Forget("pay")

	add(s, "shop/b", 7, "eu")
	require.Equal(t, []ID{id(8), id(7)}, ids(s.Of("shop/b", nil, noon)), "a trace is there once")

	s.Forget("shop")
	require.Empty(t, s.All(noon))
	require.Zero(t, s.bytes)
	require.Empty(t, s.slos)
}

func TestOldTracesAreNotShown(t *testing.T) {
	s := NewStore()
	add(s, "shop/a", 1)
	require.Len(t, s.Of("shop/a", nil, noon.Add(Retention)), 1)
	require.Empty(t, s.Of("shop/a", nil, noon.Add(Retention+2*time.Second)))
	require.Empty(t, s.All(noon.Add(Retention+2*time.Second)))
	s.Add("shop/b", noon.UnixNano(), &Trace{ID: id(1), Time: noon.Add(-Retention - 1)})
	require.Empty(t, s.slos["shop/b"], "a backfill of old events leaves nothing")
}

// TestAFloodCostsLittle: of what is received together only so many are looked at.
func TestAFloodCostsLittle(t *testing.T) {
	s := NewStore()
	for n := range 10 * MaxPerSLO {
		s.Add("shop/a", noon.UnixNano(), &Trace{ID: id(n + 1), Time: noon})
	}
	require.Len(t, s.All(noon), MaxPerSLO)
	require.Equal(t, id(1), s.All(noon)[0].ID)
	s.Add("shop/a", noon.UnixNano()+1, &Trace{ID: id(9999), Time: noon})
	require.Equal(t, id(9999), s.All(noon)[MaxPerSLO-1].ID)
}

// TestMemoryIsBounded: with many SLOs the traces that came first go, of whatever SLO.
func TestMemoryIsBounded(t *testing.T) {
	s := NewStore()
	long := strings.Repeat("x", 10_000)
	for n := 1; n <= 2000; n++ {
		add(s, slo.ID(fmt.Sprintf("shop/%d", n)), n, long)
		require.LessOrEqual(t, s.bytes, maxBytes)
	}
	all := s.All(noon)
	require.Len(t, all, maxBytes/(traceBytes+len(long)))
	require.Equal(t, id(2000), all[len(all)-1].ID)
	require.Len(t, s.slos, len(all), "SLOs without traces take nothing")
	s.Add("shop/one", noon.UnixNano(), &Trace{ID: id(1), Time: noon, Group: slo.Group{strings.Repeat("x", maxBytes)}})
	require.Empty(t, s.All(noon), "one that is too large is not remembered")
	require.Zero(t, s.bytes)
}

func TestStoreIsForManyGoroutines(t *testing.T) {
	s := NewStore()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 500 {
				add(s, slo.ID(fmt.Sprintf("shop/%d", n%7)), g*1000+n)
				_ = s.Of("shop/1", nil, noon)
				_ = s.All(noon)
			}
		})
	}
	all.Wait()
	require.Len(t, s.All(noon), 7*MaxPerSLO)
	var none *Store
	require.Nil(t, none.Of("shop/a", nil, noon))
	require.Nil(t, none.All(noon))
}
