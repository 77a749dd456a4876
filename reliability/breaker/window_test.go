package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWindowLosesATenthAtATime(t *testing.T) {
	began := time.Now()
	w := window{began: began, width: time.Second}
	for _, c := range []struct{ at, calls, failed int }{
		{0, 1, 1}, {1, 2, 1}, {9, 3, 2}, {10, 3, 1}, {11, 3, 2}, {19, 3, 1}, {40, 1, 1}, {1000, 1, 0},
	} {
		now := began.Add(time.Duration(c.at) * time.Second)
		calls, failed := w.add(now, c.at != 1 && c.at != 10 && c.at != 19 && c.at != 1000)
		require.Equal(t, [2]int{c.calls, c.failed}, [2]int{calls, failed}, "after %d s", c.at)
	}
}
