package receivers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestPreview: with it, a receiver without any integration shows what it would be sent, and one with an integration is
// notified as well.
func TestPreview(t *testing.T) {
	h := newHook(t, nil)
	s := Settings{Text: hooks(t, h), Routing: routing(quick), Preview: true}
	d, _ := run(t, Options{Settings: s})
	var a alarms
	d.Update(a.fire("Burning", "service=shop", "severity=page", "product=<b>\nforged: line").now())
	await := func(n int) []notify.Preview {
		t.Helper()
		require.Eventually(t, func() bool { list, _ := d.Previews(); return len(list) == n }, testkit.Patience,
			5*time.Millisecond)
		list, on := d.Previews()
		require.True(t, on)
		return list
	}
	m := await(1)[0]
	require.Equal(t, []string{"r0", "Burning"}, []string{m.Receiver, m.Subject})
	require.Contains(t, m.Text, "Burning\n")
	require.Equal(t, []string{"shop"}, m.Services)
	require.False(t, m.Resolved)
	// A lane that comes to the group only after its alert has ended owes it no message.
	require.Eventually(t, func() bool { return len(h.all()) == 1 }, testkit.Patience, 5*time.Millisecond)
	d.Update(a.end("Burning").now())
	list := await(2)
	require.True(t, list[0].Resolved, "the newest is the first")
	require.Contains(t, list[0].Text, "Resolved: Burning")
	require.Eventually(t, func() bool { return len(h.all()) >= 2 }, testkit.Patience, 5*time.Millisecond,
		"the webhook is notified as without previews")

	for i := range 3 * shownPreviews {
		d.previews.add(notify.Preview{Subject: fmt.Sprint(i)})
	}
	list, _ = d.Previews()
	require.Len(t, list, shownPreviews, "memory is bounded")
	require.Equal(t, fmt.Sprint(3*shownPreviews-1), list[0].Subject)

	s.Preview = false
	apply, err := d.Prepare(s)
	require.NoError(t, err)
	apply()
	_, on := d.Previews()
	require.False(t, on)
}

// TestPreviewOfAName: a receiver that has only a name is enough.
func TestPreviewOfAName(t *testing.T) {
	s := Settings{Text: mustText(t, "receivers: [{name: r0}]\n"), Routing: routing(quick), Preview: true}
	d, _ := run(t, Options{Settings: s})
	var a alarms
	d.Update(a.fire("Burning", "service=shop", "severity=page", "product=a\nb"+strings.Repeat("c", 500)).now())
	require.Eventually(t, func() bool { list, _ := d.Previews(); return len(list) == 1 }, testkit.Patience,
		5*time.Millisecond)
	require.Equal(t, "r0/preview[0]", d.Status()[0].Name)
}
