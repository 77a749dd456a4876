package ingest

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// A clock that was set back does not silence the log until it has caught up.
func TestThrottledLogWhenTheClockIsSetBack(t *testing.T) {
	var b testkit.Buffer
	now := time.Unix(1e9, 0)
	l := newThrottledLog(slog.New(slog.NewTextHandler(&b, nil)))
	l.now = func() time.Time { return now }
	l.warn("refused")
	now = now.Add(time.Second / 2)
	l.warn("refused")
	now = now.Add(-time.Hour)
	l.warn("refused")
	now = now.Add(time.Second / 2)
	l.warn("refused")
	require.Equal(t, 2, strings.Count(b.String(), "msg=refused"), b.String())
	require.Contains(t, b.String(), "skipped=1")
}
