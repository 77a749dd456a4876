package forecast

import (
	"testing"
	"time"
)

// BenchmarkForecast1000 forecasts a thousand groups from hours that are at hand.
func BenchmarkForecast1000(b *testing.B) {
	all := make([]*service, 50)
	for i := range all {
		all[i] = simulate(uint64(i) + 1)
	}
	var past Past
	for b.Loop() {
		for i := range 1000 {
			s := all[i%len(all)]
			from := s.now - int(Lookback.Hours())
			past.Load(s.start.Add(time.Duration(from)*time.Hour), s.hours[from:s.now])
			if f := past.At(s.question); len(f.Points) == 0 && f.TooLittle == "" {
				b.Fatal("no points")
			}
		}
	}
}
