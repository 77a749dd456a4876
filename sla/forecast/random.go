package forecast

// random is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). It is here for its
// fixed output: the stream must not depend on the release of a library, since two engines compare their forecasts.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// float is uniform in [0,1).
func (r *random) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// below is uniform in [0,n).
func (r *random) below(n int) int { return int(r.next() >> 32 * uint64(n) >> 32) }

// normal is about standard normal: the sum of four uniform numbers. Its tails end at 3.5, which is far beyond
// the ranges asked for.
func (r *random) normal() float64 {
	z := r.next()
	sum := float64(z&0xffff) + float64(z>>16&0xffff) + float64(z>>32&0xffff) + float64(z>>48)
	return (sum/0x10000 - 2) * 1.7320508075688772
}
