package send

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// send ends with the signal while it opens or reads a FIFO without data.
func TestFIFO(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		writer func(t *testing.T, fifo string)
	}{
		"no writer":     {},
		"silent writer": {writer: func(t *testing.T, fifo string) { openFIFO(t, fifo, "") }},
		"slow writer":   {writer: func(t *testing.T, fifo string) { openFIFO(t, fifo, accessLines(1)[0]+"\n") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			o := newServer(t).options(fifo)
			o.Service, o.Stdout, o.Format = "web", io.Discard, "combined"
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- Run(ctx, o) }()
			if test.writer != nil {
				test.writer(t, fifo)
			}
			stop()
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.Canceled)
			case <-time.After(testkit.Patience):
				t.Fatal("send goes on")
			}
		})
	}
	f := follow(t, func(o *Options) {
		o.Files = []string{filepath.Join(t.TempDir(), "fifo")}
		require.NoError(t, syscall.Mkfifo(o.Files[0], 0o600))
	})
	require.ErrorContains(t, <-f.done, "not a regular file")
}

// openFIFO writes to a FIFO and keeps it open.
func openFIFO(t *testing.T, fifo, text string) {
	file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	_, err = file.WriteString(text)
	require.NoError(t, err)
}
