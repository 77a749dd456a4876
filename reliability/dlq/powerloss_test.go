package dlq

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// witness is the state of a store as seen by its callers.
type witness struct {
	day   time.Time
	next  int
	state map[string]fate
	event map[string]string
}

type fate int

const (
	asked    fate = iota // Save has not returned
	kept                 // Save has, or a reader has seen it
	asked2go             // its removal has not returned
	gone                 // its removal has
)

func (g *witness) open(m *fsystest.Mem) (*File, error) {
	return OpenFile(FileOptions{FS: m, Dir: "/data/dlq", SegmentBytes: 4 << 10, Now: func() time.Time {
		return g.day
	}, later: func(f func()) { f() }})
}

func (g *witness) entries(n int) (out []Entry) {
	for range n {
		g.next++
		e := Entry{ID: fmt.Sprintf("e-%d", g.next), Origin: Fold, Reason: "panic", Saved: g.day,
			Event: []byte(fmt.Sprintf(`{"n":%d,"fill":"%0*d"}`, g.next, 50+g.next*37%900, 0))}
		g.event[e.ID] = string(e.Event)
		g.state[e.ID] = asked
		out = append(out, e)
	}
	return out
}

func (g *witness) set(ids []string, to fate) {
	for _, id := range ids {
		g.state[id] = to
	}
}

// check opens the remains of a crash and looks for a broken promise.
func (g *witness) check(m *fsystest.Mem) error {
	f, err := g.open(m)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if damages, n := f.Damage(); n > 0 {
		return fmt.Errorf("a mere power loss is taken for damage: %v", damages)
	}
	seen := map[string]bool{}
	if err := Each(context.Background(), f, Query{}, func(entries []Entry) error {
		for _, e := range entries {
			switch {
			case seen[e.ID]:
				return fmt.Errorf("%s is there twice", e.ID)
			case g.event[e.ID] == "" || g.event[e.ID] != string(e.Event):
				return fmt.Errorf("%s was never saved: %s", e.ID, e.Event)
			case g.state[e.ID] == gone:
				return fmt.Errorf("%s is back", e.ID)
			}
			seen[e.ID] = true
		}
		return nil
	}); err != nil {
		return err
	}
	for id, fate := range g.state {
		if fate == kept && !seen[id] {
			return fmt.Errorf("%s is lost", id)
		}
	}
	if stats, err := f.Stats(context.Background()); err != nil || stats.Count != int64(len(seen)) {
		return fmt.Errorf("%d entries, counted %d: %w", len(seen), stats.Count, err)
	}
	return f.Save(context.Background(), []Entry{{Origin: Fold, Reason: "after"}})
}

func (g *witness) crashes(m *fsystest.Mem, when string) error {
	for i, percent := range []int{0, 30, 60, 90, 100} {
		if err := g.check(m.CrashClone(percent, m.Ops()*10+int64(i))); err != nil {
			return fmt.Errorf("%s, operation %d, %d %% kept: %w", when, m.Ops(), percent, err)
		}
	}
	return nil
}

// run is the life of one process.
func (g *witness) run(m *fsystest.Mem, rounds int) error {
	ctx := context.Background()
	f, err := g.open(m)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// Entries that a start shows stay; entries that it does not show do not return.
	seen := map[string]bool{}
	if err := Each(ctx, f, Query{}, func(entries []Entry) error {
		for _, e := range entries {
			seen[e.ID] = true
		}
		return nil
	}); err != nil {
		return err
	}
	for id, fate := range g.state {
		switch {
		case fate == asked2go && seen[id], fate == asked && seen[id]:
			g.state[id] = kept
		case fate == asked2go:
			g.state[id] = gone
		}
	}
	var all []string
	for round := range rounds {
		entries := g.entries(1 + round*3%7)
		if err := f.Save(ctx, entries); err != nil {
			return err
		}
		g.set(idsOf(entries), kept)
		all = append(all, idsOf(entries)...)
		remove := func(ids []string) error {
			g.set(ids, asked2go)
			if _, err := f.Replayed(ctx, ids); err != nil {
				return err
			}
			g.set(ids, gone)
			return nil
		}
		switch round % 5 {
		case 1:
			if len(all) > 4 {
				if err := remove([]string{all[0], all[2], all[len(all)-1]}); err != nil {
					return err
				}
				all = append([]string{all[1]}, all[3:len(all)-1]...)
			}
		case 2:
			if _, err := f.Failed(ctx, []Failure{{ID: all[0]}, {ID: all[len(all)-1]}}); err != nil {
				return err
			}
		case 3:
			n := len(all) * 2 / 3
			if err := remove(all[:n]); err != nil {
				return err
			}
			all = all[n:]
			if err := f.Compact(ctx); err != nil {
				return err
			}
		case 4:
			var old []string
			for id, fate := range g.state {
				if fate == kept {
					old = append(old, id)
				}
			}
			g.day = g.day.Add(24 * time.Hour)
			g.set(old, asked2go)
			if _, err := f.Purge(ctx, g.day); err != nil {
				return err
			}
			g.set(old, gone)
			all = nil
		}
	}
	return nil
}

func newWitness() *witness {
	return &witness{day: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), state: map[string]fate{},
		event: map[string]string{}}
}

// losePower loses the power at every operation; the first broken promise is returned.
func losePower(rounds int, ignore ...fsys.Site) (broken error) {
	m, g := fsystest.New(), newWitness()
	m.IgnoreSync(ignore...)
	m.Before(func(op fsystest.Op, name string) {
		if broken == nil {
			broken = g.crashes(m, fmt.Sprintf("before %s of %s", op, filepath.Base(name)))
		}
	})
	for range 2 {
		if err := g.run(m, rounds); err != nil {
			return err
		}
		if broken == nil {
			broken = g.crashes(m, "at the end")
		}
	}
	return broken
}

// killThenLosePower kills the process at every operation, starts the next one on the memory of the
// dead one, and cuts the power during that one.
func killThenLosePower(rounds int, ignore ...fsys.Site) error {
	for n := int64(1); ; n++ {
		m, g := fsystest.New(), newWitness()
		m.IgnoreSync(ignore...)
		m.StopAt(n)
		err := g.run(m, rounds)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fsystest.ErrStopped) {
			return err
		}
		m.ClearFaults()
		var broken error
		calls := 0
		m.Before(func(op fsystest.Op, name string) {
			if calls++; broken == nil && calls%3 == int(n%3) {
				broken = g.crashes(m, fmt.Sprintf("killed at %d, before %s of %s", n, op, filepath.Base(name)))
			}
		})
		if err := g.run(m, 4); err != nil {
			return fmt.Errorf("killed at operation %d: %w", n, err)
		}
		if broken == nil {
			broken = g.crashes(m, fmt.Sprintf("killed at %d, at the end", n))
		}
		if broken != nil {
			return broken
		}
	}
}

func TestPowerLossAtEveryOperation(t *testing.T)         { require.NoError(t, losePower(10)) }
func TestKillThenPowerLossAtEveryOperation(t *testing.T) { require.NoError(t, killThenLosePower(8)) }

// Without any one of the syncs some power loss breaks a promise.
func TestEverySyncIsNeeded(t *testing.T) {
	for _, site := range []fsys.Site{
		SiteMkdir, SiteAppend, SiteSegmentDir, SiteRecover, SiteRecoverDir, SiteRemoveDir,
		fsys.SiteAtomicFile, fsys.SiteAtomicDir,
	} {
		t.Run(string(site), func(t *testing.T) {
			err := losePower(15, site)
			if err == nil {
				err = killThenLosePower(12, site)
			}
			require.Error(t, err, "no test misses the sync %s", site)
			t.Log(err)
		})
	}
}
