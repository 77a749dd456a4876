package web

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
)

// widened are the upper bounds of histograms whose metrics library keeps buckets of its
// own: three to a power of ten, from 100 µs to 100 s. Each is a bound of the library's
// finer buckets too, with the four digits that it prints, so no count is interpolated.
var widened = func() (bounds []float64) {
	for k := -12; k <= 6; k++ {
		b, err := strconv.ParseFloat(fmt.Sprintf("%.3e", math.Pow(10, float64(k)/3)), 64)
		if err != nil {
			panic(err) // a printed float
		}
		bounds = append(bounds, b)
	}
	return bounds
}()

// widener turns the buckets of one series of such a histogram into those that Prometheus
// knows. The library writes only buckets with observations, each with the range that it
// spans in the label vmrange, then sum and count.
type widener struct {
	series []byte // name and labels up to where le goes, as in `x_bucket{sink="a",`
	counts []uint64
	over   uint64 // beyond the last bound
}

var vmrange = []byte(`vmrange="`)

// take reports whether the line is one of those buckets, and keeps it.
func (w *widener) take(line []byte) bool {
	at := bytes.LastIndex(line, vmrange) // the library puts its label last
	if at < 0 {
		return false
	}
	between, count, ok := bytes.Cut(line[at+len(vmrange):], []byte(`"} `))
	_, upper, ok2 := bytes.Cut(between, []byte("..."))
	end, err := strconv.ParseFloat(string(upper), 64)
	n, err2 := strconv.ParseUint(string(bytes.TrimSpace(count)), 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil {
		return false
	}
	if w.series == nil {
		w.series = append([]byte{}, line[:at]...)
		w.counts = make([]uint64, len(widened))
	}
	for i, bound := range widened {
		if end <= bound {
			w.counts[i] += n
			return true
		}
	}
	w.over += n
	return true
}

// flush writes the buckets of the series, if there were any, and makes ready for the next.
func (w *widener) flush(out io.Writer) {
	if w.series == nil {
		return
	}
	total := uint64(0)
	for i, n := range w.counts {
		total += n
		fmt.Fprintf(out, "%sle=\"%g\"} %d\n", w.series, widened[i], total)
	}
	fmt.Fprintf(out, "%sle=\"+Inf\"} %d\n", w.series, total+w.over)
	*w = widener{}
}
