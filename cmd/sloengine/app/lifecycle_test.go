package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/stretchr/testify/require"
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
	const settings = "redis: {address: '127.0.0.1:1'}\ndead_letters: {filter: {always_save: [x]}}\nsinks: [{name: f, file: {dir: out}}]\n"
	_, err := build(t, dir, settings+"auth: {tokens_file: none.yaml}\n", "127.0.0.1:0")
	require.ErrorContains(t, err, "none.yaml")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	a, err := build(t, dir, settings, taken.Addr().String())
	require.NoError(t, err)
	require.NotEmpty(t, a.delivery.opened.steps)
	require.ErrorContains(t, a.Run(t.Context()), "address already in use")
	require.Empty(t, a.delivery.opened.steps)
	require.Empty(t, a.group.steps)

	// The log is gone, which shows when dead letters and sinks are open.
	a, err = build(t, dir, settings, "127.0.0.1:0")
	require.NoError(t, err)
	stop := serving(t, a)
	rec := request(a, http.MethodPost, "/api/v1/events", "localhost", `{"service":"shop","type":"order"}`, "Content-Type", "application/json")
	require.Equal(t, http.StatusAccepted, rec.Code, rec.Body)
	stop()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", "wal")))
	a, err = build(t, dir, settings, "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var loss *checkpoint.LossError
	require.ErrorAs(t, a.Run(ctx), &loss)
	require.NotNil(t, a.delivery.deadLetters.store.Load(), "it failed too early")
	require.Empty(t, a.delivery.opened.steps)
	require.Empty(t, open())
}

func TestTeardownRunsEveryStepOnceInReverse(t *testing.T) {
	var order []string
	var td teardown
	for _, name := range []string{"a", "b", "c"} {
		td.add(name, func(context.Context) error {
			order = append(order, name)
			return errors.New(name + " failed")
		})
	}
	err := td.run(t.Context())
	require.Equal(t, []string{"c", "b", "a"}, order)
	for _, name := range order {
		require.ErrorContains(t, err, name+" failed")
	}
	require.NoError(t, td.run(t.Context()))
	require.Len(t, order, 3)
}
