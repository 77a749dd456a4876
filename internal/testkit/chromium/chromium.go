// Package chromium opens Debian's Chromium for tests of pages.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/nettest"
)

// browser runs, and knows how it ends.
type browser struct {
	ctx context.Context
	end func()
}

var shared = nettest.Shared[browser]{Name: "chromium", End: func(b browser) { b.end() }}

// Main wraps the tests of a package so that their browser ends with them:
//
//	func TestMain(m *testing.M) { os.Exit(chromium.Main(m).Run()) }
func Main(m nettest.Runner) nettest.M { return shared.Main(m) }

// Open opens a tab, closed when the test ends, with storage and cookies of its own. The context is chromedp's. The
// tests of a package share the browser, so it has a TestMain with [Main]. Without a Chromium the test is skipped.
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
	running := shared.Get(t, func(dir string) browser { return start(t, path, dir) })
	ctx, cancel := chromedp.NewContext(running.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return ctx
}

func start(t testing.TB, path, dir string) browser {
	t.Helper()
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
			chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Flag("lang", "en-GB"),
			chromedp.Env("TMPDIR="+dir))...)
	ctx, cancel := chromedp.NewContext(alloc)
	end := func() {
		cancel()
		cancelAlloc()
	}
	if err := chromedp.Do(ctx); err != nil {
		end()
		require.NoError(t, err)
	}
	return browser{ctx, end}
}
