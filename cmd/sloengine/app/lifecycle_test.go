package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/checkpoint"
)

// Wherever a start fails, what was opened until then is closed.
func TestFailedStartClosesWhatItOpened(t *testing.T) {
	dir := t.TempDir()
	open := func() (files []string) {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, fd := range fds {
			if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, dir) {
				files = append(files, name)
			}
		}
		return files
	}
	const settings = "redis: {address: '127.0.0.1:1'}\ndead_letters: {filter: {always_save: [x]}}\nsinks: [{name: f, " +
		"file: {dir: out}}]\n"
	run := func(settings, listen string) error { return Run(t.Context(), testOptions(t, dir, settings, listen)) }
	require.ErrorContains(t, run(settings+"auth: {tokens_file: none.yaml}\n", "127.0.0.1:0"), "none.yaml")
	require.Empty(t, open())

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	require.ErrorContains(t, run(settings, taken.Addr().String()), "address already in use")
	require.Empty(t, open())

	// What fails when dead letters and sinks are open.
	require.ErrorContains(t, run(settings+"web: {external_url: x}\n", "127.0.0.1:0"), "web.external_url")
	require.Empty(t, open())

	// The log is gone, which shows during recovery.
	a, g := built(t, dir, settings, "127.0.0.1:0")
	stop := serving(t, a, g)
	require.NotEmpty(t, open())
	rec := request(a, http.MethodPost, "/api/v1/events", "localhost", `{"service":"shop","type":"order"}`,
		"Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, rec.Code, rec.Body)
	stop()
	require.Empty(t, open())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", "wal")))
	var loss *checkpoint.LossError
	require.ErrorAs(t, run(settings, "127.0.0.1:0"), &loss)
	require.Empty(t, open())
}

func TestStopStackRunsEveryStepOnceInReverse(t *testing.T) {
	var order []string
	var td stopStack
	for _, name := range []string{"a", "b", "c"} {
		td.add(name, func(context.Context) error {
			order = append(order, name)
			return errors.New(name + " failed")
		})
	}
	err := td.stop(t.Context())
	require.Equal(t, []string{"c", "b", "a"}, order)
	for _, name := range order {
		require.ErrorContains(t, err, name+" failed")
	}
	require.NoError(t, td.stop(t.Context()))
	require.Len(t, order, 3)
}

// Parts that hang leave the engine half of the time for its last checkpoint, and a part that does not hang all that is
// left.
func TestHungPartsLeaveTimeForTheLastCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, hang := newRunGroup(), make(chan struct{})
		var left time.Duration
		end := time.Now().Add(time.Minute)
		g.add("files", func(context.Context) error { return nil })
		g.startLast(t.Context(), "engine", func(ctx context.Context) error {
			<-ctx.Done()
			left = time.Until(end)
			return nil
		})
		for i := range 5 {
			g.start(t.Context(), fmt.Sprint("hung", i), func(context.Context) error { <-hang; return nil })
		}
		g.start(t.Context(), "quick", func(ctx context.Context) error { <-ctx.Done(); return nil })
		ctx, cancel := context.WithDeadline(context.Background(), end)
		defer cancel()
		err := g.stop(ctx)
		for i := range 5 {
			require.ErrorContains(t, err, fmt.Sprintf("stop hung%d: timed out", i))
		}
		require.NotContains(t, err.Error(), "engine")
		require.Greater(t, left, 30*time.Second)
		close(hang)
	})
}

// TestReloadedSectionsAreDocumented compares what a reload applies with the sentence about it.
func TestReloadedSectionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "A reload (`SIGHUP` or `POST /-/reload`) applies specs, tokens, ")
	require.True(t, ok)
	list, _, _ := strings.Cut(after, ". Every other section")
	var named []string
	for i, part := range strings.Split(list, "`") {
		if i%2 == 1 {
			named = append(named, part)
		}
	}
	require.ElementsMatch(t, reloadedSections, named)
}
