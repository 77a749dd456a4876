package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/slo"
)

// Finite reports whether x is neither infinite nor NaN.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Percent prints a ratio as a percentage, rounded down so that 99.9996 never
// reads as 100.
func Percent(x float64, decimals int) string {
	if !Finite(x) {
		return NoValue
	}
	p := math.Pow(10, float64(decimals))
	v := math.Floor(x*100*p+1e-6) / p
	if v == 0 {
		v = 0 // never "-0"
	}
	return group(strconv.FormatFloat(v, 'f', decimals, 64)) + "%"
}

// Decimals is how many decimals an indicator needs to be compared with its
// objective.
func Decimals(o slo.Objective) int {
	_, frac, _ := strings.Cut(o.Percent(), ".")
	return max(2, len(frac)+2)
}

// BurnRate prints a burn rate, such as 14.4×.
func BurnRate(x float64) string {
	switch {
	case !Finite(x):
		return NoValue
	case x == 0:
		return "0×"
	case x < 0.01:
		return "<0.01×"
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64) + "×"
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64) + "×"
	}
	return group(strconv.FormatFloat(x, 'f', 0, 64)) + "×"
}

// Signed prints a number with its sign, such as +1.5 or −1.5.
func Signed(x float64, decimals int) string {
	s := group(strconv.FormatFloat(x, 'f', decimals, 64))
	if x >= 0 {
		return "+" + s
	}
	return s
}

// group puts thousands separators into a decimal number.
func group(s string) string {
	sign, rest := "", s
	if strings.HasPrefix(s, "-") {
		sign, rest = "−", s[1:]
	}
	whole, frac, point := strings.Cut(rest, ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if point {
		b.WriteString("." + frac)
	}
	return sign + b.String()
}

type integer interface{ ~int | ~int64 | ~uint64 }

// Count prints a count with thousands separators. A negative one counts as 0.
func Count[N integer](n N) string { return group(strconv.FormatUint(uint64(max(0, n)), 10)) }

// Parts prints parts of a whole as percentages with one decimal that add up to 100.0%: what rounding down leaves goes
// to the largest remainders. Without a whole every part is NoValue.
func Parts(parts []float64) []string {
	var all float64
	for _, p := range parts {
		all += p
	}
	out := make([]string, len(parts))
	if all <= 0 || !Finite(all) {
		for i := range out {
			out[i] = NoValue
		}
		return out
	}
	tenths, order := make([]int, len(parts)), make([]int, len(parts))
	left := 1000
	rest := func(i int) float64 { return 1000*parts[i]/all - float64(tenths[i]) }
	for i := range parts {
		tenths[i], order[i] = int(1000*parts[i]/all), i
		left -= tenths[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest(b), rest(a)) })
	for _, i := range order[:min(len(order), max(0, left))] {
		tenths[i]++
	}
	for i, n := range tenths {
		out[i] = fmt.Sprintf("%d.%d%%", n/10, n%10)
	}
	return out
}

// Compact prints a count in at most five characters, such as 1.23M.
func Compact(n uint64) string {
	if n < 10_000 {
		return Count(n)
	}
	x, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		x, unit = x/1000, u
		if x < 999.5 {
			break
		}
	}
	switch {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64) + unit
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(x, 'f', 0, 64) + unit
}

// Rate prints events per second in the unit that reads best.
func Rate(x float64) string {
	switch {
	case !Finite(x) || x <= 0:
		return "0/s"
	case x >= 1000:
		return Compact(uint64(x)) + "/s"
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64) + "/s"
	case x*60 >= 1:
		return strconv.FormatFloat(x*60, 'f', 1, 64) + "/min"
	}
	return strconv.FormatFloat(x*3600, 'f', 1, 64) + "/h"
}

// Bytes prints bytes in binary units. A negative number counts as 0.
func Bytes[N integer](n N) string {
	if n < 1024 {
		return strconv.FormatUint(uint64(max(0, n)), 10) + " B"
	}
	x, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		x, unit = x/1024, u
		if x < 1023.5 {
			break
		}
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " " + unit
}

// Score rounds down to two decimals, as a score of 99.999 is not 100.
func Score(x float64) string {
	return strings.TrimSuffix(strings.TrimSuffix(Percent(x/100, 2), "%"), ".00")
}

// PointsLost prints points lost, rounded up to two decimals: what was earned is rounded
// down, and both together are the weight.
func PointsLost(x float64) string {
	up := math.Ceil(x*100-1e-6) / 100
	if x > 0 && up <= 0 {
		return "<0.01"
	}
	return strings.TrimSuffix(strconv.FormatFloat(max(0, up), 'f', 2, 64), ".00")
}

// WrittenPercent prints a ratio that a person wrote as a percentage.
func WrittenPercent(x float64) string {
	return strconv.FormatFloat(x*100, 'g', 6, 64) + "%"
}

// Money prints an amount with thousands separators and its currency, such as 1,234.50 EUR.
func Money(m slo.Money) string { return group(m.In(m.Currency)) + " " + m.Currency }

// MoneyTexts prints sums in several currencies side by side; NoValue if there are none.
func MoneyTexts(all []slo.Money) string {
	out := ""
	for i, m := range all {
		if i > 0 {
			out += ", "
		}
		out += Money(m)
	}
	if out == "" {
		return NoValue
	}
	return out
}
