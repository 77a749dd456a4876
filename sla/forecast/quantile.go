package forecast

import "slices"

// quantile interpolates between the values of two neighbouring ranks. It reorders the values, of which there are at
// least two.
func quantile(values []float64, at float64) float64 {
	x := at*float64(len(values)) - 0.5
	k := max(0, min(int(x), len(values)-2))
	a := selectRank(values, k)
	b := slices.Min(values[k+1:])
	part := min(1, max(0, x-float64(k)))
	if part == 0 || a == b { // both may be infinite
		return a
	}
	return a + part*(b-a)
}

// selectRank gives the value of rank k, 0 for the least (Hoare, 1961: Algorithm 65). It puts no greater value before
// index k and no smaller one behind it.
func selectRank(v []float64, k int) float64 {
	for lo, hi := 0, len(v)-1; lo < hi; {
		pivot := v[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		if k > j && k < i {
			break
		}
		if k <= j {
			hi = j
		} else {
			lo = i
		}
	}
	return v[k]
}
