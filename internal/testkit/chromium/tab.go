package chromium

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// Tab is one tab of a browser that remembers what must not happen.
type Tab struct {
	Ctx context.Context // of chromedp

	mu     sync.Mutex
	errors []string // console errors, exceptions, violations of the policy
	hosts  []string // every host that was asked
}

// NewTab opens Debian's Chromium with one tab, closed when the test ends. Without a Chromium the test is skipped.
func NewTab(t testing.TB) *Tab {
	t.Helper()
	b := &Tab{Ctx: Open(t)}
	require.NoError(t, chromedp.Listen(b.Ctx, b.note))
	b.Do(t, Quiet(log.Enable, cdp.Empty{}), Quiet(network.Enable, network.EnableParams{}))
	return b
}

// note takes an event of the browser.
func (b *Tab) note(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.errors = append(b.errors, fmt.Sprintf("console %s: %v", e.Type, e.Args))
		}
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.errors = append(b.errors, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err == nil && u.Scheme != "data" && !slices.Contains(b.hosts, u.Host) {
			b.hosts = append(b.hosts, u.Host)
		}
	}
}

// Errors are those that the tab has seen so far.
func (b *Tab) Errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.errors)
}

// Hosts are those that were asked.
func (b *Tab) Hosts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.hosts)
}

// ForgetHosts lets the next page come from another server.
func (b *Tab) ForgetHosts() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts = nil
}

// RequireClean fails if the tab has seen an error, a violation of the content security policy, or a request to another
// host than base's.
func (b *Tab) RequireClean(t testing.TB, base string) {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	require.Empty(t, b.Errors())
	require.Equal(t, []string{u.Host}, b.Hosts(), "the page asked another host")
}

// Do carries out steps, and fails after [testkit.Patience].
func (b *Tab) Do(t testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, testkit.Patience)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// Open shows an address in a window of a size.
func (b *Tab) Open(t testing.TB, address string, width, height int64) {
	t.Helper()
	b.Do(t, chromedp.EmulateViewport(width, height), chromedp.Navigate(address), chromedp.WaitReady("main"))
}

// Quiet is a call of the browser's protocol whose answer is not needed.
func Quiet[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// Eval evaluates JavaScript in the page and returns its value. A promise is not waited for.
func Eval[T any](t testing.TB, b *Tab, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.Ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}
