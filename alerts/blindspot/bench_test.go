package blindspot

import "testing"

func BenchmarkFind(b *testing.B) {
	s := newSLO(b, "shop/up", "99.9")
	for name, least := range map[string]float64{"busy": 1000, "quiet": 1} {
		b.Run(name, func(b *testing.B) {
			var w Week
			for i := range w {
				w[i] = least * float64(1+i%24)
			}
			for b.Loop() {
				Find(s, &w)
			}
		})
	}
}
