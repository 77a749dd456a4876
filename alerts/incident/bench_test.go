package incident

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkReconcile looks at 1,000 alerts that fire, of which 100 incidents are open, as after every tick.
func BenchmarkReconcile(b *testing.B) {
	for _, open := range []int{0, 100} {
		b.Run(fmt.Sprint(open, " open"), func(b *testing.B) {
			book := NewBook()
			now := &Alerts{Time: start}
			for i := range 1000 {
				a := firing(fmt.Sprint("p", i), start.Add(-time.Hour))
				a.Service = fmt.Sprint("s", i%100)
				now.Firing = append(now.Firing, a)
			}
			if open == 0 { // all of them are resolved already
				now.Firing, now.Resolved = nil, now.Firing
			}
			reconcile(b, book, now)
			require.Len(b, book.View().Open(), open)
			for b.Loop() {
				now.Time = now.Time.Add(10 * time.Second)
				if _, ok := book.View().Reconcile(now, func(*Firing) {}); ok {
					b.Fatal("nothing is new")
				}
			}
		})
	}
}
