package counting

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// lockedText is written by several goroutines.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines counts those that hold a text.
func (l *lockedText) lines(with string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), with)
}

// TestRebuildThatFails: a rebuild whose counts cannot be written is tried again. The first failure and the recovery are
// logged, and as long as it fails the engine knows since when.
func TestRebuildThatFails(t *testing.T) {
	w := newRebuildWorld(t, fsystest.New(), rebuildConfig(), rebuildStart)
	w.start(false)
	w.traffic(rand.New(rand.NewPCG(1, 1)), 60)
	w.stop()
	log := &lockedText{}
	w.log, w.retry = slog.New(slog.NewTextHandler(log, nil)), 10*time.Millisecond
	w.start(true)
	w.disk.FailNamed(fsystest.OpCreate, "/rebuilt/", -1, errors.New("the disk is broken"))
	w.change(rebuildConfig("availability"))
	testkit.Eventually(t, "it failed more than once", func() bool {
		return w.reb.failed.Get() > 2
	})
	since, reason := w.reb.Failing()
	require.False(t, since.IsZero())
	require.Contains(t, reason, "cannot be counted from the retained log")
	require.Contains(t, w.reb.Progress().Failing, "the disk is broken")
	w.disk.ClearFaults()
	w.rebuilt()
	events := w.eng.History().Stats().Events
	require.NotZero(t, events)
	require.GreaterOrEqual(t, w.reb.Takes(), time.Duration(events)*time.Microsecond, "none was measured")
	testkit.Eventually(t, "it does not fail any more", func() bool {
		since, _ := w.reb.Failing()
		return since.IsZero()
	})
	w.stop()
	require.Equal(t, 1, log.lines("rebuilding counts from the retained log failed"))
	require.Equal(t, 1, log.lines("no rebuild of counts from the retained log fails any more"))
}

// TestRebuildThatFailsIsNotWanted: what fails and is canceled does not fail any more.
func TestRebuildThatFailsIsNotWanted(t *testing.T) {
	w := newRebuildWorld(t, fsystest.New(), rebuildConfig(), rebuildStart)
	w.start(true)
	w.traffic(rand.New(rand.NewPCG(1, 1)), 60)
	w.disk.FailNamed(fsystest.OpCreate, "/rebuilt/", -1, errors.New("the disk is broken"))
	w.change(rebuildConfig("availability"))
	testkit.Eventually(t, "it failed", func() bool {
		since, _ := w.reb.Failing()
		return !since.IsZero()
	})
	_, err := w.reb.Ask(context.Background(), RebuildRequest{All: true, Cancel: true})
	require.NoError(t, err)
	testkit.Eventually(t, "it does not fail any more", func() bool {
		since, _ := w.reb.Failing()
		return since.IsZero()
	})
	require.Nil(t, w.reb.Progress())
	w.stop()
}
