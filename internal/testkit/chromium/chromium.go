// Package chromium opens Debian's Chromium for tests of pages.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Open opens a browser with one tab, closed when the test ends. The context is chromedp's. Without a Chromium the test
// is skipped.
func Open(t testing.TB) context.Context {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no browser")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine; 'make deps' installs it where it can")
	}
	// It leaves folders behind when it is killed, and may still write while this one is removed.
	dir, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
			chromedp.Flag("lang", "en-GB"), chromedp.Env("TMPDIR="+dir))...)
	t.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	return ctx
}
